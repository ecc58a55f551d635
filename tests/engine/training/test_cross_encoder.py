"""A cross-encoder learns to rerank: documents of a query's topic are told apart by one word, which it has to find."""

import json
import os
import random
import socket
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch

import engine
from engine.data.beir import write_beir
from engine.data.models import rerankers
from engine.params import params_of
from engine.progress import Reporter
from engine.training import cross_encoder as own
from support.cli import run
from support.parameters import invalid_values
from support.random_texts import space_of
from support.tiny_models import tiny_cross_encoder
from support.training import StopAfter, quality, restrict

TOPICS, EACH = 40, 6
QUICK = {"depth": EACH, "hard": 5, "sampled": 2, "rate": 2e-3, "batch": 16, "epochs": 2}


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    return str(tiny_cross_encoder(tmp_path_factory.mktemp("tiny"), seed=1))


@pytest.fixture(scope="module")
def data():
    """(corpus, queries, qrels): a query is the name of a topic; of its six documents the one with zz is relevant."""
    places = np.random.default_rng(0).integers(EACH, size=TOPICS)
    rows = {
        f"d{i}.{j}": f"t{i} {'zz zz zz' if j == places[i] else 'qq qq qq'} {j}"
        for i in range(TOPICS)
        for j in range(EACH)
    }
    queries = engine.Queries(tuple(f"q{i}" for i in range(TOPICS)), tuple(f"t{i}" for i in range(TOPICS)))
    judged = engine.Qrels({f"q{i}": {f"d{i}.{places[i]}": 1} for i in range(TOPICS)})
    qrels = {"train": restrict(judged, queries.ids[:30]), "dev": restrict(judged, queries.ids[30:])}
    return engine.Corpus(tuple(rows), tuple(rows.values())), queries, qrels


@pytest.fixture(scope="module")
def trained(tiny, data, tmp_path_factory):
    """The folder and what `watch` was given, without a connection or a file elsewhere."""
    looks, connections = [], []
    out, folder = tmp_path_factory.mktemp("trained") / "model", tmp_path_factory.mktemp("here")
    state, was = set(os.environ), os.getcwd()
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr(socket.socket, "connect", lambda _, where: connections.append(where))
        patch.setattr(socket, "getaddrinfo", lambda *where, **_: connections.append(where))
        assert engine.train_cross_encoder(tiny, *data, out=out, watch=looks.append, **QUICK) == out
    assert not connections and os.getcwd() == was and not list(folder.iterdir())
    assert not {name for name in set(os.environ) - state if "WANDB" in name or "TRACKIO" in name}
    return out, looks


def dev_ndcg(model, data):
    corpus, queries, qrels = data
    space = space_of(corpus, torch.ones(len(corpus), 1))
    words = engine.Embeddings(queries.ids, torch.ones(TOPICS, 1), None, queries.texts)
    rerank = engine.make("cross_encoder", model=str(model))
    decoder = engine.Decoder(engine.make("top_k"), engine.make("bm25"), rerank, depth=EACH)
    return quality(decoder, space, (space, words, qrels), metrics=("ndcg",), k=10)["ndcg"]


def test_training_raises_dev_ndcg(data, trained, tiny):
    folder, looks = trained
    assert [look.epoch for look in looks] == [-1, 0, 1] and looks[0].loss is None and looks[1].loss > 0
    assert looks[0].ndcg < 0.7 and max(look.ndcg for look in looks) > looks[0].ndcg + 0.25
    assert dev_ndcg(tiny, data) == pytest.approx(looks[0].ndcg), "dev is measured as the decoder reranks"
    assert dev_ndcg(folder, data) == pytest.approx(max(look.ndcg for look in looks)), "what is written is the best"


def test_the_folder_is_a_model_in_safetensors_with_its_history(trained, tiny):
    from sentence_transformers import CrossEncoder

    folder, looks = trained
    names = {path.name for path in folder.rglob("*")}
    assert "model.safetensors" in names and not any(name.endswith((".bin", ".md", ".part")) for name in names)
    record = json.loads((folder / own.HISTORY_FILE).read_text("utf-8"))
    assert record["model"] == tiny and record["settings"]["depth"] == EACH and record["stopped"] == "all 2 epochs done"
    assert [look["ndcg"] for look in record["history"]] == [look.ndcg for look in looks]
    best = max(range(len(looks)), key=lambda i: looks[i].ndcg)
    assert record["best"] == looks[best].epoch
    pairs = [("t1", "t1 zz zz zz 3"), ("t1", "t1 qq qq qq 3")]
    theirs = CrossEncoder(str(folder), device="cpu", local_files_only=True).predict(pairs)
    ours = rerankers.load(str(folder), "cpu").score("t1", [text for _, text in pairs])
    assert np.allclose(theirs, ours, atol=1e-6) and ours[0] > ours[1]


