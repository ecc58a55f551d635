"""At most m documents of one source: greedy steps in float64, every value of λ, and what is refused."""

import numpy as np
import pytest

import engine
from engine.decoder import decode_grid
from engine.evaluation.sweep.cell import decoder_from_json, decoder_to_json
from engine.evaluation.sweep.sweep import sweep
from support.instances import FAMILIES, few_or_all, problem
from support.source_oracles import (
    SCORES,
    check_limited_picks,
    draw_sources,
    is_full,
    make_sourced_space,
    take_below_limited,
)

SEQUENTIAL = [name for name, spec in engine.methods("selector").items() if spec.cls.sequential]
TOGETHER = [name for name in engine.methods("selector") if name not in SEQUENTIAL]
QUERY_IDS = ("a", "b", "c")
each_selector = pytest.mark.parametrize("name", SEQUENTIAL)


def draw_params(rng, name):
    if name == "threshold":
        return {"threshold": float(rng.choice([0.2, 0.5, 0.9])), "fill": str(rng.choice(["strict", "fill"]))}
    if name in ("mmr", "dpp", "ssd"):
        return {"relevance_weight": float(rng.choice([0.0, 0.3, 0.5, 0.8, 1.0]))}
    return {}


def draw_case(name, family, seed):
    """Return (rows, queries, sources, k, the decoder) of one random problem."""
    rng = np.random.default_rng([seed, len(family)])
    rows, queries = problem(family, seed)
    sources = draw_sources(rng, len(rows), int(rng.integers(1, 9)))
    limit, k = int(rng.integers(1, 4)), int(rng.integers(1, 12))
    stage = engine.make(name, **draw_params(rng, name))
    return rows, queries, sources, k, engine.Decoder(stage, per_source=limit, source="source")


def test_every_sequential_selector_has_an_oracle():
    assert {*SCORES, "threshold"} == set(SEQUENTIAL)


@few_or_all(range(8), range(300), quick=4)
@pytest.mark.parametrize("family", FAMILIES)
@each_selector
def test_limited_picks_equal_the_oracle(name, family, seeds):
    n_picked = decided = 0
    for seed in seeds:
        rows, queries, sources, k, decoder = draw_case(name, family, seed)
        space = make_sourced_space(rows, sources)
        ranking = engine.decode(decoder, space, engine.Embeddings(QUERY_IDS, queries), k)
        params = {p.name: getattr(decoder.select, p.name) for p in decoder.select.spec.params}
        # Inner products are on the scale of similarities as they are.
        assert params.pop("relevance_scale", "auto") == "auto"
        for b, query in enumerate(queries):
            picks, limit = ranking.rows(b), decoder.per_source
            n_picked += len(picks)
            if name == "threshold":
                assert picks == take_below_limited(rows, query, k, sources=sources, limit=limit, **params)
                decided += len(picks)
            else:
                decided += check_limited_picks(name, rows, query, picks, k, sources, limit, **params)
            assert ranking.info[b]["candidates"] == len(rows)
    assert decided > n_picked / 8, "the margin rule excused nearly every pick: the instances prove nothing"


@each_selector
def test_batch_settings_and_larger_k_agree_with_single_calls(name):
    rows, queries = problem("clustered", 3, n=90, d=10)
    space = make_sourced_space(rows, draw_sources(np.random.default_rng(1), 90, 6))
    embeddings = engine.Embeddings(QUERY_IDS, queries)
    params = {"threshold": "threshold"}.get(name, "relevance_weight" if name in ("mmr", "dpp", "ssd") else None)
    values = [{}] if params is None else [{params: 0.3}, {params: 0.7}, {params: 0.95}]
    decoders = [engine.Decoder(engine.make(name, **value), per_source=2, source="source") for value in values]
    together = decode_grid(decoders, space, embeddings, 9)
    for position, decoder in enumerate(decoders):
        ranking = engine.decode(decoder, space, embeddings, 9)
        assert together[position].index.tolist() == ranking.index.tolist()
        for b, query_id in enumerate(QUERY_IDS):
            alone = engine.decode(decoder, space, engine.Embeddings((query_id,), queries[b : b + 1]), 9)
            assert alone.rows() == ranking.rows(b)
            shorter = engine.decode(decoder, space, engine.Embeddings((query_id,), queries[b : b + 1]), 4)
            assert shorter.rows() == ranking.rows(b)[:4]


