import json

import numpy as np
import pytest

import engine
from engine import DataError, ParamError
from engine.identification.verdict import NEW_EMBEDDINGS, SORTED_LISTS
from support.draws import deep, deepen
from support.identified_runs import (
    N_LISTED,
    decode_run,
    fetch_pool,
    list_langchain,
    list_llama_index,
    list_qdrant,
    make_world,
    name_lists,
)


@pytest.fixture(scope="module")
def world():
    return make_world()


@pytest.fixture(scope="module")
def world_of_words():
    return make_world(texts=True)


@pytest.fixture(scope="module")
def langchain_run(world):
    """Forty lists of LangChain's utility at λ .5 from 20 documents."""
    return name_lists(*world, list_langchain(*world, 0.5, 20))


def check_found(identification, name, window, weight, depth):
    """Assert that decoder, window, λ and depth are those that made the run, and that this is sure."""
    best = identification.best
    assert identification.sure, identification.sentences
    assert best.decoder.select.spec.name == name and getattr(best.decoder.select, "window", None) == window
    assert best.explained == 1 and best.depth[0] <= depth <= best.depth[1]
    if weight is not None:
        low, high = best.interval
        assert low <= weight <= high and high - low < 0.15
        assert low <= best.decoder.select.relevance_weight <= high


@pytest.mark.parametrize(
    "list_rows, window, weight, depth, sentence",
    [
        pytest.param(list_langchain, None, 0.5, 20, "lambda_mult=0.5, fetch_k=20", marks=deep),
        (list_langchain, None, 0.3, 30, "If you set lambda_mult or mmr_threshold to 0.7, your store inverts it"),
        (list_llama_index, 1, 0.6, 20, "LlamaIndex (mmr_threshold=0.6, 20 candidates)"),
        (list_langchain, None, 0.7, 10, "The pool is 10: if you set fetch_k to another number, it was not passed on"),
        pytest.param(list_langchain, None, 0.7, 20, "or diversity to 0.3, it does what you set", marks=deep),
        (list_qdrant, None, 0.6, 25, "diversity=0.4 with 25 candidates"),
    ],
)
def test_other_programs_are_found_by_their_lists(world, list_rows, window, weight, depth, sentence):
    run = name_lists(*world, list_rows(*world, weight, depth))
    identification = engine.identify(run, *world)
    check_found(identification, "mmr", window, weight, depth)
    assert any(sentence in text for text in identification.sentences), identification.sentences
    assert identification.n_lists == N_LISTED and identification.n_picks == 5 * N_LISTED
    assert json.loads(json.dumps(identification.as_json()))["sure"]


def test_lists_that_were_sorted_again_are_said_to_be_so(world):
    space, queries = world
    chosen = list_langchain(space, queries, 0.3, 20)
    relevance = queries.vectors @ space.vectors.T
    sorted_rows = [sorted(rows, key=lambda row, q=q: -float(relevance[q, row])) for q, rows in enumerate(chosen)]
    identification = engine.identify(name_lists(space, queries, sorted_rows), space, queries)
    assert not identification.sure
    assert SORTED_LISTS in identification.sentences and NEW_EMBEDDINGS not in identification.sentences


ALIKE_DECODERS = [
    ("mmr", {"relevance_weight": 0.7}, None),
    ("ssd", {"relevance_weight": 0.5, "window": 1}, 30),
    ("max_sum", {"relevance_weight": 0.6, "polish": False}, 40),
    ("max_sum", {"relevance_weight": 0.4, "polish": False}, 40),
    ("facility_location", {"relevance_weight": 0.7}, 30),
]
"""Those that differ from another one by a weight or a depth, and those that another test finds."""


@pytest.mark.parametrize(
    "name, params, depth",
    deepen(
        [
            ("mmr", {"relevance_weight": 0.6, "window": 2}, 50),
            ("dpp", {"relevance_weight": 0.7}, 40),
            ("max_sum", {"relevance_weight": 0.6}, 40),
            ("max_sum", {"relevance_weight": 0.7, "polish": False}, None),
            ("facility_location", {"relevance_weight": 0.7}, None),
            ("top_k", {}, None),
            *ALIKE_DECODERS,
        ],
        ALIKE_DECODERS,
    ),
)
def test_decoders_of_ours_are_found_by_their_lists(world, name, params, depth):
    run = decode_run(*world, engine.Decoder(engine.make(name, **params), depth=depth))
    identification = engine.identify(run, *world, decoders=list(dict.fromkeys([name, "mmr", "ssd", "top_k"])))
    weight = params.get("relevance_weight")
    check_found(identification, name, params.get("window"), weight, 300 if depth is None else depth)
    assert identification.hypotheses[0] is identification.best
    shares = [hypothesis.explained for hypothesis in identification.hypotheses]
    assert shares == sorted(shares, reverse=True)


