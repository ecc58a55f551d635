"""Runs of other systems: read with what was odd about them, and measured as trec_eval measures them."""

import json

import numpy as np
import pytest
import pytrec_eval
import torch

import engine
from engine.errors import DataError
from engine.evaluation.paired import short_names
from engine.evaluation.runs import RankedRun, decode_runs, read_run
from engine.evaluation.sweep.cell import decoder_from_json
from support.rankings import queries_of, space_of

RANKS_COUNT = "the ranks count, whereas trec_eval reads the scores, and orders equal ones by id"
DOCS, QUERIES = [f"d{i}" for i in range(8)], ["q0", "q1", "q2"]


def write_lines(path, *lines):
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


def read_lines(tmp_path, *lines, name="run.txt"):
    return read_run(write_lines(tmp_path / name, *lines), DOCS, QUERIES)


def count_notices(run):
    """Notice → how often, without the file's name."""
    return {notice.remark.replace(" (run.txt)", ""): (notice.count, notice.first) for notice in run.notices}


def test_a_trec_run_and_the_same_in_json_are_one(tmp_path):
    trec = read_lines(tmp_path, "q0 Q0 d3 1 9.5 lucene", "q0 Q0 d1 2 7 lucene", "q1\tQ0\td0\t1\t1e-3\tlucene")
    rows = [("q0", "d3", 1, 9.5), ("q0", "d1", 2, 7), ("q1", "d0", 1, 0.001)]
    lines = [json.dumps(dict(zip(("query", "document", "rank", "score"), row, strict=True))) for row in rows]
    json_run = read_lines(tmp_path, *lines, name="lucene.jsonl")
    assert trec.documents == json_run.documents == {"q0": ("d3", "d1"), "q1": ("d0",)}
    assert trec.name == json_run.name == "lucene" and trec.digest == json_run.digest
    assert count_notices(trec) == {"queries got nothing in run.txt": (1, ("q2",))}


def test_lines_may_stand_in_any_order(tmp_path):
    run = read_lines(
        tmp_path, "q0 Q0 d1 2 1 x", "q1 Q0 d1 1 1 x", "q0 Q0 d2 3 .5 x", "q2 Q0 d1 1 1 x", "q0 Q0 d3 1 2 x"
    )
    assert run.documents["q0"] == ("d3", "d1", "d2") and not run.notices


@pytest.mark.parametrize("scores", [(2, 2, 1), (2, 1, 1), (7, 7, 7)])
def test_tied_scores_at_distinct_ranks_are_noted(tmp_path, scores):
    run = read_lines(tmp_path, *(f"q0 Q0 d{3 - rank} {rank} {score} x" for rank, score in enumerate(scores, 1)))
    assert run.documents == {"q0": ("d2", "d1", "d0")}
    assert count_notices(run)[f"queries have equal scores at different ranks; {RANKS_COUNT}"] == (1, ("q0",))


def test_ids_of_another_form_are_matched_and_said(tmp_path):
    path = write_lines(tmp_path / "r.csv", "qid,docid,rank", "1.0,12.0,1", "1.0,007,2", "1.0,gone,3")
    run = read_run(path, ["12", "007", "7"], ["1"])
    assert run.documents == {"1": ("12", "007")}
    assert [(notice.count, notice.first) for notice in run.notices if "not written as" in notice.remark] == [
        (2, ("1.0 = 1", "12.0 = 12"))
    ]


def test_scores_order_where_there_are_no_ranks(tmp_path):
    lines = [json.dumps({"qid": "q0", "docid": doc, "score": s}) for doc, s in (("d1", 1), ("d2", 5), ("d3", 1))]
    run = read_lines(tmp_path, *lines, name="x.jsonl")
    assert run.documents == {"q0": ("d2", "d1", "d3")}
    assert [n.count for n in run.notices if "equal" in n.remark] == [1]


def test_odd_lines_are_counted_with_first_example(tmp_path):
    run = read_lines(
        tmp_path,
        "q0 Q0 d1 1 3 a", "q0 Q0 gone 2 2 a", "q0 Q0 d2 3 1 b", "q9 Q0 d1 1 1 a",
        "q1 Q0 d1 1 1 a", "q1 Q0 d2 2 2 a", "q1 Q0 d1 3 0 a",
        "q2 Q0 d5 1 1 a", "q2 Q0 d4 1 2 a",
    )  # fmt: skip
    assert run.documents == {"q0": ("d1", "d2"), "q1": ("d1", "d2"), "q2": ("d4", "d5")}
    assert count_notices(run) == {
        "queries of run.txt are not among those asked, and are left out": (1, ("q9",)),
        "documents of run.txt are not in the corpus, and are left out": (1, ("gone",)),
        "tags in run.txt, taken as one run": (2, ("a", "b")),
        "queries list a document twice; its better place counts": (1, ("q1",)),
        "queries have equal ranks, or equal scores without ranks; the earlier line comes first": (1, ("q2",)),
        f"queries have scores that rise down the ranks; {RANKS_COUNT}": (1, ("q1",)),
    }


