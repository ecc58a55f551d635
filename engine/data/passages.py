"""Documents cut into overlapping windows of words, so that length can be varied on any corpus."""

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
    help="How many words a passage has, its title not counted.",
)
PASSAGE_OVERLAP = Real(0.25, "o", 0.0, 0.9, name="overlap", help="Which share of a passage the next one repeats.")

PART_SEPARATOR = "#"
NUMBER_PATTERN = re.compile("0|[1-9][0-9]{0,17}")
"""A part's number as `part_id` writes it; no document has as many parts as would need more digits."""
MAX_QUOTED_CHARS = 80
"""So many characters of a wrong id are quoted."""


def part_id(document: str, part_number: int) -> str:
    """The id of a document's part, counted from 0: "id#3"; the last "#" separates, as a document's id may hold one."""
    return f"{document}{PART_SEPARATOR}{part_number}"


def split_id(part: str) -> tuple[str, int]:
    """The document and the number that `part_id` made an id of. Raises DataError for an id that it cannot have made."""
    document, separator, number_text = part.rpartition(PART_SEPARATOR)
    if not separator or not NUMBER_PATTERN.fullmatch(number_text):
        quoted_id = part if len(part) <= MAX_QUOTED_CHARS else f"{part[:MAX_QUOTED_CHARS]}…"
        raise DataError(
            f"a part's id must be its document's, {PART_SEPARATOR!r} and its number, as in 'id#3'; got {quoted_id!r}"
        )
    return document, int(number_text)


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


def cut_passages(
    corpus: Corpus, words: int = PASSAGE_WORDS.default, overlap: float = PASSAGE_OVERLAP.default
) -> Passages:
    """Every document as windows of `words` words, each of which repeats the share `overlap` of the one before.

    A word is what stands between white space. A passage keeps its document's title, and the text between its first and
    its last word as it was; a document of at most `words` words stays whole. The last window may be shorter. Raises
    ParamError, and DataError for a corpus without documents.
    """
    words, overlap = PASSAGE_WORDS.check(words), PASSAGE_OVERLAP.check(overlap)
    if not len(corpus):
        raise DataError("there is nothing to cut: the corpus has no documents")
    step_words = max(1, round(words * (1 - overlap)))
    passages = [
        (part_id(doc_id, part_number), window_text, doc_title, row_index)
        for row_index, (doc_id, text, doc_title) in enumerate(zip(corpus.ids, corpus.texts, corpus.titles, strict=True))
        for part_number, window_text in enumerate(_split_windows(text, words, step_words))
    ]
    passage_ids, passage_texts, passage_titles, document_rows = zip(*passages, strict=True)
    return Passages(
        Corpus(passage_ids, passage_texts, passage_titles, f"{corpus.name}, passages of {words} words"),
        torch.tensor(document_rows),
    )


def count_passages(corpus: Corpus, words: int, overlap: float) -> int:
    """How many passages `cut` makes."""
    step_words = max(1, round(words * (1 - overlap)))
    return sum(1 + max(0, -(-(len(text.split()) - words) // step_words)) for text in corpus.texts)


def _split_windows(document_text: str, words: int, step_words: int) -> list[str]:
    word_spans = [word_match.span() for word_match in re.finditer(r"\S+", document_text)]
    if len(word_spans) <= words:
        return [document_text]
    # One that ended where the text ends is the last: another would only repeat.
    start_words = range(0, len(word_spans) - words + step_words, step_words)
    return [
        document_text[word_spans[start_word][0] : word_spans[min(start_word + words, len(word_spans)) - 1][1]]
        for start_word in start_words
    ]