@each_selector
def test_limit_that_no_source_reaches_changes_nothing(name):
    rows, queries = problem("random", 4, n=50, d=8)
    space = make_sourced_space(rows, [""] * 50)
    embeddings = engine.Embeddings(QUERY_IDS, queries)
    for depth in (None, 20):
        free = engine.decode(engine.Decoder(engine.make(name), depth=depth), space, embeddings, 8)
        limited = engine.Decoder(engine.make(name), depth=depth, per_source=1, source="source")
        ranking = engine.decode(limited, space, embeddings, 8)
        assert ranking.index.tolist() == free.index.tolist()
        assert [dict(info) for info in ranking.info] == [dict(info) for info in free.info]


def test_used_up_sources_give_fewer_documents():
    rows, queries = problem("random", 5, n=30, d=6)
    space = make_sourced_space(rows, ["s", "t", "u"] * 10)
    for name in SEQUENTIAL:
        stage = engine.make(name, **({"threshold": 1.0} if name == "threshold" else {}))
        decoder = engine.Decoder(stage, per_source=2, source="source")
        ranking = engine.decode(decoder, space, engine.Embeddings(QUERY_IDS, queries), 8)
        assert ranking.returned.tolist() == [6, 6, 6] and ranking.index.shape == (3, 8)


def test_pool_is_limited_among_its_own_documents():
    rows, queries = problem("random", 6, n=60, d=8, batch=1)
    sources = draw_sources(np.random.default_rng(2), 60, 4)
    pool = np.sort(np.argsort(-(rows @ queries[0]), kind="stable")[:15])
    decoder = engine.Decoder(engine.make("mmr"), depth=15, per_source=1, source="source")
    picks = engine.decode(decoder, make_sourced_space(rows, sources), engine.Embeddings(("q",), queries), 9).rows()
    pooled = make_sourced_space(rows[pool], [sources[row] for row in pool])
    whole = engine.Decoder(engine.make("mmr"), per_source=1, source="source")
    assert picks == pool[engine.decode(whole, pooled, engine.Embeddings(("q",), queries), 9).rows()].tolist()


@few_or_all(range(3), range(20))
@pytest.mark.parametrize(("name", "params"), [("mmr", {}), ("mmr", {"window": 2}), ("dpp", {}), ("ssd", {}),
                                              ("threshold", {}), ("threshold", {"fill": "fill"})])  # fmt: skip
def test_limited_path_agrees_with_decode_at_every_value(name, params, seeds):
    n_read = n_values = 0
    for seed in seeds:
        rng, family = np.random.default_rng(seed), list(FAMILIES)[seed % 4]
        rows, queries = problem(family, seed, n=40, d=8, batch=2)
        space = make_sourced_space(rows, draw_sources(rng, 40, int(rng.integers(1, 12))))
        limit, k = int(rng.integers(1, 4)), int(rng.integers(2, 9))
        embeddings = engine.Embeddings(("a", "b"), queries)
        paths = engine.path(name, space, embeddings, k, per_source=limit, source="source", **params)
        ends = paths[0].breakpoints
        values = np.concatenate([rng.random(3), [0, 1], ends[:2], ends[:2] - 1e-9, ends[-2:] + 1e-9]).clip(0, 1)
        for value in values.tolist():
            stage = engine.make(name, **{paths[0].parameter.name: value}, **params)
            direct = engine.decode(engine.Decoder(stage, per_source=limit, source="source"), space, embeddings, k)
            for b, path in enumerate(paths):
                answer = path.at(value)
                assert answer.rows() == direct.rows(b), (name, seed, value)
                assert answer.gain[0].numpy() == pytest.approx(direct.gain[b].numpy(), abs=1e-6)
                n_read += path.lines.piece(value) is not None
                n_values += 1
    assert n_read > n_values / 2


@pytest.mark.parametrize("name", TOGETHER)
def test_selector_that_chooses_together_is_refused_with_those_that_do_not(name):
    with pytest.raises(engine.ParamError, match=rf"per_source.*{', '.join(SEQUENTIAL)}; got {name}"):
        engine.Decoder(engine.make(name), per_source=1, source="source")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"per_source": 1}, "per_source and source go together.*source is not given"),
        ({"source": "url"}, "per_source and source go together.*per_source is not given"),
        ({"per_source": 0, "source": "url"}, r"per_source \(m\) must be a whole number in \[1.*got 0"),
        ({"per_source": 1, "source": 3}, "source must be the name of a metadata column; got 3"),
    ],
)
def test_bad_limit_raises_param_error(options, message):
    with pytest.raises(engine.ParamError, match=message):
        engine.Decoder(engine.make("top_k"), **options)


