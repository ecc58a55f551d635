"""Every scorer with every selector: on the demo, from the command line, in a sweep, in processes and in a store."""

import json
import threading

import pytest
import torch
from click.testing import CliRunner

import engine
from dashboard.serve import main
from engine.evaluation.sweep.store import Store
from support.patience import patient
from support.points import digest_of_all
from support.tiny_models import tiny_cross_encoder

SCORERS, SELECTORS = engine.methods("scorer"), engine.methods("selector")
WORDS = [name for name, spec in SCORERS.items() if spec.cls.words]
TOP = engine.Decoder(engine.make("top_k"))
each_scorer = pytest.mark.parametrize("scorer", SCORERS)


def made(scorer, scorer_options):
    return engine.make(scorer, **scorer_options.get(scorer, {}))


def behind(selector, scorer, depth=None):
    """A decoder of the two; what reads pools only reads a small one, not the corpus."""
    if scorer.rerank_only:
        return engine.Decoder(selector, rerank=scorer, depth=depth or 8)
    return engine.Decoder(selector, scorer, depth=depth)


@pytest.fixture(scope="module")
def asked(demo):
    dataset, _ = demo
    return engine.embed(dataset.judged("dev").sample(3))


@each_scorer
@pytest.mark.parametrize("selector", SELECTORS)
def test_every_pair_answers(demo, asked, scorer_options, scorer, selector):
    _, space = demo
    for depth in (None, 20):
        decoder = behind(engine.make(selector), made(scorer, scorer_options), depth)
        answer = engine.decode(decoder, space, asked, k=4)
        assert answer.index.shape == (3, 4) and torch.isfinite(answer.gain).all()
        for found in answer.index.tolist():
            kept = [i for i in found if i >= 0]
            assert kept and len(set(kept)) == len(kept) and max(kept) < len(space)
        one = engine.decode(decoder, space, asked.take([1]), k=4)
        assert torch.equal(one.index[0], answer.index[1])


@each_scorer
def test_a_reranker_orders_the_pool_and_nothing_else(demo, asked, scorer_options, scorer):
    _, space = demo
    pool = engine.decode(TOP, space, asked, k=10).index
    stages = {"retrieve": engine.make("dense"), "rerank": made(scorer, scorer_options)}
    again = engine.decode(engine.Decoder(engine.make("top_k"), **stages, depth=10), space, asked, k=10).index
    assert torch.equal(again.sort(1).values, pool.sort(1).values)


@each_scorer
def test_decode_takes_it_from_the_command_line(demo, scorer_options, scorer):
    stage = made(scorer, scorer_options)
    params = SCORERS[scorer].params
    flags = [word for p in params for word in (f"--retrieve-{p.flag[2:]}", p.text(getattr(stage, p.name)))]
    text = "sort an array along an axis"
    done = CliRunner().invoke(main, ["decode", "--query", text, "--retrieve", scorer, *flags, "-k", "3", "--json"])
    assert done.exit_code == 0, done.output
    said = json.loads(done.stdout)
    dataset, space = demo
    decoder = engine.Decoder(engine.make("top_k"), stage)
    expected = engine.decode(decoder, space, [text], k=3)
    assert said["decoder"] == decoder.label
    assert [d["id"] for d in said["results"][0]["documents"]] == [dataset.corpus.ids[i] for i in expected.index[0]]


def test_a_sweep_goes_over_scorers_from_the_command_line(demo, tmp_path):
    store = str(tmp_path / "sweep.db")
    asked = ["sweep", "--select", "top_k", "--select", "mmr", "--points", "2", "-k", "3", "--store", store]
    asked += ["--retrieve", "bm25:k1=0.9,b=0.4", "--retrieve", "dense", "--rerank", "hybrid:dense-weight=0.25"]
    done = CliRunner().invoke(main, [*asked, "--depth", "30", "--json"])
    assert done.exit_code == 0, done.output
    cells = [json.loads(line)["decoder"] for line in done.output.splitlines()]
    assert len(cells) == 6 and {c["depth"] for c in cells} == {30}
    assert {(c["retrieve"]["name"], c["retrieve"].get("k1")) for c in cells} == {("bm25", 0.9), ("dense", None)}
    assert {c["rerank"]["dense_weight"] for c in cells} == {0.25}
    shown = CliRunner().invoke(main, ["compare", store])
    assert shown.exit_code == 0 and "BM25 · k₁ 0.9 b 0.4" in shown.output, shown.output
    assert " vs Dense → Hybrid · λ 0.25 · linear · min-max → Top-k [pool 30]" in shown.output, shown.output


