"""Trained embeddings are like any other, for commands, exports, maps and feedback; what does not fit is refused."""

import inspect
import json
import pickle
import shlex
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch
from click.testing import CliRunner

import engine
from engine import orag
from engine.cli.group import main
from engine.evaluation.export_decoder import ExportContext, export
from engine.training.dataset import gather_samples
from engine.training.leakage import learnt_from
from engine.training.recipes import RECIPES, declared_params, make_recipe
from engine.training.train import prepare_run
from engine.values import Corpus, Embeddings, EncoderRef, Qrels, Queries
from support.datafiles import beir_of_things
from support.parameters import invalid_values
from support.training import ENCODER, NNN, PROJECTED, QUICK, demo_splits, drop_times, plant, quality, restrict


def test_every_selector_searches_a_trained_space_in_other_processes_too(data, trained):
    space, queries, _ = data
    sample = queries.take(range(5))
    adapted = trained.queries(sample)
    assert adapted.encoder == trained.space.embeddings.encoder != space.embeddings.encoder
    assert (adapted.encoder.digest, adapted.encoder.name) == (trained.digest, ENCODER.name)
    assert trained.queries(adapted) == adapted
    assert not torch.allclose(adapted.vectors, sample.vectors, atol=1e-3)
    assert np.allclose(adapted.vectors.norm(dim=1), 1, atol=1e-6)
    elsewhere = pickle.loads(pickle.dumps(trained.space))
    for name in engine.methods("selector"):
        decoder = engine.Decoder(engine.make(name))
        result = engine.decode(decoder, trained.space, sample, 4)
        assert engine.decode(decoder, elsewhere, sample, 4).index.equal(result.index), name
        by_hand = engine.select(name, trained.space.embeddings.vectors, adapted.vectors, 4)
        assert result.index.equal(by_hand.index), name
        assert engine.decode(decoder, trained.space, adapted, 4).index.equal(result.index), name


def test_sweeps_and_metrics_adapt_the_queries(data, trained):
    _, queries, qrels = data
    dev = queries.take(range(320, 360))
    decoder = engine.Decoder(engine.make("top_k"))
    single, adapted, unadapted = (
        next(iter(engine.sweep([decoder], *searched, qrels["dev"], 5, ("comp", "cos_sum"))))
        for searched in ((trained.space, dev), (trained.space, trained.queries(dev)), (data[0], dev))
    )
    assert single.key == adapted.key and single.mean == adapted.mean
    assert single.key != unadapted.key and single.mean["cos_sum"] != unadapted.mean["cos_sum"]


def test_queries_of_another_encoder_are_refused(data, trained, dense):
    _, queries, _ = data
    sample, decoder = queries.take(range(3)), engine.Decoder(engine.make("top_k"))
    foreign = [replace(sample, encoder=None), replace(sample, encoder=EncoderRef("other", "2" * 64, "float32"))]
    for wrong in (*foreign, dense.queries(sample)):
        with pytest.raises(engine.DataError, match="queries must be vectors of the encoder that the adapters take"):
            engine.decode(decoder, trained.space, wrong, 3)
    with pytest.raises(engine.DataError, match="queries"):
        engine.train("nnn", data[0], dense.queries(queries), data[2], **NNN)
    with pytest.raises(engine.DataError, match="embed both with one encoder"):
        engine.decode(decoder, data[0], trained.queries(sample), 3)


def test_vectors_that_were_brought_along_train_too(data):
    space, queries, qrels = plant(encoder=None)
    result = engine.train("dense", space, queries, qrels, **{**QUICK, "epochs": 1})
    sample = queries.take(range(3))
    decoder = engine.Decoder(engine.make("top_k"))
    first = engine.decode(decoder, result.space, sample, 3)
    assert engine.decode(decoder, result.space, result.queries(sample), 3).index.equal(first.index)
    with pytest.raises(engine.DataError, match="no encoder"):
        engine.decode(decoder, result.space, "some text", 3)


