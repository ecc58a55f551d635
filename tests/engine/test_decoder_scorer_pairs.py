"""Every scorer with every selector: on the demo, from the command line, in a sweep, in processes and in a store."""

import json
import pickle
import threading

import pytest
import torch
from click.testing import CliRunner

import engine
from dashboard.serve import main
from engine.evaluation.sweep.store import Store
from support.draws import deepen, every_other
from support.patience import patient
from support.points import digest_of_all
from support.tiny_models import tiny_cross_encoder

SCORERS, SELECTORS = engine.methods("scorer"), engine.methods("selector")
WORDS = [name for name, spec in SCORERS.items() if spec.cls.words]
TOP = engine.Decoder(engine.make("top_k"))
each_scorer = pytest.mark.parametrize("scorer", SCORERS)


def make_scorer(scorer, scorer_options):
    return engine.make(scorer, **scorer_options.get(scorer, {}))


def make_decoder(selector, scorer, depth=None):
    """A decoder of the two; what reads pools only reads a small one, not the corpus."""
    if not selector.by_scores:
        # Scores that are no inner products can only choose its pool.
        return engine.Decoder(selector, *(() if scorer.rerank_only else (scorer,)), depth=depth or 8)
    if scorer.rerank_only:
        return engine.Decoder(selector, rerank=scorer, depth=depth or 8)
    return engine.Decoder(selector, scorer, depth=depth)


@pytest.fixture(scope="module")
def queries(demo):
    dataset, _ = demo
    return engine.embed(dataset.judged("dev").sample(3))


@pytest.mark.parametrize(("scorer", "selector"), every_other(SCORERS, SELECTORS))
def test_every_pair_answers(demo, queries, scorer_options, scorer, selector):
    _, space = demo
    for depth in (None, 20):
        decoder = make_decoder(engine.make(selector), make_scorer(scorer, scorer_options), depth)
        answer = engine.decode(decoder, space, queries, k=4)
        assert answer.index.shape == (3, 4) and torch.isfinite(answer.gain).all()
        for rows in answer.index.tolist():
            picks = [i for i in rows if i >= 0]
            assert picks and len(set(picks)) == len(picks) and max(picks) < len(space)
        single = engine.decode(decoder, space, queries.take([1]), k=4)
        assert torch.equal(single.index[0], answer.index[1])


@each_scorer
def test_a_reranker_orders_the_pool_and_nothing_else(demo, queries, scorer_options, scorer):
    _, space = demo
    pool = engine.decode(TOP, space, queries, k=10).index
    stages = {"retrieve": engine.make("dense"), "rerank": make_scorer(scorer, scorer_options)}
    again = engine.decode(engine.Decoder(engine.make("top_k"), **stages, depth=10), space, queries, k=10).index
    assert torch.equal(again.sort(1).values, pool.sort(1).values)


@pytest.mark.parametrize("scorer", deepen(SCORERS, ["bm25", "truncated", "random_projection", "dense"]))
def test_decode_takes_it_from_the_command_line(demo, scorer_options, scorer):
    stage = make_scorer(scorer, scorer_options)
    params = SCORERS[scorer].params
    flags = [word for p in params for word in (f"--retrieve-{p.flag[2:]}", p.text(getattr(stage, p.name)))]
    text = "sort an array along an axis"
    done = CliRunner().invoke(main, ["decode", "--query", text, "--retrieve", scorer, *flags, "-k", "3", "--json"])
    assert done.exit_code == 0, done.output
    answer = json.loads(done.stdout)
    dataset, space = demo
    decoder = engine.Decoder(engine.make("top_k"), stage)
    expected = engine.decode(decoder, space, [text], k=3)
    assert answer["decoder"] == decoder.label
    assert [d["id"] for d in answer["results"][0]["documents"]] == [dataset.corpus.ids[i] for i in expected.index[0]]


@pytest.mark.deep
def test_a_sweep_goes_over_scorers_from_the_command_line(demo, tmp_path):
    store = str(tmp_path / "sweep.db")
    command = ["sweep", "--select", "top_k", "--select", "mmr", "--points", "2", "-k", "3", "--store", store]
    command += ["--retrieve", "bm25:k1=0.9,b=0.4", "--retrieve", "dense", "--rerank", "hybrid:dense-weight=0.25"]
    done = CliRunner().invoke(main, [*command, "--depth", "30", "--json"])
    assert done.exit_code == 0, done.output
    cells = [json.loads(line)["decoder"] for line in done.output.splitlines()]
    assert len(cells) == 6 and {c["depth"] for c in cells} == {30}
    assert {(c["retrieve"]["name"], c["retrieve"].get("k1")) for c in cells} == {("bm25", 0.9), ("dense", None)}
    assert {c["rerank"]["dense_weight"] for c in cells} == {0.25}
    output = CliRunner().invoke(main, ["compare", store])
    assert output.exit_code == 0 and "BM25 · k₁ 0.9 b 0.4" in output.output, output.output
    assert " vs Dense → Hybrid · λ 0.25 · linear · min-max → Top-k [pool 30]" in output.output, output.output


