"""One part of Explore drawn by itself, over documents that try to be markup."""

import numpy as np
import torch

import engine
from dashboard.charts.palette import method_style
from dashboard.explore.document_panel import OpenDocument
from dashboard.services.source import Loaded, Source
from dashboard.session.answers import Answer
from dashboard.session.query import Question
from engine.values import Dataset
from support import pages

HOSTILE = ("<img src=x onerror=alert(1)>", "![x](http://192.0.2.1/x.png)", "$\\href{javascript:alert(1)}{y}$", "`z`")
NAMES = list(engine.methods("selector"))


def part():
    import streamlit as st

    from dashboard.explore import page

    view, loaded, question, answers, baseline = st.session_state["given"]
    page.draw_tiles(loaded, question, answers, answers[baseline], {}, False)
    page.VIEWS[view].draw_options(answers, baseline)
    page.VIEWS[view].draw(loaded, question, answers, baseline)


def corpus(n=30, d=5, negative=False):
    """Documents that try to be markup, every seventh an exact duplicate of its neighbour."""
    draw = np.random.default_rng(5)
    rows = draw.normal(size=(n, d)) + (0 if negative else 1)
    rows[1::7] = rows[: len(rows[1::7]) * 7 : 7]
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    texts = tuple(f"{HOSTILE[i % 4]} document {i}" for i in range(n))
    ids = tuple(f"id{i}" for i in range(n))
    titles = tuple(f"{HOSTILE[i % 4]} title {i}" if i % 2 else "" for i in range(n))
    documents = engine.Corpus(ids, texts, titles)
    space = engine.Space(documents, engine.Embeddings(ids, torch.tensor(rows, dtype=torch.float32)), "cpu")
    return Loaded(
        source=Source("made"), dataset=Dataset(documents, engine.Queries(("q",), ("words",))), space=space, queries=None
    )


def question_of(loaded, k=6, depth=None, judged=True):
    vector = loaded.space.vectors[:3].sum(0)
    qrels = engine.Qrels({"q": {"id0": 1, "id9": 1, "id20": 2, "gone": 1}}) if judged else None
    return Question("q", "words", vector / vector.norm(), qrels, k, depth)


def answers_of(loaded, question, names=("top_k", "mmr"), **params):
    """Decode with each selector; params: their parameters, by name."""
    query = engine.Embeddings(("q",), question.vector.unsqueeze(0))
    answers = {}
    for name in names:
        stage = engine.make(name, **params.get(name, {}))
        decoder = engine.Decoder(select=stage, depth=question.depth)
        ranking = engine.decode(decoder, loaded.space, query, k=question.k)
        answers[name] = Answer(name, decoder, ranking, 0.001)
    return answers


def draw_view(view, loaded, question, answers, **session):
    """Draw the tiles of these answers, and a view by its name."""
    app = pages.draw_page(part, given=(view, loaded, question, answers, NAMES[0]), **session)
    pages.assert_plain(app, *HOSTILE)
    return app


def read_reasons(app):
    """Return the reading drawer's line on each decoder; none while it is closed."""
    signs = tuple(f"{method_style(name).sign} " for name in NAMES)
    return [t.value.splitlines()[0] for t in app.text if t.value.startswith(signs) and ". " in t.value]


def reading(loaded, row=0):
    return OpenDocument(loaded.space.corpus.digest, "words", row)
