"""A course: the method, its control, the table of both and what may be said of it; and the same from a shell."""

import json
from dataclasses import replace
from unittest.mock import Mock

import click
import numpy as np
import pytest
from click.testing import CliRunner

import engine
from dashboard.serve import main
from engine.cli.commands import train as group
from engine.errors import Cancelled, DataError, ParamError
from engine.training.comparison import System, compare_systems
from engine.training.experiment import course, foreseen
from engine.training.recipes import RECIPES, declared_params
from support.cli import run
from support.datafiles import beir_of_things
from support.training import QUICK, StopAfter, drop_times, plant, quality, restrict

PARAMS = {**QUICK, "epochs": 2}


@pytest.fixture(scope="module")
def data():
    space, queries, qrels = plant(n=40, d=8, train=160, dev=100)
    ids = list(qrels["dev"].grades)
    return (
        space,
        queries,
        {**qrels, "dev": restrict(qrels["dev"], ids[::2]), "test": restrict(qrels["dev"], ids[1::2])},
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("course")


@pytest.fixture(scope="module")
def course_result(data, folder):
    seen = []
    return course("nnn", *data, folder=folder, watch=lambda *args: seen.append(args), **PARAMS), seen


@pytest.mark.deep
def test_a_course_always_has_its_control(data, course_result, folder):
    result, seen = course_result
    assert list(result.stages) == ["dense", "dense-cont", "nnn"] and result.last is result.stages["nnn"]
    start, control, last = result.stages.values()
    assert control.facts["parent"] == last.facts["parent"] == start.digest
    assert control.recipe.name == "dense" and control.recipe.epochs == last.recipe.epochs == 2
    assert control.recipe.hidden == last.recipe.hidden == PARAMS["hidden"], "what learns is as large in both"
    assert [name for name, epoch in seen if epoch.epoch == -1] == list(result.stages)
    assert sorted(p.stem for p in folder.glob("*.safetensors")) == sorted(result.stages)
    alone = engine.train("nnn", start.space, *data[1:], **PARAMS)
    assert drop_times(alone.history) == drop_times(last.history)


def test_course_table_equals_measure(data, course_result):
    table, last = course_result[0].table, course_result[0].last
    assert list(table.values) == ["encoder", "dense", "dense, nnn", "dense-cont", "dense-cont, nnn", "nnn"]
    assert table.split == "test" and table.queries == 50
    for k in (3, 5):
        for metric, mean in quality(last.decoder, last.space, data, "test", ("comp", "recall"), k).items():
            value, error = table.mean("nnn", metric, k)
            assert value == pytest.approx(mean)
            assert error == pytest.approx(table.values["nnn"][metric, k].std(ddof=1) / np.sqrt(50))
    assert table.rows[-1][0] == "nnn" and table.rows[-1][4].startswith(f"{100 * table.mean('nnn', 'comp', 5)[0]:.1f} ±")
    assert [row.baseline for row in table.told] == list(table.values)[:-1]
    for row, sentence in zip(table.told, table.sentences, strict=True):
        gap = table.values["nnn"]["comp", 5] - table.values[row.baseline]["comp", 5]
        assert row.difference == pytest.approx(gap.mean()) and row.comparisons == 5
        assert ("No significant difference" in sentence or "have the same" in sentence) == (not row.significant)


def test_course_reports_an_equal_control(data):
    space, queries, qrels = data
    top_k = engine.Decoder(engine.make("top_k"))
    all_qrels = engine.Qrels({**qrels["dev"].grades, **qrels["test"].grades})
    table = compare_systems([System("control", space, top_k), System("method", space, top_k)], queries, all_qrels)
    assert table.sentences == ("method and control have the same Comp@5 on all 100 queries.",)
    with pytest.raises(DataError, match="no query of 'none'"):
        compare_systems([System("one", space, top_k)], queries, engine.Qrels({}), "none")


def test_stopped_course_resumes(data, course_result, folder, monkeypatch):
    result, _ = course_result
    monkeypatch.setattr("engine.training.train.fit", None)
    again = course("nnn", *data, folder=folder, **PARAMS)
    assert [t.digest for t in again.stages.values()] == [t.digest for t in result.stages.values()]
    assert again.table.rows == result.table.rows


def test_a_course_may_start_elsewhere_and_end_early(data, course_result):
    start = course_result[0].stages["dense"]
    result = course("colt", *data, start=start, epochs=1)
    assert list(result.stages) == ["dense-cont", "colt"]
    assert list(result.table.values) == ["encoder", "dense", "dense-cont", "colt"]
    longer = course("dense", *data, start=course_result[0].last, **{**QUICK, "epochs": 1})
    assert list(longer.table.values) == ["encoder", "start (nnn)", "dense-cont"]
    fresh_course = course("dense", *data, **{**QUICK, "epochs": 1})
    assert list(fresh_course.stages) == ["dense", "dense-cont"]
    assert list(fresh_course.table.values) == ["encoder", "dense-cont", "dense"]
    assert fresh_course.last is fresh_course.stages["dense"]
    assert {row.baseline for row in fresh_course.table.told} == {"encoder", "dense-cont"}
    assert "dense" in fresh_course.verdict

    half = course("nnn", *data, stop=StopAfter(3), **PARAMS)
    assert half.table is None and list(half.stages) == ["dense"] and "by hand" in half.last.stopped
    with pytest.raises(ParamError, match="space must be the encoder's own"):
        course("nnn", start.space, *data[1:], **PARAMS)


def test_queries_of_two_splits_are_refused_and_repeated_texts_left_out(data):
    space, queries, qrels = data
    with pytest.raises(DataError, match="'train' and 'test' share 160 queries"):
        course("nnn", space, queries, {**qrels, "test": qrels["train"]}, **PARAMS)
    for same in ("dev", "test"):
        with pytest.raises(DataError, match="dev and test must not be the split that is learnt from"):
            course("nnn", space, replace(queries, texts=queries.ids), qrels, **{same: "train"}, **PARAMS)
    texts, once, dev = [f"text {q}" for q in queries.ids], {**QUICK, "epochs": 1}, list(qrels["dev"].grades)
    texts[0] = texts[queries.ids.index(next(iter(qrels["test"].grades)))]
    less = course("dense", space, replace(queries, texts=texts), qrels, **once)
    assert less.last.facts["train"] == restrict(qrels["train"], queries.ids[1:160]).digest
    assert less.last.facts["dev"] == qrels["dev"].digest
    texts[queries.ids.index(dev[0])] = texts[0].upper()
    repeated = replace(queries, texts=texts)
    less = course("dense", space, repeated, qrels, **once)
    assert less.last.facts["dev"] == restrict(qrels["dev"], dev[1:]).digest and less.table.queries == 50
    assert foreseen("dense", space, repeated, qrels, **once).repeated == 2


def test_a_start_that_learnt_from_dev_or_test_is_refused(data, course_result):
    """Memorised queries would flatter the choice of the epoch or the table."""
    space, queries, qrels = data
    start = course_result[0].stages["dense"]
    ids = list(qrels["train"].grades)
    learnt, less = restrict(qrels["train"], ids[:7]).grades, restrict(qrels["train"], ids[7:])
    for split in ("dev", "test"):
        splits = {**qrels, "train": less, split: engine.Qrels({**qrels[split].grades, **learnt})}
        for begun in (course, foreseen):
            with pytest.raises(DataError, match=f"start has learnt from 7 of the 57 queries of '{split}'.*begin with"):
                begun("colt", space, queries, splits, start=start, epochs=1)
    splits = {"train": less, "dev": engine.Qrels({**qrels["dev"].grades, **learnt})}
    with pytest.raises(DataError, match="space has learnt from 7 of the 57 queries of 'dev'"):
        engine.train("dense", start.space, queries, splits, **{**QUICK, "epochs": 1})


# The command line


@pytest.fixture(scope="module")
def set_folder(tmp_path_factory):
    return beir_of_things(tmp_path_factory.mktemp("set"))


SMALL = ("--hidden", "16", "--epochs", "1")


@pytest.mark.deep
def test_train_from_a_shell(set_folder, tmp_path, monkeypatch):
    out = str(tmp_path / "out")
    command = ("train", "nnn", "--data", str(set_folder), "--out", out, *SMALL)
    output = run(*command)
    assert "16 queries with 2.00 relevant documents each; an epoch of 1 steps" in output
    assert all(word in output for word in ("dense-cont start", "nnn epoch 0", "Comp@5", "On 7 queries of test"))
    assert "nnn and dense-cont" in output and "written: " in output
    monkeypatch.setattr("engine.training.train.fit", None)
    again = json.loads(run(*command, "--json"))
    assert list(again["stages"]) == ["dense", "dense-cont", "nnn"] and again["queries"] == 7
    assert set(again["table"]) >= {"encoder", "dense-cont", "nnn"}
    assert len(again["stages"]["nnn"]["history"]) == 2 and again["stages"]["nnn"]["params"]["hidden"] == 16
    refused = run(*command[:-1], "2", fails=True)
    assert "does not fit" in refused and "epochs" in refused
    assert "give another --out" in refused and "another file" not in refused


def test_a_stop_before_the_first_stage_is_told_in_a_sentence(set_folder, tmp_path, monkeypatch):
    command = ("train", "dense", "--data", str(set_folder), "--out", str(tmp_path / "out"), *SMALL)
    for error, message in (
        (KeyboardInterrupt(), "stopped; what was finished is kept\n"),
        (Cancelled(), "stopped; what was finished is kept\n"),
        (Cancelled("stopped before every stage was timed"), "stopped; before every stage was timed\n"),
        (Cancelled("2 of 3 are kept"), "stopped; 2 of 3 are kept\n"),
    ):
        with monkeypatch.context() as patched:
            patched.setattr("engine.load_dataset", Mock(side_effect=error))
            done = CliRunner().invoke(main, list(command))
        assert done.exit_code == 130 and done.stderr == message


def test_train_from_a_checkpoint_and_what_it_refuses(set_folder, tmp_path):
    out = str(tmp_path / "out")
    data = ("--data", str(set_folder), "--out", out)
    run("train", "dense", *data, *SMALL)
    begun = ("--out", f"{out}-colt", "--start", f"{out}/dense.safetensors")
    output = run("train", "colt", *data[:2], *begun, "--epochs", "1")
    assert "dense-cont" in output and "colt" in output and "dense epoch" not in output
    assert "no split 'valid'" in run("train", "dense", *data, "--dev", "valid", fails=True)
    assert "tau (τ) must be" in run("train", "dense", *data, "--tau", "0", fails=True)
    assert "no such option" in run("train", "dense", *data, "--l1", "0.1", fails=True).lower()
    same = run("train", "dense", "--data", str(set_folder), "--out", f"{out}2", *SMALL, "--test", "nosuch")
    divided = run("train", "dense", "--data", str(set_folder), "--out", f"{out}3", *SMALL, "--divide", "train")
    assert "10 queries with 2.00 relevant" in divided and "On 3 queries of test" in divided
    assert "--divide makes three of one" in run("train", "dense", *data, "--train", "none", fails=True)
    assert "were chosen by these queries" in same


def test_every_method_has_its_command_and_every_parameter_its_flag():
    ctx = click.Context(group)
    assert group.list_commands(ctx) == sorted([*RECIPES, "cross_encoder"])
    for method, recipe in RECIPES.items():
        command = group.get_command(ctx, method)
        assert command.help == recipe.__doc__
        flags = {flag for option in command.get_params(ctx) for flag in option.opts}
        assert {p.flag for p in declared_params(method)} <= flags
