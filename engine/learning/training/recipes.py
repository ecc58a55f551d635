"""How to train: what each method's parameters are, declared once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from engine.decoder import Decoder
from engine.errors import ParamError
from engine.learning.training.losses import GAMMA
from engine.learning.training.recipe import (
    BATCH,
    CLIP,
    DECAY,
    EPOCHS,
    HIDDEN,
    PATIENCE,
    QUERY_SIDE,
    SLOW,
    TEMPERATURE,
    Recipe,
    rate_of,
)
from engine.learning.training.recipes_projections import DualEncoder, MultiVector
from engine.params import Choice, Flag, Param, Real, Whole, checked, declare, params_of
from engine.stages import make

PENALTY = Real(default=0.1, low=0.0, comfortable=(0.001, 1.0), scale="log", symbol="λ", help="", source="eq. 1")
CHOSEN = "if not given, what is best on dev before training."


@dataclass(frozen=True)
class Dense(Recipe):
    """Inner products: a relevant document above the irrelevant ones."""

    name, title, source = "dense", "Dense", "NNN paper, B.2"
    late = ("query_rate",)

    negatives: str = declare(
        Choice(
            default="corpus",
            options=("corpus", "batch"),
            symbol="negatives",
            help="corpus: every document. batch: the relevant documents of the batch's other queries, as in the paper.",
            source="eq. 21",
        )
    )
    tau: float = declare(TEMPERATURE)
    query_side: str = declare(QUERY_SIDE)
    query_rate: float = declare(rate_of(3e-4, "η query", SLOW))
    corpus_rate: float = declare(rate_of(1e-3, "η corpus", "Step size of the corpus adapter."))
    epochs: int = declare(EPOCHS)
    patience: int | None = declare(PATIENCE)
    batch: int = declare(BATCH)
    weight_decay: float = declare(DECAY)
    clip: float = declare(CLIP)
    hidden: int = declare(HIDDEN)


@dataclass(frozen=True)
class Nnn(Recipe):
    """Sets of weights: all relevant documents above all irrelevant ones, by a margin."""

    name, title, source = "nnn", "NNN-Tr", "NNN paper, §3.2 and B.5"
    late = ("l1", "l2", "query_rate")

    l1: float = declare(replace(PENALTY, symbol="λ₁", help=f"Which documents get a weight at all; {CHOSEN} 0: L2-Tr."))
    l2: float = declare(replace(PENALTY, symbol="λ₂", help=f"How weight spreads; {CHOSEN} 0: L1-Tr."))
    gradient: str = declare(
        Choice(
            default="implicit",
            options=("implicit", "unrolled"),
            symbol="gradient",
            help="implicit: of the exact minimiser. unrolled: through every step of FISTA, as in the paper.",
        )
    )
    loss: str = declare(
        Choice(
            default="extended",
            options=("extended", "eq6"),
            symbol="loss",
            help="eq6: the paper's. extended: also moves relevant documents without a weight (not in the paper).",
        )
    )
    regrid: bool = declare(Flag(default=True, symbol="regrid", help="Choose λ₁ and λ₂ on dev again afterwards."))
    gamma: float = declare(
        Real(default=GAMMA, low=1.0, high=100.0, comfortable=(1.0, 3.0), symbol="γ", help="The margin.", source="eq. 6")
    )
    tau: float = declare(TEMPERATURE)
    iterations: int = declare(
        Whole(
            default=50,
            low=1,
            comfortable=(10, 200),
            symbol="T",
            help="Steps of FISTA.",
            needs=("gradient", "unrolled"),
            advanced=True,
        )
    )
    most: int = declare(
        Whole(
            default=32,
            low=1,
            comfortable=(4, 128),
            symbol="m",
            help="How many irrelevant documents count.",
            needs=("loss", "extended"),
            advanced=True,
        )
    )
    query_side: str = declare(QUERY_SIDE)
    query_rate: float = declare(rate_of(3e-4, "η query", SLOW))
    corpus_rate: float = declare(rate_of(1e-3, "η corpus", "Step size of the corpus adapter."))
    epochs: int = declare(EPOCHS)
    patience: int | None = declare(PATIENCE)
    batch: int = declare(BATCH)
    weight_decay: float = declare(DECAY)
    clip: float = declare(CLIP)
    hidden: int = declare(HIDDEN)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.l1 == self.l2 == 0:
            raise ParamError("l1 (λ₁) and l2 (λ₂) are both 0: the minimiser need not be unique; one must be above 0")

    def decoder(self) -> Decoder:
        return Decoder(make("nnn", l1=self.l1, l2=self.l2))

    def watched(self) -> Decoder:
        if self.gradient == "implicit":
            return self.decoder()
        return Decoder(make("nnn", l1=self.l1, l2=self.l2, solver="fista", iterations=self.iterations))


@dataclass(frozen=True)
class Colt(Recipe):
    """Inner products of embeddings that graphs of queries, documents and scenes have mixed."""

    name, title, source = "colt", "COLT", "NNN paper, B.4"
    learns = "the documents' vectors themselves"

    depth: int = declare(Whole(default=2, low=1, high=10, comfortable=(1, 3), symbol="L", help="Layers of the graphs."))
    contrast: float = declare(
        Real(
            default=0.1,
            low=0.0,
            comfortable=(0.01, 1.0),
            scale="log",
            symbol="λ",
            help="Weight of the loss that draws a query's two views together.",
        )
    )
    listed: int = declare(
        Whole(default=10, low=2, comfortable=(5, 50), symbol="list", help="Documents in a query's list.", advanced=True)
    )
    tau: float = declare(TEMPERATURE)
    dropout: float = declare(
        Real(default=0.2, low=0.0, high=0.9, symbol="drop", help="Share of edges left out an epoch.", advanced=True)
    )
    rate: float = declare(rate_of(1e-3, "η", "Step size."))
    weight_decay: float = declare(
        Real(default=1e-7, low=0.0, high=1.0, comfortable=(0.0, 1e-3), symbol="L2", help="Weight of L2.", advanced=True)
    )
    epochs: int = declare(EPOCHS)
    patience: int | None = declare(
        Whole(
            default=None,
            low=1,
            comfortable=(1, 20),
            unset="never",
            symbol="patience",
            help=PATIENCE.help,
            advanced=True,
        )
    )
    batch: int = declare(
        Whole(default=256, low=1, comfortable=(32, 1024), symbol="B", help="Queries a step.", advanced=True)
    )


RECIPES: Mapping[str, type[Recipe]] = {recipe.name: recipe for recipe in (Dense, Nnn, Colt, DualEncoder, MultiVector)}
"""Method → its parameters."""


def recipe_of(method: str) -> type[Recipe]:
    """The recipe called `method`; ParamError lists those there are."""
    if not isinstance(method, str) or method not in RECIPES:
        raise ParamError(f"method must be one of {', '.join(map(repr, RECIPES))}; got {method!r}")
    return RECIPES[method]


def declared(method: str) -> tuple[Param, ...]:
    """The parameters of a method."""
    return params_of(recipe_of(method))


def made(method: str, **params: Any) -> Recipe:
    """A recipe by name with its parameters, checked."""
    return recipe_of(method)(**checked(declared(method), params, f"training {method}"))