@pytest.mark.parametrize(
    "args,said",
    [
        (("--retrieve", "mmr"), "no scorer is called 'mmr'"),
        (("--retrieve", "bm25:k1"), "--retrieve takes NAME or NAME:PARAMETER=VALUE"),
        (("--retrieve", "bm25:b=2"), "b must be a number in [0, 1]; got '2'"),
        (("--rerank", "hybrid:weight=1"), "hybrid has no parameter weight"),
        (("--depth", "0"), "depth (n) must be a whole number in [1"),
    ],
)
def test_mistakes_are_named(args, said, tmp_path):
    done = CliRunner().invoke(main, ["sweep", "--store", str(tmp_path / "x.db"), *args])
    assert done.exit_code != 0 and said in " ".join(done.output.split()), done.output


@pytest.fixture(scope="module")
def qrels(demo, asked):
    return engine.Qrels({q: demo[0].qrels["dev"].grades[q] for q in asked.ids})


def cell(decoder, *data, **options):
    """The one cell of a sweep."""
    (found,) = engine.sweep([decoder], *data, k=3, **options)
    return found


def test_processes_find_what_one_finds_and_a_store_keeps_it(demo, asked, qrels, scorer_options, tmp_path, monkeypatch):
    _, space = demo
    decoders = [behind(engine.make("top_k"), made(name, scorer_options)) for name in SCORERS]
    here = digest_of_all(engine.sweep(decoders, space, asked, qrels, k=3))
    store = tmp_path / "kept.db"
    assert digest_of_all(engine.sweep(decoders, space, asked, qrels, k=3, workers=2, store=store)) == here
    monkeypatch.setattr("engine.evaluation.sweep.executors.compute_unit", None)
    assert digest_of_all(engine.sweep(decoders, space, asked, qrels, k=3, store=store)) == here
    assert len(list(Store(store).read_cells())) == len(SCORERS)


@each_scorer
def test_what_is_prepared_is_not_made_again(demo, asked, scorer_options, scorer):
    dataset, space = demo
    space, stage = engine.Space(dataset.corpus, space.embeddings), made(scorer, scorer_options)
    stage.prepare(space)
    before = {key: id(made.value) for key, made in space._derived.items()}
    engine.decode(engine.Decoder(engine.make("top_k"), stage), space, asked, k=3)
    assert {key: id(made.value) for key, made in space._derived.items()} == before


def test_other_parts_and_other_weights_are_other_cells(demo, asked, qrels, tmp_path):
    dataset, space = demo
    decoder, few, store = engine.Decoder(TOP.select, engine.make("max_sim")), space.embeddings, tmp_path / "kept.db"
    parts = [engine.Embeddings(tuple(f"{i}#0" for i in few.ids), few.vectors.roll(shift, 0)) for shift in (0, 1)]
    spaces = [engine.Space(dataset.corpus, few, parts=each) for each in parts]
    first, second = (cell(decoder, each, asked, qrels, store=store) for each in spaces)
    assert first.key != second.key and first.mean != second.mean
    model = tiny_cross_encoder(tmp_path / "model", seed=0)
    reranked = behind(TOP.select, engine.make("cross_encoder", model=str(model)), 10)
    before = cell(reranked, space, asked, qrels, store=store)
    tiny_cross_encoder(model, seed=1)
    after = cell(reranked, space, asked, qrels, store=store)
    assert before.key != after.key and before.provenance["model"] != after.provenance["model"]


def test_what_takes_long_to_derive_keeps_nobody_else_waiting(demo):
    _, space = demo
    began, end = threading.Event(), threading.Event()

    def slow():
        began.set()
        assert end.wait(patient(30))
        return 1

    worker = threading.Thread(target=lambda: space.derived("slow", slow))
    worker.start()
    assert began.wait(patient(30)) and space.derived("quick", lambda: 2) == 2 and not space.has_derived("slow")
    end.set()
    worker.join(patient(30))
    assert space.derived("slow", lambda: 3) == 1


@pytest.mark.parametrize("scorer", WORDS)
def test_other_words_with_the_same_vectors_are_another_cell(demo, asked, qrels, scorer_options, scorer):
    _, space = demo
    other = engine.Embeddings(asked.ids, asked.vectors, asked.encoder, tuple(t + " transpose" for t in asked.texts))
    decoder = behind(TOP.select, made(scorer, scorer_options))
    one, two = (cell(decoder, space, q, qrels) for q in (asked, other))
    assert one.key != two.key and "texts" in one.provenance
    assert cell(TOP, space, asked, qrels).key == cell(TOP, space, other, qrels).key


def test_text_is_embedded_and_read(demo):
    _, space = demo
    queries = engine.Queries.of(["cumulative product of elements"])
    for scorer in [name for name, spec in SCORERS.items() if not spec.cls.rerank_only]:
        answer = engine.decode(engine.Decoder(engine.make("top_k"), engine.make(scorer)), space, queries, k=5)
        assert "prod" in " ".join(space.corpus.ids[i] for i in answer.index[0])
