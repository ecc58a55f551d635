"""Indexes that find nearest neighbours approximately, by faiss (extra `ann`): HNSW, Malkov and Yashunin 2018; IVF."""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np

from engine.errors import Cancelled, FrontierError, ParamError
from engine.params import Declared, Whole, declare, params_of, values_of
from engine.progress import Stop

ADDED = 1024
"""How many vectors are added between two looks at whether to stop."""
STOPPED = "the search was stopped; what was measured is kept by whoever asked for it"


def faiss_module() -> Any:
    """faiss. Raises FrontierError where it is not installed."""
    try:
        import faiss
    except ImportError:
        raise FrontierError(
            "approximate search needs faiss, which is not installed: pip install 'frontier-retrieval[ann]'"
        ) from None
    return faiss


@contextmanager
def one_thread() -> Iterator[Any]:
    """faiss on one thread, so that times compare and graphs are the same every time; afterwards as many as before."""
    faiss = faiss_module()
    before = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(1)
    try:
        yield faiss
    finally:
        faiss.omp_set_num_threads(before)


class Index(Declared, ABC):
    """A frozen dataclass whose fields are its declared parameters; the score is the inner product."""

    kind: ClassVar[str]
    title: ClassVar[str]
    effort: ClassVar[str | None] = None
    """The parameter that is set for a search, not for the index."""

    @property
    def label(self) -> str:
        """The index and how it is searched, as text."""
        values = ", ".join(f"{name}={value}" for name, value in values_of(self).items())
        return f"{self.kind}({values})" if values else self.kind

    def as_json(self) -> dict[str, Any]:
        """Kind and parameters as plain values; `index_of` reads them."""
        return {"kind": self.kind, **values_of(self)}

    @property
    def built(self) -> dict[str, Any]:
        """Parameters of the index itself: settings with equal ones share it."""
        return {name: value for name, value in self.as_json().items() if name != self.effort}

    def check(self, count: int) -> None:
        """Raise ParamError where so many vectors cannot be indexed so."""
        return

    @abstractmethod
    def build(self, faiss: Any, vectors: np.ndarray, seed: int, stop: Stop | None = None) -> Any:
        """faiss's index of (r, d) float32 vectors. Raises Cancelled."""

    def aim(self, index: Any) -> None:
        """Set what is of the search in a built index."""
        return

    @classmethod
    def usual(cls, count: int, **fixed: Any) -> tuple[Self, ...]:
        """The settings that are tried on so many vectors, from quick to thorough; fixed: those that do not vary."""
        return (cls(**fixed),)


def _root(count: int) -> int:
    return max(1, round(math.sqrt(count)))


def _added(index: Any, vectors: np.ndarray, stop: Stop | None) -> Any:
    for start in range(0, len(vectors), ADDED):
        if stop is not None and stop.is_set():
            raise Cancelled(STOPPED)
        index.add(vectors[start : start + ADDED])
    return index


@dataclass(frozen=True)
class Exact(Index):
    """Every vector is compared with the query."""

    kind: ClassVar[str] = "exact"
    title: ClassVar[str] = "Exact"

    def build(self, faiss: Any, vectors: np.ndarray, seed: int, stop: Stop | None = None) -> Any:
        return _added(faiss.IndexFlatIP(vectors.shape[1]), vectors, stop)


