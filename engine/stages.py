"""The base classes of scorers and selectors, and the registry of both by name."""

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

from engine.candidates import Candidates, scale_relevance
from engine.display import OneLine
from engine.errors import ParamError
from engine.multi_vector import Parts
from engine.params import Choice, Declared, Param, Real, Whole, check_values, params_of, values_of
from engine.solvers.certificate_queries import LinearQuestion
from engine.solvers.elastic_net.path import WeightPath
from engine.solvers.lines import LambdaPath
from engine.space import QueryBatch, Space
from engine.values import Ranking
from engine.wording import normalize_name, suggest_name

Kind = Literal["scorer", "selector"]

RELEVANCE_WEIGHT = Real(0.8, "λ", 0.0, 1.0, name="relevance_weight", help="1 is pure relevance, 0 pure diversity.")
"""λ of the trade-off selectors, which replace the help text with their own."""
RELEVANCE_SCALE = Choice(
    default="auto",
    options=("auto", "raw", "minmax", "rank"),
    symbol="scale of r",
    name="relevance_scale",
    help="How relevance is brought to the scale of similarities. raw: as scored. minmax: 0 to 1 from the least to the "
    "most relevant candidate. rank: 0 to 1 by rank. auto: raw for inner products of vectors, minmax for other scores.",
    advanced=True,
)
"""The scale of relevance of the selectors that add it to similarities."""
WINDOW = Whole(
    default=None,
    low=1,
    comfortable=(1, 20),
    unset="all of them",
    symbol="w",
    name="window",
    help="Compare with the last w picks only.",
    advanced=True,
)
"""The window of the greedy selectors."""
FILL = Choice(
    "strict",
    "fill",
    ("strict", "fill"),
    name="fill",
    switch=("strict", "fill"),
    words=("may return fewer", "fills up to k"),
    advanced=True,
    swept=("fill",),
)
"""The choice of selectors that may find fewer than k documents, which replace the help text with their own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spec(OneLine):
    """The description of a registered scorer or selector, as lists, pages and help texts show it.

    order: sort key in lists and in the palette
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

    def _describe(self) -> str:
        names = ", ".join(param.name for param in self.params) or "no parameters"
        return f"{self.name} ({self.kind}), {self.paper}; {names}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectorSpec(Spec):
    """The description of a selector."""

    cls: type[Selector]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScorerSpec(Spec):
    """The description of a scorer."""

    cls: type[Scorer]


class Stage(Declared, ABC):
    """A step of a retrieval pipeline, a Scorer or a Selector, as a value: a class with its parameters.

    A frozen dataclass whose only fields are declared parameters, validated on construction.
    """

    spec: ClassVar[Spec]

    @property
    def label(self) -> str:
        """The stage as text, e.g. mmr(relevance_weight=0.7); equal exactly when the stages are equal."""
        # `text` is invertible, so that equal labels mean equal parameters.
        param_values = ", ".join(f"{param.name}={param.text(getattr(self, param.name))}" for param in self.spec.params)
        return f"{self.spec.name}({param_values})" if param_values else self.spec.name

    def as_json(self) -> dict[str, Any]:
        """Return name and parameters as plain JSON values, the keyword arguments of `make`."""
        return {"name": self.spec.name, **values_of(self)}


