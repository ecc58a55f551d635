"""A claim of a paper as data: what it says, where, what measures it, and which rule judges it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeVar

from engine.evidence.judged_sets import JudgedSet
from engine.evidence.rules import Ruling, Scope, difference

PAPERS = {
    "nnn": "Non-negative elastic net decoding",
    "orag": "Online-optimized RAG",
    "vrsd": "Vector retrieval with similarity and diversity",
    "sparse-dense": "Sparse, dense and attentional representations",
    "ccbqp": "Cardinality-constrained binary quadratic programs",
}
Measurement = Mapping[str, Any]
"""Plain numbers, lists and texts by name, as JSON takes them: what is stored, and what a rule reads."""
Fn = TypeVar("Fn", bound=Callable[[Sequence[JudgedSet], int], Measurement])
BETTER_BY_A_POINT = partial(difference, margin=1.0)
"""The rule of claims that give none: differences of all cells are above a point of a hundred."""


@dataclass(frozen=True, kw_only=True)
class ClaimMeasure:
    """A function that measures, with the name, version and parameters under which its numbers are cached.

    Increase `version` with every change of what is computed, here or in a helper; a change of words needs none.
    """

    name: str  # unique among all measures
    compute: Callable[[Sequence[JudgedSet], int], Measurement]  # a claim's sets, as far as there are any, and a seed
    version: int = 1
    parameters: Mapping[str, Any] = field(default_factory=dict)

    def of(self, **parameters: Any) -> "ClaimMeasure":
        """Return a copy of the measure whose function is called with these parameters."""
        return replace(self, compute=partial(self.compute, **parameters), parameters=parameters)


def define_measure(name: str, version: int = 1) -> Callable[[Callable[..., Measurement]], ClaimMeasure]:
    """Make a decorator that turns a function into a named measure, whose numbers several claims share."""
    return lambda compute: ClaimMeasure(name=name, compute=compute, version=version)


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A claim of a paper, and how it is measured and judged here."""

    id: str  # such as N21
    paper: str  # a key of PAPERS
    place: str  # theorem, figure, table or section
    sentence: str  # what is claimed, in one sentence
    scope: Scope = Scope.STAND_IN  # what the measurement can speak of at best
    measure: ClaimMeasure | None = None  # claims of one measurement name the same one, which then is made once
    rule: Callable[[Any], Ruling] = BETTER_BY_A_POINT
    missing: str = ""  # what it would take, where nothing here can measure it
    sets: tuple[str, ...] = ()  # judged sets that it is measured on, where the folder has them
    trained: bool = False  # whether it is about trained systems, which a work folder has
    is_read: bool = False  # whether it is about what a language model makes of sets, which needs an endpoint
    effect: str = ""  # the paper's own number, with its unit; "" where it prints none
    # The same in the unit of our effects, by a part of an effect's name: one number, or both ends of a range.
    claimed_values: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    differs: str = ""  # what is otherwise than in the paper
    cost: int = 1  # seconds on one idle core, about

    def find_claimed_values(self, effect_name: str) -> tuple[float, ...]:
        """Return the paper's number for one of our effects, or both ends of its range; () where it prints none."""
        return next((values for part, values in self.claimed_values.items() if part in effect_name), ())


class PaperClaims:
    """Register of one paper's claims; a call registers one, as a statement or decorating its measure."""

    def __init__(self, paper: str) -> None:
        """Begin an empty register of a paper's claims; paper: a key of PAPERS."""
        self.paper = paper
        self.registered: list[Claim] = []

    def __call__(self, id: str, place: str, sentence: str, *, version: int = 1, **fields: Any) -> Callable[[Fn], Fn]:
        """Register a claim; without `measure` and `missing` the decorated function becomes its measure.

        id: such as N21; place: where the paper says it; version: of the measure; fields: further fields of `Claim`
        """
        claim = Claim(id=id, paper=self.paper, place=place, sentence=sentence, **fields)
        # A claim that shares a measure, or that nothing here can measure, is complete; any other one waits for the
        # decorated function.
        if claim.measure or claim.missing:
            self.registered.append(claim)

        def register(compute: Fn) -> Fn:
            """Register the claim with the decorated function as its measure; return the function unchanged."""
            measure = ClaimMeasure(name=id, compute=compute, version=version)
            self.registered.append(replace(claim, measure=measure))
            return compute

        return register
