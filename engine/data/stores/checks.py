"""Checks of what a vector engine's driver returned: shapes, numbers, and the store's own figures of its documents."""

import functools
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from engine.data.stores.results import CHANGED, Hits, StoreRef, is_unit
from engine.errors import Cancelled, DataError, FrontierError
from engine.progress import counted

SCORE_ROUNDING = 2.0**-10
"""Largest error of an exact search's scores, relative to the lengths: what numbers of 16 bits lose."""
MAX_NUMBER_BYTES = 8
MAX_LENGTH = float(np.finfo(np.float32).max) ** 0.5 / 4
"""Largest length of a vector, as of those in memory."""
LENGTH_ROUNDING = 1e-6
"""Largest excess of a length over the longest one, relative to it, that rounding may cause."""


def check_ref(ref: StoreRef, dimension: int) -> None:
    """Raise a DataError if a store's own figures cannot be those of a collection of this dimension."""
    name = ref.collection
    if not _is_count(ref.count):
        raise DataError(f"{name} must say how many documents it has, 0 or more; got {ref.count!r}")
    if ref.dimension != dimension:
        raise DataError(f"{name} says that its vectors have {ref.dimension!r} numbers, and was opened with {dimension}")
    if ref.longest is not None and not 0 <= ref.longest < math.inf:
        raise DataError(f"{name} holds a vector that is not finite: by its own figures the longest is {ref.longest!r}")
    # Longer ones have inner products with each other that no number of the engine holds.
    if ref.longest is not None and ref.longest > MAX_LENGTH:
        raise DataError(
            f"{name} must hold vectors of length at most {MAX_LENGTH:.3g}; its longest has {ref.longest:.3g}"
        )


def check_count(count: Any, name: str) -> None:
    """Raise a DataError for a number of documents that is none."""
    if not _is_count(count):
        raise DataError(f"{name} must count its documents with a whole number; its driver returned {count!r:.80}")


def check_texts(texts: Any, n_expected: int, name: str) -> None:
    """Raise a DataError unless there is one text for each document that was requested."""
    if not isinstance(texts, list) or len(texts) != n_expected or not all(isinstance(text, str) for text in texts):
        raise DataError(f"{name} must return {counted(n_expected, 'text')} for as many documents; its driver did not")


def check_rows(ids: Sequence[Any], vectors: Any, dimension: int, name: str) -> None:
    """Raise a DataError unless ids and vectors, (m, d), of some documents are well formed and finite."""
    # Wider numbers than float64 exist, and nothing here computes with them.
    if not isinstance(vectors, np.ndarray) or vectors.dtype.kind != "f" or vectors.dtype.itemsize > MAX_NUMBER_BYTES:
        raise DataError(f"{name} must return vectors as an array of numbers; its driver returned {type(vectors)}")
    if vectors.shape != (len(ids), dimension):
        raise DataError(
            f"{name} must return {counted(len(ids), 'vector')} of {counted(dimension, 'number')} for as many ids; "
            "its driver returned an "
            f"array of shape {vectors.shape}"
        )
    if not np.isfinite(vectors).all():
        raise DataError(f"{name} returned a vector that is not finite")
    if wrong_ids := [doc_id for doc_id in ids if not isinstance(doc_id, str)]:
        raise DataError(f"{name} must return ids as text; its driver returned {wrong_ids[0]!r:.80}")
    if len(set(ids)) < len(ids):
        repeated_id = next(doc_id for position, doc_id in enumerate(ids) if doc_id in ids[:position])
        raise DataError(f"{name} returned the document {repeated_id!r:.80} twice in one answer: its ids must be unique")


def check_results(hits: Sequence[Hits], sent_points: np.ndarray, is_exact: bool, ref: StoreRef) -> None:
    """Check the results of a search, one for each sent point, (B, d); see `_check_hits`."""
    if len(hits) != len(sent_points):
        raise DataError(
            f"{ref.collection} answered {len(hits):,} of {counted(len(sent_points), 'point')} in one search"
        )
    for sent_point, point_hits in zip(sent_points, hits, strict=True):
        _check_hits(point_hits, sent_point, is_exact, ref)


