"""The grade from which a document counts as relevant: in judgements, metrics, cells, samples and commands."""

import json

import numpy as np
import pytest
import torch
from click.testing import CliRunner

import engine
from engine import Decoder, Embeddings, ParamError, Qrels, Ranking, Space
from engine.cli.commands import main as frontier
from engine.evaluation.splits import split_in_half, subsample
from engine.evaluation.sweep.store import Store

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
