"""A document of a corpus as shown on a page or a terminal."""

from dataclasses import dataclass
from typing import Any

from engine.values import Corpus, replace_surrogates
from engine.views.names import name_document


@dataclass(frozen=True, kw_only=True)
class ShownDocument:
    """A document, its texts without lone surrogates."""

    row: int  # position in the corpus
    id: str
    title: str
    text: str
    name: str  # short, and printable


def shown_fields(corpus: Corpus, row: int) -> dict[str, Any]:
    """Return the fields of a ShownDocument for the document at `row`, as keyword arguments."""
    texts = {"id": corpus.ids[row], "title": corpus.titles[row], "text": corpus.texts[row]}
    clean_texts = {field_name: replace_surrogates(text) for field_name, text in texts.items()}
    return {"row": row, **clean_texts, "name": name_document(corpus, row)}