def test_text_is_embedded_and_adapted(demo):
    dataset, space = demo
    result = engine.train("dense", space, dataset.queries, demo_splits(dataset), hidden=16, epochs=1)
    decoder, text = engine.Decoder(engine.make("top_k")), "sort an array"
    assert engine.decode(decoder, result.space, text, 5).index.equal(
        engine.select("top_k", result.space.vectors, result.queries(text).vectors, 5).index
    )
    assert result.queries(text).texts == (text,)


def test_training_continues_from_a_trained_space(data, dense, tmp_path):
    """The start stands; its query adapter and a new corpus adapter learn; the file alone gives all of it back."""
    space, queries, qrels = data
    start = dense.digest, dense.space.embeddings.vectors.clone()
    path = tmp_path / "further.safetensors"
    result = engine.train("nnn", dense.space, queries, qrels, checkpoint=path, **NNN)
    assert result.facts["parent"] == dense.digest and result.facts["embeddings"] == space.embeddings.digest
    assert len(result.space.adapt.adapters.corpus) == 2
    mine, theirs = result.space.adapt.adapters, dense.space.adapt.adapters
    assert not mine.query.outer.weight.equal(theirs.query.outer.weight)
    assert mine.corpus[0].outer.weight.equal(theirs.corpus[0].outer.weight)
    assert dense.space.adapt.digest == start[0] and dense.space.embeddings.vectors.equal(start[1])
    comp = quality(result.recipe.decoder(), dense.space, data)["comp"]
    assert result.history[0].dev.comp5 == pytest.approx(comp, abs=0.05)
    read = engine.load_trained(path, space)
    assert read.digest == result.digest and read.space.embeddings == result.space.embeddings
    with pytest.raises(engine.DataError, match="not a trained one"):
        engine.load_trained(path, dense.space)
    colt = engine.train("colt", dense.space, queries, qrels, epochs=1, checkpoint=tmp_path / "colt")
    assert engine.load_trained(tmp_path / "colt", space).space.embeddings == colt.space.embeddings
    on = engine.train("nnn", colt.space, queries, qrels, checkpoint=tmp_path / "on", **{**NNN, "epochs": 1})
    assert engine.load_trained(tmp_path / "on", space).space.embeddings == on.space.embeddings


def test_queries_with_the_text_of_one_of_dev_are_left_out_and_counted(data):
    space, queries, qrels = data
    texts = ["  TEXT 419 ", *(f"text {i}" for i in range(1, len(queries)))]
    samples = gather_samples(space, replace(queries, texts=texts), qrels, "train", "dev")
    assert (len(samples), samples.repeated, samples.left_out) == (319, 1, 0) and "q0" not in samples.train.ids
    assert len(samples.dev) == 100
    facts = engine.preflight("dense", space, replace(queries, texts=texts), qrels, **QUICK)
    assert (facts.queries, facts.repeated) == (319, 1)


def test_data_that_do_not_fit_are_refused(data, demo):
    space, queries, qrels = data
    elsewhere = {split: Qrels({q: {"elsewhere": 1} for q in grades_of.grades}) for split, grades_of in qrels.items()}
    shared = {**qrels, "dev": Qrels({**qrels["dev"].grades, "q0": {"d0": 1}})}
    calls = [
        (data, {"train": "nosuch"}, "no split 'nosuch'"),
        (data, {"dev": "train"}, "splits must differ; got 'train', 'train'"),
        ((space, queries, qrels["train"]), {}, "judgements by split"),
        ((space, queries, shared), {}, r"'train' and 'dev' share 1 query.*first: 'q0'"),
        ((space, queries.take([0, 1]), qrels), {}, "none of the queries is judged by 'dev'"),
        ((space, list(queries.ids), qrels), {}, "queries must be engine.Queries"),
        ((None, queries, qrels), {}, "space must be an engine.Space"),
        ((space, replace(queries, vectors=queries.vectors[:, :8]), qrels), {}, "corpus's dimension"),
        ((space, queries, {**qrels, "train": elsewhere["train"]}), {}, "nothing to learn from"),
        (
            (space, queries, {**qrels, "dev": elsewhere["dev"]}),
            {},
            "'dev' has a relevant document in this corpus: there is nothing to choose by",
        ),
        ((plant(encoder=None)[0], Queries(queries.ids, queries.ids), qrels), {}, "no encoder"),
    ]
    for args, options, message in calls:
        with pytest.raises(engine.DataError, match=message):
            engine.train("dense", *args, **options, **QUICK)
    for method, options, message in (
        ("sparse", {}, r"method must be one of 'dense', 'nnn', 'colt', .*; got 'sparse'"),
        ("dense", {"temperature": 1}, "has no parameter temperature"),
        ("dense", {"seed": -1}, "seed must be"),
    ):
        with pytest.raises(engine.ParamError, match=message):
            engine.train(method, *data, **options)