class Selector(Stage):
    """A step of a retrieval pipeline that picks a set of documents, judging each pick beside the others."""

    nested: ClassVar[bool] = False
    """From k = 2 on, the ranking for a smaller k is a prefix of the ranking for a larger one."""

    sequential: ClassVar[bool] = False
    """Each pick follows from the picks before it: without a document that is not picked, all others stay as they are.

    Such a selector can pick at most so many documents of one source.
    """

    by_scores: ClassVar[bool] = True
    """The scores are the relevance; if False, they only define the pool, and the vectors alone decide."""

    reads_vectors: ClassVar[bool] = True
    """The vectors have a say in the set; if False, the k most relevant documents are all that it can hold."""

    first_by_scores: ClassVar[bool] = False
    """The scores choose the first document, the vectors the others."""

    criterion: ClassVar[str] = ""
    """The quantity by which a pick beats those that are left, for people; "" where the set is chosen as a whole."""

    path_parameter: ClassVar[str] = "relevance_weight"
    """The parameter that `lambda_path` varies."""

    def select(self, candidates: Candidates, k: int) -> Ranking:
        """Pick k of each query's candidates; return them best first, for 1 ≤ k ≤ candidates.count.

        Subclasses override this or `select_grid`.
        """
        return self.select_grid([self], candidates, k)[0]

    @property
    def ground_size(self) -> int:
        """The number of most relevant documents that the selector needs at least; 0 where k are enough.

        Of a corpus in a vector engine, at least that many are fetched for it to choose from.
        """
        return 0

    def questions(self, candidates: Candidates, ranking: Ranking) -> list[LinearQuestion] | None:
        """Return conditions under which one query's ranking is the full corpus's; None if none are known.

        `candidates` are some documents of a corpus in a vector engine, which can answer such certificate queries: if
        u·point ≤ limit for every unseen document u and each (point, limit), the ranking from these candidates is the
        ranking from the full corpus.
        """
        return None

    @classmethod
    def select_grid(cls, stages: Sequence[Self], candidates: Candidates, k: int) -> list[Ranking]:
        """Select k candidates at several settings; return one Ranking for each of `stages`, all of this class.

        Subclasses override this, where settings share work, or `select`.
        """
        # Each of select and select_grid is defined by the other: a subclass must override one.
        if cls.select is Selector.select:
            raise NotImplementedError(f"{cls.__name__} overrides neither select nor select_grid")
        return [stage.select(candidates, k) for stage in stages]

    @classmethod
    def warm(cls) -> None:
        """Do the one-off work of a process's first call, such as compilation."""

    @classmethod
    def is_warm(cls) -> bool:
        """Return False while a first call would be slower than later ones: its loops are not compiled yet.

        The dashboard then calls `warm` at a moment when nobody waits.
        """
        return True

    @classmethod
    def has_weights(cls) -> bool:
        """Return True if this selector ranks by weights that can be had at every λ₁, by `weights_path`."""
        return cls.weights_path is not Selector.weights_path

    def weights_path(self, candidates: Candidates, lowest: float) -> WeightPath | None:
        """Return one query's document weights as functions of the parameter λ₁, for λ₁ from `lowest` up.

        None for selectors without weights. candidates: a batch of 1
        """
        return None

    @property
    def no_path(self) -> str | None:
        """The error message if `lambda_path` cannot rank at every value of `path_parameter`; None if it can."""
        # A class has a path if it overrides `lambda_path`; some settings of such a class say otherwise themselves.
        if type(self).lambda_path is not Selector.lambda_path:
            return None
        specs = methods("selector").values()
        path_selectors = [spec.name for spec in specs if spec.cls.lambda_path is not Selector.lambda_path]
        return (
            f"{self.spec.name} has no path: there is one where every gain is a line in the parameter, as for "
            f"{', '.join(path_selectors)}; for some values of a parameter use engine.select_grid"
        )

    @property
    def path_range(self) -> tuple[float, float] | None:
        """The range (low, high) of the parameter that a path varies; None if infinite or without a path.

        A path is the ranking at every value of one parameter, named by `path_parameter`, usually λ.
        """
        varied_param = next((param for param in self.spec.params if param.name == self.path_parameter), None)
        if self.no_path is not None or not isinstance(varied_param, Real) or not math.isfinite(varied_param.high):
            return None
        return varied_param.low, varied_param.high

    def lambda_path(
        self, candidates: Candidates, k: int, interval: tuple[float, float], marks: Sequence[float] = ()
    ) -> list[LambdaPath]:
        """Return each query's rankings at every value of `path_parameter`, usually λ, in an interval.

        They come as pieces: ranges of values with one ranking. marks: ascending values that the caller will look up; a
        piece that contains no mark may be left out, to save time. Raises NotImplementedError for selectors with a
        `no_path` reason.
        """
        raise NotImplementedError(self.no_path)