@pytest.mark.parametrize("scorer, params", [pytest.param("bm25", {}, marks=deep), ("hybrid", {"dense_weight": 0.3})])
def test_scorer_is_found_by_words_of_the_queries(world_of_words, scorer, params):
    space, queries = world_of_words
    decoder = engine.Decoder(engine.make("mmr", relevance_weight=0.6), engine.make(scorer, **params), depth=40)
    identification = engine.identify(decode_run(space, queries, decoder), space, queries, decoders=["top_k", "mmr"])
    check_found(identification, "mmr", None, 0.6, 40)
    assert identification.best.decoder.retrieve == decoder.retrieve


def test_scale_of_relevance_is_found_and_no_scores_are_tried_twice(world_of_words):
    space, queries = world_of_words
    decoder = engine.Decoder(engine.make("mmr", relevance_weight=0.6, relevance_scale="minmax"), depth=40)
    run = decode_run(space, queries, decoder)
    identification = engine.identify(run, space, queries, decoders=["top_k", "mmr"])
    low, high = identification.best.interval
    assert identification.best.label == "MMR, relevance scaled by minmax on dense vectors" and low <= 0.6 <= high
    assert identification.sure and identification.best.explained == 1
    # Hybrid scores at either end are dense ones and BM25's.
    labels = {hypothesis.label for hypothesis in identification.hypotheses}
    assert "MMR on hybrid scores (dense_weight=0.9)" in labels and "MMR on BM25 scores" in labels
    assert not labels & {"MMR on hybrid scores (dense_weight=1.0)", "MMR on hybrid scores (dense_weight=0.0)"}


def test_hypothesis_without_a_miss_beats_those_that_miss_a_few(world):
    decoder = engine.Decoder(engine.make("ssd", relevance_weight=0.5, window=1), depth=30)
    identification = engine.identify(decode_run(*world, decoder), *world)
    runner_up, n_picks = identification.runner_up, identification.n_picks
    # By chance alone, query by query, the two could not be told apart.
    assert identification.best.explained == 1 and 3 <= round((1 - runner_up.explained) * n_picks) <= 8
    assert identification.sure and runner_up.label == "SSD, window 1, relevance scaled by minmax on dense vectors"


def test_metric_is_found_where_vectors_are_of_many_lengths():
    space, queries = make_world(unit=False)
    run = name_lists(space, queries, list_langchain(space, queries, 0.5, 300))
    identification = engine.identify(run, space, queries, decoders=["top_k", "mmr"])
    check_found(identification, "mmr", None, 0.5, 300)
    assert identification.best.metric == "cosine"


@pytest.mark.deep
def test_losses_of_an_index_are_stated_with_documents(world):
    is_indexed = np.random.default_rng(3).random(300) > 0.1
    for weight, name in ((0.5, "mmr"), (1.0, "top_k")):
        run = name_lists(*world, list_langchain(*world, weight, 20, k=8, is_indexed=is_indexed))
        identification = engine.identify(run, *world)
        best = identification.best
        assert identification.sure and best.decoder.select.spec.name == name, identification.sentences
        assert best.explained < 0.95 < best.explained_with_losses + 0.05 and 0.02 < best.loss_rate < 0.15
        assert best.missing and not any(is_indexed[int(document[1:])] for document in best.missing)
        assert best.unexplained[0].expected is not None


def list_random(space, queries, rng):
    return [rng.choice(300, 5, replace=False) for _ in range(N_LISTED)]


def list_shuffled(space, queries, rng):
    rows = space.vectors.numpy()
    return [rng.permutation(fetch_pool(rows, query, 20))[:5] for query in queries.vectors[:N_LISTED].numpy()]


def list_noisy(space, queries, rng):
    noisy = space.vectors.numpy() @ queries.vectors[:N_LISTED].numpy().T + 0.1 * rng.normal(size=(300, N_LISTED))
    return np.argsort(-noisy, axis=0)[:5].T


def list_other_vectors(space, queries, rng):
    rows = space.vectors.numpy() + 0.3 * rng.normal(size=space.vectors.shape)
    return list_langchain(space, queries, 0.5, 20, rows=(rows / np.linalg.norm(rows, axis=1, keepdims=True)))


@pytest.mark.parametrize("seed", deepen(range(3), (1, 2)))
def test_a_little_recency_in_relevance_is_not_called_top_k(world, seed):
    space, queries = world
    bonus = 0.03 * np.exp(-np.random.default_rng(seed).exponential(size=300))[:, None]
    scores = space.vectors.numpy() @ queries.vectors[:N_LISTED].numpy().T + bonus
    run = name_lists(space, queries, np.argsort(-scores, axis=0)[:5].T)
    identification = engine.identify(run, space, queries)
    # Three quarters of the picks are those of the most relevant documents, which is not enough.
    assert identification.best.explained > 0.75 and not identification.sure
    assert identification.sentences[0].startswith("Not one of these decoders")