def test_queries_without_a_relevant_document_are_left_out_and_counted(data):
    space, queries, qrels = data
    grades = {**qrels["train"].grades, "q0": {"d0": 0}, "q1": {"elsewhere": 1}, "q2": {"elsewhere": 1, "d7": 1}}
    samples = gather_samples(space, queries, {**qrels, "train": Qrels(grades)}, "train", "dev")
    assert len(samples) == 318 and samples.left_out == 2 and samples.relevant[0] == (7,)
    batch = samples.batch(torch.tensor([5, 0]))
    assert batch.document.tolist() == [*samples.relevant[5], 7] and batch.query.tolist() == [0, 0, 0, 1]


PARAMS = [(method, param) for method in RECIPES for param in declared_params(method)]


@pytest.mark.parametrize("method, param", PARAMS, ids=[f"{m}-{p.name}" for m, p in PARAMS])
def test_values_outside_the_domain_are_refused(method, param):
    for value in invalid_values(param):
        with pytest.raises(engine.ParamError, match=param.name):
            make_recipe(method, **{param.name: value})
    assert param.parse(param.text(param.default)) == param.default


OTHER_VALUES = {
    "negatives": "batch", "tau": 0.3, "query_rate": 1e-3, "corpus_rate": 1e-2, "epochs": 1, "patience": 1, "batch": 16,
    "weight_decay": 0.9, "clip": 1e-3, "hidden": 8, "l1": 0.02, "l2": 0.5, "gradient": "unrolled", "loss": "eq6",
    "gamma": 3.0, "iterations": 3, "most": 1, "depth": 1, "contrast": 1.0, "listed": 4, "dropout": 0.7, "rate": 1e-4,
    "dimension": 4, "uniform": 1, "hard": 1, "pool": 1, "in_batch": False, "init": "random", "vectors": 2,
    "spread": 0.5,
}  # fmt: skip
AMONG = {
    "patience": {"query_rate": 0.0, "corpus_rate": 0.0, "rate": 0.0},
    "iterations": {"gradient": "unrolled"},
    # With all that a batch has, the whole of a tiny corpus is there in any case.
    **{name: {"in_batch": False} for name in ("uniform", "hard", "pool")},
}


@pytest.fixture(scope="module")
def tiny_history():
    """Histories on a tiny set; parameters that leave a history as it is share it."""
    tiny = plant(n=24, d=8, train=48, dev=20)
    return cache(lambda method, **params: drop_times(engine.train(method, *tiny, **params).history))


@pytest.mark.parametrize("method, param", PARAMS, ids=[f"{m}-{p.name}" for m, p in PARAMS])
def test_every_parameter_has_an_effect(method, param, tiny_history):
    if param.name in ("regrid", "query_side"):
        return  # test_penalties_are_chosen_on_dev_before_and_after; test_training_encoder.py
    base = {"dense": QUICK, "nnn": NNN, "colt": {"batch": 24, "rate": 1e-3}}.get(method, PROJECTED) | {"epochs": 2}
    names = {p.name for p in declared_params(method)}
    base |= {k: v for k, v in AMONG.get(param.name, {}).items() if k in names}
    assert tiny_history(method, **base) != tiny_history(
        method, **{**base, param.name: OTHER_VALUES.get(param.name, 0.5)}
    )


