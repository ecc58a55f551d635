"""Which relevant sets dense retrieval and elastic nets recover exactly (NNN paper, §2.1)."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from engine.evidence.judged_sets import JudgedSet
from engine.theory.success_sets import success_sets

RECOVERY_SETS = "toolbank-numpy", "toollens", "multihop-rag-summ500", "ultratool-en"
AS_DEFINED = (
    "MiniLM as it is shipped. Dense retrieval knows how many documents are relevant, and λ is chosen with the relevant "
    "set known, for every query; nothing is tuned, so that all judged queries count."
)


def exact_sets(sets: Sequence[JudgedSet], _: int) -> dict[str, dict[str, Any]]:
    """Set → how many sets dense retrieval recovers, how many of them a cell of the paper's grid does too, and query by
    query whether a cell does, less whether dense does."""
    measured = {}
    for judged in sets:
        parts = [
            success_sets(judged.space, judged.queries(split), judged.splits[split], path_l2=(0.0,))
            for split in ("dev", "test")
        ]
        dense, grid = (np.concatenate([getattr(part, name) for part in parts]) for name in ("dense", "by_grid"))
        gains = (grid.astype(int) - dense).tolist()
        measured[judged.name] = {"dense": int(dense.sum()), "both": int((dense & grid).sum()), "gains": gains}
    return measured