@dataclass(frozen=True)
class Hnsw(Index):
    """A graph of near neighbours in layers, walked greedily towards the query."""

    kind: ClassVar[str] = "hnsw"
    title: ClassVar[str] = "HNSW"
    effort: ClassVar[str] = "breadth"

    links: int = declare(Whole(16, "M", 2, 512, comfortable=(8, 64)), "Links a vector has to others.")
    construction: int = declare(
        Whole(100, "efConstruction", 1, 100_000, comfortable=(40, 400)),
        "How many candidates are kept while a vector looks for its links.",
    )
    breadth: int = declare(
        Whole(64, "efSearch", 1, 1_000_000, comfortable=(8, 512), swept=(8, 16, 32, 64, 128, 256, 512)),
        "How many candidates are kept in a search; never fewer than the hits that are asked for.",
    )

    def build(self, faiss: Any, vectors: np.ndarray, seed: int, stop: Stop | None = None) -> Any:
        index = faiss.IndexHNSWFlat(vectors.shape[1], self.links, faiss.METRIC_INNER_PRODUCT)
        index.hnsw.efConstruction = self.construction
        index.hnsw.rng = faiss.RandomGenerator(seed)
        return _added(index, vectors, stop)

    def aim(self, index: Any) -> None:
        index.hnsw.efSearch = self.breadth

    @classmethod
    def usual(cls, count: int, **fixed: Any) -> tuple[Self, ...]:
        swept = next(p.swept for p in params_of(cls) if p.name == cls.effort) or ()
        graphs = [fixed] if "links" in fixed else [{**fixed, "links": links} for links in (8, 32)]
        return tuple(cls(**graph, breadth=breadth) for graph in graphs for breadth in swept)


@dataclass(frozen=True)
class Ivf(Index):
    """Vectors in cells round centres that k-means found; only the cells nearest to the query are searched."""

    kind: ClassVar[str] = "ivf"
    title: ClassVar[str] = "IVF"
    effort: ClassVar[str] = "probes"

    cells: int | None = declare(
        Whole(None, "nlist", 1, 1_000_000, comfortable=(8, 4096), unset="the root of the number of vectors"),
        "Cells of the index.",
    )
    probes: int = declare(
        Whole(1, "nprobe", 1, 1_000_000, comfortable=(1, 64)),
        "Cells that are searched; all of them is an exact search.",
    )

    def check(self, count: int) -> None:
        for name, most, what in (("cells", count, "vectors"), ("probes", self.cells or _root(count), "cells")):
            if (getattr(self, name) or 0) > most:
                param = next(p for p in params_of(self) if isinstance(p, Whole) and p.name == name)
                refusal = replace(param, high=most).refuse(getattr(self, name))
                raise ParamError(f"{refusal}: the index has {most:,} {what}")

    def build(self, faiss: Any, vectors: np.ndarray, seed: int, stop: Stop | None = None) -> Any:
        dimension, cells = vectors.shape[1], self.cells or _root(len(vectors))
        index = faiss.IndexIVFFlat(faiss.IndexFlatIP(dimension), dimension, cells, faiss.METRIC_INNER_PRODUCT)
        index.cp.seed = seed
        # faiss warns on the terminal about fewer than 39 vectors a cell, which small corpora always have.
        index.cp.min_points_per_centroid = 1
        index.train(vectors)
        return _added(index, vectors, stop)

    def aim(self, index: Any) -> None:
        index.nprobe = self.probes

    @classmethod
    def usual(cls, count: int, **fixed: Any) -> tuple[Self, ...]:
        cells = min(fixed.get("cells") or _root(count), count)
        doubled = (2**step for step in range(cells.bit_length()))
        return tuple(cls(cells=cells, probes=probes) for probes in dict.fromkeys([*doubled, cells]))


INDEXES: dict[str, type[Index]] = {cls.kind: cls for cls in (Hnsw, Ivf)}
"""The approximate ones by name."""


def usual(
    count: int, kinds: Sequence[str] = tuple(INDEXES), fixed: Mapping[str, Mapping[str, Any]] | None = None
) -> tuple[Index, ...]:
    """What is tried on so many vectors where nobody says; fixed: kind → what of its parameters does not vary.

    Raises ParamError for a kind that does not exist.
    """
    if unknown := [kind for kind in kinds if kind not in INDEXES]:
        raise ParamError(f"an index must be one of {', '.join(INDEXES)}; got {unknown[0]!r}")
    return tuple(
        index for kind in dict.fromkeys(kinds) for index in INDEXES[kind].usual(count, **(fixed or {}).get(kind, {}))
    )