def test_no_parameter_is_called_as_an_argument_of_what_trains():
    for function in (engine.train, engine.course, engine.preflight):
        arguments = set(inspect.signature(function).parameters) - {"params"}
        assert not arguments & {p.name for method in RECIPES for p in declared_params(method)}


def test_a_preflight_says_what_is_coming(data):
    result = engine.preflight("nnn", *data, **{**NNN, "epochs": 4})
    assert (result.queries, result.left_out, result.mean_relevant, result.steps) == (320, 0, 3.0, 10)
    assert result.seconds_an_epoch > 0 and result.seconds_of_dev > 0
    assert result.seconds == pytest.approx(4 * (result.seconds_an_epoch + result.seconds_of_dev))


def test_progress_counts_steps_and_never_falls(data):
    calls = []
    engine.train("nnn", *data, progress=lambda *args: calls.append(args), **{**NNN, "epochs": 2})
    steps = [(done, total) for done, total, label in calls if label == "training"]
    assert steps[0] == (0, 20) and steps[-1] == (20, 20) and steps == sorted(steps) and len(steps) == 21


def odd_corpus(kind):
    space, queries, qrels = plant(n=24, d=8, train=48, dev=12)
    rows = space.vectors.clone()
    if kind == "double":
        rows = rows.double()
    elif kind == "uneven":
        rows[0], rows[1], rows[2] = 0, 3 * rows[1], -rows[3]
    elif kind == "twins":
        rows[5] = rows[7] = rows[4]
    else:
        rows = rows[: int(kind)]
    corpus = Corpus(space.corpus.ids[: len(rows)], space.corpus.texts[: len(rows)])
    return engine.Space(corpus, Embeddings(corpus.ids, rows, ENCODER)), queries, qrels


@pytest.mark.parametrize("kind", ["double", "uneven", "twins", "1", "2", "4"])
@pytest.mark.parametrize(
    "method, params",
    [
        ("nnn", {}),
        ("nnn", {"l2": 0.0}),
        ("nnn", {"loss": "eq6", "gradient": "unrolled"}),
        ("dense", {}),
        ("colt", {}),
        ("dual_encoder", {"dimension": 3}),
        ("multi_vector", {"dimension": 3}),
    ],
    ids=["exact", "no ridge", "unrolled", "dense", "colt", "one projection", "several"],
)
def test_odd_corpora_train(method, params, kind):
    space, queries, qrels = odd_corpus(kind)
    if kind.isdigit():
        documents = {0: "d0", 1: f"d{int(kind) - 1}"}
        qrels = {
            s: Qrels({q: {documents[i % 2]: 1} for i, q in enumerate(grades_of.grades)})
            for s, grades_of in qrels.items()
        }
    options = {"l1": 0.05, "l2": 0.05, "regrid": False, "hidden": 16} if method == "nnn" else {}
    result = engine.train(method, space, queries, qrels, epochs=1, **{**options, **params})
    rows = result.space.vectors
    assert rows.dtype == space.vectors.dtype and rows.isfinite().all() and 0 <= result.history[1].loss < 10
    assert rows.norm(dim=1).allclose(torch.ones(len(rows), dtype=rows.dtype), atol=1e-5)
    assert "epochs done" in result.stopped


