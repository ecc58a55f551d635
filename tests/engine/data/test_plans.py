"""Hops of questions: read from plans, judged by their tools, and never told them."""

import json

import pytest

import engine
from engine.data.beir import write_beir
from engine.data.plans import expand_plans, has_plans
from engine.errors import DataError
from engine.values import Corpus, Dataset, Qrels, Queries

STEPS = [
    {"step": "1. look around", "tool": "No tool required"},
    {"step": "1.1 make it", "tool": "zz_make(path='a', text='b')"},
    {"step": "1.2 send it", "tool": "zz_send"},
    {"step": "1.3 make another", "tool": "zz_make()"},
    {"step": "1.4 call zz_send", "tool": "zz_send()"},
]


@pytest.fixture
def folder(tmp_path):
    corpus = Corpus(("zz_make", "zz_send"), ("makes a thing", "sends a thing"))
    queries = Queries(("a", "b", "c"), ("make and send", "just send", "nothing"))
    qrels = {"dev": Qrels({"a": {"zz_make": 1, "zz_send": 1}}), "test": Qrels({"b": {"zz_send": 1}, "c": {}})}
    where = write_beir(Dataset(corpus, queries, qrels), tmp_path / "set")
    plans = {"a": STEPS, "b": STEPS[2:3], "c": STEPS[:1]}
    lines = [json.loads(line) for line in (where / "queries.jsonl").read_text().splitlines()]
    with_plans = [line | {"metadata": {"plan": plans[line["_id"]]}} for line in lines]
    (where / "queries.jsonl").write_text("\n".join(map(json.dumps, with_plans)) + "\n\n")
    return where


def test_hops_are_the_steps_with_a_tool_of_the_corpus(folder):
    assert has_plans(folder)
    expanded = expand_plans(engine.load_dataset(folder), folder)
    assert expanded.hops == {"a": ("a/1", "a/2", "a/3"), "b": ("b/0",)}
    assert expanded.dataset.queries.ids == ("a/1", "a/2", "a/3", "b/0")
    assert expanded.dataset.qrels["dev"].grades == {"a/1": {"zz_make": 1}, "a/2": {"zz_send": 1}, "a/3": {"zz_make": 1}}
    assert expanded.dataset.qrels["test"].grades == {"b/0": {"zz_send": 1}}
    assert (
        'task:"make and send"' in expanded.dataset.queries.texts[0]
        and '"1.1 make it"' in expanded.dataset.queries.texts[0]
    )


def test_the_answer_is_never_in_what_is_embedded(folder):
    dataset = expand_plans(engine.load_dataset(folder), folder).dataset
    assert not any("zz_" in text for text in dataset.queries.texts) and not dataset.queries.metadata


def test_sets_without_plans_say_what_a_plan_is(folder, tmp_path):
    dataset = engine.load_dataset(folder)
    unplanned = write_beir(dataset, tmp_path / "plain")
    assert not has_plans(unplanned) and not has_plans(tmp_path / "nowhere")
    with pytest.raises(DataError, match=r"has no plans: hops are the steps of metadata.plan whose tool is a document"):
        expand_plans(dataset, unplanned)
    with pytest.raises(DataError, match=r"hops are read from the plans in queries.jsonl of a BEIR folder; 'numpy-api'"):
        expand_plans(dataset, "numpy-api")
    lines = (folder / "queries.jsonl").read_text().replace('"step": "1.1 make it", ', "")
    (folder / "queries.jsonl").write_text(lines)
    with pytest.raises(DataError, match=r"line 1 of queries.jsonl: metadata.plan must be a list of"):
        expand_plans(dataset, folder)
    (folder / "queries.jsonl").write_text(lines + "{")
    assert not has_plans(folder)
