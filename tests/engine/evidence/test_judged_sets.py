"""Judged sets: which queries choose and which report."""

import engine
from engine.data.beir import write_beir
from engine.evidence.judged_sets import MIN_TEST_QUERIES, JudgedSets


def judged_set(folder, sizes):
    """A set whose splits judge so many queries each, every query one document."""
    names = [f"{split}{row}" for split, size in sizes.items() for row in range(size)]
    queries = engine.Queries(tuple(names), tuple(f"about {name}" for name in names))
    qrels = {split: engine.Qrels({n: {"d": 1} for n in names if n.startswith(split)}) for split in sizes}
    return write_beir(engine.Dataset(engine.Corpus(("d",), ("all about it",)), queries, qrels), folder / "made")


def test_own_splits_stand_where_they_can_tell_and_all_queries_are_halved_where_not(tmp_path):
    own = JudgedSets(judged_set(tmp_path, {"dev": 3, "test": MIN_TEST_QUERIES}))["made"]
    assert {split: len(qrels.grades) for split, qrels in own.splits.items()} == {"dev": 3, "test": MIN_TEST_QUERIES}
    few = JudgedSets(judged_set(tmp_path / "few", {"train": 9, "dev": 3, "test": 4}))["made"]
    dev, test = (set(few.splits[split].grades) for split in ("dev", "test"))
    assert not dev & test and len(dev | test) == 16 and dev and test
