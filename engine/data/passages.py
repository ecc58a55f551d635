"""Documents cut into overlapping windows of words, so that length can be varied on any corpus."""

import re
from dataclasses import dataclass

import torch
from torch import Tensor

from engine.errors import DataError
from engine.params import Real, Whole
from engine.values import Corpus

WORDS = Whole(
    default=100,
    low=1,
    comfortable=(20, 400),
    symbol="w",
    name="words",
    help="How many words a passage has, its title not counted.",
)
OVERLAP = Real(0.25, "o", 0.0, 0.9, name="overlap", help="Which share of a passage the next one repeats.")

SEPARATOR = "#"
NUMBER = re.compile("0|[1-9][0-9]{0,17}")
"""A part's number as `part_id` writes it; no document has as many parts as would need more digits."""
LONG = 80
"""So many characters of a wrong id are quoted."""


def part_id(document: str, number: int) -> str:
    """The id of a document's part, counted from 0: "id#3"; the last "#" separates, as a document's id may hold one."""
    return f"{document}{SEPARATOR}{number}"


def split_id(part: str) -> tuple[str, int]:
    """The document and the number that `part_id` made an id of. Raises DataError for an id that it cannot have made."""
    document, separator, number = part.rpartition(SEPARATOR)
    if not separator or not NUMBER.fullmatch(number):
        got = part if len(part) <= LONG else f"{part[:LONG]}…"
        raise DataError(f"a part's id must be its document's, {SEPARATOR!r} and its number, as in 'id#3'; got {got!r}")
    return document, int(number)


@dataclass(frozen=True, eq=False)
class Passages:
    """A corpus of passages and where each comes from.

    corpus: the passages, document by document, ids as `part_id` makes them ("id#3" is the fourth passage of "id");
    documents: (p,) int64, the row of each one's document in the corpus that was cut.
    """

    corpus: Corpus
    documents: Tensor

    def __len__(self) -> int:
        return len(self.corpus)


def cut(corpus: Corpus, words: int = WORDS.default, overlap: float = OVERLAP.default) -> Passages:
    """Every document as windows of `words` words, each of which repeats the share `overlap` of the one before.

    A word is what stands between white space. A passage keeps its document's title, and the text between its first and
    its last word as it was; a document of at most `words` words stays whole. The last window may be shorter. Raises
    ParamError, and DataError for a corpus without documents.
    """
    words, overlap = WORDS.check(words), OVERLAP.check(overlap)
    if not len(corpus):
        raise DataError("there is nothing to cut: the corpus has no documents")
    step = max(1, round(words * (1 - overlap)))
    passages = [
        (part_id(doc, number), window, title, row)
        for row, (doc, text, title) in enumerate(zip(corpus.ids, corpus.texts, corpus.titles, strict=True))
        for number, window in enumerate(_windows(text, words, step))
    ]
    ids, texts, titles, documents = zip(*passages, strict=True)
    return Passages(Corpus(ids, texts, titles, f"{corpus.name}, passages of {words} words"), torch.tensor(documents))


def counted(corpus: Corpus, words: int, overlap: float) -> int:
    """How many passages `cut` makes."""
    step = max(1, round(words * (1 - overlap)))
    return sum(1 + max(0, -(-(len(text.split()) - words) // step)) for text in corpus.texts)


def _windows(text: str, words: int, step: int) -> list[str]:
    spans = [word.span() for word in re.finditer(r"\S+", text)]
    if len(spans) <= words:
        return [text]
    # One that ended where the text ends is the last: another would only repeat.
    starts = range(0, len(spans) - words + step, step)
    return [text[spans[start][0] : spans[min(start + words, len(spans)) - 1][1]] for start in starts]
