"""Cutting of documents into overlapping windows of words, so that length can be varied on any corpus."""

import re
from dataclasses import dataclass

import torch
from torch import Tensor

from engine.errors import DataError
from engine.params import Real, Whole
from engine.values import Corpus

PASSAGE_WORDS = Whole(
    default=100,
    low=1,
    comfortable=(20, 400),
    symbol="w",
    name="words",
    title="words of a passage",
    help="How many words a passage has, its title not counted.",
)
PASSAGE_OVERLAP = Real(
    0.25,
    "o",
    0.0,
    0.9,
    name="overlap",
    title="overlap of passages",
    help="Which share of a passage the next one repeats.",
)

PART_SEPARATOR = "#"
NUMBER_PATTERN = re.compile("0|[1-9][0-9]{0,17}")
"""A part's number as `part_id` writes it; no document has as many parts as would need more digits."""
MAX_QUOTED_CHARS = 80
"""An error quotes at most this much of a wrong id."""


def part_id(document: str, part_number: int) -> str:
    """Return the id of a document's part, counted from 0, as in "id#3".

    The last "#" separates, because a document's id may contain one.
    """
    return f"{document}{PART_SEPARATOR}{part_number}"


def split_id(part: str) -> tuple[str, int]:
    """Split the id of a document's part, as "id#3", into the document's id and the number of the part.

    Raises DataError for an id that is not of this form.
    """
    document, separator, number_text = part.rpartition(PART_SEPARATOR)
    if not separator or not NUMBER_PATTERN.fullmatch(number_text):
        quoted_id = part if len(part) <= MAX_QUOTED_CHARS else f"{part[:MAX_QUOTED_CHARS]}…"
        raise DataError(
            f"a part's id must be its document's, {PART_SEPARATOR!r} and its number, as in 'id#3'; got {quoted_id!r}"
        )
    return document, int(number_text)


@dataclass(frozen=True, eq=False)
class Passages:
    """Corpus of passages, with the document of each.

    corpus: the passages, document by document, ids as `part_id` makes them ("id#3" is the fourth passage of "id");
    documents: (p,) int64, the row of each one's document in the corpus that was cut.
    """

    corpus: Corpus
    documents: Tensor

    def __len__(self) -> int:
        return len(self.corpus)


def cut_passages(
    corpus: Corpus, words: int = PASSAGE_WORDS.default, overlap: float = PASSAGE_OVERLAP.default
) -> Passages:
    """Cut documents into windows of `words` words; each repeats the share `overlap` of the one before.

    Words are separated by white space. A passage has its document's title, and the unchanged text between its first
    and its last word; a document of at most `words` words is one passage. The last window may be shorter. Raises
    ParamError, and DataError for a corpus without documents.
    """
    words, overlap = PASSAGE_WORDS.check(words), PASSAGE_OVERLAP.check(overlap)
    if not len(corpus):
        raise DataError("there is nothing to cut: the corpus has no documents")
    # Windows advance by at least one word, whatever the overlap.
    step_words = max(1, round(words * (1 - overlap)))
    passages = [
        (part_id(doc_id, part_number), window_text, doc_title, row_index)
        for row_index, (doc_id, text, doc_title) in enumerate(zip(corpus.ids, corpus.texts, corpus.titles, strict=True))
        for part_number, window_text in enumerate(_split_windows(text, words, step_words))
    ]
    passage_ids, passage_texts, passage_titles, document_rows = zip(*passages, strict=True)
    passage_corpus = Corpus(passage_ids, passage_texts, passage_titles, f"{corpus.name}, passages of {words} words")
    return Passages(passage_corpus, torch.tensor(document_rows))


def count_passages(corpus: Corpus, words: int, overlap: float) -> int:
    """Return the number of passages into which documents are cut: windows of `words` words.

    overlap: share of a window that the next one repeats.
    """
    # Each window begins `step_words` words after the one before.
    step_words = max(1, round(words * (1 - overlap)))
    # A document has one window, and one more for each step of words beyond it, whole or begun: -(-a // b) rounds up.
    return sum(1 + max(0, -(-(len(text.split()) - words) // step_words)) for text in corpus.texts)


def _split_windows(document_text: str, words: int, step_words: int) -> list[str]:
    """Cut a text into windows of `words` words; each begins `step_words` words after the one before.

    The text between its words stays as it is; the last window may be shorter.
    """
    spans = [word_match.span() for word_match in re.finditer(r"\S+", document_text)]
    if len(spans) <= words:
        return [document_text]
    # A window that reaches the end of the text is the last: a further one would only repeat.
    starts = range(0, len(spans) - words + step_words, step_words)
    return [document_text[spans[start][0] : spans[min(start + words, len(spans)) - 1][1]] for start in starts]