def test_prepared_starts_from_the_identity_or_nearly(data):
    space, queries, qrels = data
    samples = gather_samples(space, queries, qrels, "train", "dev")
    model = prepare_run(make_recipe("dense", hidden=32), samples, 0).built.model
    with torch.no_grad():
        assert model.encode_query(torch.arange(320)).allclose(samples.train.vectors, atol=1e-6)
        assert float((model.encode_corpus() * space.vectors).sum(1).min()) > 0.9999


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Queries whose right documents are about other things than they name, so that there is something to learn."""
    return str(beir_of_things(tmp_path_factory.mktemp("set"), shift=1))


@pytest.fixture(scope="module")
def checkpoint(folder, tmp_path_factory):
    """A checkpoint whose answers differ from those of the encoder's own embeddings."""
    dataset = engine.load_dataset(folder)
    path = tmp_path_factory.mktemp("trained") / "it's a file.safetensors"
    fast = {"hidden": 16, "epochs": 8, "batch": 4, "query_rate": 0.03, "corpus_rate": 0.03, "patience": None}
    result = engine.train("dense", space_of_folder(folder), dataset.queries, dataset.qrels, checkpoint=path, **fast)
    assert result.run.best >= 0
    return str(path)


@pytest.fixture(scope="module")
def nnn_checkpoint(folder, tmp_path_factory):
    """λ₁, λ₂ and a solver that are not the default."""
    dataset = engine.load_dataset(folder)
    path = tmp_path_factory.mktemp("trained") / "nnn.safetensors"
    fast = {"hidden": 16, "epochs": 1, "l1": 0.03, "l2": 0.07, "regrid": False, "gradient": "unrolled"}
    engine.train("nnn", space_of_folder(folder), dataset.queries, dataset.qrels, checkpoint=path, **fast)
    return str(path)


