"""Answer strings of queries, from answers.tsv in a BEIR folder, and the documents that contain them.

The answers of a language model cannot be measured without one; whether the retrieved texts contain what it needs can.
Answers are never embedded, and no query or document holds them.
"""

from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path

from engine.data.cloze import find_containing_rows
from engine.data.field_lines import QUERY_NAMES, match_ids, normalize_column
from engine.data.textfiles import read_lines
from engine.errors import DataError
from engine.values import Corpus, Queries

ANSWERS_FILE = "answers.tsv"
"""Each line is an answer or key point: query-id, a tab, the text. The first line may name the two columns."""
_ANSWER_NAMES = frozenset({"answer", "answers", "answertext", "keypoint", "nugget", "reference", "text"})


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
        if not line_text.strip() or (line_number == 1 and _is_header(query_id, answer_text)):
            continue
        if not separator or not query_id or not any(map(str.isalnum, answer_text)):
            location = f"{ANSWERS_FILE} line {line_number}"
            raise DataError(f"{location}: expected query-id, a tab and an answer; found {line_text.rstrip()!r}")
        # A dictionary as an ordered set: repeated answers count once.
        answers.setdefault(query_id, {})[answer_text.strip()] = None
    if not answers:
        raise DataError(f"{answers_path} holds no answer")
    return {query_id: tuple(query_answers) for query_id, query_answers in answers.items()}


def _is_header(query_name: str, answer_name: str) -> bool:
    """Return True if the fields of the first line are names of columns, as "query-id" and "answer"."""
    return normalize_column(query_name) in QUERY_NAMES and normalize_column(answer_name) in _ANSWER_NAMES


def match_answers(answers: Mapping[str, Sequence[str]], queries: Queries) -> dict[str, tuple[str, ...]]:
    """Return the answers by the ids of the queries, with ids such as "12.0" for "12" matched.

    Raises DataError if none of them belongs to a query.
    """
    matches = match_ids(answers, queries.position)
    matched: dict[str, tuple[str, ...]] = {}
    for query_id, query_answers in answers.items():
        known_id = matches.get(query_id, query_id)
        matched[known_id] = tuple(dict.fromkeys((*matched.get(known_id, ()), *query_answers)))
    if matched.keys().isdisjoint(queries.position):
        examples = ", ".join(map(repr, list(answers)[:3]))
        query_like = repr(queries.ids[0]) if len(queries) else "none"
        raise DataError(
            f"{ANSWERS_FILE}: none of its queries (first: {examples}) is in queries.jsonl, whose ids are like "
            f"{query_like}; both must have the same ids"
        )
    return matched


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
