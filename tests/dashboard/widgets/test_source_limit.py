"""The limit per source on the pages that measure: their settings, their curves, what they refuse, and links."""

import pytest

from dashboard.services import sweeps
from dashboard.services.source import Source
from dashboard.session.address import LINK_KEY
from dashboard.session.link import State, format_state
from dashboard.session.restore import parse_link
from engine.decoder import Decoder
from engine.stages import make
from support import pages

LIMIT = {"per_source": 1, "source": "url"}
DECODERS = tuple(Decoder(make(name)) for name in ("top_k", "mmr", "nnn"))


@pytest.fixture
def source(tmp_path):
    """Documents of three pages, and judged queries."""
    words = ("red", "green", "blue", "sour", "sweet", "ripe")
    texts = [f"{first} {second} fruit" for first in words for second in words if first != second]
    corpus = [{"_id": f"d{n}", "text": text, "metadata": {"url": f"u{n % 3}"}} for n, text in enumerate(texts)]
    queries = [{"_id": word, "text": f"{word} fruit"} for word in words]
    lines = "".join(f"{word}\td{n}\t1\n" for word in words for n, text in enumerate(texts) if word in text)
    return Source(str(pages.datafiles.beir(tmp_path / "fruit", corpus, queries, qrels__test=lines)), metadata=("url",))


def open_page(name, source, **session):
    pages.load(source)
    state = State(source=source, k=3, decoders=DECODERS, per_source=1, source_column="url")
    return pages.draw_page(pages.SCREENS / f"{name}.py", source=source, **{LINK_KEY: format_state(state)}, **session)


def test_tradeoff_measures_with_the_limit_and_leaves_out_who_cannot_keep_it(source):
    app = pages.finish_jobs(open_page("tradeoff", source))
    job = pages.job_of(app, sweeps.SWEEP_PURPOSE)
    assert {cell.method for cell in job.result} == {"top_k", "mmr"}
    assert all(cell.label.endswith(" [1 per url]") for cell in job.result)
    assert "NNN chooses its documents together, and cannot keep to 1 per url" in pages.texts(app)
    (curve,) = (
        curve
        for curves in sweeps._CURVES.values()
        for curve in curves
        if curve.provenance["corpus"] == job.result[0].provenance["corpus"]
    )
    assert curve.limits == LIMIT
    back = parse_link(pages.link_of(app)).state
    assert (back.per_source, back.source_column) == (1, "url")


def test_tune_has_the_control_and_tunes_with_the_limit(source):
    chosen = {"tune.method": "mmr", "tune.aim": "maximise"}
    app = open_page("tune", source, **chosen)
    assert app.number_input(key="per_source").value == 1 and app.selectbox(key="source_column").value == "url"
    app = pages.press_and_finish(app, "tune.start", "tune")
    (outcome,) = app.session_state["tune.outcomes"].values()
    assert outcome.tuned.decoder.limits == outcome.tuned.baseline.limits == LIMIT
    assert outcome.tuned.curve is not None and outcome.tuned.curve.limits == LIMIT
    app.number_input(key="per_source").set_value(2)
    back = parse_link(pages.link_of(pages.run(app))).state
    assert (back.per_source, back.source_column) == (2, "url")


def test_tune_refuses_a_decoder_that_cannot_keep_the_limit_and_leaves_it_out_of_all(source):
    app = open_page("tune", source, **{"tune.method": "nnn"})
    assert "got nnn, which chooses its documents together" in pages.texts(app)
    assert app.button(key="tune.start").disabled
    app.selectbox(key="tune.method").set_value("all")
    app = pages.run(app)
    assert "cannot keep to 1 per url" in pages.texts(app) and not app.button(key="tune.start").disabled