def _check_hits(hits: Hits, sent_point: np.ndarray, is_exact: bool, ref: StoreRef) -> None:
    """Raise a DataError for results of one point that are malformed or contradict what the store says of itself.

    sent_point: (d,) as the engine received it; is_exact: the engine looked at all documents, so scores must be the
    products up to rounding; ref: the store's figures of the documents that match.
    """
    name, n_hits = ref.collection, len(hits.ids)
    check_rows(hits.ids, hits.vectors, ref.dimension, name)
    for what, values in (("scores", hits.scores), ("places", hits.places)):
        allowed_kinds = "f" if what == "scores" else "iu"
        if values is None:
            continue
        if not isinstance(values, np.ndarray) or values.shape != (n_hits,) or values.dtype.kind not in allowed_kinds:
            raise DataError(f"{name} must return {n_hits:,} {what} for as many documents; its driver did not")
        if not np.isfinite(values).all():
            raise DataError(f"{name} returned {what} that are not finite")
    if not 0 <= hits.slack < math.inf:
        raise DataError(f"{name} must raise its scores by a number of 0 or more; its driver says {hits.slack!r}")
    if n_hits > ref.count:
        raise DataError(
            f"{name} returned {counted(n_hits, 'document')} and says that {ref.count:,} match: it {CHANGED}, or "
            "miscounts them"
        )
    lengths = np.linalg.norm(hits.vectors.astype(np.float64), axis=1)
    _check_lengths(lengths, ref)
    # An index may score by compressed vectors: its errors widen the floor, and it proves nothing anyway.
    if is_exact and n_hits:
        _check_scores(hits, sent_point, float(ref.longest if ref.longest is not None else lengths.max()), name)


def _check_lengths(lengths: np.ndarray, ref: StoreRef) -> None:
    """Raise a DataError if lengths of returned vectors contradict the store's figures of all its vectors."""
    if not len(lengths):
        return
    max_length, advice = float(lengths.max()), f"it {CHANGED}, or its figures are wrong; ask again"
    if ref.longest is not None and max_length > ref.longest * (1 + LENGTH_ROUNDING):
        raise DataError(
            f"{ref.collection} returned a vector of length {max_length:.7g} and says that none is longer than "
            f"{ref.longest:.7g}: {advice}"
        )
    deviations = np.abs(lengths - 1)
    if ref.unit and is_unit(float(deviations.max())) is False:
        raise DataError(
            f"{ref.collection} returned a vector of length {float(lengths[deviations.argmax()]):.7g} and says that all "
            f"have length 1: {advice}"
        )


def _check_scores(hits: Hits, sent_point: np.ndarray, max_length: float, name: str) -> None:
    """Raise a DataError if an exact search's scores are not its vectors' products with the point, best first."""
    products = hits.vectors.astype(np.float64) @ sent_point.astype(np.float64)
    # Products too small for float32 count as 0.
    tolerance = SCORE_ROUNDING * max_length * float(np.linalg.norm(sent_point)) + float(np.finfo(np.float32).tiny)
    scores = products if hits.scores is None else hits.scores.astype(np.float64)
    # An index of another measure that the planner did not use leaves raised scores, which may exceed rounding by far.
    errors = np.abs(scores - products)
    if errors.max() > tolerance + hits.slack:
        worst = int(errors.argmax())
        raise DataError(
            f"{name} scored the document {hits.ids[worst]!r:.80} {scores[worst]:.7g}, and the inner product of its "
            f"vector with the query is {products[worst]:.7g}: its metric is another one, or its vectors are not those "
            "that it searches"
        )
    if len(scores) > 1 and np.diff(scores).max() > 2 * (tolerance + hits.slack):
        raise DataError(f"{name} must return the best documents first; an exact search returned them in another order")


