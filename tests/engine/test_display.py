"""Values at a prompt and in a notebook: one line each, frames, tables of escaped texts."""

import inspect
import re
import subprocess
import sys
import typing

import pandas as pd
import pytest
import torch

import engine
from engine import orag
from engine.display import MAX_REPR_CHARS, OneLine, Tabular
from support.public_values import build_facade_values, build_further_values, build_world

TABLES = {
    "ranking": ["query", "rank", "row", "gain"],
    "measures": ["query", "k", "metric", "value"],
    "frontier": ["curve", "name", "label", "parameter", "value", "x", "y", "x_low", "x_high"],
    "comparison": ["name", "label", "baseline", "metric", "k", "queries", "mean", "baseline_mean", "difference"],
    "decision": ["name", "label", "choice", "gain", "share_kept", "low", "high", "chance"],
    "identification": ["label", "decoder", "explained", "low", "high", "depth_low", "depth_high"],
    "curve": ["method", "parameter", "low", "high", "k", "split", "recall"],
    "path": ["ranking", "low", "high", "rank", "row", "gain_at_low", "gain_at_high"],
    "drift": ["step", "median", "q99", "shift"],
    "round": ["step", "decoder", "label", "part", "group", "queries", "recall"],
}
"""Results that are tables, with their first columns."""


@pytest.fixture(scope="module")
def values(tmp_path_factory):
    world = build_world()
    values = build_facade_values(world, tmp_path_factory.mktemp("values"))
    return values | build_further_values(world, values)


def list_returned_classes():
    """List the classes of ours that the functions of both façades return, alone or in lists."""
    returned = set()
    for module in (engine, orag):
        for name in module.__all__:
            value = getattr(module, name)
            kinds = [value] if inspect.isclass(value) else []
            if inspect.isfunction(value):
                annotation = inspect.signature(value, eval_str=True).return_annotation
                kinds = [annotation, *typing.get_args(annotation)]
            returned |= {kind for kind in kinds if inspect.isclass(kind) and kind.__module__.startswith("engine.")}
    return returned


def test_every_public_value_has_a_representation_of_one_short_line(values):
    plain = {name: value for name, value in values.items() if not isinstance(value, list)}
    lines = {name: repr(value) for name, value in plain.items()}
    assert not {name: line for name, line in lines.items() if len(line) > MAX_REPR_CHARS or "\n" in line}
    assert not {name: line for name, line in lines.items() if " object at " in line and name != "progress"}
    # Classes that are slow to build say by their base that they are short.
    built = {kind for value in plain.values() for kind in type(value).__mro__}
    unseen = {kind for kind in list_returned_classes() - built if not issubclass(kind, OneLine | Exception)}
    assert {kind.__name__ for kind in unseen} <= {"Reranker", "Reach"}


def test_representation_of_a_data_set_names_its_parts(values):
    assert repr(values["dataset"]) == "Dataset corpus: 40 documents, 28 queries, splits train, dev, test"
    assert repr(values["ranking"]) == "Ranking: 6 queries, k=5, 30 documents"
    corpus = engine.Corpus(("a",), ("x",), name="two\nlines\x1b[31m" + "x" * 500)
    assert len(repr(corpus)) < MAX_REPR_CHARS and "\n" not in repr(corpus) and "\x1b" not in repr(corpus)


def test_printed_results_are_their_sentences(values):
    for name in ("decision", "identification"):
        assert str(values[name]).splitlines() == list(values[name].sentences)
    assert str(values["comparison"]).startswith("No significant difference")


@pytest.mark.parametrize("name", TABLES)
def test_frame_has_the_documented_columns_and_html_is_the_same_table(name, values):
    result = values[name]
    frame = result.to_frame()
    assert isinstance(result, Tabular) and len(frame)
    assert frame.columns[: len(TABLES[name])].tolist() == TABLES[name]
    # Columns of metrics and measures are documented by their kind.
    documented = {*re.findall(r"\w+", inspect.getdoc(type(result).to_frame)), "recall", "median", "q99", "shift"}
    assert set(TABLES[name]) <= documented
    assert result._repr_html_().count("<th>") == len(frame.columns) and "<table" in result._repr_html_()


def test_constructor_of_pandas_works_for_rankings_and_is_refused_with_the_fix_for_others(values):
    assert pd.DataFrame(values["ranking"]).shape == (6, 5)
    with pytest.raises(
        TypeError, match="Measures is not a sequence; its table is the pandas DataFrame that its method to_frame"
    ):
        pd.DataFrame(values["measures"])


def test_polars_and_arrow_read_tables(values):
    polars = pytest.importorskip("polars")
    for name in ("measures", "decision", "curve"):
        assert polars.DataFrame(values[name]).columns == values[name].to_frame().columns.tolist()


def test_texts_in_html_are_escaped():
    attack = "<script>alert(1)</script>"
    point = engine.Embeddings((attack,), torch.eye(2)[:1])
    space = engine.Space(engine.Corpus((attack,), (attack,), name=attack), point, "cpu")
    decoder = engine.Decoder(engine.make("top_k"))
    ranking = engine.decode(decoder, space, torch.eye(2)[:1], 1)
    measures = engine.measure(ranking, space, point, engine.Qrels({attack: {attack: 1}}), 1, ["recall"])
    assert attack in measures.to_frame()["query"].tolist()
    assert "<script>" not in measures._repr_html_() and "&lt;script&gt;" in measures._repr_html_()


@pytest.mark.deep
def test_pandas_is_not_imported_before_a_frame_is_asked_for():
    code = (
        "import sys, torch, engine\n"
        "ranking = engine.Ranking(torch.tensor([[1, 0]]), torch.ones(1, 2), ({},)); repr(ranking)\n"
        "assert 'pandas' not in sys.modules\n"
        "assert len(ranking.to_frame()) == 2 and 'pandas' in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
