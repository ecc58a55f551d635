"""N24: gradients through T steps take memory O(dNT) a query."""

from collections.abc import Sequence

import numpy as np
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks

from engine.evidence.claim import Claim, Measurement
from engine.evidence.judged_sets import JudgedSet
from engine.evidence.latencies import drawn
from engine.evidence.rules import Ruling, Scope, bounded, slope
from engine.training.recipes.nnn import unrolled

DOCUMENTS, STEPS, DIMENSIONS = (2_000, 4_000, 8_000, 16_000), (10, 20, 40, 80), (48, 96, 192, 384)
FACTORS = {"N": DOCUMENTS, "T": STEPS, "d": DIMENSIONS}


def measure(_: Sequence[JudgedSet], seed: int) -> Measurement:
    """Factor → bytes at its values, the others at their largest."""
    space, queries = drawn(DOCUMENTS[-1], seed)

    def at(documents: int, steps: int, dimensions: int) -> int:
        rows, query = (part.vectors[:documents, :dimensions].clone() for part in (space, queries.take([0])))
        return bytes_for_gradients(rows, query, steps)

    n, t, d = DOCUMENTS[-1], STEPS[-1], DIMENSIONS[-1]
    return {
        "N": [at(value, t, d) for value in DOCUMENTS],
        "T": [at(n, value, d) for value in STEPS],
        "d": [at(n, t, value) for value in DIMENSIONS],
    }


def bytes_for_gradients(rows: Tensor, queries: Tensor, steps: int) -> int:
    """Bytes that a forward pass through the steps leaves for the backward one, each once, without what it is given."""
    given = {part.untyped_storage().data_ptr() for part in (rows, queries)}
    saved: dict[int, Tensor] = {}

    def keep(part: Tensor) -> Tensor:
        saved[part.untyped_storage().data_ptr()] = part
        return part

    with saved_tensors_hooks(keep, lambda part: part):
        # The result holds the graph, without which storages would be freed and their addresses given again.
        weights = unrolled(rows.requires_grad_(), queries.requires_grad_(), 0.1, 0.1, steps)
    assert weights.requires_grad
    return sum(part.untyped_storage().nbytes() for place, part in saved.items() if place not in given)


def judge(measured: Measurement) -> Ruling:
    exponents = [slope(values, np.array([measured[name]]), name, (name, "bytes")) for name, values in FACTORS.items()]
    return bounded(exponents, low=0.85, high=1.15)


CLAIM = Claim(
    id="N24",
    paper="nnn",
    place="§5, appendix B.5",
    sentence="Gradients through T steps take memory in proportion to dNT for each query.",
    scope=Scope.STAND_IN,
    measure=measure,
    rule=judge,
    differs="The paper has O(dNT), an upper limit; measured is whether memory grows at that rate in each of the three. "
    "Without the documents' own dN.",
    cost=10,
)
