"""Stores that lie or break: an error that names the store, never a proven answer, never another error."""

from dataclasses import replace

import numpy as np
import pytest

import engine
from engine.data.stores.arrays import ArrayStore
from engine.data.stores.results import Hits
from engine.errors import DataError
from engine.reach import Reach
from support.instances import problem
from support.reaches import corpus, decoder

NAME = "liar/docs"
SECRET = "password=s3cret"


def rows_and_queries(n=900, d=16):
    return problem("clustered", 4, n=n, d=d, batch=2)


class Liar(ArrayStore):
    """Documents in memory behind a driver that changes what it returns."""

    lie_hits = staticmethod(lambda hits: hits)
    lie_ref = staticmethod(lambda ref: ref)
    more = 0

    def _search(self, points, sizes, exact, where):
        hits, plan, is_exact = super()._search(points, [size + self.more for size in sizes], exact, where)
        return [self.lie_hits(h) for h in hits], plan, is_exact

    def ref_of(self, where):
        return self.lie_ref(super().ref_of(where))


def change(**changes):
    """Return a lie about hits: fields are replaced by what a function of each makes."""

    def lie(hits):
        fields = {name: getattr(hits, name) for name in ("ids", "vectors", "scores", "places", "slack")}
        return Hits(**{**fields, **{name: make(fields[name]) for name, make in changes.items()}})

    return lie


def swap_ends(hits):
    """Return the hits in reverse order, each with its own score."""
    return Hits(hits.ids[::-1], hits.vectors[::-1].copy(), hits.scores[::-1].copy(), hits.places[::-1].copy())


LIES = {
    "scores of another metric": ({"lie_hits": change(scores=lambda s: 2 - 2 * s)}, "metric"),
    "scores off by a percent": ({"lie_hits": change(scores=lambda s: s * 1.01)}, "metric"),
    "scores that are no numbers": ({"lie_hits": change(scores=lambda s: np.full_like(s, np.nan))}, "not finite"),
    "too few scores": ({"lie_hits": change(scores=lambda s: s[:-1])}, "scores for as many"),
    "the worst first": ({"lie_hits": swap_ends}, "another order"),
    "vectors of another length": ({"lie_hits": change(vectors=lambda v: v * 2, scores=lambda s: s * 2)}, "of length 2"),
    "shorter ones": ({"lie_hits": change(vectors=lambda v: v * 0.9, scores=lambda s: s * 0.9)}, "all have length 1"),
    "vectors of another dimension": ({"lie_hits": change(vectors=lambda v: v[:, :-1])}, "of 16 numbers"),
    "vectors that are not finite": ({"lie_hits": change(vectors=lambda v: v * np.inf)}, "not finite"),
    "vectors as a list": ({"lie_hits": change(vectors=lambda v: v.tolist())}, "array of numbers"),
    "ids that are numbers": ({"lie_hits": change(ids=lambda ids: [int(i[1:]) for i in ids])}, "ids as text"),
    "one id twice": ({"lie_hits": change(ids=lambda ids: [ids[0], *ids[:-1]])}, "twice"),
    "more ids than vectors": ({"lie_hits": change(ids=lambda ids: [*ids, "x"])}, "as many ids"),
    "places that are no numbers": ({"lie_hits": change(places=lambda p: p.astype(str))}, "places"),
    "scores raised by no number": ({"lie_hits": change(slack=lambda s: float("nan"))}, "0 or more"),
    "places without a row": ({"lie_hits": change(places=lambda p: p[:-1])}, "places"),
    "fewer documents counted": ({"lie_ref": lambda ref: replace(ref, count=300)}, "miscounts"),
    "fewer documents counted than a pool and its questions bring": (
        {"lie_ref": lambda ref: replace(ref, count=505)},
        "miscounts|all",
    ),
    "a negative count": ({"lie_ref": lambda ref: replace(ref, count=-1)}, "0 or more"),
    "a count that is no number": ({"lie_ref": lambda ref: replace(ref, count="900")}, "0 or more"),
    "another dimension": ({"lie_ref": lambda ref: replace(ref, dimension=3)}, "3 numbers"),
    "no length": ({"lie_ref": lambda ref: replace(ref, longest=float("nan"))}, "not finite"),
    "a length beyond all numbers": ({"lie_ref": lambda ref: replace(ref, longest=1e308, unit=None)}, "at most 4.61e"),
    "a longest vector that is not": ({"lie_ref": lambda ref: replace(ref, longest=0.5, unit=None)}, "longer than 0.5"),
}
# Some machines have no numbers wider than float64.
if np.dtype(np.longdouble).itemsize > np.dtype(float).itemsize:
    LIES["vectors of 128 bits"] = ({"lie_hits": change(vectors=lambda v: v.astype(np.longdouble))}, "array of numbers")


