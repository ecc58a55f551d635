"""Approximate nearest-neighbour indexes of faiss (extra `ann`): HNSW, Malkov and Yashunin 2018; IVF."""

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

ADD_BLOCK_SIZE = 1024
"""Vectors added between two checks for cancellation."""
SEARCH_STOPPED = "the search was stopped; what was measured is kept by whoever asked for it"


def import_faiss() -> Any:
    """Import faiss. Raises FrontierError where it is not installed."""
    try:
        import faiss
    except ImportError:
        raise FrontierError(
            "approximate search needs faiss, which is not installed: pip install 'frontier-retrieval[ann]'"
        ) from None
    return faiss


@contextmanager
def limit_to_one_thread() -> Iterator[Any]:
    """Limit faiss to one thread in the block, for comparable times and reproducible graphs."""
    faiss = import_faiss()
    n_threads = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(1)
    try:
        yield faiss
    finally:
        faiss.omp_set_num_threads(n_threads)


class Index(Declared, ABC):
    """Settings of an index for nearest-vector search by inner product; subclasses are frozen dataclasses.

    The fields are the declared parameters. One of them may be the effort: the breadth of a search, which trades time
    for recall and can be changed after the index is built.
    """

    kind: ClassVar[str]
    title: ClassVar[str]
    effort: ClassVar[str | None] = None
    """The parameter that is set for a search, not for the index."""

    @property
    def label(self) -> str:
        """The index with its parameters, search effort included, as text."""
        values = ", ".join(f"{name}={value}" for name, value in values_of(self).items())
        return f"{self.kind}({values})" if values else self.kind

    def as_json(self) -> dict[str, Any]:
        """Return kind and parameters as plain values."""
        return {"kind": self.kind, **values_of(self)}

    @property
    def build_parameters(self) -> dict[str, Any]:
        """The parameters of the built index: settings that share them share the index."""
        return {name: value for name, value in self.as_json().items() if name != self.effort}

    def check(self, n_vectors: int) -> None:
        """Raise a ParamError if that many vectors cannot be indexed with these parameters."""
        return

    @abstractmethod
    def build(self, faiss: Any, vectors: np.ndarray, seed: int, stop: Stop | None = None) -> Any:
        """Build faiss's index of (r, d) float32 vectors. Raises Cancelled."""

    def apply_effort(self, built_index: Any) -> None:
        """Set the search effort of a built index."""
        return

    @classmethod
    def usual_settings(cls, n_vectors: int, **fixed: Any) -> tuple[Self, ...]:
        """Return settings to try on that many vectors, from quick to thorough; fixed: parameters that stay."""
        return (cls(**fixed),)


def _default_cells(n_vectors: int) -> int:
    """Return √n: comparing with all centres then costs about as much as comparing within one cell."""
    return max(1, round(math.sqrt(n_vectors)))


def _add_vectors(built_index: Any, vectors: np.ndarray, stop: Stop | None) -> Any:
    """Add vectors to an index block by block, so that a long build can be cancelled."""
    for block_start in range(0, len(vectors), ADD_BLOCK_SIZE):
        if stop is not None and stop.is_set():
            raise Cancelled(SEARCH_STOPPED)
        built_index.add(vectors[block_start : block_start + ADD_BLOCK_SIZE])
    return built_index