@pytest.mark.deep
def test_same_seed_same_scores_and_no_global_randomness(tiny, data, trained, tmp_path):
    folder, looks = trained
    random.seed(3), np.random.seed(3), torch.manual_seed(3)
    state = random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state()
    again, second = [], []
    engine.train_cross_encoder(tiny, *data, out=tmp_path / "again", watch=again.append, **QUICK)
    assert (random.getstate(), np.random.get_state()[1].tolist()) == state[:2]
    assert torch.get_rng_state().equal(state[2]) and again == looks
    scores = [rerankers.load(str(f), "cpu").score("t7", ["t7 zz 1", "t7 qq 1"]) for f in (folder, tmp_path / "again")]
    assert scores[0] == scores[1]
    engine.train_cross_encoder(tiny, *data, out=tmp_path / "other", watch=second.append, seed=1, **QUICK)
    assert second != looks


def test_lists_learn_too_after_a_dense_first_stage(tiny, data, tmp_path):
    corpus, queries, qrels = data
    topics = torch.eye(TOPICS).repeat_interleave(EACH, 0) + 0.01 * torch.rand(TOPICS * EACH, TOPICS)
    space = space_of(corpus, topics)
    queries_by_topic = engine.Embeddings(queries.ids, torch.eye(TOPICS), None, queries.texts)
    looks, options = [], {**QUICK, "loss": "lists", "retrieve": "dense"}
    engine.train_cross_encoder(
        tiny, space, queries_by_topic, qrels, out=tmp_path / "lists", watch=looks.append, **options
    )
    assert max(look.ndcg for look in looks) > looks[0].ndcg + 0.2
    with pytest.raises(engine.ParamError, match="retrieve='dense' needs the corpus's embeddings"):
        engine.train_cross_encoder(tiny, *data, out=tmp_path / "no", **options)


@pytest.mark.deep
def test_a_model_without_a_head_gets_one_drawn_from_the_seed(tiny, data, tmp_path):
    from transformers import BertForSequenceClassification, BertTokenizer

    BertForSequenceClassification.from_pretrained(tiny).bert.save_pretrained(tmp_path / "bare")
    BertTokenizer.from_pretrained(tiny).save_pretrained(tmp_path / "bare")
    seen = []
    for i, seed in enumerate((0, 0, 1)):
        how = {**QUICK, "epochs": 1, "rate": 0.0, "watch": seen.append}
        engine.train_cross_encoder(str(tmp_path / "bare"), *data, out=tmp_path / f"{i}", seed=seed, **how)
    scores = [rerankers.load(str(tmp_path / f"{i}"), "cpu").score("t7", ["t7 zz 1"]) for i in range(3)]
    assert seen[0] == seen[2] and scores[0] == scores[1] != scores[2]


# Stopping and progress


def test_stopped_between_steps_it_keeps_the_best(tiny, data, trained, tmp_path, capfd):
    _, looks = trained
    capfd.readouterr()
    calls, seen = [], []

    class InEpoch1:
        def is_set(self):
            return any(label == "training" and done > 15 for done, _, label in calls)

    how = {"watch": seen.append, "progress": lambda *step: calls.append(step), "stop": InEpoch1()}
    folder = engine.train_cross_encoder(tiny, *data, out=tmp_path / "half", **how, **QUICK)
    assert capfd.readouterr() == ("", "")
    output = json.loads((folder / own.HISTORY_FILE).read_text("utf-8"))
    assert output["stopped"] == "stopped by hand in epoch 1" and seen == looks[:2]
    assert dev_ndcg(folder, data) == pytest.approx(max(look.ndcg for look in seen))
    steps = [(done, total) for done, total, label in calls if label == "training"]
    assert steps == [(i, steps[0][1]) for i in range(len(steps))] and len(steps) < steps[0][1]
    assert {label for *_, label in calls} == {"training", own.MINING, own.MEASURING}


@pytest.mark.parametrize("times", [0, 3])
def test_stopped_before_dev_was_measured_it_leaves_nothing(tiny, data, tmp_path, times):
    with pytest.raises(engine.Cancelled):
        engine.train_cross_encoder(tiny, *data, out=tmp_path / "none", stop=StopAfter(times), **QUICK)
    assert not (tmp_path / "none").exists()


def test_a_loss_that_is_no_number_ends_it(tiny, data):
    settings = own.Reranking(**{**QUICK, "rate": 1.0})
    reader = rerankers.load_unshared(tiny, "cpu")
    with torch.no_grad():
        reader.model.classifier.weight.fill_(float("nan"))
    lists = [("t1", ["t1 zz", "t1 qq"], [1.0, 0.0])] * 4
    ended = own.fit(reader, lists, settings, 0, lambda _: pytest.fail("no epoch"), Reporter())
    assert ended == "the loss was nan in epoch 0"


