"""How much of a law a run checks: a part by default, all of it with `pytest -m deep`."""

from itertools import product

import pytest

DEEP = False
"""Whether this run was asked for deep tests; set before any test file is imported."""
DEEP_FACTOR = 4
"""How many times more examples such a run draws."""
deep = pytest.mark.deep


def examples(count):
    """Return the number of examples that Hypothesis draws in this run, of `count` in a deep one."""
    return count if DEEP else max(5, count // DEEP_FACTOR)


def seeds_of(quick, every):
    """Parametrise a test on `seeds`: some in every run, the others of `every` in a deep one."""
    rest = [seed for seed in every if seed not in quick]
    groups = [(list(quick), ()), (rest, (deep,))]
    cases = [pytest.param(seeds, id=f"{len(seeds)} seeds from {seeds[0]}", marks=marks) for seeds, marks in groups]
    return pytest.mark.parametrize("seeds", cases)


def every_other(*values, step=2):
    """Return the cases of all combinations: in every run each value meets one in `step` others, in a deep one the rest.

    A value that is a tuple stands for several arguments.
    """
    cases = []
    for numbered in product(*map(list, map(enumerate, values))):
        arguments = []
        for _, value in numbered:
            arguments += value if isinstance(value, tuple) else [value]
        cases.append(pytest.param(*arguments, marks=deep if sum(number for number, _ in numbered) % step else ()))
    return cases


def deepen(cases, slow):
    """Mark those of a test's cases that are among `slow` as deep; all of `slow` must be there."""
    cases = list(cases)
    assert all(case in cases for case in slow), slow
    marked = []
    for case in cases:
        values = case if isinstance(case, tuple) else (case,)
        marked.append(pytest.param(*values, marks=deep) if case in slow else case)
    return marked