@dataclass(frozen=True)
class Exact(Index):
    """Every vector is compared with the query."""

    kind: ClassVar[str] = "exact"
    title: ClassVar[str] = "Exact"

    def build(self, faiss: Any, vectors: np.ndarray, seed: int, stop: Stop | None = None) -> Any:
        return _add_vectors(faiss.IndexFlatIP(vectors.shape[1]), vectors, stop)


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
        """Build the graph index over (n, d) vectors, reproducibly by the seed."""
        built_index = faiss.IndexHNSWFlat(vectors.shape[1], self.links, faiss.METRIC_INNER_PRODUCT)
        built_index.hnsw.efConstruction = self.construction
        # The layer of each vector is drawn at random: seeded, and on one thread, a graph is reproducible.
        built_index.hnsw.rng = faiss.RandomGenerator(seed)
        return _add_vectors(built_index, vectors, stop)

    def apply_effort(self, built_index: Any) -> None:
        """Set how many candidates a search keeps."""
        built_index.hnsw.efSearch = self.breadth

    @classmethod
    def usual_settings(cls, n_vectors: int, **fixed: Any) -> tuple[Self, ...]:
        """Return settings with 8 and 32 links, unless links are fixed, at every usual breadth.

        Links are a vector's neighbours in the graph; the breadth is the number of candidates that a search keeps.
        """
        breadths = next(param.swept for param in params_of(cls) if param.name == cls.effort) or ()
        graph_settings = [fixed] if "links" in fixed else [{**fixed, "links": n_links} for n_links in (8, 32)]
        return tuple(cls(**graph_params, breadth=breadth) for graph_params in graph_settings for breadth in breadths)


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

    def check(self, n_vectors: int) -> None:
        """Raise a ParamError for more cells than vectors, or more cells to search than the index has.

        A cell is a k-means cluster of vectors; `probes` is the number of cells that a query searches.
        """
        # The declared ranges do not know the corpus: here they end at its vectors, and at the cells of the index.
        n_cells = self.cells or _default_cells(n_vectors)
        for name, maximum, unit in (("cells", n_vectors, "vectors"), ("probes", n_cells, "cells")):
            if (getattr(self, name) or 0) > maximum:
                param = next(param for param in params_of(self) if isinstance(param, Whole) and param.name == name)
                # A copy of the declaration with the corpus's own limit words the error.
                refusal = replace(param, high=maximum).refuse(getattr(self, name))
                raise ParamError(f"{refusal}: the index has {maximum:,} {unit}")

    def build(self, faiss: Any, vectors: np.ndarray, seed: int, stop: Stop | None = None) -> Any:
        """Train the cells by k-means and add the (n, d) vectors."""
        dimension, n_cells = vectors.shape[1], self.cells or _default_cells(len(vectors))
        built_index = faiss.IndexIVFFlat(faiss.IndexFlatIP(dimension), dimension, n_cells, faiss.METRIC_INNER_PRODUCT)
        built_index.cp.seed = seed
        # faiss warns on the terminal about fewer than 39 vectors a cell, which small corpora always have.
        built_index.cp.min_points_per_centroid = 1
        built_index.train(vectors)
        return _add_vectors(built_index, vectors, stop)

    def apply_effort(self, built_index: Any) -> None:
        """Set how many cells a search visits."""
        built_index.nprobe = self.probes

    @classmethod
    def usual_settings(cls, n_vectors: int, **fixed: Any) -> tuple[Self, ...]:
        """Return settings with doubling numbers of probed cells, up to all of them.

        A cell is a k-means cluster of vectors; a query is compared with the vectors of the nearest `probes` cells only.
        n_vectors: in the index; fixed: `cells`, where their number is given.
        """
        # The effort doubles from setting to setting; the last one searches all cells, which is exact.
        n_cells = min(fixed.get("cells") or _default_cells(n_vectors), n_vectors)
        powers_of_two = (2**exponent for exponent in range(n_cells.bit_length()))
        return tuple(cls(cells=n_cells, probes=n_probes) for n_probes in dict.fromkeys([*powers_of_two, n_cells]))


INDEXES: dict[str, type[Index]] = {cls.kind: cls for cls in (Hnsw, Ivf)}
"""The approximate ones by name."""


def usual_indexes(
    n_vectors: int, kinds: Sequence[str] = tuple(INDEXES), fixed: Mapping[str, Mapping[str, Any]] | None = None
) -> tuple[Index, ...]:
    """Return the settings of vector indexes that are worth trying on `n_vectors` vectors.

    kinds: names of index types; fixed: kind → parameters to hold fixed, the others being varied. Raises ParamError for
    a kind that does not exist.
    """
    if unknown_kinds := [kind for kind in kinds if kind not in INDEXES]:
        raise ParamError(f"an index must be one of {', '.join(INDEXES)}; got {unknown_kinds[0]!r}")
    settings: list[Index] = []
    for kind in dict.fromkeys(kinds):
        settings += INDEXES[kind].usual_settings(n_vectors, **(fixed or {}).get(kind, {}))
    return tuple(settings)
