"""Queries that are documents: the control on Trade-off and Tune, what is measured by it, links, other corpora."""

from dataclasses import replace

import pytest

import engine
from dashboard.services import sweeps
from dashboard.services.source import Source
from dashboard.session import decoders
from dashboard.session.address import LINK_KEY
from dashboard.session.link import State, format_state
from dashboard.session.restore import parse_link
from engine.decoder import Decoder
from engine.stages import make
from support import pages
from support.draws import deepen

KEY = decoders.OWN_DOCUMENTS_KEY
DECODERS = tuple(Decoder(make(name)) for name in ("top_k", "mmr"))
WORDS = ("red", "green", "blue", "sour", "sweet", "ripe")
TEXTS = [f"{first} {second} fruit" for first in WORDS for second in WORDS if first != second]
RULES = [(decoders.SAME_TEXT, None, 4), (decoders.SAME_ID, True, 6), (decoders.KEEP_OWN, False, 0)]
"""Choice, `without_self` of a decoder, and how many of the 6 queries count as documents."""


def write_source(folder, *, shares_ids=True):
    """Documents of three pages; 4 of the 6 judged queries have a document's id and text, 2 its id alone."""
    # A corpus of its own for each test: what another one measured would be read from the store.
    texts = [f"{text} {folder.parent.name}" for text in TEXTS]
    corpus = [{"_id": f"d{n}", "text": text, "metadata": {"url": f"u{n % 3}"}} for n, text in enumerate(texts)]
    prefix = "d" if shares_ids else "q"
    queries = [{"_id": f"{prefix}{n}", "text": texts[n] if n < 4 else "other fruit"} for n in range(6)]
    lines = "".join(f"{prefix}{n}\td{n + step}\t1\n" for n in range(6) for step in (0, 6, 7))
    return Source(str(pages.datafiles.beir(folder, corpus, queries, qrels__test=lines)), metadata=("url",))


@pytest.fixture
def source(tmp_path):
    return write_source(tmp_path / "fruit")


def open_page(name, source, rule=decoders.SAME_TEXT, **session):
    pages.load(source)
    state = State(source=source, k=3, decoders=DECODERS, own_documents=rule, tradeoff=session.pop("tradeoff", {}))
    return pages.draw_page(pages.SCREENS / f"{name}.py", source=source, **{LINK_KEY: format_state(state)}, **session)


@pytest.mark.parametrize("rule,without_self,count", deepen(RULES, RULES[-1:]))
def test_tradeoff_measures_by_the_rule_and_its_link_has_it(source, rule, without_self, count):
    app = pages.finish_jobs(open_page("tradeoff", source, rule))
    assert app.selectbox(key=KEY).value == rule
    cells = pages.job_of(app, sweeps.SWEEP_PURPOSE).result
    assert {cell.decoder.get("without_self") for cell in cells} == {without_self}
    notice = f"{count} of 6 queries are documents of the corpus, with the same id{'' if without_self else ' and text'}:"
    assert (notice in pages.texts(app)) == bool(count)
    (curve,) = [curve for curves in sweeps._CURVES.values() for curve in curves if is_of(curve, cells, without_self)]
    assert curve.limits == ({} if without_self is None else {"without_self": without_self})
    state = parse_link(pages.link_of(app)).state
    assert state.own_documents == rule and all(decoder.without_self is None for decoder in state.decoders)
    assert ("own_documents" in format_state(state)) == (rule != decoders.SAME_TEXT)


def is_of(curve, cells, without_self):
    """Whether a curve is of the corpus of cells, and of this rule."""
    is_same = curve.provenance["corpus"] == cells[0].provenance["corpus"]
    return is_same and curve.limits.get("without_self") is without_self


