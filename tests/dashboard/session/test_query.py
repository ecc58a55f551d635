"""The query of a session, where the corpus has changed since it was chosen."""

from dashboard.session.address import LINK_KEY
from dashboard.session.query import corpus_key, find_split_of
from support import pages


def test_split_that_the_judgements_lack_is_replaced_by_the_first(tmp_path):
    documents = [(f"d{row}", f"thing number {row}") for row in range(8)]
    folder = pages.beir(tmp_path, documents, [("q", "things")], judged=[("q", "d1")])
    source = pages.Source(str(folder))
    # As a session keeps it that had other judgements of the same documents open.
    app = pages.screen("explore", source, **{f"split.{corpus_key(pages.load(source))}": "dev"})
    assert [picker.value for picker in app.selectbox if picker.label == "Split"] == ["judged"]
    assert ["things"] in [picker.options for picker in app.selectbox]


def test_link_with_a_query_and_no_split_opens_the_query_in_the_split_that_has_it(tmp_path):
    documents = [(f"d{row}", f"thing number {row}") for row in range(8)]
    queries = [("q", "things"), ("r", "other things")]
    folder = pages.beir(tmp_path, documents, queries, dev=[("q", "d1")], late=[("r", "d2")])
    loaded = pages.load(pages.Source(str(folder)))
    assert [find_split_of(loaded.dataset, query_id) for query_id in ("q", "r", "nobody")] == ["dev", "late", "dev"]
    app = pages.screen("explore", pages.Source(str(folder)), **{LINK_KEY: {"v": "1", "query": "r"}})
    assert [picker.value for picker in app.selectbox if picker.label == "Split"] == ["late"]
    assert "no split" not in pages.texts(app)
