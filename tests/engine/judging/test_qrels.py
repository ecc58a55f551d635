"""Several people's judgements as one, their agreement against its definition, and the folder that is written."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import engine
from engine.judging.log import GRADES, Judged, Judgement
from engine.judging.qrels import compute_agreement, export_judgements, extend_qrels, merge_grades


def judge(*rows, texts=None):
    judgements = tuple(Judgement(query=q, document=d, grade=g, person=p) for q, d, g, p in rows)
    return Judged(judgements, texts or {})


def test_several_people_give_the_median_and_the_lower_of_two():
    rows = [("q", "two", g, f"p{g}") for g in (0, 3)] + [("q", "three", g, f"p{g}") for g in (0, 2, 3)]
    rows += [("q", "four", g, f"p{n}") for n, g in enumerate((3, 2, 1, 0))]
    rows += [("q", "skipped", None, "a"), ("r", "one", 2, "a"), ("r", "one", None, "b")]
    assert merge_grades(judge(*rows)).grades == {"q": {"two": 0, "three": 2, "four": 1}, "r": {"one": 2}}


def kappa(pairs, weight):
    """Cohen's κ by its definition: 1 − weighted disagreement over what chance gives."""
    n = len(pairs)
    first, second = Counter(a for a, _ in pairs), Counter(b for _, b in pairs)
    seen = sum(weight(a, b) for a, b in pairs) / n
    chance = sum(weight(a, b) * first[a] * second[b] for a in GRADES for b in GRADES) / n**2
    return 1 - seen / chance


@given(st.lists(st.tuples(st.sampled_from(GRADES), st.sampled_from(GRADES)), min_size=1, max_size=40))
def test_agreement_is_cohens_kappa(pairs):
    rows = [("q", f"d{n}", g, p) for n, pair in enumerate(pairs) for g, p in zip(pair, ("ann", "bob"), strict=True)]
    rows += [("q", "alone", 1, "ann"), ("q", "passed", 2, "ann"), ("q", "passed", None, "bob")]
    (agreement,) = compute_agreement(judge(*rows))
    assert (agreement.first, agreement.second, agreement.pairs) == ("ann", "bob", len(pairs))
    assert agreement.same == sum(a == b for a, b in pairs)
    if len({grade for pair in pairs for grade in pair}) == 1:
        assert agreement.kappa is agreement.weighted is None
        return
    assume(len(pairs) > 1)
    assert agreement.kappa == pytest.approx(kappa(pairs, lambda a, b: a != b))
    assert agreement.weighted == pytest.approx(kappa(pairs, lambda a, b: (a - b) ** 2))


def test_agreement_of_one_person_is_empty():
    assert compute_agreement(judge(("q", "d", 1, "ann"), ("q", "e", 1, "bob"))) == ()


CORPUS = engine.Corpus(("d1", "d2"), ("one", "two"), ("", "T"), "docs")
QUERIES = engine.Queries(("k1", "k2"), ("known one", "known two"))


@pytest.fixture
def judgements():
    rng = np.random.default_rng(0)
    rows = [(f"q{n}", doc, int(rng.integers(4)), "ann") for n in range(20) for doc in CORPUS.ids]
    return judge(*rows, ("k1", "d1", 3, "bob"), texts={f"q{n}": f"text {n}" for n in range(20)})


def test_the_folder_is_read_again_with_its_corpus(tmp_path, judgements):
    folder = export_judgements(judgements, tmp_path / "out", QUERIES, corpus=CORPUS)
    data = engine.load_dataset(folder)
    assert data.corpus.digest == CORPUS.digest and data.notices == ()
    assert dict(zip(data.queries.ids, data.queries.texts, strict=True)) == {
        **judgements.texts, "k1": "known one",
    }  # fmt: skip
    assert set(data.qrels) == {"dev", "test"}
    assert not set(data.qrels["dev"].grades) & set(data.qrels["test"].grades)
    grades = {**data.qrels["dev"].grades, **data.qrels["test"].grades}
    assert engine.Qrels(grades) == merge_grades(judgements)


@pytest.mark.parametrize("source", ["table", "folder"])
def test_the_folder_judges_a_corpus_that_lies_elsewhere(tmp_path, judgements, source):
    folder = export_judgements(judgements, tmp_path / "out", QUERIES)
    assert not (folder / "corpus.jsonl").exists()
    if source == "table":
        (tmp_path / "docs.csv").write_text("id,text\nd1,one\nd2,two\n")
        corpus = tmp_path / "docs.csv"
    else:
        corpus = export_judgements(judge(("q0", "d1", 0, "x"), texts={"q0": "other"}), tmp_path / "c", corpus=CORPUS)
    data = engine.load_dataset(corpus, qrels=str(folder))
    assert data.corpus.ids == CORPUS.ids and len(data.queries) == 21
    assert sum(qrels.count for qrels in data.qrels.values()) == 41
    assert data.queries.texts[data.queries.position["q0"]] == "text 0"