@pytest.mark.deep
def test_another_rule_is_measured_anew(source):
    app, loaded, recalls = pages.finish_jobs(open_page("tradeoff", source)), pages.load(source), {}
    queries, qrels = loaded.dataset.judged("test"), loaded.dataset.qrels["test"]
    for rule, without_self, _ in RULES:
        app.selectbox(key=KEY).set_value(rule)
        app = pages.finish_jobs(pages.run(app))
        recalls[rule] = pages.job_of(app, sweeps.SWEEP_PURPOSE).result[0].mean["recall"]
        ranking = engine.decode(Decoder(make("top_k"), without_self=without_self), loaded.space, queries, 3)
        measured = engine.measure(ranking, loaded.space, queries, qrels, 3, ("recall",), without_self=without_self)
        assert recalls[rule] == pytest.approx(measured.mean["recall"])
    # A query that is a document finds itself, which is judged relevant, first.
    assert recalls[decoders.KEEP_OWN] > recalls[decoders.SAME_TEXT]


def test_tune_has_the_control_and_tunes_by_it(source):
    app = open_page("tune", source, **{"tune.method": "mmr", "tune.aim": "maximise", "tune.metric": "recall"})
    assert "4 of 6 queries are documents of the corpus" in pages.texts(app)
    app.selectbox(key=KEY).set_value(decoders.KEEP_OWN)
    app = pages.press_and_finish(pages.run(app), "tune.start", "tune")
    (outcome,) = app.session_state["tune.outcomes"].values()
    assert outcome.tuned.decoder.limits == outcome.tuned.baseline.limits == {"without_self": False}
    assert outcome.request.as_json()["without_self"] is False and "queries are documents" not in pages.texts(app)


@pytest.mark.parametrize("rule,is_left_out", [(decoders.SAME_TEXT, True), (decoders.KEEP_OWN, False)])
def test_explore_answers_by_the_rule(source, rule, is_left_out):
    app = open_page("explore", source, rule)
    assert ("This query is a document of the corpus, with the same id and text" in pages.texts(app)) == is_left_out
    # The first query is the first document.
    first_documents = [documents[0].startswith(TEXTS[0]) for documents in pages.sets(app)]
    assert first_documents == [not is_left_out] * 2


@pytest.mark.parametrize("page", ["tradeoff", "tune", "explore"])
def test_a_rule_of_another_corpus_falls_back_to_the_default(tmp_path, page):
    app = open_page(page, write_source(tmp_path / "other", shares_ids=False), decoders.KEEP_OWN)
    assert not app.exception and not [box for box in app.selectbox if box.key == KEY]
    assert app.session_state[KEY] == decoders.SAME_TEXT


def test_a_link_with_an_unknown_rule_is_remarked(source):
    reading = parse_link({**format_state(State(source=source)), "own_documents": "some"})
    assert reading.state.own_documents == decoders.SAME_TEXT and any(
        "own_documents" in text for text in reading.remarks
    )


@pytest.mark.deep
def test_sources_are_an_axis_and_an_aim_where_the_corpus_has_a_column(source):
    axes = {"tradeoff.x.judged": "unique_sources"}
    app = pages.finish_jobs(open_page("tradeoff", source, tradeoff=axes))
    assert app.selectbox(key="tradeoff.x.judged").value == "unique_sources"
    cells = pages.job_of(app, sweeps.SWEEP_PURPOSE).result
    assert all("source url" in cell.provenance and 0 < cell.mean["unique_sources"] <= 1 for cell in cells)
    assert parse_link(pages.link_of(app)).state.tradeoff == axes
    aims = {"tune.method": "mmr", "tune.aim": "maximise", "tune.metric": "unique_sources"}
    app = pages.press_and_finish(open_page("tune", source, **aims), "tune.start", "tune")
    (outcome,) = app.session_state["tune.outcomes"].values()
    assert outcome.request.source == "url" and outcome.tuned.decoder.limits == {}
    assert outcome.tuned.chosen.mean["unique_sources"] > 0


def test_sources_are_no_axis_without_a_column(source):
    app = open_page("tradeoff", replace(source, metadata=()), tradeoff={"tradeoff.x.judged": "unique_sources"})
    assert "Unique sources" not in app.selectbox(key="tradeoff.x.judged").options
    assert app.selectbox(key="tradeoff.x.judged").value == "ilad" and not app.exception
