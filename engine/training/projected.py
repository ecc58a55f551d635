"""Projected: the trainable encoder of DE-k and ME-k, projection heads over frozen vectors."""

from torch import Tensor

from engine.training.adapters import Adapters, TrainableEncoder
from engine.training.projections import Heads


class Projected(TrainableEncoder):
    """Projection heads that learn; every adapter before them is frozen.

    adapters: with heads.
    queries: (Q, d) query vectors as the heads take them.
    rows: (n, d) document vectors as the heads take them.
    """

    _adapters: Adapters

    def __init__(self, adapters: Adapters, heads: Heads, queries: Tensor, rows: Tensor) -> None:
        super().__init__()
        self.heads, self.queries, self.rows = heads, queries, rows
        # Not registered as a submodule: of the adapters only the heads learn.
        object.__setattr__(self, "_adapters", adapters)

    def encode_query(self, positions: Tensor) -> Tensor:
        vectors: Tensor = self.heads.query(self.queries[positions])
        return vectors

    def encode_parts(self, positions: Tensor | None = None) -> Tensor:
        """(c, k) documents at (c,) positions, or all of them; (c, m, k) where each has several vectors."""
        vectors: Tensor = self.heads.corpus(self.rows if positions is None else self.rows[positions])
        return vectors

    def encode_corpus(self, positions: Tensor | None = None) -> Tensor:
        return self.heads.documents(self.rows if positions is None else self.rows[positions])[0]

    def result(self) -> dict[str, Tensor]:
        return self._adapters.state_dict()
