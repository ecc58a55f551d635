"""The grade from which a document counts as relevant: in judgements, metrics, cells, samples and commands."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from click.testing import CliRunner

import engine
from engine import DataError, Decoder, Embeddings, ParamError, Qrels, Ranking, Space
from engine.cli.commands import main as frontier
from engine.evaluation.splits import split_in_half, subsample
from engine.evaluation.sweep.store import Store
from engine.evaluation.tables import build_per_query_frame

GRADES = {"q1": {"a": 3, "b": 1}, "q2": {"b": 1, "c": 2}, "q3": {"a": 1}, "q4": {"c": 0, "a": 2}}
IDS = ("a", "b", "c", "d")


@pytest.fixture
def space():
    return Space(engine.Corpus(IDS, IDS), Embeddings(IDS, np.eye(4, dtype=np.float32)))


def measure(space, qrels, rows=((0, 1), (1, 2), (0, 1), (0, 2))):
    queries = Embeddings(tuple(GRADES), np.eye(4, dtype=np.float32))
    ranking = Ranking(torch.tensor(rows), torch.zeros(4, 2), tuple([{}] * 4))
    return engine.measure(ranking, space, queries, qrels, 2, ("recall", "comp", "ndcg", "mrr", "precision", "holes"))


def test_documents_below_the_grade_do_not_count_as_relevant():
    assert Qrels(GRADES).relevant("q1") == {"a", "b"} and Qrels(GRADES, 2).relevant("q1") == {"a"}
    assert Qrels(GRADES, 2).relevant("q3") == frozenset()


@pytest.mark.parametrize("grade", [0, -1, 1.5, True, "2"])
def test_invalid_grade_is_refused(grade):
    with pytest.raises(ParamError, match="relevant_from must be a whole number of 1 or more"):
        Qrels(GRADES, grade)


def test_metrics_by_hand(space):
    first, second = measure(space, Qrels(GRADES)), measure(space, Qrels(GRADES, 2))
    assert first.per_query["recall"] == {"q1": 1.0, "q2": 1.0, "q3": 1.0, "q4": 1.0}
    # At grade 2 a query with grades of 1 alone has nothing relevant and is left out.
    assert second.per_query["recall"] == {"q1": 1.0, "q2": 1.0, "q4": 1.0} and second.left_out == 1
    assert second.per_query["precision"] == {"q1": 0.5, "q2": 0.5, "q4": 0.5}
    assert second.per_query["mrr"] == {"q1": 1.0, "q2": 0.5, "q4": 1.0}
    # nDCG keeps every grade above 0.
    assert {q: second.per_query["ndcg"][q] for q in ("q1", "q2", "q4")} == {
        q: first.per_query["ndcg"][q] for q in ("q1", "q2", "q4")
    }
    assert first.per_query["holes"] == second.per_query["holes"] | {"q3": 0.5}


def test_digest_is_that_of_the_grades_at_1_and_another_at_2():
    assert Qrels(GRADES, 1) == Qrels(GRADES) != Qrels(GRADES, 2)


def test_samples_and_halves_keep_the_grade():
    assert subsample(Qrels(GRADES, 2), 2).relevant_from == 2
    assert {half.relevant_from for half in split_in_half(Qrels(GRADES, 3)).values()} == {3}


def test_cells_say_the_grade_and_pooled_judgements(space):
    queries = Embeddings(tuple(GRADES), np.eye(4, dtype=np.float32))
    for level, expected in ((1, {"judgements": "pooled"}), (2, {"judgements": "pooled", "relevant_from": "2"})):
        (cell,) = engine.sweep([Decoder(engine.make("top_k"))], space, queries, Qrels(GRADES, level), 2, ("recall",))
        assert {key: cell.provenance.get(key) for key in expected} == expected
    (cell,) = engine.sweep([Decoder(engine.make("top_k"))], space, queries, Qrels({"q1": {"a": 1}}), 2, ("recall",))
    assert not {"judgements", "relevant_from"} & cell.provenance.keys()


def test_declared_kind_of_judgements_is_part_of_identity_where_it_changes_something(space):
    pooled, complete = Qrels(GRADES), Qrels({"q1": {"a": 1}})
    assert pooled.is_pooled and not complete.is_pooled
    for qrels, kind in ((pooled, "complete"), (complete, "pooled")):
        declared = replace(qrels, judgements=kind)
        assert declared.is_pooled != qrels.is_pooled and declared.is_declared and declared != qrels
        assert declared == replace(declared, relevant_from=1) != replace(declared, judgements="auto")
        queries = Embeddings(tuple(GRADES), np.eye(4, dtype=np.float32))
        cells = [
            list(engine.sweep([Decoder(engine.make("top_k"))], space, queries, each, 2, ("recall",)))
            for each in (qrels, declared)
        ]
        assert cells[0][0].key != cells[1][0].key
        assert cells[1][0].provenance["judgements"] == f"declared {kind}"
    assert replace(pooled, judgements="pooled") == pooled and replace(complete, judgements="complete") == complete
    assert {half.judgements for half in split_in_half(replace(pooled, judgements="complete")).values()} == {"complete"}
    with pytest.raises(engine.ParamError, match="judgements must be one of auto, complete, pooled; got 'some'"):
        Qrels(GRADES, judgements="some")


@pytest.mark.parametrize("grade", [0.5, "1", None, float("nan")])
def test_grades_that_are_no_whole_numbers_are_refused_with_the_fix(grade):
    with pytest.raises(
        DataError, match=r"got .* for query 'q', document 'b'; multiply fractions by 100.*relevant_from=50"
    ):
        Qrels({"q": {"a": 1, "b": grade}})
    assert Qrels({"q": {"a": True, "b": np.int64(2), "c": 3.0}}).relevant("q") == {"a", "b", "c"}


def test_documents_are_counted_by_query_and_level(space):
    qrels = {level: Qrels(GRADES, level) for level in (1, 2, 3)}
    assert [qrels[level].next_level for level in (1, 2, 3)] == [2, 3, None]
    assert Qrels({"q": {"a": 1, "b": 3, "c": 0}}).next_level == 3 and Qrels({"q": {"a": 2}}).next_level is None
    # q2 gets one document, q4 the unjudged d and c, whose grade is 0.
    rows = ((0, 1), (2, -1), (0, 1), (3, 2))
    by_level = {1: ([2, 1, 1, 0], [2, 2, 1, 1]), 2: ([1, 1, 0, 0], [1, 1, 0, 1]), 3: ([1, 0, 0, 0], [1, 0, 0, 0])}
    for level, (relevant, total) in by_level.items():
        counts = {name: column.tolist() for name, column in measure(space, qrels[level], rows).counts.items()}
        expected = {"returned": [2, 1, 2, 2], "judged": [2, 1, 1, 1], "relevant": relevant, "total_relevant": total}
        if level < 3:
            expected |= dict(zip(("relevant_next", "total_relevant_next"), by_level[level + 1], strict=True))
            # MRR is among the metrics, so the rank of the first document of the next grade is known too.
            expected["mrr_next"] = {1: [1, 1, 0, 0], 2: [1, 0, 0, 0]}[level]
        assert counts == expected
    alone = engine.measure(
        Ranking(torch.tensor([[0]]), torch.ones(1, 1), ({},)), space, ["q"], k=1, metrics="redundancy"
    )
    assert {name: column.tolist() for name, column in alone.counts.items()} == {"returned": [1]}


def test_stored_cells_and_tables_by_query_have_the_counts(space, tmp_path):
    queries = Embeddings(tuple(GRADES), np.eye(4, dtype=np.float32))
    arguments = ([Decoder(engine.make("top_k"))], space, queries, Qrels(GRADES), 2, ("recall",))
    (cell,) = engine.sweep(*arguments, store=tmp_path / "cells.db")
    (stored,) = Store.open_store(tmp_path / "cells.db").read_cells()
    assert list(stored.counts) == list(cell.counts) and len(cell.counts) == 6
    frame = build_per_query_frame([stored])
    for name, column in cell.counts.items():
        assert stored.counts[name].tolist() == column.tolist() == frame[frame["metric"] == name]["value"].tolist()


def test_cells_of_different_levels_are_not_compared(space):
    queries, cells = Embeddings(tuple(GRADES), np.eye(4, dtype=np.float32)), []
    for level, name in ((1, "top_k"), (2, "vrsd")):
        cells += engine.sweep(engine.grid(name), space, queries, Qrels(GRADES, level), 2, ("recall", "ilad"))
    with pytest.raises(DataError, match="the same judgements; got 2 sets of them, relevant from grade 1, 2"):
        engine.compare(cells, "recall", "top_k", 2)
    with pytest.raises(DataError, match="the same judgements"):
        engine.decide(cells, k=2)
    assert engine.compare(cells, "ilad", "top_k", 2), "no grade matters to diversity"


def test_command_line_counts_from_the_grade(tmp_path):
    folder = tmp_path / "set"
    (folder / "qrels").mkdir(parents=True)
    corpus = [
        {"_id": name, "text": f"document {name} about {word}"}
        for name, word in zip("abc", ("red", "blue", "green"), strict=True)
    ]
    (folder / "corpus.jsonl").write_text("\n".join(map(json.dumps, corpus)))
    queries = [{"_id": "q1", "text": "red"}, {"_id": "q2", "text": "blue"}]
    (folder / "queries.jsonl").write_text("\n".join(map(json.dumps, queries)))
    (folder / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq1\ta\t2\nq1\tb\t1\nq2\tb\t1\n")
    lines = []
    for flags in ([], ["--relevant-from", "2"]):
        store = tmp_path / f"{len(flags)}.db"
        arguments = ["sweep", "--corpus", str(folder), "--select", "top_k", "-k", "1", "--split", "test", "--json"]
        result = CliRunner().invoke(frontier, [*arguments, "--store", str(store), *flags])
        assert result.exit_code == 0, result.output
        (cell,) = Store.open_store(store).read_cells()
        lines.append((cell.left_out, cell.mean["recall"]))
    # q1 has two relevant documents from grade 1 on, and q2 has none from grade 2 on.
    assert lines == [(0, 0.75), (1, 1.0)]
    refused = CliRunner().invoke(frontier, ["sweep", "--corpus", str(folder), "--relevant-from", "0"])
    assert refused.exit_code == 2 and "relevant-from" in refused.output
