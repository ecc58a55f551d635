"""Scorer, Selector and the registry of both by name."""

from __future__ import annotations

import importlib
import math
import pkgutil
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from functools import cache
from typing import Any, ClassVar, Literal, Self, TypeVar, overload

from torch import Tensor

from engine.candidates import Candidates
from engine.errors import ParamError
from engine.multi_vector import Parts
from engine.params import Declared, Param, Real, Whole, checked, params_of, values_of
from engine.solvers.elastic_net.path import WeightPath
from engine.solvers.lines import LambdaPath
from engine.solvers.questions import LinearQuestion
from engine.space import QueryBatch, Space
from engine.values import Ranking

Kind = Literal["scorer", "selector"]

RELEVANCE_WEIGHT = Real(0.8, "λ", 0.0, 1.0, name="relevance_weight", help="1 is pure relevance, 0 pure diversity.")
"""λ of the trade-off selectors; each replaces the help text with its own."""
WINDOW = Whole(
    default=None,
    low=1,
    comfortable=(1, 20),
    unset="all of them",
    symbol="w",
    name="window",
    help="Unlike the last so many picks only.",
    advanced=True,
)
"""Window of the greedy selectors."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spec:
    """A registered method's description, from its `register` call.

    order: its place in lists and in the palette
    summary: first line of the class's docstring
    cls: the stage class
    presets: named settings of some parameters
    """

    name: str
    kind: Kind
    title: str
    paper: str
    equation: str
    cost: str
    summary: str
    order: int
    params: tuple[Param, ...]
    cls: type[Stage]
    presets: Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectorSpec(Spec):
    """The description of a selector."""

    cls: type[Selector]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScorerSpec(Spec):
    """The description of a scorer."""

    cls: type[Scorer]


class Stage(Declared, ABC):
    """A frozen dataclass with declared parameters as its only fields, checked when it is made."""

    spec: ClassVar[Spec]

    @property
    def label(self) -> str:
        """The stage as text, for example mmr(relevance_weight=0.7): equal exactly when the stages are."""
        values = ", ".join(f"{p.name}={p.text(getattr(self, p.name))}" for p in self.spec.params)
        return f"{self.spec.name}({values})" if values else self.spec.name

    def as_json(self) -> dict[str, Any]:
        """Name and parameters as plain JSON values, the keyword arguments of `make`."""
        return {"name": self.spec.name, **values_of(self)}


class Selector(Stage):
    """Picks a set of documents, each pick seen beside the others."""

    nested: ClassVar[bool] = False
    """From k = 2 on, the answer for a smaller k is a prefix of that for a larger one."""

    by_scores: ClassVar[bool] = True
    """The scores are its relevance; if False, they only make the pool and it works on the vectors alone."""

    first_by_scores: ClassVar[bool] = False
    """The first document is chosen by the scores, the others by the vectors."""

    path_parameter: ClassVar[str] = "relevance_weight"
    """What `lambda_path` runs over."""

    def select(self, candidates: Candidates, k: int) -> Ranking:
        """The k candidates of each problem, best first, 1 ≤ k ≤ candidates.count: override this or `select_grid`."""
        return self.select_grid([self], candidates, k)[0]

    @property
    def ground_size(self) -> int:
        """How many of the most relevant documents its answers need at least, of a corpus of which a part is at hand."""
        return 0

    def questions(self, candidates: Candidates, ranking: Ranking) -> list[LinearQuestion] | None:
        """What decides whether its answer for one query, from these candidates, is that from a whole corpus.

        It is where no document outside has u·point > limit, for each (point, limit). None where no such questions are
        known: the answer is one of the candidates.
        """
        return None

    @classmethod
    def select_grid(cls, stages: Sequence[Self], candidates: Candidates, k: int) -> list[Ranking]:
        """The selections of several stages of this class."""
        if cls.select is Selector.select:
            raise NotImplementedError(f"{cls.__name__} overrides neither select nor select_grid")
        return [stage.select(candidates, k) for stage in stages]

    @classmethod
    def warm(cls) -> None:
        """Do what the first call in a process would wait for, such as compilation."""

    @classmethod
    def is_warm(cls) -> bool:
        """Whether calls take the time that they always take, once `warm` was called; else the first few are slower."""
        return True

    @classmethod
    def has_weights(cls) -> bool:
        """Whether the answers come from weights, which have a path over λ₁."""
        return cls.weights_path is not Selector.weights_path

    def weights_path(self, candidates: Candidates, lowest: float) -> WeightPath | None:
        """The weights of one query's candidates as functions of λ₁, down to `lowest`; None without weights."""
        return None

    @property
    def no_path(self) -> str | None:
        """Why its rankings are not known at every value of `path_parameter`; None where they are."""
        if type(self).lambda_path is not Selector.lambda_path:
            return None
        others = [
            name for name, spec in methods("selector").items() if spec.cls.lambda_path is not Selector.lambda_path
        ]
        return (
            f"{self.spec.name} has no path: there is one where every gain is a line in the parameter, as for "
            f"{', '.join(others)}; for some values of a parameter use engine.select_grid"
        )

    @property
    def path_range(self) -> tuple[float, float] | None:
        """The ends of `path_parameter`'s range, where there is a path from one to the other."""
        over = next((p for p in self.spec.params if p.name == self.path_parameter), None)
        ends = (over.low, over.high) if isinstance(over, Real) and self.no_path is None else (0.0, math.inf)
        return ends if math.isfinite(ends[1]) else None

    def lambda_path(
        self, candidates: Candidates, k: int, interval: tuple[float, float], marks: Sequence[float] = ()
    ) -> list[LambdaPath]:
        """Each query's rankings at every value of `path_parameter` in an interval; only without `no_path`."""
        raise NotImplementedError(self.no_path)


