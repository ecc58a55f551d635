"""Every judged set reads into exactly the counts that its README states."""

import re

import pytest

from engine.data.readers import load_dataset
from support.judged_sets import DATA, SETS, needs_data

pytestmark = needs_data


def _readme(name):
    return (DATA / name / "README.md").read_text(encoding="utf-8")


def _number(pattern, text):
    return int(re.search(pattern, text)[1])


def _table(text):
    """{split: (queries, judgements)} of the table of splits."""
    rows = re.findall(r"^\| (\w+) \| (\d+) \|.*\| (\d+) \|$", text, re.M)
    return {split: (int(queries), int(judgements)) for split, queries, judgements in rows}


@pytest.mark.parametrize("name", SETS)
def test_counts_are_those_of_the_readme(name):
    text, dataset = _readme(name), load_dataset(DATA / name)
    assert len(dataset.corpus) == _number(r"\|corpus\| = (\d+)", text)
    assert dataset.corpus.name == name
    # Where only some splits of the source were taken, the README's head gives the queries that are left.
    part = re.search(r"^The .* claims \((\d+) queries\)", text, re.M)
    assert len(dataset.queries) == (int(part[1]) if part else _number(r"queries in queries\.jsonl = (\d+)", text))
    stated = _table(text)
    found = {split: (len(qrels), qrels.count) for split, qrels in dataset.qrels.items()}
    assert found and found == {split: counts for split, counts in stated.items() if part is None or split in found}


@pytest.mark.parametrize("name", SETS)
def test_judgements_name_what_exists_and_every_text_is_text(name):
    dataset = load_dataset(DATA / name)
    copies = len(dataset.corpus) - len(set(zip(dataset.corpus.titles, dataset.corpus.texts, strict=True)))
    assert [notice.count for notice in dataset.notices] == [copies] * (copies > 0), "nothing else is amiss"
    assert not any('"metadata"' in text for text in (*dataset.corpus.passages, *dataset.queries.texts))
    for split, qrels in dataset.qrels.items():
        assert len(dataset.judged(split)) == len(qrels)
        assert all(qrels.relevant(query) <= dataset.corpus.position.keys() for query in qrels.grades)


@pytest.mark.parametrize("name", SETS)
def test_resplits_part_the_judged_queries(name):
    if not (DATA / name / "qrels_resplit").is_dir():
        pytest.skip("no resplit")
    stated = re.search(r"60/20/20 = (\d+)/(\d+)/(\d+) queries", _readme(name))
    official, resplit = load_dataset(DATA / name).qrels, load_dataset(DATA / name, qrels="qrels_resplit").qrels
    assert list(resplit) == ["train", "dev", "test"]
    assert [len(qrels) for qrels in resplit.values()] == [int(count) for count in stated.groups()]
    together = {query: grades for qrels in resplit.values() for query, grades in qrels.grades.items()}
    assert together == {query: grades for qrels in official.values() for query, grades in qrels.grades.items()}


def test_aspects_cover_the_judged_documents():
    if "perspectrum" not in SETS:
        pytest.skip("perspectrum is not here")
    dataset = load_dataset(DATA / "perspectrum")
    for qrels in dataset.qrels.values():
        for query in qrels.grades:
            assert frozenset().union(*dataset.aspects[query].values()) == qrels.relevant(query)
