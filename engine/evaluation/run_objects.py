"""Runs from objects in memory: dictionaries, data frames and ranked runs."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from engine.data.frames import FRAME_KINDS, convert_series, find_named_columns, is_frame
from engine.data.tables import parse_id
from engine.errors import DataError
from engine.evaluation.run_files import RUN_NAMES, parse_number
from engine.evaluation.runs import RankedRun


def load_run(source: Any, name: str = "run") -> RankedRun:
    """Return the ranked lists of another system from a frame or a dictionary.

    Parameters
    ----------
    source : frame, mapping or RankedRun
        A data frame of pandas, polars or pyarrow with columns of queries and documents and perhaps rank or score under
        usual names (query_id, doc_id, rank, score …), where without both the order of the rows counts; or a dictionary
        {query: documents, best first} or {query: {document: score}}, or a Series of these by query.
    name : str, default "run"
        The name that charts write.

    Returns
    -------
    RankedRun
        Its lists by query, for `engine.identify`; its method `build_cell` measures it as a cell beside decoders'.

    Raises
    ------
    DataError
        If a column is missing or a value is no list of ids, rank or score.

    Examples
    --------
    >>> load_run({"q1": {"a": 0.2, "b": 0.9}}).documents
    {'q1': ('b', 'a')}
    """
    if isinstance(source, RankedRun):
        return source
    source = convert_series(source)
    if is_frame(source):
        return RankedRun(name, _read_frame(source))
    if not isinstance(source, Mapping):
        raise DataError(
            f"run must be a file, an engine RankedRun, {FRAME_KINDS}, or a dictionary from query ids to lists of "
            f"document ids; got {type(source).__name__}"
        )
    documents = {}
    for query_id, entries in source.items():
        if isinstance(entries, str) or not isinstance(entries, Iterable):
            raise DataError(
                f"run must map each query id to a list of document ids; got {type(entries).__name__} for query "
                f"{query_id!r}"
            )
        ranked = list(entries)
        if isinstance(entries, Mapping):
            location = f"run, query {query_id!r}"
            scores = {doc_id: parse_number(score, "score", location) for doc_id, score in entries.items()}
            # The larger score comes first, as in a file.
            ranked.sort(key=scores.__getitem__, reverse=True)
        documents[str(query_id)] = tuple(map(str, ranked))
    return RankedRun(name, documents)


def _read_frame(frame: Any) -> dict[str, tuple[str, ...]]:
    """Return query id → document ids, best first, of a frame's rows. Raises DataError."""
    columns = find_named_columns(frame, RUN_NAMES, ("query", "document"))
    # A rank is an order that somebody decided on; scores may be equal, or those of another stage.
    role = next((role for role in ("rank", "score") if role in columns), None)
    lists: dict[str, list[tuple[float, str]]] = defaultdict(list)
    for row, (query_value, doc_value) in enumerate(zip(columns["query"], columns["document"], strict=True)):
        location = f"run, row {row} of the frame"
        query_id, doc_id = parse_id(query_value, location, "query"), parse_id(doc_value, location, "document")
        number = float(row) if role is None else float(parse_number(columns[role][row], role, location))
        # Small numbers come first: ranks, places, and scores with their sign changed.
        lists[query_id].append((-number if role == "score" else number, doc_id))
    ordered = {}
    # The sort is stable, so that ties keep the order of the rows; a repeated document keeps its better place.
    for query_id, entries in lists.items():
        entries.sort(key=lambda entry: entry[0])
        ordered[query_id] = tuple(dict.fromkeys(doc_id for _, doc_id in entries))
    return ordered
