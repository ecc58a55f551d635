"""What the methods of training have in common: a frozen value of declared parameters, and those of several."""

from __future__ import annotations

import math
from typing import Any, ClassVar

from engine.decoder import Decoder
from engine.learning.training.losses import TAU
from engine.params import Choice, Real, Whole, params_of, values_of
from engine.stages import make

FEW = 2000
"""Under so many queries the query adapter learns more slowly."""
SLOWER = 1e-4
TUNED = 2e-5
"""How a whole query encoder learns: NNN paper, B.5."""


def rate_of(default: float, symbol: str, help: str) -> Real:
    """A step size."""
    return Real(default=default, low=0.0, high=1.0, comfortable=(1e-6, 1e-1), scale="log", symbol=symbol, help=help)


EPOCHS = Whole(default=20, low=1, high=10_000, comfortable=(1, 50), symbol="epochs", help="Passes over the queries.")
PATIENCE = Whole(
    default=3,
    low=1,
    comfortable=(1, 20),
    unset="never",
    symbol="patience",
    help="Stop after so many epochs without a gain in Comp@5 on dev.",
    advanced=True,
)
BATCH = Whole(default=64, low=1, comfortable=(8, 512), symbol="B", help="Queries a step.", advanced=True)
DECAY = Real(default=0.01, low=0.0, high=1.0, symbol="decay", help="AdamW's weight decay.", advanced=True)
CLIP = Real(
    default=1.0, low=1e-6, comfortable=(0.1, 10.0), symbol="clip", help="Longest gradient of a step.", advanced=True
)
HIDDEN = Whole(
    default=768, low=1, high=65_536, comfortable=(64, 2048), symbol="h", help="Width of an adapter.", advanced=True
)
TEMPERATURE = Real(
    default=TAU, low=1e-3, high=100.0, comfortable=(0.01, 1.0), scale="log", symbol="τ", help="Softness of the loss."
)
SLOW = f"Step size of the query side; if not given, {SLOWER:g} under {FEW:,} queries, {TUNED:g} of an encoder."
QUERY_SIDE = Choice(
    default="adapter",
    options=("adapter", "encoder"),
    symbol="query side",
    help="adapter: a small network over vectors. encoder: all weights of the query encoder, as in the paper, which "
    "wants a GPU: with the bundled encoder one core takes 1 to 6 s a step.",
    source="B.5",
)


class Recipe:
    """A frozen dataclass of declared parameters, checked when it is made."""

    name: ClassVar[str]
    title: ClassVar[str]
    source: ClassVar[str]
    clip: float = math.inf
    query_side: str = QUERY_SIDE.default
    late: ClassVar[tuple[str, ...]] = ()
    """Parameters that depend on the data where they are not given."""

    def __post_init__(self) -> None:
        for param in params_of(self):
            object.__setattr__(self, param.name, param.check(getattr(self, param.name)))

    def as_json(self) -> dict[str, Any]:
        """Method and parameters as plain values."""
        return {"name": self.name, **values_of(self)}

    @property
    def learns(self) -> str:
        """What changes in training, for people."""
        if self.query_side == QUERY_SIDE.default:
            return "small adapters over the frozen embeddings"
        return "the whole query encoder, and a small adapter over the documents' frozen embeddings"

    def decoder(self) -> Decoder:
        """What the embeddings are trained for."""
        return Decoder(make("top_k"))

    def watched(self) -> Decoder:
        """What measures an epoch on dev."""
        return self.decoder()