@pytest.mark.parametrize(
    "args,message",
    [
        (("--retrieve", "mmr"), "no scorer is called 'mmr'"),
        (("--retrieve", "bm25:k1"), "--retrieve takes NAME or NAME:PARAMETER=VALUE"),
        (("--retrieve", "bm25:b=2"), "b must be a number in [0, 1]; got '2'"),
        (("--rerank", "hybrid:weight=1"), "hybrid has no parameter weight"),
        (("--depth", "0"), "depth (n) must be a whole number in [1"),
    ],
)
def test_mistakes_are_named(args, message, tmp_path):
    done = CliRunner().invoke(main, ["sweep", "--store", str(tmp_path / "x.db"), *args])
    assert done.exit_code != 0 and message in " ".join(done.output.split()), done.output


@pytest.fixture(scope="module")
def qrels(demo, queries):
    return engine.Qrels({q: demo[0].qrels["dev"].grades[q] for q in queries.ids})


def cell(decoder, *data, **options):
    """The one cell of a sweep."""
    (point,) = engine.sweep([decoder], *data, k=3, **options)
    return point


# Sweeps in processes are tried by evaluation/sweep/test_executors.py in every run.
@pytest.mark.parametrize("workers", deepen([None, 2], [2]))
def test_processes_find_what_one_finds_and_a_store_keeps_it(
    demo, queries, qrels, scorer_options, tmp_path, monkeypatch, workers
):
    _, space = demo
    decoders = [make_decoder(engine.make("top_k"), make_scorer(name, scorer_options)) for name in SCORERS]
    assert pickle.loads(pickle.dumps(decoders)) == decoders, "as it goes to a process"
    digest = digest_of_all(engine.sweep(decoders, space, queries, qrels, k=3))
    store = tmp_path / "kept.db"
    assert digest_of_all(engine.sweep(decoders, space, queries, qrels, k=3, workers=workers, store=store)) == digest
    monkeypatch.setattr("engine.evaluation.sweep.executors.compute_unit", None)
    assert digest_of_all(engine.sweep(decoders, space, queries, qrels, k=3, store=store)) == digest
    assert len(list(Store(store).read_cells())) == len(SCORERS)


@each_scorer
def test_derived_values_are_reused(demo, queries, scorer_options, scorer):
    dataset, space = demo
    space, stage = engine.Space(dataset.corpus, space.embeddings), make_scorer(scorer, scorer_options)
    stage.prepare(space)
    earlier = {key: id(entry.value) for key, entry in space._derived.items()}
    with engine.allow_tokens():
        engine.decode(engine.Decoder(engine.make("top_k"), stage), space, queries, k=3)
    assert {key: id(entry.value) for key, entry in space._derived.items()} == earlier


def test_other_parts_and_other_weights_are_other_cells(demo, queries, qrels, tmp_path):
    dataset, space = demo
    decoder, vectors, store = engine.Decoder(TOP.select, engine.make("max_sim")), space.embeddings, tmp_path / "kept.db"
    parts = [
        engine.Embeddings(tuple(f"{i}#0" for i in vectors.ids), vectors.vectors.roll(shift, 0)) for shift in (0, 1)
    ]
    spaces = [engine.Space(dataset.corpus, vectors, parts=each) for each in parts]
    first, second = (cell(decoder, each, queries, qrels, store=store) for each in spaces)
    assert first.key != second.key and first.mean != second.mean
    model = tiny_cross_encoder(tmp_path / "model", seed=0)
    reranked = make_decoder(TOP.select, engine.make("cross_encoder", model=str(model)), 10)
    earlier = cell(reranked, space, queries, qrels, store=store)
    tiny_cross_encoder(model, seed=1)
    after = cell(reranked, space, queries, qrels, store=store)
    assert earlier.key != after.key and earlier.provenance["model"] != after.provenance["model"]


def test_slow_derivation_does_not_block_others(demo, go):
    _, space = demo
    began = threading.Event()

    def slow():
        began.set()
        assert go.wait(patient(60))
        return 1

    worker = threading.Thread(target=lambda: space.derived("slow", slow))
    worker.start()
    assert began.wait(patient(60)) and space.derived("quick", lambda: 2) == 2 and not space.has_derived("slow")
    go.set()
    worker.join(patient(60))
    assert space.derived("slow", lambda: 3) == 1


@pytest.mark.parametrize("scorer", WORDS)
def test_other_words_with_the_same_vectors_are_another_cell(demo, queries, qrels, scorer_options, scorer):
    _, space = demo
    reworded = engine.Embeddings(
        queries.ids, queries.vectors, queries.encoder, tuple(t + " transpose" for t in queries.texts)
    )
    decoder = make_decoder(TOP.select, make_scorer(scorer, scorer_options))
    first, second = (cell(decoder, space, q, qrels) for q in (queries, reworded))
    assert first.key != second.key and "texts" in first.provenance
    assert cell(TOP, space, queries, qrels).key == cell(TOP, space, reworded, qrels).key


def test_text_is_embedded_and_read(demo):
    _, space = demo
    queries = engine.Queries.of(["cumulative product of elements"])
    for scorer in [name for name, spec in SCORERS.items() if not spec.cls.rerank_only]:
        answer = engine.decode(engine.Decoder(engine.make("top_k"), engine.make(scorer)), space, queries, k=5)
        assert "prod" in " ".join(space.corpus.ids[i] for i in answer.index[0])
