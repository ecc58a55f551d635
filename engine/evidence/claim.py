"""A claim of a paper as data: what it says, where, what measures it, and which rule judges it."""

import importlib
import pkgutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from engine.errors import ParamError
from engine.evidence.judged_sets import JudgedSet
from engine.evidence.rules import Ruling, Scope

PAPERS = {
    "nnn": "Non-negative elastic net decoding",
    "orag": "Online-optimized RAG",
    "vrsd": "Vector retrieval with similarity and diversity",
    "sparse-dense": "Sparse, dense and attentional representations",
    "ccbqp": "Cardinality-constrained binary quadratic programs",
}
Measurement = Mapping[str, Any]
"""Plain numbers, lists and texts by name, as JSON takes them: what is stored, and what a rule reads."""
Measure = Callable[[Sequence[JudgedSet], int], Measurement]
"""A claim's sets, as far as the folder has them, and a seed → numbers."""


@dataclass(frozen=True, kw_only=True)
class Claim:
    """One row of the evidence."""

    id: str  # such as N21
    paper: str  # a key of PAPERS
    place: str  # theorem, figure, table or section
    sentence: str  # what is claimed, in one sentence
    scope: Scope  # what the measurement can speak of at best
    measure: Measure | None = None  # claims of one measurement name the same one, which then is made once
    rule: Callable[[Any], Ruling] | None = None
    missing: str = ""  # what it would take, where nothing here can measure it
    sets: tuple[str, ...] = ()  # judged sets that it is measured on, where the folder has them
    trained: bool = False  # whether it is about trained systems, which a work folder has
    effect: str = ""  # the paper's own number, with its unit; "" where it prints none
    differs: str = ""  # what is otherwise than in the paper
    cost: int = 1  # seconds on one idle core, about


@cache
def claims() -> Mapping[str, Claim]:
    """Every claim by its id, in the order of papers and numbers."""
    from engine.evidence import claims as package

    names = [module.name for module in pkgutil.iter_modules(package.__path__)]
    found = [importlib.import_module(f"{package.__name__}.{name}").CLAIM for name in names]
    order = {paper: place for place, paper in enumerate(PAPERS)}
    return {claim.id: claim for claim in sorted(found, key=lambda c: (order[c.paper], c.id[0], int(c.id[1:])))}


def chosen(name: str) -> tuple[Claim, ...]:
    """The claims that a word names: an id, a paper, or "all". Raises ParamError."""
    known = claims()
    if name == "all":
        return tuple(known.values())
    if name.upper() in known:
        return (known[name.upper()],)
    if name in PAPERS:
        return tuple(claim for claim in known.values() if claim.paper == name)
    raise ParamError(f"claim must be all, one of {', '.join(PAPERS)}, or one of {', '.join(known)}; got {name!r}")
