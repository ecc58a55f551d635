"""Answer strings of queries, from answers.tsv in a BEIR folder, and the documents that contain them.

The answers of a language model cannot be measured without one; whether the retrieved texts contain what it needs can.
Answers are never embedded, and no query or document holds them.
"""

from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path

from engine.data.cloze import find_containing_rows
from engine.data.textfiles import read_lines
from engine.errors import DataError
from engine.values import Corpus

ANSWERS_FILE = "answers.tsv"
"""Each line is an answer or key point: query-id, a tab, the text. The first line may be ANSWERS_HEADER."""
ANSWERS_HEADER = ("query-id", "answer")


def read_answers(folder: str | Path) -> dict[str, tuple[str, ...]]:
    """Read answers to queries from a folder's answers.tsv: query id → distinct answers, in file order.

    An answer is a text that a document must contain to be of use. Raises DataError for a line that is not a pair, and
    for a missing file.
    """
    answers_path = Path(folder) / ANSWERS_FILE
    if not answers_path.is_file():
        raise DataError(
            f"{folder} has no {ANSWERS_FILE}: a line an answer, query-id, a tab, and the text to be found in documents"
        )
    answers: dict[str, dict[str, None]] = {}
    for line_number, line_text in read_lines(answers_path):
        query_id, separator, answer_text = line_text.rstrip("\r\n").partition("\t")
        if not line_text.strip() or (line_number == 1 and (query_id, answer_text.strip()) == ANSWERS_HEADER):
            continue
        if not separator or not query_id or not any(map(str.isalnum, answer_text)):
            location = f"{ANSWERS_FILE} line {line_number}"
            raise DataError(f"{location}: expected query-id, a tab and an answer; found {line_text.rstrip()!r}")
        # A dictionary as an ordered set: repeated answers count once.
        answers.setdefault(query_id, {})[answer_text.strip()] = None
    if not answers:
        raise DataError(f"{answers_path} holds no answer")
    return {query_id: tuple(query_answers) for query_id, query_answers in answers.items()}


def containing_documents(corpus: Corpus, answers: Mapping[str, Sequence[str]]) -> dict[str, dict[str, frozenset[str]]]:
    """Find the documents that contain each answer: query → answer → ids of documents.

    A document must contain the answer's words consecutively; case and punctuation are ignored. An answer that no
    document contains maps to an empty set, and counts as one that no system can cover.
    """
    # Answers of several queries are searched once: each search passes over the full corpus.
    distinct = list(dict.fromkeys(chain.from_iterable(answers.values())))
    documents: dict[str, frozenset[str]] = {}
    for answer_text, row_indices in zip(distinct, find_containing_rows(corpus.passages, distinct), strict=True):
        documents[answer_text] = frozenset(map(corpus.ids.__getitem__, row_indices))
    return {
        query_id: {answer_text: documents[answer_text] for answer_text in query_answers}
        for query_id, query_answers in answers.items()
    }