class Scorer(Stage):
    """Gives every document a score for each query."""

    inner_product: ClassVar[bool] = False
    """The score is the inner product of the space's vectors with the queries', so float64 can settle close calls."""

    words: ClassVar[bool] = False
    """It reads the queries' texts."""

    vectors: ClassVar[bool] = True
    """It reads the queries' vectors."""

    rerank_only: ClassVar[bool] = False
    """Too slow per document for a whole corpus: it scores pools."""

    @property
    def corpus_wide(self) -> bool:
        """A document's score depends on the other documents, so that some of them alone are scored differently."""
        return False

    def consent_needed(self, space: Space) -> str | None:
        """The cost to confirm before the first score, such as a download or an hour's embedding; None for none."""
        return None

    def cache_dependencies(self, space: Space) -> Mapping[str, str]:
        """Digests, by name, that the scores depend on besides parameters, corpus, vectors and queries."""
        return {}

    def prepare(self, space: Space) -> Any:
        """What every query needs, such as an index, derived from a space once: now, or else by the first `score`."""
        return None

    def document_vectors(self, space: Space) -> Parts | None:
        """Document vectors for nearest-neighbour search, or None if the score is not a maximum of inner products."""
        return None

    @abstractmethod
    def score(self, space: Space, queries: QueryBatch, rows: Tensor | None = None) -> Tensor:
        """(B, n) scores of all documents; with rows, (B, m) int64 per query, the (B, m) scores of those alone."""


S = TypeVar("S", bound=type[Stage])
_SPECS: dict[str, Spec] = {}


def register(
    name: str,
    *,
    title: str,
    paper: str,
    equation: str,
    cost: str,
    order: int = 1000,
    presets: Mapping[str, Mapping[str, Any]] | None = None,
) -> Callable[[S], S]:
    """Register a Selector or Scorer under `name`; stands above its @dataclass(frozen=True)."""

    def add(cls: S) -> S:
        if name in _SPECS:
            raise RuntimeError(f"two methods call themselves {name!r}")
        if not is_dataclass(cls) or "__dataclass_fields__" not in vars(cls):
            raise RuntimeError(f"put @register above @dataclass(frozen=True) on {cls.__name__}")
        if extra := [f.name for f in fields(cls) if "param" not in f.metadata]:
            raise RuntimeError(f"{cls.__name__} has fields that are not declared parameters: {', '.join(extra)}")
        params = params_of(cls)
        made: type[Spec] = SelectorSpec if issubclass(cls, Selector) else ScorerSpec
        cls.spec = _SPECS[name] = made(
            name=name,
            kind="selector" if issubclass(cls, Selector) else "scorer",
            title=title,
            paper=paper,
            equation=equation,
            cost=cost,
            summary=(cls.__doc__ or "").strip().splitlines()[0],
            order=order,
            params=params,
            cls=cls,
            presets={label: checked(params, values, name) for label, values in (presets or {}).items()},
        )
        return cls

    return add


@cache
def _discover() -> None:
    # Adding a method is adding a file: every module of the two packages registers itself when imported.
    for package in ("engine.selection", "engine.scoring"):
        for module in pkgutil.iter_modules(importlib.import_module(package).__path__):
            importlib.import_module(f"{package}.{module.name}")


@overload
def methods(kind: Literal["selector"]) -> dict[str, SelectorSpec]: ...
@overload
def methods(kind: Literal["scorer"]) -> dict[str, ScorerSpec]: ...
@overload
def methods(kind: Kind | None = None) -> dict[str, Spec]: ...
def methods(kind: Kind | None = None) -> Any:
    """The registered methods by name, in their order: kind "selector", "scorer" or None for all."""
    if kind not in (None, "selector", "scorer"):
        raise ParamError(f'kind must be "selector", "scorer" or None; got {kind!r}')
    _discover()
    specs = sorted(_SPECS.values(), key=lambda s: (s.kind == "scorer", s.order, s.name))
    return {s.name: s for s in specs if kind in (None, s.kind)}


@overload
def spec_of(name: str, kind: Literal["selector"]) -> SelectorSpec: ...
@overload
def spec_of(name: str, kind: Literal["scorer"]) -> ScorerSpec: ...
@overload
def spec_of(name: str, kind: Kind | None = None) -> Spec: ...
def spec_of(name: str, kind: Kind | None = None) -> Spec:
    """The method called `name`; ParamError lists the registered names."""
    registered = methods(kind)
    if not isinstance(name, str) or name not in registered:
        raise ParamError(f"no {kind or 'method'} is called {name!r}; there are {', '.join(registered)}")
    return registered[name]


def make(name: str, **params: Any) -> Any:
    """A stage by name with its parameters, checked: make("mmr", relevance_weight=0.7)."""
    spec = spec_of(name)
    return spec.cls(**checked(spec.params, params, name))


def make_selector(name: str, **params: Any) -> Selector:
    """A selector by name with its parameters, checked."""
    spec = spec_of(name, "selector")
    return spec.cls(**checked(spec.params, params, name))


def make_scorer(name: str, **params: Any) -> Scorer:
    """A scorer by name with its parameters, checked."""
    spec = spec_of(name, "scorer")
    return spec.cls(**checked(spec.params, params, name))
