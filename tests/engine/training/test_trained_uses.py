"""Trained embeddings are embeddings like any other: commands, exports, feedback, maps and passages work on them."""

import json
import shlex
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner

import engine
from engine import orag
from engine.cli.group import main
from engine.evaluation.export import ExportContext, export
from engine.training.leakage import learnt_from
from support.datafiles import beir_of_things
from support.training import QUICK, only


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
    result = engine.train("dense", spaced(folder), dataset.queries, dataset.qrels, checkpoint=path, **fast)
    assert result.run.best >= 0
    return str(path)


@pytest.fixture(scope="module")
def nnn_checkpoint(folder, tmp_path_factory):
    """λ₁, λ₂ and a solver that are not the default."""
    dataset = engine.load_dataset(folder)
    path = tmp_path_factory.mktemp("trained") / "nnn.safetensors"
    fast = {"hidden": 16, "epochs": 1, "l1": 0.03, "l2": 0.07, "regrid": False, "gradient": "unrolled"}
    engine.train("nnn", spaced(folder), dataset.queries, dataset.qrels, checkpoint=path, **fast)
    return str(path)


def invoke(*args):
    done = CliRunner().invoke(main, list(args), catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done


def run(*args):
    return invoke(*args).stdout


def test_commands_search_what_was_trained(folder, checkpoint, tmp_path):
    asked = ("decode", "--corpus", folder, "--query", "a violin on a volcano", "-k", "3", "--json")
    plain, other = (json.loads(run(*asked, *more)) for more in ((), ("--trained", checkpoint)))
    gains = [[d["gain"] for d in result["results"][0]["documents"]] for result in (plain, other)]
    assert gains[0] != gains[1]
    trained = engine.load_trained(checkpoint, spaced(folder))
    expected = engine.decode(engine.Decoder(engine.make("top_k")), trained.space, ["a violin on a volcano"], k=3)
    assert gains[1] == pytest.approx(expected.gain[0].tolist(), abs=1e-6)
    kept = ("--store", str(tmp_path / "sweep.db"))
    cells = run("sweep", "--corpus", folder, "--split", "test", "--select", "top_k", "-k", "2", "--json", *kept,
                "--trained", checkpoint)  # fmt: skip
    assert len(cells.strip().splitlines()) == 1
    simulated = run("orag", "simulate", "--corpus", folder, "--split", "train", "--rounds", "5", "--json",
                    "--trained", checkpoint)  # fmt: skip
    assert json.loads(simulated)


def test_commands_say_which_queries_were_learnt_from(folder, checkpoint, tmp_path):
    """Figures of queries that were learnt from flatter; those of others come without a word."""
    warning = "16 of these 16 queries were learnt from: these figures flatter the training\n"
    again = str(tmp_path / "again.safetensors")
    engine.load_trained(checkpoint, spaced(folder)).save(again)
    kept = ("--select", "top_k", "--store", str(tmp_path / "cells.db"))
    for command, *more in (("decode",), ("sweep", *kept), ("ann",)):
        asked = (command, "--corpus", folder, "-k", "2", "--json", *more)
        for split, message in (("train", warning), ("test", "")):
            done = invoke(*asked, "--split", split, "--trained", again)
            assert ("learnt from" in done.stderr) == bool(message) and message in done.stderr
            assert all(json.loads(line) for line in done.stdout.splitlines())
        assert "learnt from" not in invoke(*asked, "--split", "train").stderr
    tune = ["tune", "--corpus", folder, "-k", "2", "--select", "mmr", "--dev", "dev", "--test", "train"]
    tune += ["--points", "2", "--json", "--store", str(tmp_path / "tune.db"), "--trained", again]
    assert "16 of these 23 queries were learnt from" in invoke(*tune).stderr


def test_what_was_learnt_from_is_known_by_text_and_by_id(folder, checkpoint, tmp_path):
    dataset = engine.load_dataset(folder)
    trained = engine.load_trained(checkpoint, spaced(folder))
    train, test = dataset.judged("train"), dataset.judged("test")
    assert learnt_from(trained.space, train) == list(train.ids) and learnt_from(trained.space, test) == []
    renamed = engine.Queries(test.ids[:2], (f"  {train.texts[0].upper()}", "something else"))
    assert learnt_from(trained.space, renamed) == [test.ids[0]]
    assert learnt_from(trained.space, engine.Queries(train.ids[:1], ("another query of this id",))) == []
    bare = replace(engine.embed(train), texts=None)
    assert learnt_from(trained.space, bare) == list(train.ids)
    assert learnt_from(spaced(folder), train) == []
    replace(trained, facts={**trained.facts, "learnt": [5]}).save(tmp_path / "odd.safetensors")
    with pytest.raises(engine.DataError, match="what it learnt from is no list of texts"):
        engine.load_trained(tmp_path / "odd.safetensors", spaced(folder))


def test_training_on_remembers_what_the_start_learnt_from(data, trained):
    space, queries, qrels = data
    ids = list(qrels["train"].grades)
    less, rest = ({**qrels, "train": only(qrels["train"], some)} for some in (ids[:100], ids[100:150]))
    first = engine.train("dense", space, queries, less, **{**QUICK, "epochs": 1})
    second = engine.train("dense", first.space, queries, rest, **{**QUICK, "epochs": 1})
    assert learnt_from(first.space, queries) == ids[:100] and learnt_from(second.space, queries) == ids[:150]
    assert learnt_from(trained.space, queries) == ids


def spaced(folder):
    dataset = engine.load_dataset(folder)
    return engine.Space(dataset.corpus, engine.embed(dataset.corpus))


def test_decode_takes_what_training_chose(folder, nnn_checkpoint):
    """A flag that is given wins; what none says is the checkpoint's."""
    own = engine.load_trained(nnn_checkpoint, spaced(folder)).decoder
    default = engine.make("nnn")
    assert (own.select.l1, own.select.l2) == (0.03, 0.07) and own.select.solver != default.solver
    asked = ("decode", "--corpus", folder, "--query", "a violin on a volcano", "-k", "3", "--json")

    def decoded(*flags):
        done = invoke(*asked, *flags, "--trained", nnn_checkpoint)
        return json.loads(done.stdout)["decoder"], done.stderr

    label, output = decoded()
    assert label == own.label and f"searched as the checkpoint was trained for: {own.label}" in output
    label, output = decoded("--select", "nnn")
    assert label == own.label and f"what no flag says is the checkpoint's: {own.label}" in output
    other = replace(own, select=replace(own.select, l2=0.25))
    for flags in (("--select", "nnn", "--l2", "0.25"), ("--l2", "0.25")):
        assert decoded(*flags)[0] == other.label
    label, output = decoded("--select", "mmr")
    assert label == engine.Decoder(engine.make("mmr")).label and "checkpoint" not in output
    assert decoded("--depth", "4")[0] == replace(own, depth=4).label
    words = shlex.split(
        export(engine.Decoder(default), "command", ExportContext(corpus=folder, trained=nnn_checkpoint)).text
    )
    assert json.loads(run(*words[1:], "--json"))["decoder"] == engine.Decoder(default).label
    done = CliRunner().invoke(main, [*asked, "--relevance-weight", "0.5", "--trained", nnn_checkpoint])
    assert done.exit_code == 2 and "--relevance-weight is of mmr" in done.output


def test_what_is_no_checkpoint_is_told_apart(folder, checkpoint, tmp_path):
    empty, nothing = tmp_path / "empty", tmp_path / "nothing.safetensors"
    empty.mkdir()
    nothing.write_bytes(b"nothing")
    a_folder = "{} is a folder, and a checkpoint is a file; "
    for there, message in (
        (Path(checkpoint).parent, a_folder + "name one of those in it: it's a file.safetensors"),
        (empty, a_folder + "and no .safetensors file is in it"),
        (nothing, "{} is not a checkpoint"),
    ):
        done = CliRunner().invoke(main, ["decode", "--corpus", folder, "--query", "x", "--trained", str(there)])
        assert done.exit_code == 1 and message.format(there) in done.output and "os error" not in done.output


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
    asked = trained.queries(queries.take([0])).vectors[0].numpy()
    after = orag.feed(session, orag.thumb(session, asked, "d3", up=False))
    moved = trained.space.with_embeddings(after.embeddings())
    top = engine.Decoder(engine.make("top_k"))
    one, two = (engine.decode(top, where, queries.take([0]), k=80) for where in (trained.space, moved))
    place = trained.space.corpus.position["d3"]
    gain = [dict(zip(r.index[0].tolist(), r.gain[0].tolist(), strict=True))[place] for r in (one, two)]
    assert gain[1] < gain[0] and moved.adapt is trained.space.adapt


def test_passages_are_adapted_as_documents_are(folder, checkpoint):
    """A document in one passage has, under max_sim, the score of its one vector."""
    trained = engine.load_trained(checkpoint, spaced(folder))
    rows = engine.embed(trained.space.corpus)
    fitted = trained.space.adapt.passages(rows)
    assert torch.allclose(fitted.vectors, trained.space.vectors, atol=1e-5)
    texts = engine.Queries.of(["a game of chess", "taxes"])
    scores = [
        engine.decode(engine.Decoder(engine.make("top_k"), engine.make(name)), trained.space, texts, k=6)
        for name in ("dense", "max_sim")
    ]
    assert torch.equal(scores[0].index, scores[1].index) and torch.allclose(scores[0].gain, scores[1].gain, atol=1e-5)
    other = trained.space.with_documents(trained.space.corpus, rows)
    assert torch.allclose(other.vectors, trained.space.vectors, atol=1e-5)


def test_a_vector_a_document_has_no_passages(data):
    mixed = engine.train("colt", *data, epochs=1, batch=64)
    with pytest.raises(engine.DataError, match="no way from text to one"):
        mixed.space.adapt.passages(data[0].embeddings)
    dense = engine.train("dense", *data, **{**QUICK, "epochs": 1})
    with pytest.raises(engine.DataError, match="passages must be vectors of the encoder"):
        dense.space.adapt.passages(dense.space.embeddings)


def test_embed_queries_adapts(folder, checkpoint):
    space = engine.load_trained(checkpoint, spaced(folder)).space
    result = engine.embed_queries(space, ["chess", "volcano"])
    assert result.encoder == space.embeddings.encoder
    assert torch.equal(result.vectors, space.adapt(engine.embed(["chess", "volcano"])).vectors)
    assert not torch.allclose(result.vectors, engine.embed(["chess", "volcano"]).vectors, atol=1e-3)