def test_missing_column_raises_data_error_with_those_there_are():
    rows, queries = problem("random", 1, n=5, d=4)
    decoder = engine.Decoder(engine.make("top_k"), per_source=1, source="author")
    with pytest.raises(engine.DataError, match=r"source must be a metadata column.*'author'.*'source'.*metadata="):
        engine.decode(decoder, make_sourced_space(rows, ["s"] * 5), engine.Embeddings(QUERY_IDS, queries))
    with pytest.raises(engine.DataError, match="plain vectors have none"):
        engine.path("mmr", rows, queries, per_source=1, source="author")


def test_decoder_with_a_limit_is_a_value_of_its_own():
    limited = engine.Decoder(engine.make("mmr"), per_source=2, source="url")
    assert limited != engine.Decoder(engine.make("mmr")) and limited.label.endswith(" [2 per url]")
    assert decoder_from_json(decoder_to_json(limited)) == limited
    assert "per_source" not in decoder_to_json(engine.Decoder(engine.make("mmr")))


def test_sweep_measures_unique_sources_and_tells_columns_apart():
    rows, queries = problem("clustered", 8, n=60, d=8)
    embeddings = engine.Embeddings(QUERY_IDS, queries)
    decoders = [
        engine.Decoder(engine.make("top_k")),
        engine.Decoder(engine.make("top_k"), per_source=1, source="source"),
    ]
    cells = {}
    for seed in (1, 2):
        sources = draw_sources(np.random.default_rng(seed), 60, 3)
        space = make_sourced_space(rows, sources)
        free, limited = sweep(decoders, space, embeddings, k=6, metrics=["unique_sources"], source="source")
        cells[seed] = free, limited
        assert limited.mean["unique_sources"] == 1 and free.mean["unique_sources"] < 1
        for b, value in enumerate(free.values["unique_sources"]):
            picks = engine.decode(decoders[0], space, embeddings, 6).rows(b)
            distinct = [row for step, row in enumerate(picks) if not is_full(sources, picks[:step], row, 1)]
            assert value == len(distinct) / len(picks)
    assert {cell.key for cell in cells[1]}.isdisjoint(cell.key for cell in cells[2])
    with pytest.raises(engine.DataError, match="unique_sources needs the column"):
        sweep(decoders, make_sourced_space(rows, ["s"] * 60), embeddings, k=6, metrics=["unique_sources"])


@pytest.mark.parametrize("scale", ["minmax", "rank"])
def test_scale_of_relevance_stays_that_of_all_candidates(scale):
    rng = np.random.default_rng(5)
    for seed in range(3):
        rows, queries = problem("clustered", seed, n=40, d=8, batch=3)
        sources, k, limit = draw_sources(rng, len(rows), 4), 9, 1 + seed % 2
        decoder = engine.Decoder(
            engine.make("mmr", relevance_weight=0.6, relevance_scale=scale), per_source=limit, source="source"
        )
        space, embedded = make_sourced_space(rows, sources), engine.Embeddings(QUERY_IDS, queries)
        ranking = engine.decode(decoder, space, embedded, k)
        paths = engine.path(decoder.select, space, embedded, k, per_source=limit, source="source")
        for b, query in enumerate(queries):
            relevance = scale_exactly(rows.astype(np.float64) @ query.astype(np.float64), scale)
            assert ranking.rows(b) == pick_limited_mmr(rows, relevance, 0.6, k, sources, limit)
            assert paths[b].at(0.6).rows() == ranking.rows(b)


def scale_exactly(relevance, scale):
    """Scale all documents' relevance by its range or its ranks."""
    if scale == "minmax":
        return (relevance - relevance.min()) / (relevance.max() - relevance.min())
    return 1 - (relevance[None] > relevance[:, None]).sum(1) / (len(relevance) - 1)


def pick_limited_mmr(rows, relevance, weight, k, sources, limit):
    """Pick documents one by one in float64, none of a full source."""
    rows64, picks = rows.astype(np.float64), []
    while len(picks) < k:
        is_open = [row not in picks and not is_full(sources, picks, row, limit) for row in range(len(rows))]
        if not any(is_open):
            break
        nearest = (rows64 @ rows64[picks].T).max(1) if picks else 0
        picks.append(int(np.where(is_open, weight * relevance - (1 - weight) * nearest, -np.inf).argmax()))
    return picks