# What is learnt from


def test_negatives_are_hard_and_sampled_and_never_relevant(tiny, data, monkeypatch, tmp_path):
    corpus, queries, qrels = data
    seen = {}
    monkeypatch.setattr(own, "fit", lambda _, lists, *rest: seen.setdefault("lists", lists) and "over")
    options = {**QUICK, "hard": 3, "sampled": 2}
    engine.train_cross_encoder(tiny, *data, out=tmp_path / "seen", **options)
    assert len(seen["lists"]) == 30
    for query, documents, grades in seen["lists"]:
        assert grades == [1.0, *[0.0] * 5] and len(set(documents)) == 6
        assert documents[0].startswith(f"{query} zz")
        assert all(text.startswith(f"{query} qq") for text in documents[1:4]), "BM25 finds the topic"
    elsewhere = [text for query, documents, _ in seen["lists"] for text in documents[4:] if query not in text.split()]
    assert len(elsewhere) > 45, "what is sampled is of all topics"
    again = engine.Queries(queries.ids, ("T30  ", *queries.texts[1:]))
    seen.clear()
    engine.train_cross_encoder(tiny, corpus, again, qrels, out=tmp_path / "less", **options)
    assert len(seen["lists"]) == 29, "a query of train that has the text of one of dev is left out"


def test_bad_training_argument_raises_error(tiny, data, tmp_path):
    corpus, queries, qrels = data
    out = tmp_path / "out"
    shared = {**qrels, "dev": engine.Qrels({**qrels["dev"].grades, "q0": {"d0.0": 1}})}
    bare = engine.Embeddings(queries.ids, torch.ones(TOPICS, 1))
    nothing = {**qrels, "train": engine.Qrels({"q0": {"elsewhere": 1}})}
    blind = {**qrels, "dev": engine.Qrels({q: {"elsewhere": 1} for q in qrels["dev"].grades})}
    for args, message in (
        ((corpus, queries, shared), "'train' and 'dev' share 1 query"),
        ((corpus, bare, qrels), "vectors without their texts"),
        ((corpus, queries, nothing), "nothing to learn from"),
        ((corpus, queries, blind), "nothing to choose by"),
        ((list(corpus.texts), queries, qrels), "corpus must be an engine.Corpus or an engine.Space; got list"),
    ):
        with pytest.raises(engine.DataError, match=message):
            engine.train_cross_encoder(tiny, *args, out=out, **QUICK)
    for options, message in (
        ({"hard": 0, "sampled": 0}, "hard and sampled are both 0"),
        ({"gamma": 1}, "has no parameter gamma"),
        ({"seed": -1}, "seed must be"),
    ):
        with pytest.raises(engine.ParamError, match=message):
            engine.train_cross_encoder(tiny, *data, out=out, **options)
    with pytest.raises(engine.FrontierError, match="looks like a folder, and there is none"):
        engine.train_cross_encoder(str(tmp_path / "nowhere"), *data, out=out, **QUICK)
    target = tmp_path / "full"
    target.mkdir()
    (target / "letter").write_text("dear")
    with pytest.raises(engine.DataError, match="out must be a new or an empty folder"):
        engine.train_cross_encoder(tiny, *data, out=target, **QUICK)
    for param in params_of(own.Reranking):
        for value in invalid_values(param):
            with pytest.raises(engine.ParamError, match=param.name):
                own.Reranking(**{param.name: value})


@pytest.mark.parametrize("absent", ["datasets", "accelerate"])
def test_without_the_extra_it_says_what_to_install(tiny, data, tmp_path, monkeypatch, absent):
    monkeypatch.setitem(sys.modules, absent, None)
    with pytest.raises(engine.FrontierError, match=rf"needs {absent}.*pip install 'frontier-retrieval\[train\]'"):
        engine.train_cross_encoder(tiny, *data, out=tmp_path / "out", **QUICK)
    assert not (tmp_path / "out").exists()


def test_from_a_shell(tiny, data, tmp_path):
    folder, out = str(write_beir(engine.Dataset(*data), tmp_path / "set")), str(tmp_path / "out")
    args = ["train", "cross_encoder", "--data", folder, "--model", tiny, "--out", out, "--epochs", "1", "--depth", "6"]
    output = run(*args)
    assert "start" in output and "epoch 0    loss" in output and f"written: {out}" in output
    assert engine.make("cross_encoder", model=out).consent_needed(None) is None
    assert "out must be a new or an empty folder" in run(*args, fails=True)
    assert "--sampled" in run("train", "cross_encoder", "--help")


def test_settings_are_a_value():
    assert own.Reranking() == replace(own.Reranking(hard=2), hard=4)
