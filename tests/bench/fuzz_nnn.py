"""How often a certificate of nnn is false: tiny elastic nets against an oracle of hundreds of digits.

python tests/bench/fuzz_nnn.py [--problems 50000] [--first 0]      writes assets/results/nnn-bound.md

Every case of tests/support/nnn_fuzz.py from seed --first on, until so many problems are judged: random and clustered
rows, axes, lattices and zero rows, half of them with exact copies, lengths from 1e-5 to 1e5 and beyond; queries alone,
in a batch, and three times the same; λ₂ from 1e-300 to 1; by a Gram matrix, by rows, by 8-bit codes, by Newton steps,
and 40 steps of FISTA. The oracle is Lawson and Hanson's method in mpmath's numbers, whose answer proves itself by its
optimality conditions.
"""

from __future__ import annotations

import statistics
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from itertools import count

from harness import machine, parse_arguments, stopwatch, table, write_page

from support.nnn_fuzz import FAULTS, ROUTES, case, judge_answers

EDGES = (0.0, 1e-30, 1e-14, 1e-10, 1e-6, 1e-3, 2.0)
HEAD = ("problems", "certified", "bounded", "median bound", "median error", "largest error / bound")
EVERY = 5_000
NOTES = (
    "`fuzz_nnn.py` says what the problems and the oracle are. bounded: the bound is a number, as it is "
    "not where float64 leaves nothing to say; error: |w − w*|, its true value. False: "
    + "; ".join(f"`{name}`, {words}" for name, words in FAULTS.items())
    + ". Copies and batches are not asked of FISTA."
)


@dataclass
class Tally:
    """What came out for some of the problems."""

    problems: int = 0
    certified: int = 0
    false: Counter[str] = field(default_factory=Counter)
    bounds: list[float] = field(default_factory=list)
    errors: list[float] = field(default_factory=list)

    def cells(self) -> tuple[object, ...]:
        """The cells of a row under HEAD and FAULTS."""
        shares = [error / bound for error, bound in zip(self.errors, self.bounds, strict=True) if bound]
        middles = [f"{statistics.median(x):.1e}" if x else "–" for x in (self.bounds, self.errors)]
        largest = f"{max(shares):.2g}" if shares else "–"
        counts = (self.problems, self.certified, len(self.bounds))
        return (*(f"{n:,}" for n in counts), *middles, largest, *(self.false[name] for name in FAULTS))


def ridges(l2: float) -> str:
    """The range that a λ₂ is in."""
    upper = next(edge for edge in EDGES if l2 < edge)
    lower = EDGES[EDGES.index(upper) - 1]
    return f"below {upper:g}" if not lower else f"{lower:g} to {min(upper, 1):g}"


def main() -> None:
    args = parse_arguments(__doc__, problems=50_000, first=0)
    by_ridge: dict[str, Tally] = defaultdict(Tally)
    by_route: dict[str, Tally] = defaultdict(Tally)
    total, say = Tally(), stopwatch()
    for seed in count(args.first):
        instance = case(seed)
        for info, distance, false in judge_answers(instance):
            for tally in (total, by_ridge[ridges(instance.l2)], by_route[instance.route]):
                tally.problems += 1
                tally.certified += info["certified"]
                tally.false.update(false)
                if info["bound"] is not None:
                    tally.bounds.append(info["bound"])
                    tally.errors.append(distance)
            if false:
                setting = f"λ₁ = {instance.l1:g}, λ₂ = {instance.l2:g}"
                say(f"seed {seed}, {instance.family}, {instance.route}, {setting}: {', '.join(false)}")
            if total.problems % EVERY == 0:
                say(f"{total.problems:,} problems")
        if total.problems >= args.problems:
            break
    tables = [
        format_tallies("λ₂", {ridges(edge): by_ridge[ridges(edge)] for edge in EDGES[:-1]}, total),
        format_tallies("solved by", {route: by_route[route] for route in ROUTES}, total),
    ]
    title = "How often a certificate of nnn is false"
    write_page(args, "nnn-bound", title, f"{machine(('torch', 'mpmath'))}.", NOTES, *tables)


def format_tallies(name: str, parts: dict[str, Tally], total: Tally) -> list[str]:
    """A table with a row for each part, and one for all."""
    head = (name, *HEAD, *(f"false: {fault}" for fault in FAULTS))
    return table(head, [*((key, *part.cells()) for key, part in parts.items()), ("all", *total.cells())], "lr")


if __name__ == "__main__":
    main()