@pytest.mark.threat(
    "a vector engine that returns other scores, orders, lengths, dimensions, places, ids, or counts than it says",
    "an error that names the store and the contradiction, never an answer called proven",
)
@pytest.mark.parametrize("lie", LIES)
def test_store_that_contradicts_itself_is_an_error_with_its_name(lie):
    rows, queries = rows_and_queries()
    lies, message = LIES[lie]
    store_class = type("Lying", (Liar,), {name: staticmethod(value) for name, value in lies.items()})
    with pytest.raises(DataError, match=message) as caught:
        reach = Reach(store_class(corpus(rows)[0], rows, name=NAME), exact=True)
        for name, params in (("top_k", {}), ("mmr", {"relevance_weight": 0.3}), ("nnn", {"l1": 0.05, "l2": 0.0})):
            engine.decode(decoder(name, params), reach, queries, 8)
    assert NAME in str(caught.value)


class Forgetful(ArrayStore):
    """An engine that says it looked at all documents, and looked at those of even rows in all but every other call."""

    calls = 0

    def _search(self, points, sizes, exact, where):
        self.calls += 1
        if self.calls % 2 == 0:
            return super()._search(points, sizes, exact, where)
        even = ArrayStore(self.ids[::2], self.vectors[::2])
        return even._search(points, sizes, exact, where)


def test_exact_search_that_left_out_a_better_document_is_noticed_once_that_comes_back(monkeypatch):
    monkeypatch.setattr(engine.reach, "INITIAL_POOL_SIZE", 20)
    monkeypatch.setattr(engine.reach, "POOL_MARGIN", 4)
    rows, queries = rows_and_queries()
    reach = Reach(Forgetful(corpus(rows)[0], rows, name=NAME), exact=True)
    with pytest.raises(DataError, match=f"{NAME} contradicts itself"):
        engine.decode(decoder("mmr", {"relevance_weight": 0.3}), reach, queries[:1], 8)


def break_method(name, error=None, result=None):
    """Return a driver of which one method fails, or returns something else."""

    def broken(self, *_, **__):
        if error is not None:
            raise error
        return result

    def broken_scan(self, *_):
        if error is not None:
            raise error
        yield result

    members = {"ref": property(broken), "scan": broken_scan, "snapshot": broken}
    return type("Broken", (ArrayStore,), {name: members.get(name, broken)})


CALLS = {
    "_search": lambda store: store.search(np.ones(4), 2),
    "count": lambda store: store.count(),
    "ref": lambda store: store.ref,
    "ref_of": lambda store: store.ref_of(None),
    "texts": lambda store: store.texts(["a", "b"]),
    "sample": lambda store: store.sample(2),
    "scan": lambda store: list(store.scan(2)),
    "snapshot": lambda store: store.snapshot().__enter__(),
}


@pytest.mark.threat(
    "a vector engine whose driver raises its own errors, with a secret in them",
    "a DataError that names the store and the error's class, without the driver's words",
)
@pytest.mark.parametrize("method", CALLS)
@pytest.mark.parametrize("error", [KeyError(SECRET), TypeError(SECRET), IndexError(), ValueError(), RuntimeError()])
def test_error_of_a_driver_names_the_store_and_not_its_words(method, error):
    store = break_method(method, error=error)(["a", "b", "c"], np.eye(3, 4, dtype=np.float32), name=NAME)
    with pytest.raises(DataError, match=f"driver of {NAME} failed with {type(error).__name__}") as caught:
        CALLS[method](store)
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize(
    ("method", "result"),
    [
        ("count", "3"), ("count", -1), ("count", True),
        ("texts", ["one"]), ("texts", None), ("texts", ["one", 2]),
        ("sample", (("a",), np.ones((1, 3), np.float32))), ("sample", (("a", "b"), np.ones((1, 4), np.float32))),
        ("scan", (("a",), np.ones((1, 3), np.float32))), ("scan", (("a",), np.full((1, 4), np.nan))),
        ("scan", None), ("_search", ([], "plan", True)), ("_search", None), ("ref_of", None),
    ],
)  # fmt: skip
def test_result_of_another_form_names_the_store(method, result):
    store = break_method(method, result=result)(["a", "b", "c"], np.eye(3, 4, dtype=np.float32), name=NAME)
    with pytest.raises(DataError, match=NAME):
        CALLS[method](store)


def test_error_of_whoever_reads_inside_a_snapshot_or_a_scan_stays_as_it_is():
    store = ArrayStore(["a", "b"], np.eye(2, 4, dtype=np.float32), name=NAME)
    with pytest.raises(KeyError, match="of the reader"), store.snapshot():
        raise KeyError("of the reader")
    parts = store.scan(1)
    next(parts)
    with pytest.raises(KeyError, match="of the reader"):
        parts.throw(KeyError("of the reader"))


def test_scores_within_float16_are_accepted_and_widen_the_floor():
    rows, queries = rows_and_queries(200)
    rounded = type(
        "Rounded", (Liar,), {"lie_hits": staticmethod(change(scores=lambda s: s.astype(np.float16).astype(float)))}
    )
    exact, coarse = (
        kind(corpus(rows)[0], rows, name=NAME).search(np.asarray(queries), 9, exact=True)
        for kind in (ArrayStore, rounded)
    )
    assert (coarse.floor >= exact.floor).all() and coarse.ids == exact.ids