def invoke(*args):
    done = CliRunner().invoke(main, list(args), catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done


def run(*args):
    return invoke(*args).stdout


def test_commands_search_what_was_trained(folder, checkpoint, tmp_path):
    command = ("decode", "--corpus", folder, "--query", "a violin on a volcano", "-k", "3", "--json")
    unadapted, trained_run = (json.loads(run(*command, *flags)) for flags in ((), ("--trained", checkpoint)))
    gains = [[d["gain"] for d in result["results"][0]["documents"]] for result in (unadapted, trained_run)]
    assert gains[0] != gains[1]
    trained = engine.load_trained(checkpoint, space_of_folder(folder))
    expected = engine.decode(engine.Decoder(engine.make("top_k")), trained.space, ["a violin on a volcano"], k=3)
    assert gains[1] == pytest.approx(expected.gain[0].tolist(), abs=1e-6)
    store_flags = ("--store", str(tmp_path / "sweep.db"))
    cells = run("sweep", "--corpus", folder, "--split", "test", "--select", "top_k", "-k", "2", "--json", *store_flags,
                "--trained", checkpoint)  # fmt: skip
    assert len(cells.strip().splitlines()) == 1
    simulated = run("orag", "simulate", "--corpus", folder, "--split", "train", "--rounds", "5", "--json",
                    "--trained", checkpoint)  # fmt: skip
    assert json.loads(simulated)


def test_commands_say_which_queries_were_learnt_from(folder, checkpoint, tmp_path):
    """Figures of queries that were learnt from flatter; those of others come without a word."""
    warning = "16 of these 16 queries were learnt from: these figures flatter the training\n"
    again = str(tmp_path / "again.safetensors")
    engine.load_trained(checkpoint, space_of_folder(folder)).save(again)
    store_flags = ("--select", "top_k", "--store", str(tmp_path / "cells.db"))
    for command, *flags in (("decode",), ("sweep", *store_flags), ("ann",)):
        call = (command, "--corpus", folder, "-k", "2", "--json", *flags)
        for split, message in (("train", warning), ("test", "")):
            done = invoke(*call, "--split", split, "--trained", again)
            assert ("learnt from" in done.stderr) == bool(message) and message in done.stderr
            assert all(json.loads(line) for line in done.stdout.splitlines())
        assert "learnt from" not in invoke(*call, "--split", "train").stderr
    tune = ["tune", "--corpus", folder, "-k", "2", "--select", "mmr", "--dev", "dev", "--test", "train"]
    tune += ["--points", "2", "--json", "--store", str(tmp_path / "tune.db"), "--trained", again]
    assert "16 of these 23 queries were learnt from" in invoke(*tune).stderr


def test_training_queries_are_recognised_by_text_and_by_id(folder, checkpoint, tmp_path):
    dataset = engine.load_dataset(folder)
    trained = engine.load_trained(checkpoint, space_of_folder(folder))
    train, test = dataset.judged("train"), dataset.judged("test")
    assert learnt_from(trained.space, train) == list(train.ids) and learnt_from(trained.space, test) == []
    renamed = engine.Queries(test.ids[:2], (f"  {train.texts[0].upper()}", "something else"))
    assert learnt_from(trained.space, renamed) == [test.ids[0]]
    assert learnt_from(trained.space, engine.Queries(train.ids[:1], ("another query of this id",))) == []
    bare = replace(engine.embed(train), texts=None)
    assert learnt_from(trained.space, bare) == list(train.ids)
    assert learnt_from(space_of_folder(folder), train) == []
    replace(trained, facts={**trained.facts, "learnt": [5]}).save(tmp_path / "odd.safetensors")
    with pytest.raises(engine.DataError, match="what it learnt from is no list of texts"):
        engine.load_trained(tmp_path / "odd.safetensors", space_of_folder(folder))


def test_training_on_remembers_what_the_start_learnt_from(data, trained):
    space, queries, qrels = data
    ids = list(qrels["train"].grades)
    less, remaining = ({**qrels, "train": restrict(qrels["train"], part)} for part in (ids[:100], ids[100:150]))
    first = engine.train("dense", space, queries, less, **{**QUICK, "epochs": 1})
    second = engine.train("dense", first.space, queries, remaining, **{**QUICK, "epochs": 1})
    assert learnt_from(first.space, queries) == ids[:100] and learnt_from(second.space, queries) == ids[:150]
    assert learnt_from(trained.space, queries) == ids


def space_of_folder(folder):
    dataset = engine.load_dataset(folder)
    return engine.Space(dataset.corpus, engine.embed(dataset.corpus))


def test_decode_uses_the_decoder_of_the_checkpoint(folder, nnn_checkpoint):
    """A flag that is given wins; what none says is the checkpoint's."""
    decoder = engine.load_trained(nnn_checkpoint, space_of_folder(folder)).decoder
    default = engine.make("nnn")
    assert (decoder.select.l1, decoder.select.l2) == (0.03, 0.07) and decoder.select.solver != default.solver
    command = ("decode", "--corpus", folder, "--query", "a violin on a volcano", "-k", "3", "--json")

    def decoded(*flags):
        done = invoke(*command, *flags, "--trained", nnn_checkpoint)
        return json.loads(done.stdout)["decoder"], done.stderr

    label, output = decoded()
    assert label == decoder.label and f"searched as the checkpoint was trained for: {decoder.label}" in output
    label, output = decoded("--select", "nnn")
    assert label == decoder.label and f"what no flag says is the checkpoint's: {decoder.label}" in output
    changed = replace(decoder, select=replace(decoder.select, l2=0.25))
    for flags in (("--select", "nnn", "--l2", "0.25"), ("--l2", "0.25")):
        assert decoded(*flags)[0] == changed.label
    label, output = decoded("--select", "mmr")
    assert label == engine.Decoder(engine.make("mmr")).label and "checkpoint" not in output
    assert decoded("--depth", "4")[0] == replace(decoder, depth=4).label
    words = shlex.split(
        export(engine.Decoder(default), "command", ExportContext(corpus=folder, trained=nnn_checkpoint)).text
    )
    assert json.loads(run(*words[1:], "--json"))["decoder"] == engine.Decoder(default).label
    done = CliRunner().invoke(main, [*command, "--relevance-weight", "0.5", "--trained", nnn_checkpoint])
    assert done.exit_code == 2 and "--relevance-weight is of mmr" in done.output


def test_file_that_is_no_checkpoint_raises_error(folder, checkpoint, tmp_path):
    empty, nothing = tmp_path / "empty", tmp_path / "nothing.safetensors"
    empty.mkdir()
    nothing.write_bytes(b"nothing")
    a_folder = "{} is a folder, and a checkpoint is a file; "
    for path, message in (
        (Path(checkpoint).parent, a_folder + "name one of those in it: it's a file.safetensors"),
        (empty, a_folder + "and no .safetensors file is in it"),
        (nothing, "{} is not a checkpoint"),
    ):
        done = CliRunner().invoke(main, ["decode", "--corpus", folder, "--query", "x", "--trained", str(path)])
        assert done.exit_code == 1 and message.format(path) in done.output and "os error" not in done.output


def test_exports_name_the_checkpoint(folder, checkpoint, capsys):
    decoder = engine.Decoder(engine.make("top_k"))
    use = ExportContext(corpus=folder, query="chess", k=2, trained=checkpoint)
    scope = {}
    exec(compile(export(decoder, "python", use).text, "snippet", "exec"), scope)
    assert scope["space"].adapt is not None
    printed = capsys.readouterr().out.strip()
    words = shlex.split(export(decoder, "command", use).text)
    again = json.loads(run(*words[1:], "--json"))
    assert printed == str([d["id"] for d in again["results"][0]["documents"]])
    assert json.loads(export(decoder, "json", use).text)["trained"] == checkpoint


def test_feedback_moves_what_was_trained(data, trained):
    """Trained documents learn on, asked by adapted queries; elsewhere they are another corpus's vectors."""
    queries = data[1]
    session = orag.session(trained.space)
    query = trained.queries(queries.take([0])).vectors[0].numpy()
    after = orag.feed(session, orag.thumb(session, query, "d3", up=False))
    moved = trained.space.with_embeddings(after.embeddings())
    top = engine.Decoder(engine.make("top_k"))
    before, two = (engine.decode(top, where, queries.take([0]), k=80) for where in (trained.space, moved))
    row = trained.space.corpus.position["d3"]
    gain = [dict(zip(r.index[0].tolist(), r.gain[0].tolist(), strict=True))[row] for r in (before, two)]
    assert gain[1] < gain[0] and moved.adapt is trained.space.adapt


def test_passages_are_adapted_as_documents_are(folder, checkpoint):
    """A document in one passage has, under max_sim, the score of its one vector."""
    trained = engine.load_trained(checkpoint, space_of_folder(folder))
    rows = engine.embed(trained.space.corpus)
    fitted = trained.space.adapt.passages(rows)
    assert torch.allclose(fitted.vectors, trained.space.vectors, atol=1e-5)
    texts = engine.Queries.of(["a game of chess", "taxes"])
    scores = [
        engine.decode(engine.Decoder(engine.make("top_k"), engine.make(name)), trained.space, texts, k=6)
        for name in ("dense", "max_sim")
    ]
    assert torch.equal(scores[0].index, scores[1].index) and torch.allclose(scores[0].gain, scores[1].gain, atol=1e-5)
    passages = trained.space.with_documents(trained.space.corpus, rows)
    assert torch.allclose(passages.vectors, trained.space.vectors, atol=1e-5)


def test_a_vector_a_document_has_no_passages(data):
    mixed = engine.train("colt", *data, epochs=1, batch=64)
    with pytest.raises(engine.DataError, match="no way from text to one"):
        mixed.space.adapt.passages(data[0].embeddings)
    dense = engine.train("dense", *data, **{**QUICK, "epochs": 1})
    with pytest.raises(engine.DataError, match="passages must be vectors of the encoder"):
        dense.space.adapt.passages(dense.space.embeddings)


def test_embed_queries_adapts(folder, checkpoint):
    space = engine.load_trained(checkpoint, space_of_folder(folder)).space
    result = engine.embed_queries(space, ["chess", "volcano"])
    assert result.encoder == space.embeddings.encoder
    assert torch.equal(result.vectors, space.adapt(engine.embed(["chess", "volcano"])).vectors)
    assert not torch.allclose(result.vectors, engine.embed(["chess", "volcano"]).vectors, atol=1e-3)
