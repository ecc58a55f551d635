"""The query of a session, where the corpus has changed since it was chosen."""

from dashboard.session.query import corpus_key
from support import pages


def test_split_that_the_judgements_lack_is_replaced_by_the_first(tmp_path):
    documents = [(f"d{row}", f"thing number {row}") for row in range(8)]
    folder = pages.beir(tmp_path, documents, [("q", "things")], judged=[("q", "d1")])
    source = pages.Source(str(folder))
    # As a session keeps it that had other judgements of the same documents open.
    app = pages.screen("explore", source, **{f"split.{corpus_key(pages.load(source))}": "dev"})
    assert [picker.value for picker in app.selectbox if picker.label == "Split"] == ["judged"]
    assert ["things"] in [picker.options for picker in app.selectbox]
