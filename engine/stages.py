"""Scorer, Selector and the registry: names to stages, filled when the engine is imported and never after."""

from __future__ import annotations

import importlib
import pkgutil
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, is_dataclass
from functools import cache
from typing import Any, ClassVar, Literal, Self, TypeVar

from torch import Tensor

from engine.candidates import Candidates
from engine.errors import ParamError
from engine.params import Param, Real, Whole, checked, params_of, undeclared_fields, values_of
from engine.parts import Parts
from engine.solvers.regularization_path import WeightPath
from engine.space import QueryBatch, Space
from engine.values import Ranking

Kind = Literal["scorer", "selector"]

RELEVANCE_WEIGHT = Real(
    default=0.8,
    low=0.0,
    high=1.0,
    symbol="λ",
    name="relevance_weight",
    help="1 is pure relevance, 0 pure diversity.",
)
"""What many selectors have; `replace` gives it their words."""
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
"""What selectors that pick one by one have."""


@dataclass(frozen=True, slots=True)
class Spec:
    """What is known of a method without running it.

    order: its place in lists and in the palette; cls: the stage itself; presets: named settings of some parameters.
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


class Stage(ABC):
    """A frozen dataclass whose fields are its declared parameters, checked when it is made."""

    spec: ClassVar[Spec]

    def __post_init__(self) -> None:
        for param in params_of(self):
            object.__setattr__(self, param.name, param.check(getattr(self, param.name)))

    @property
    def label(self) -> str:
        """The stage as text, for example mmr(relevance_weight=0.7): equal exactly when the stages are."""
        values = ", ".join(f"{p.name}={p.text(getattr(self, p.name))}" for p in self.spec.params)
        return f"{self.spec.name}({values})" if values else self.spec.name

    def as_json(self) -> dict[str, Any]:
        """Name and parameters as plain JSON values; `make(**…)` reads them back."""
        return {"name": self.spec.name, **values_of(self)}


class Selector(Stage):
    """Picks a set knowing the whole set."""

    nested: ClassVar[bool] = False
    """The answer for a smaller k, from 2 on, is the beginning of that for a larger one."""

    by_scores: ClassVar[bool] = True
    """The scorer's numbers are its relevance; else it works on the vectors alone, and the scorer makes the pool."""

    first_by_scores: ClassVar[bool] = False
    """Only the first document is chosen by the scores that scorers give, the others by the vectors."""

    @abstractmethod
    def select(self, candidates: Candidates, k: int) -> Ranking:
        """The k candidates of each problem, best first; 1 ≤ k ≤ candidates.count is the caller's to see to."""

    @classmethod
    def select_grid(cls, stages: Sequence[Self], candidates: Candidates, k: int) -> list[Ranking]:
        """What each of several stages of this class selects; a class whose stages can share work overrides it."""
        return [stage.select(candidates, k) for stage in stages]

    @classmethod
    def warm(cls) -> None:
        """Make ready whatever the first call in a process would wait for."""
        return

    @classmethod
    def weighs(cls) -> bool:
        """Whether its answers are made of weights, which have a path."""
        return cls.path is not Selector.path

    def path(self, candidates: Candidates, lowest: float) -> WeightPath | None:
        """The weights of one query's candidates as functions of λ₁, down to `lowest`; None where there are none."""
        return None


class Scorer(Stage):
    """Gives every document a number."""

    inner_product: ClassVar[bool] = False
    """The score is the inner product of the space's vectors with the queries', so float64 can settle close calls."""

    words: ClassVar[bool] = False
    """It reads the queries' texts, not only their vectors."""

    for_pools: ClassVar[bool] = False
    """So slow a document that it is made to score a pool, not a whole corpus."""

    def missing(self, space: Space) -> str | None:
        """What somebody should agree to before its first score, a download or an hour's embedding; None for nothing."""
        return None

    def reads(self, space: Space) -> Mapping[str, str]:
        """Digests by name of what its scores depend on besides parameters, corpus, vectors and queries."""
        return {}

    def prepare(self, space: Space) -> None:
        """Derive from a space, once, what every query needs, such as an index; `score` does it where nobody did."""
        return

    def entries(self, space: Space) -> Parts | None:
        """The vectors that a search for nearest neighbours looks through: a document's score is the largest inner
        product of its own with the query's. None for scores that are no such thing."""
        return None

    @abstractmethod
    def score(self, space: Space, queries: QueryBatch, rows: Tensor | None = None) -> Tensor:
        """(B, n) scores of all documents, or (B, m) of each query's own rows, (B, m) int64: only those are scored."""


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
    """Enter a stage under `name`; stands above @dataclass(frozen=True) on a Selector or Scorer."""

    def add(cls: S) -> S:
        if name in _SPECS:
            raise RuntimeError(f"two methods call themselves {name!r}")
        if not is_dataclass(cls) or "__dataclass_fields__" not in vars(cls):
            raise RuntimeError(f"put @register above @dataclass(frozen=True) on {cls.__name__}")
        if extra := undeclared_fields(cls):
            raise RuntimeError(f"{cls.__name__} has fields that are not declared parameters: {', '.join(extra)}")
        kind: Kind = "selector" if issubclass(cls, Selector) else "scorer"
        summary = (cls.__doc__ or "").strip().splitlines()[0]
        params = params_of(cls)
        named = {label: checked(params, values, name) for label, values in (presets or {}).items()}
        cls.spec = _SPECS[name] = Spec(name, kind, title, paper, equation, cost, summary, order, params, cls, named)
        return cls

    return add


@cache
def _discover() -> None:
    # Adding a method is adding a file: every module of the two packages registers itself when imported.
    for package in ("engine.selection", "engine.scoring"):
        for module in pkgutil.iter_modules(importlib.import_module(package).__path__):
            importlib.import_module(f"{package}.{module.name}")


def methods(kind: Kind | None = None) -> dict[str, Spec]:
    """The registered methods by name, in their order: kind "selector", "scorer" or None for all."""
    if kind not in (None, "selector", "scorer"):
        raise ParamError(f'kind must be "selector", "scorer" or None; got {kind!r}')
    _discover()
    found = sorted(_SPECS.values(), key=lambda s: (s.kind == "scorer", s.order, s.name))
    return {s.name: s for s in found if kind in (None, s.kind)}


def spec_of(name: str, kind: Kind | None = None) -> Spec:
    """The method called `name`; ParamError lists the names there are."""
    known = methods(kind)
    if not isinstance(name, str) or name not in known:
        raise ParamError(f"no {kind or 'method'} is called {name!r}; there are {', '.join(known)}")
    return known[name]


def make(name: str, **params: Any) -> Any:
    """A stage by name with its parameters, checked: make("mmr", relevance_weight=0.7)."""
    spec = spec_of(name)
    return spec.cls(**checked(spec.params, params, name))
