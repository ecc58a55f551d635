"""A corpus whose texts try to be markup, on which people vote, and Explore with one of its documents open."""

import time
from dataclasses import replace

import numpy as np
import torch

import engine
from dashboard.explore.document_panel import OpenDocument
from dashboard.services import feedback
from dashboard.services.source import Loaded, Source
from engine import orag
from engine.values import Dataset
from support.pages import load, run, screen

N, D = 40, 16
HOSTILE = (
    "<img src=x onerror=alert(1)>",
    "![x](http://192.0.2.1/x.png)",
    "$\\href{javascript:alert(1)}{y}$",
    ":red[z]",
)


def vectors(n=N, seed=3):
    rows = np.random.default_rng(seed).standard_normal((n, D)) + 1
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype("float32")


def corpus(n=N, changed=()):
    ids = tuple(f"d{i} {HOSTILE[i % 4]}" for i in range(n))
    documents = engine.Corpus(ids, tuple(f"{HOSTILE[i % 4]} text {i}{'!' * (i in changed)}" for i in range(n)))
    space = engine.Space(documents, engine.Embeddings(ids, torch.from_numpy(vectors(n))), "cpu")
    return Loaded(source=Source("made"), dataset=Dataset(documents, engine.Queries((), ())), space=space, queries=None)


def thumb(row=3, up=False, person="ana", query=7):
    return lambda now: orag.thumb(now, vectors()[query], row, up=up, person=person)


def add(loaded, make):
    """The session after one more event on the corpus; make: the event, of the session as it is by then."""
    return feedback.open_or_create_log(loaded).write(lambda now: orag.feed(now, replace(make(now), time=time.time())))


def read(app, loaded, row):
    """Explore with this document open."""
    corpus = loaded.space.corpus
    app.session_state["reading"] = OpenDocument(corpus.digest, corpus.passages[0], row, "top_k")
    return run(app)


def explore(folder, row=5, **session):
    """Explore with a document open; returns the session and the corpus."""
    source = Source(str(folder))
    app, loaded = screen("explore", source, decoders=["top_k", "mmr"], **session), load(source)
    return read(app, loaded, row), loaded