class TradeOffSelector(Selector):
    """Base of the selectors that add relevance to similarities, and so need both on one scale."""

    relevance_weight: float
    relevance_scale: str

    @classmethod
    def select_grid(cls, stages: Sequence[Self], candidates: Candidates, k: int) -> list[Ranking]:
        """Select k candidates at several settings; those with one scale of relevance share work."""
        positions_by_scale: dict[str, list[int]] = {}
        for position, stage in enumerate(stages):
            positions_by_scale.setdefault(stage.relevance_scale, []).append(position)
        ranking_by_position: dict[int, Ranking] = {}
        for scale, positions in positions_by_scale.items():
            group = [stages[position] for position in positions]
            rankings = cls.select_scaled(group, scale_relevance(candidates, scale), k)
            ranking_by_position |= dict(zip(positions, rankings, strict=True))
        return [ranking_by_position[position] for position in range(len(stages))]

    @classmethod
    @abstractmethod
    def select_scaled(cls, stages: Sequence[Self], candidates: Candidates, k: int) -> list[Ranking]:
        """Select k candidates at several settings; the candidates' relevance is on the settings' scale."""


class Scorer(Stage):
    """A step of a retrieval pipeline that gives every document a score for each query."""

    inner_product: ClassVar[bool] = False
    """The score is an inner product of the space's and the queries' vectors: float64 resolves near-ties."""

    similarity_scale: ClassVar[bool] = False
    """The score is an inner product of a query's and a document's vectors, and so on the scale of similarities."""

    words: ClassVar[bool] = False
    """The scorer reads the queries' texts."""

    vectors: ClassVar[bool] = True
    """The scorer reads the queries' vectors."""

    rerank_only: ClassVar[bool] = False
    """The scorer is too slow for a full corpus and scores pools only."""

    @classmethod
    def is_available(cls) -> bool:
        """Return False where the scorer cannot be used before something is set up, so that pages leave it out."""
        return True

    @property
    def corpus_wide(self) -> bool:
        """True if a document's score depends on the other documents that are scored with it, as BM25's does.

        Such a scorer cannot score some documents fetched from a store as it would score the full corpus.
        """
        return False

    @property
    def retrieves_all(self) -> bool:
        """True if every document is retrieved, False if only those that share a word with the query are."""
        return type(self).find_matches is Scorer.find_matches

    def consent_needed(self, space: Space) -> str | None:
        """Return the cost to confirm before the first score, such as a download; None if there is none."""
        return None

    def find_matches(self, space: Space, queries: QueryBatch, scores: Tensor) -> Tensor | None:
        """Return (B, n) True for the documents that this scorer retrieves; None if it retrieves all.

        A scorer of words retrieves none that shares no word with the query. scores: (B, n), as `score` returned them
        """
        return None

    def find_scale_basis(self, space: Space, queries: QueryBatch) -> Tensor | None:
        """Return (B, n) True for the documents between whose scores a scale of relevance spans; None for all.

        Others have scores that only put them behind these, and say nothing of how much less relevant they are.
        """
        return None

    def cache_dependencies(self, space: Space) -> Mapping[str, str]:
        """Return digests, by name, of what cached scores depend on beside the usual: a model's weights, say.

        A sweep adds them to the key that its scores are cached under, which always has the parameters, the corpus, its
        vectors and the queries.
        """
        return {}

    def prepare(self, space: Space) -> Any:
        """Derive what all queries need, such as an index; otherwise the first `score` does it."""
        return None

    def document_vectors(self, space: Space) -> Parts | None:
        """Return vectors of documents for a nearest-neighbour index, which finds the best-scored documents.

        None unless a document's score is its largest inner product with the query among such vectors.
        """
        return None

    @abstractmethod
    def score(self, space: Space, queries: QueryBatch, rows: Tensor | None = None) -> Tensor:
        """Return (B, n) scores of all documents, or (B, m) scores of `rows`, (B, m) int64."""