def test_more_judging_moves_no_query_to_the_other_split(tmp_path, judgements):
    fewer = Judged(judgements.judgements[:20], judgements.texts)
    first, after = (
        engine.load_dataset(export_judgements(j, tmp_path / name, QUERIES, corpus=CORPUS)).qrels
        for j, name in ((fewer, "a"), (judgements, "b"))
    )
    for split in first:
        assert set(first[split].grades) <= set(after[split].grades)


def test_unexportable_judgements_raise_error(tmp_path, judgements):
    with pytest.raises(engine.DataError, match="nothing is judged yet"):
        export_judgements(Judged(), tmp_path / "out")
    with pytest.raises(engine.DataError, match=r"dataset_queries must hold every judged query .* 'k1'"):
        export_judgements(judgements, tmp_path / "out")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").write_text("")
    with pytest.raises(engine.DataError, match="must be a new or an empty folder"):
        export_judgements(judgements, tmp_path / "full", QUERIES)


def test_one_split_alone_is_written_where_the_other_is_empty(tmp_path):
    judged = judge(("q", "d1", 1, "ann"), texts={"q": "text"})
    data = engine.load_dataset(export_judgements(judged, tmp_path / "out", corpus=CORPUS))
    assert len(data.qrels) == 1 and data.notices == ()


def test_extended_qrels_keep_splits_and_grades_and_divide_new_queries(tmp_path):
    known = {"train": engine.Qrels({"k1": {"d1": 7}}, 2), "test": engine.Qrels({"k2": {"d1": -1, "d2": 1}}, 2)}
    judged = judge(("k2", "d2", 3, "ann"), ("k1", "d2", 0, "ann"), *[(f"q{n}", "d1", 1, "ann") for n in range(9)])
    splits = extend_qrels(known, judged)
    assert splits["train"].grades == {"k1": {"d1": 7, "d2": 0}}
    assert splits["test"].grades["k2"] == {"d1": -1, "d2": 3}, "a person's grade replaces a file's"
    new = {query for split in ("dev", "test") for query in splits[split].grades if query.startswith("q")}
    assert new == {f"q{n}" for n in range(9)} and splits["dev"].grades.keys() <= new
    assert extend_qrels({}, judge(("q", "d", 1, "ann"))).keys() <= {"dev", "test"}
    texts = engine.Queries(tuple(splits["dev"].grades.keys() | splits["test"].grades.keys() | {"k1"}), ("x",) * 11)
    folder = export_judgements(judged, tmp_path / "out", texts, corpus=CORPUS, dataset_qrels=known)
    assert {split: dict(qrels.grades) for split, qrels in engine.load_dataset(folder).qrels.items()} == {
        split: dict(qrels.grades) for split, qrels in splits.items()
    }


def test_extended_qrels_keep_the_level_and_the_kind_of_each_split():
    known = {"train": engine.Qrels({"k1": {"d1": 3}}, 2, "pooled"), "test": engine.Qrels({"k2": {"d1": 0}}, 3)}
    splits = extend_qrels(known, judge(("k1", "d2", 1, "ann"), ("k2", "d2", 3, "ann")))
    assert [(splits[name].relevant_from, splits[name].judgements) for name in known] == [(2, "pooled"), (3, "auto")]
    assert splits["train"].relevant("k1") == {"d1"} and splits["test"].relevant("k2") == {"d2"}


@pytest.mark.parametrize("level,kind", [(2, "auto"), (1, "complete"), (3, "pooled")])
def test_new_splits_of_judged_queries_count_as_all_others(level, kind):
    rule = level, kind
    known = {"train": engine.Qrels({"k1": {"d1": 3}}, *rule), "test": engine.Qrels({"k2": {"d1": 1}}, *rule)}
    splits = extend_qrels(known, judge(*[(f"q{n}", "d1", 1, "ann") for n in range(9)]))
    assert splits.keys() == {"train", "test", "dev"}
    assert {(qrels.relevant_from, qrels.judgements) for qrels in splits.values()} == {rule}


def test_a_new_split_beside_splits_that_count_differently_raises_error(tmp_path):
    known = {"train": engine.Qrels({"k1": {"d1": 3}}, 2), "test": engine.Qrels({"k2": {"d1": 1}}, 2, "complete")}
    new_queries = judge(*[(f"q{n}", "d1", 1, "ann") for n in range(9)])
    pattern = r"'dev'.*train: relevant_from=2, judgements='auto'; test: .*'complete'\. Give all splits one"
    with pytest.raises(engine.DataError, match=pattern):
        extend_qrels(known, new_queries)
    with pytest.raises(engine.DataError, match=pattern):
        export_judgements(new_queries, tmp_path / "out", QUERIES, corpus=CORPUS, dataset_qrels=known)
    assert not (tmp_path / "out").exists()
    # Queries that join existing splits need no new rule.
    both = {"dev": known["train"], "test": known["test"]}
    assert extend_qrels(both, new_queries)["test"].judgements == "complete"
