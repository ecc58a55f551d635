"""Recording of what a retriever returns as a run: query ids and the ids of its documents, best first."""

import inspect
import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from engine.data.cache import write
from engine.decoder import SET_SIZE, as_queries
from engine.errors import DataError, ParamError
from engine.evaluation.runs import RankedRun
from engine.progress import Progress, Stop, with_cancellation
from engine.values import Corpus, Notice, Queries

REPEATED_REMARK = "documents came more than once in a list, as passages of one do: only the first place counts"
METADATA_NAMES = ("metadata", "meta")
ID_NAMES = ("id", "id_", "node_id", "doc_id", "_id")
TEXT_NAMES = ("page_content", "content", "text")
CALL_NAMES = ("invoke", "retrieve", "get_relevant_documents")
"""Methods by which LangChain's and LlamaIndex's retrievers are asked; others are called themselves."""


def record(
    retriever: Any,
    queries: Queries | Sequence[str],
    k: int | None = None,
    *,
    file: str | Path | None = None,
    id_field: str | None = None,
    corpus: Corpus | None = None,
    progress: Progress | None = None,
    stop: Stop | None = None,
) -> RankedRun:
    """Ask a retriever every query, and keep the ids of its documents as a run.

    Parameters
    ----------
    retriever : object
        A retriever of LangChain or LlamaIndex, a component of Haystack whose `run` takes a query, or a function of a
        query, or of a query and k, that returns ids, documents or pairs of either with a score.
    queries : Queries or sequence of str
        The queries; texts alone are numbered from 0.
    k : int or None
        Documents per query at most; None for as many as the retriever gives by itself. A function that takes a number
        of documents is asked for k, for 10 if it has no number of its own.
    file : str, Path or None
        A .json file to write the run to.
    id_field : str or None
        The field of a document's metadata that holds its id in the corpus.
    corpus : Corpus or None
        The documents, by whose ids and texts those of the retriever are recognised where it has ids of its own.
    progress : callable or None
        Called as progress(done, total, label).
    stop : object with is_set() or None
        Cancels the recording once it is set.

    Returns
    -------
    RankedRun
        The lists, as `engine.identify` takes them.

    Raises
    ------
    ParamError
        If the retriever cannot be asked, or k is invalid.
    DataError
        If a document has no id and no text that the corpus has.
    Cancelled
        Once `stop` is set.

    Examples
    --------
    >>> record(lambda query: ["d2", "d1"], ["a question"], k=1).documents
    {'0': ('d2',)}
    """
    k, labelled = None if k is None else SET_SIZE.check(k), as_queries(queries)
    ask = _find_call(retriever, k)
    report = with_cancellation(progress, stop, "stopped after {done} of {total} queries; nothing was written")
    names = _DocumentNames(id_field, corpus)
    documents: dict[str, tuple[str, ...]] = {}
    repeated_ids: dict[str, None] = {}
    for query_index, (query_id, text) in enumerate(zip(labelled.ids, labelled.texts, strict=True)):
        report(query_index, len(labelled), "queries")
        answer = _unwrap_answer(ask(text))
        if answer is None:
            raise DataError(f"retriever must return documents for every query; query {query_id!r} got None")
        answer = list(answer)[:k]
        ids = [names.find_id(document, query_id, rank) for rank, document in enumerate(answer, 1)]
        # Passages of one document share its id.
        documents[query_id] = tuple(dict.fromkeys(ids))
        if len(documents[query_id]) < len(ids):
            repeated_ids |= dict.fromkeys(doc_id for doc_id, count in Counter(ids).items() if count > 1)
    report(len(labelled), len(labelled), "queries")
    # Written at the end, and whole: half a run would look like a complete one.
    if file is not None:
        lists = {query_id: list(ids) for query_id, ids in documents.items()}
        write(Path(file).resolve(), json.dumps(lists, ensure_ascii=False, indent=1).encode("utf-8"))
    name = type(retriever).__name__ if file is None else Path(file).stem
    return RankedRun(name, documents, Notice.for_ids(REPEATED_REMARK, repeated_ids))


def _find_call(retriever: Any, k: int | None) -> Callable[[str], Any]:
    """Return the function by which a retriever is asked one query. Raises ParamError if there is none.

    k: documents to ask for, None for as many as it gives by itself
    """
    for name in CALL_NAMES:
        if callable(method := getattr(retriever, name, None)):
            return lambda query: method(query)
    if callable(run := getattr(retriever, "run", None)):
        return lambda query: run(query=query)
    if not callable(retriever):
        raise ParamError(
            "retriever must be a retriever of LangChain, LlamaIndex or Haystack, or a function of a query; got "
            f"{type(retriever).__name__}"
        )
    # A function may take the number of documents, or know it itself.
    try:
        parameters = inspect.signature(retriever).parameters.values()
    except (TypeError, ValueError):
        return lambda query: retriever(query)
    by_position = [each for each in parameters if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)]
    required = [each for each in by_position if each.default is each.empty]
    # With a number of its own it is recorded as it answers in production.
    takes_k = len(required) > 1 or (k is not None and any(each.name == "k" for each in by_position[1:2]))
    n_asked = SET_SIZE.default if k is None else k
    return (lambda query: retriever(query, n_asked)) if takes_k else (lambda query: retriever(query))


def _unwrap_answer(answer: Any) -> Any:
    """Return the documents of an answer, which Haystack puts under a name of their own."""
    if isinstance(answer, Mapping):
        return answer.get("documents", answer)
    return answer


class _DocumentNames:
    """Finds the id in a corpus of the documents that a framework returns."""

    def __init__(self, id_field: str | None, corpus: Corpus | None) -> None:
        """Index the texts of the corpus, of equal ones the first."""
        self._id_field, self._corpus = id_field, corpus
        self._ids_by_text: dict[str, str] = {}
        if corpus is None:
            return
        for texts in (corpus.passages, corpus.texts):
            for row, text in enumerate(texts):
                self._ids_by_text.setdefault(text.strip(), corpus.ids[row])

    def find_id(self, document: Any, query_id: str, rank: int) -> str:
        """Return the id of one document of an answer. Raises DataError if it has none."""
        if isinstance(document, tuple) and len(document) == 2:
            document = document[0]
        # LlamaIndex wraps its nodes with their scores.
        document = getattr(document, "node", document)
        if isinstance(document, str):
            candidates, texts = [document], [document]
        else:
            metadata: Mapping[str, Any] = next(
                (_read(document, name) for name in METADATA_NAMES if _read(document, name)), {}
            )
            fields = [] if self._id_field is None else [metadata.get(self._id_field)]
            candidates = [value for value in (*fields, *(_read(document, name) for name in ID_NAMES)) if value]
            texts = [value for value in (_read(document, name) for name in TEXT_NAMES) if isinstance(value, str)]
        if self._corpus is None and candidates:
            return str(candidates[0])
        known = self._corpus.position if self._corpus is not None else {}
        # Ids of a store's own are skipped: LlamaIndex and Haystack make some up.
        for value in candidates:
            if str(value) in known:
                return str(value)
        for text in texts:
            if text.strip() in self._ids_by_text:
                return self._ids_by_text[text.strip()]
        raise DataError(
            f"the document at rank {rank} of query {query_id!r} has no id that the corpus has, and no text of it; pass "
            "id_field, the field of its metadata with the id, or corpus, to find documents by their texts"
        )


def _read(document: Any, name: str) -> Any:
    """Return a field of a document that is an object or a dictionary; None if it has none."""
    return document.get(name) if isinstance(document, Mapping) else getattr(document, name, None)