StageClass = TypeVar("StageClass", bound=type[Stage])
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
) -> Callable[[StageClass], StageClass]:
    """Return a class decorator that enters a Selector or Scorer into the registry of all methods.

    It stands above @dataclass(frozen=True). name: what the method is called in code and commands; title, paper,
    equation, cost: what lists and pages show of it; order: its place in lists; presets: label → values of some
    parameters
    """

    def add(cls: StageClass) -> StageClass:
        """Check a class, describe it as `spec` and enter it into the registry; return the class."""
        if name in _SPECS:
            raise RuntimeError(f"two methods call themselves {name!r}")
        # Inherited fields do not count: the class's own @dataclass must have run before this decorator.
        if not is_dataclass(cls) or "__dataclass_fields__" not in vars(cls):
            raise RuntimeError(f"put @register above @dataclass(frozen=True) on {cls.__name__}")
        # A field without a declaration would be a setting that no command, page or label knows.
        if undeclared := [f.name for f in fields(cls) if "param" not in f.metadata]:
            raise RuntimeError(f"{cls.__name__} has fields that are not declared parameters: {', '.join(undeclared)}")
        # The class's own fields are complete here: decorators below this one have run.
        params = params_of(cls)
        spec_class: type[Spec] = SelectorSpec if issubclass(cls, Selector) else ScorerSpec
        cls.spec = _SPECS[name] = spec_class(
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
            presets={label: check_values(params, values, name) for label, values in (presets or {}).items()},
        )
        return cls

    return add


@cache
def _discover() -> None:
    """Import all selectors and scorers, once, so that each registers itself."""
    # Adding a method is adding a file to one of the two packages.
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
    """Return the registered methods by name, in display order.

    Parameters
    ----------
    kind : {"selector", "scorer"} or None
        The kind of methods; None returns both.

    Returns
    -------
    dict of str to Spec
        Title, paper, cost and declared parameters of each method.

    Raises
    ------
    ParamError
        If `kind` is anything else.

    Examples
    --------
    >>> methods("selector")["mmr"].title
    'MMR'
    """
    if kind not in (None, "selector", "scorer"):
        raise ParamError(f'kind must be "selector", "scorer" or None; got {kind!r}')
    _discover()
    # Selectors first, as the README and the palette list them.
    sorted_specs = sorted(_SPECS.values(), key=lambda spec: (spec.kind == "scorer", spec.order, spec.name))
    return {spec.name: spec for spec in sorted_specs if kind in (None, spec.kind)}


@overload
def spec_of(name: str, kind: Literal["selector"]) -> SelectorSpec: ...
@overload
def spec_of(name: str, kind: Literal["scorer"]) -> ScorerSpec: ...
@overload
def spec_of(name: str, kind: Kind | None = None) -> Spec: ...
def spec_of(name: str, kind: Kind | None = None) -> Spec:
    """Return the description of a registered method; raise a ParamError that lists the names there are.

    Capitals, hyphens and spaces do not matter: "Max-Sum" is max_sum.
    """
    # Labels and links hold the registered name, whatever a person typed.
    spec = find_spec(normalize_name(name)) if isinstance(name, str) else None
    if spec is None or kind not in (None, spec.kind):
        specs_by_name = methods(kind)
        suggestion = suggest_name(name, specs_by_name)
        raise ParamError(f"no {kind or 'method'} is called {name!r}{suggestion}; there are {', '.join(specs_by_name)}")
    return spec


def find_spec(name: str) -> Spec | None:
    """Return the description of the method of exactly this name, None if none is registered under it."""
    _discover()
    return _SPECS.get(name)


def make(name: str, **params: Any) -> Any:
    """Construct a stage by name.

    Parameters
    ----------
    name : str
        A name listed by `methods()`, with capitals, hyphens or spaces as one likes.
    **params
        Its parameters; the defaults replace missing ones.

    Returns
    -------
    Selector or Scorer
        The stage, with validated parameters.

    Raises
    ------
    ParamError
        If the name or a parameter is unknown, or a value lies outside its range.

    Examples
    --------
    >>> make("mmr", relevance_weight=0.7).relevance_weight
    0.7
    """
    spec = spec_of(name)
    return spec.cls(**check_values(spec.params, params, spec.name))


def make_selector(name: str, **params: Any) -> Selector:
    """Construct a selector by name, with validated parameters."""
    spec = spec_of(name, "selector")
    return spec.cls(**check_values(spec.params, params, spec.name))


def make_scorer(name: str, **params: Any) -> Scorer:
    """Construct a scorer by name, with validated parameters."""
    spec = spec_of(name, "scorer")
    return spec.cls(**check_values(spec.params, params, spec.name))