@pytest.mark.parametrize(
    "list_rows", deepen([list_random, list_shuffled, list_noisy, list_other_vectors], [list_random, list_noisy])
)
def test_other_systems_are_not_named(world, list_rows):
    run = name_lists(*world, list_rows(*world, np.random.default_rng(0)))
    identification = engine.identify(run, *world)
    assert not identification.sure
    assert identification.sentences[0].startswith("Not one of these decoders")


@pytest.mark.parametrize(
    "n_lists, k, opening", [(1, 5, "One list cannot tell"), (4, 5, "4 lists cannot tell"), (40, 1, "Lists of one")]
)
def test_too_little_data_is_said(world, langchain_run, n_lists, k, opening):
    run = {query: documents[:k] for query, documents in list(langchain_run.items())[:n_lists]}
    identification = engine.identify(run, *world, decoders=["top_k", "mmr"])
    assert not identification.sure and identification.sentences[0].startswith(opening)


def test_further_queries_tell_hypotheses_apart(world):
    run = decode_run(*world, engine.Decoder(engine.make("mmr", relevance_weight=0.98), depth=30), n_lists=8)
    identification = engine.identify(run, *world)
    assert not identification.sure and "do not tell which" in identification.sentences[0]
    assert identification.further and not set(identification.further) & set(run)


def test_narrower_hypotheses_and_a_given_depth_are_kept(world, langchain_run):
    dpp = engine.make("dpp", window=1)
    identification = engine.identify(
        langchain_run, *world, decoders=[dpp, engine.Decoder(engine.make("ssd"))], depth=20
    )
    labels = {each.label for each in identification.hypotheses}
    assert labels == {"DPP, window 1 on dense vectors", "SSD on dense vectors"}
    assert all(each.depth == (20, 20) and each.decoder.depth == 20 for each in identification.hypotheses)


def test_same_seed_gives_the_same_answer(world, langchain_run):
    narrowed = {"decoders": ["mmr", "ssd"], "seed": 3}
    first, second = (engine.identify(langchain_run, *world, **narrowed).as_json() for _ in range(2))
    assert first == second


def test_odd_runs_are_read_and_noted(world, langchain_run):
    run = {query: list(documents) for query, documents in langchain_run.items()}
    run["q0"].insert(2, "d9999")
    run["q1"].append(run["q1"][0])
    run |= {"q45": [], "nobody": ["d1"]}
    identification = engine.identify(run, *world, decoders=["top_k", "mmr"])
    assert identification.sure and identification.n_lists == N_LISTED
    notices = " ".join(map(str, identification.notices))
    for remark in ("'nobody'", "'d9999'", "1 query of run lists a document twice", "1 query has an empty list"):
        assert remark in notices


@pytest.mark.parametrize(
    "change, error, message",
    [
        ({"run": {"nobody": ["d1"]}}, DataError, "none of the queries of run is among those given"),
        ({"run": {"q0": ["a", "b", "d1"]}}, DataError, "67% of what run lists .* is not in the corpus"),
        ({"run": {"q0": []}}, DataError, "no query of run has a list"),
        ({"run": {"q0": "d1"}}, DataError, "must map each query id to a list of document ids"),
        ({"run": {"q0": {"d1": "high"}}}, DataError, "the score must be a number"),
        ({"run": 3}, DataError, "run must be a file"),
        ({"depth": 0}, ParamError, "depth"),
        ({"depth": 3}, ParamError, "depth must be from 5"),
        ({"decoders": []}, ParamError, "at least one"),
        ({"decoders": ["nnn"]}, ParamError, "must select by a weight of relevance"),
        ({"decoders": [3]}, ParamError, "decoders must be"),
        ({"decoders": engine.Decoder(engine.make("mmr"), engine.make("bm25"))}, ParamError, "engine.Queries"),
        ({"space": None}, ParamError, "space must be an engine.Space"),
    ],
)
def test_unusable_arguments_name_the_argument(world, langchain_run, change, error, message):
    arguments = {"run": langchain_run, "space": world[0], "queries": world[1], **change}
    with pytest.raises(error, match=message):
        engine.identify(**arguments)


@pytest.mark.parametrize("depth", [200, None])
def test_relevance_of_a_hybrid_is_scaled_as_its_decoder_scales_it(demo, depth):
    dataset, space = demo
    queries = dataset.judged("test").sample(12)
    hybrid = engine.make("hybrid", dense_weight=0.5)
    ranking = engine.decode(
        engine.Decoder(engine.make("mmr", relevance_weight=0.6), hybrid, depth=depth), space, queries, 5
    )
    lists = {name: [dataset.corpus.ids[row] for row in ranking.rows(place)] for place, name in enumerate(queries.ids)}
    # Most of this pool lies outside the hybrid's union, and does not span its scale.
    best = engine.identify(lists, space, queries, decoders=[engine.Decoder(engine.make("mmr"), hybrid)]).best
    low, high = best.interval
    assert best.explained == 1 and low <= 0.6 <= high and high - low < 0.15