@contextmanager
def name_driver_errors(store: Any) -> Iterator[None]:
    """Reraise what a driver raises as a DataError that names the store, without the driver's own words.

    These could quote the call, and with it a secret or a document.
    """
    try:
        yield
    except (FrontierError, Cancelled, MemoryError, NotImplementedError):
        raise
    except Exception as error:
        name = getattr(store, "name", None) or type(store).__name__
        raise DataError(
            f"the driver of {name} failed with {type(error).__name__}: what it asked or received is not what it "
            "expects; is the collection what it was, and the driver of a fitting version?"
        ) from error


def guard_method(method_name: str, method: Any) -> Any:
    """Wrap a driver's method, so that its errors name the store and what it returns is checked."""
    if isinstance(method, property):
        return property(_guard_call(method.fget, _check_ref_result))
    if method_name in _GENERATORS:
        return _GENERATORS[method_name](method)
    return _guard_call(method, _RESULT_CHECKS.get(method_name, _check_nothing))


def _guard_call(method: Any, check: Callable[..., None]) -> Any:
    """Wrap a method whose result is there when it returns."""

    @functools.wraps(method)
    def guarded(self: Any, *arguments: Any, **options: Any) -> Any:
        with name_driver_errors(self):
            result = method(self, *arguments, **options)
            check(self, result, *arguments)
        return result

    return guarded


def _guard_scan(method: Any) -> Any:
    """Wrap a method that yields ids and vectors of documents."""

    @functools.wraps(method)
    def guarded(self: Any, *arguments: Any, **options: Any) -> Iterator[Any]:
        with name_driver_errors(self):
            parts = iter(method(self, *arguments, **options))
        while True:
            with name_driver_errors(self):
                try:
                    part = next(parts)
                except StopIteration:
                    return
                _check_rows_result(self, part)
            # Outside the block: what the reader of the documents raises is no error of the driver.
            yield part

    return guarded


def _guard_snapshot(method: Any) -> Any:
    """Wrap a method that returns a context; what is raised inside the block stays as it is."""

    @functools.wraps(method)
    @contextmanager
    def guarded(self: Any, *arguments: Any, **options: Any) -> Iterator[Any]:
        with name_driver_errors(self):
            context = method(self, *arguments, **options)
            entered = context.__enter__()
        try:
            yield entered
        except BaseException:
            if not context.__exit__(*sys.exc_info()):
                raise
        else:
            with name_driver_errors(self):
                context.__exit__(None, None, None)

    return guarded


_GENERATORS: dict[str, Callable[[Any], Any]] = {"scan": _guard_scan, "snapshot": _guard_snapshot}


def _get_name(store: Any) -> str:
    """Return what errors call a store."""
    return str(getattr(store, "name", None) or type(store).__name__)


def _check_nothing(store: Any, *_: Any) -> None:
    """Accept any result; those of a search are checked where its figures are at hand."""


def _check_ref_result(store: Any, ref: Any, *_: Any) -> None:
    check_ref(ref, store.dimension)


def _check_count_result(store: Any, count: Any, *_: Any) -> None:
    check_count(count, _get_name(store))


def _check_texts_result(store: Any, texts: Any, ids: Sequence[str], *_: Any) -> None:
    check_texts(texts, len(ids), _get_name(store))


def _check_rows_result(store: Any, rows: Any, *_: Any) -> None:
    ids, vectors = rows
    check_rows(ids, vectors, store.dimension, _get_name(store))


_RESULT_CHECKS: dict[str, Callable[..., None]] = {
    "ref_of": _check_ref_result,
    "count": _check_count_result,
    "texts": _check_texts_result,
    "sample": _check_rows_result,
}


def _is_count(value: Any) -> bool:
    """Return True for a whole number that is not negative."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool) and int(value) >= 0
