"""Query controls of the header: a limit per source, and queries that are documents of the corpus."""

import pytest

from dashboard.services.source import Source
from dashboard.session import query
from dashboard.session.address import LINK_KEY
from dashboard.session.link import State, format_state
from dashboard.session.restore import parse_link
from dashboard.session.tradeoff import PART_KEY, SYSTEM_PART
from dashboard.tuning import form
from dashboard.widgets import query_picker
from engine.decoder import Decoder
from engine.stages import make
from support import pages

DOCUMENTS = [
    ("a", "the red apple is sweet", "x"),
    ("b", "a red apple tastes sweet", "x"),
    ("c", "green apples are sour", "x"),
    ("d", "the blue sky", "y"),
    ("e", "a sweet red fruit", ""),
    ("f", "sour green fruit", ""),
]
DECODERS = tuple(Decoder(make(name)) for name in ("top_k", "mmr"))


@pytest.fixture
def source(tmp_path):
    """Write documents with a column url, and queries of which one is a document."""
    corpus = [{"_id": doc_id, "text": text, "metadata": {"url": url}} for doc_id, text, url in DOCUMENTS]
    queries = [{"_id": "a", "text": DOCUMENTS[0][1]}, {"_id": "q", "text": "sour fruit"}]
    judgements = {"qrels__test": "a\tb\t1\na\ta\t1\nq\tf\t1\n"}
    return Source(str(pages.datafiles.beir(tmp_path / "fruit", corpus, queries, **judgements)), metadata=("url",))


def open_explore(source, decoders=DECODERS, **state):
    pages.load(source)
    shown = State(source=source, k=6, decoders=decoders, **state)
    return pages.draw_page(pages.SCREENS / "explore.py", source=source, **{LINK_KEY: format_state(shown)})


def test_document_is_not_among_those_like_it(source):
    app = open_explore(source, way=query.SIMILAR, question="a")
    ranked_lists = pages.sets(app)
    assert ranked_lists and all(len(names) == 5 for names in ranked_lists)
    assert not any(DOCUMENTS[0][1] in names for names in ranked_lists)


def test_labelled_query_that_is_a_document_is_answered_without_it_and_says_so(source):
    app = open_explore(source, way=query.LABELLED, split="test", question="a")
    assert "answers are without it" in pages.texts(app)
    assert not any(DOCUMENTS[0][1] in names for names in pages.sets(app))
    assert "Missed by all" not in pages.texts(app), "the document is not relevant to itself"
    other = open_explore(source, way=query.LABELLED, split="test", question="q")
    assert "answers are without it" not in pages.texts(other) and len(pages.sets(other)[0]) == 6


@pytest.mark.parametrize("screen", ["tradeoff", "tune"])
def test_pages_that_measure_say_which_queries_are_documents(source, screen):
    # Two queries are too few to confirm on half of them.
    unconfirmed = {f"tune.report.{query.corpus_key(pages.load(source))}.test": form.NO_REPORT}
    shown_text = pages.texts(pages.draw_page(pages.SCREENS / f"{screen}.py", source=source, **unconfirmed))
    assert "1 of 2 queries is a document of the corpus" in shown_text and "left out of its own answer" in shown_text


def test_limit_per_source_is_kept_and_comes_back_by_link(source):
    limited = {"per_source": 1, "source_column": "url"}
    app = open_explore(source, way=query.LABELLED, split="test", question="q", **limited)
    by_text = {text: url or text for _, text, url in DOCUMENTS}
    for names in pages.sets(app):
        sources = [by_text[name] for name in names]
        assert len(sources) == 4 and len(set(sources)) == 4
    back = parse_link(pages.link_of(app)).state
    assert (back.per_source, back.source_column, back.decoders) == (1, "url", DECODERS)
    app.number_input(key="per_source").set_value(2)
    assert all(len(names) == 5 for names in pages.sets(pages.run(app)))


def test_selector_that_cannot_keep_the_limit_says_which_can(source):
    limited = {"per_source": 1, "source_column": "url"}
    decoders = (Decoder(make("top_k")), Decoder(make("nnn")))
    app = open_explore(source, decoders, way=query.LABELLED, split="test", question="q", **limited)
    assert "cannot keep to 1 per url" in pages.texts(app) and "Top-k, MMR" in pages.texts(app)
    assert len(pages.sets(app)) == 1


def test_limit_of_a_column_that_the_corpus_lacks_is_dropped_and_said(source):
    app = open_explore(source, way=query.LABELLED, split="test", question="q", per_source=1, source_column="author")
    assert "no column 'author' of sources" in pages.texts(app)
    assert app.number_input(key="per_source").value is None and len(pages.sets(app)[0]) == 6


def test_queries_without_judgements_are_not_called_labelled(tmp_path):
    corpus = [{"_id": doc_id, "text": text} for doc_id, text, _ in DOCUMENTS]
    folder = pages.datafiles.beir(tmp_path / "plain", corpus, [{"_id": "q", "text": "sour fruit"}])
    app = open_explore(Source(str(folder)))
    assert query_picker.UNLABELLED_TITLE in [block.proto.popover.label for block in app.get("popover")]


def test_clicks_that_bring_the_query_of_before_along_are_not_lost():
    app = pages.screen("tradeoff", **{PART_KEY: SYSTEM_PART})
    picker = next(box for box in app.selectbox if str(box.key).startswith("query."))
    count, first = len(picker.options), picker.value
    for step, index in ((1, 1), (1, 2), (1, 3), (-1, 2)):
        # A browser that has not drawn the last step yet sends the choice of before with the next click.
        app.selectbox(key=picker.key).set_value(first)
        app = pages.press(app, f"header.step.{step}")
        assert app.selectbox(key=picker.key).index == index
    for _ in range(3):
        app = pages.press(app, "header.step.-1")
    assert app.selectbox(key=picker.key).index == count - 1