@pytest.mark.parametrize(
    ("name", "line", "message"),
    [
        ("r.txt", "q0 d1", r"r.txt line 1: expected 6 fields \(query Q0 document rank score tag\), found 2"),
        ("r.txt", "q0 Q0 d1 first 1 x", "r.txt line 1: the rank must be a whole number from 0; found 'first'"),
        ("r.txt", "q0 Q0 d1 1 nan x", "r.txt line 1: the score must be a number; found 'nan'"),
        (
            "r.txt",
            "q7 Q0 d1 1 1 x",
            r"queries is known here \(first: 'q7'\); the ids here are like 'q0', 'q1'",
        ),
        (
            "r.txt",
            "q0 Q0 e1 1 1 x",
            r"documents is known here \(first: 'e1'\); the ids here are like 'd0', 'd1'",
        ),
        ("r.txt", "", "r.txt is empty; expected lines of query Q0"),
        ("r.jsonl", '{"query": "q0", "rank": 1}', "r.jsonl line 1: no 'document'; found 'query', 'rank'"),
        ("r.jsonl", '{"query": "q0", "document": "d1"}', "neither 'rank' nor 'score'"),
        ("r.jsonl", '{"query": "q0", "document": "d1", "rank": 1.5}', "rank must be a whole number from 0; found 1.5"),
        ("r.jsonl", '{"query": "q0", "document": "d1", "rank": true}', "found True"),
        ("r.jsonl", '{"query": ["q0"], "document": "d1", "rank": 1}', "the id in 'query' must be text"),
    ],
)
def test_a_bad_line_is_named(tmp_path, name, line, message):
    with pytest.raises(DataError, match=message):
        read_lines(tmp_path, line, name=name)


@pytest.fixture
def setting():
    """A space, queries, graded judgements."""
    rng = np.random.default_rng(3)
    space = space_of(torch.tensor(rng.normal(size=(30, 6)), dtype=torch.float32))
    queries = queries_of(torch.tensor(rng.normal(size=(12, 6)), dtype=torch.float32))
    grades = {
        q: {f"d{d}": int(g) for d, g in zip(rng.permutation(30)[:9], rng.integers(0, 4, 9), strict=True)}
        for q in queries.ids
    }
    return space, queries, engine.Qrels(grades)


def test_run_measures_match_trec_eval(setting):
    space, queries, qrels = setting
    rng = np.random.default_rng(4)
    run = RankedRun("x", {q: tuple(f"d{d}" for d in rng.permutation(30)[:7]) for q in queries.ids[:-1]})
    cell = run.build_cell(space, queries, qrels, 5, ("recall", "ndcg"))
    scores = {q: {d: float(-rank) for rank, d in enumerate(docs)} for q, docs in run.documents.items()}
    judge = pytrec_eval.RelevanceEvaluator(qrels.grades, {"recall.5", "ndcg_cut.5"})
    theirs = judge.evaluate(scores)
    for row, query in enumerate(queries.ids[:-1]):
        assert cell.values["recall"][row] == pytest.approx(theirs[query]["recall_5"])
        assert cell.values["ndcg"][row] == pytest.approx(theirs[query]["ndcg_cut_5"])
    assert cell.values["recall"][-1] == 0, "a query that the run lacks got nothing"
    assert cell.returned == pytest.approx(5 * 11 / 12)


def test_run_of_a_decoder_measures_as_the_decoder(setting):
    space, queries, qrels = setting
    decoders = [engine.Decoder(engine.make("mmr", relevance_weight=w)) for w in (0.3, 1.0)]
    metrics = ("recall", "ndcg", "ilad", "cos_sum")
    points = {p.label: p for p in engine.sweep(decoders, space, queries, qrels, 6, metrics)}
    for decoder, run in zip(decoders, decode_runs(decoders, space, queries, 6), strict=True):
        mine, theirs = run.build_cell(space, queries, qrels, 6, metrics), points[decoder.label]
        assert torch.equal(
            run.build_ranking(space, queries.ids, 6).index, engine.decode(decoder, space, queries, 6).index
        )
        for metric in metrics:
            np.testing.assert_array_equal(mine.values[metric], theirs.values[metric])


def test_a_run_stands_beside_decoders(setting):
    space, queries, qrels = setting
    decoders = [engine.Decoder(engine.make("mmr", relevance_weight=w)) for w in (0.3, 1.0)]
    points = list(engine.sweep(decoders, space, queries, qrels, 5, ("recall", "ilad")))
    ours = RankedRun("ours", decode_runs(decoders[:1], space, queries, 5)[0].documents)
    points.append(ours.build_cell(space, queries, qrels, 5, ("recall", "ilad")))
    assert short_names(points) == ("MMR · λ 0.3", "MMR · λ 1", "run ours"), "scorers still go without saying"
    (row,) = [r for r in engine.compare(points, "recall", "MMR · λ 0.3", 5) if r.name == "run ours"]
    assert row.difference == 0 and row.wins.tie == 12
    assert "run ours" in {p.name for p in engine.frontier(points, k=5).points}
    with pytest.raises(engine.ParamError):
        decoder_from_json(points[-1].decoder)


def test_run_key_identifies_its_contents(setting):
    space, queries, qrels = setting
    first, equal_run, other_run = (RankedRun(n, {"q0": d}) for n, d in (("a", ("d1",)), ("a", ("d1",)), ("a", ("d2",))))
    keys = [run.build_cell(space, queries, qrels, 5, ("recall",)).key for run in (first, equal_run, other_run)]
    assert keys[0] == keys[1] != keys[2]


@pytest.mark.threat("a run of another corpus", "refused above half of what it lists, noted below")
def test_a_run_mostly_of_other_documents_is_refused(tmp_path):
    def listed(*documents):
        lines = "".join(f"q Q0 {doc} {rank} 1 tag\n" for rank, doc in enumerate(documents))
        file = tmp_path / "run.txt"
        file.write_text(lines + "other Q0 a 0 1 tag\nother Q0 b 1 1 tag\n")  # of a query that nobody asks
        return read_run(file, ["a", "b"], ["q"])

    assert "1 document of run.txt is not in the corpus" in " ".join(map(str, listed("a", "x").notices))
    with pytest.raises(DataError, match=r"run.txt: 67% of what it lists .* \(2 of 3; first: 'x', 'y'\) is not in"):
        listed("a", "x", "y")
