"""Weights of the elastic net along λ₁."""

from torch import Tensor

from dashboard.services.memo import get_or_compute
from dashboard.services.source import Loaded
from dashboard.session.answers import as_embeddings
from dashboard.session.decoders import get_self_rule
from dashboard.session.query import Question
from engine.evaluation.path import compute_weight_path
from engine.params import values_of
from engine.solvers.elastic_net.path import WeightPath
from engine.stages import Selector

NO_WEIGHT_TEXT = "Nothing was retrieved, so there is no weight to show."
L1_AXIS_RANGE = (0.001, 1.0)
"""Ends of the λ₁ axis, unless the current λ₁ is outside."""
MAX_CACHED_PATHS = 8


def compute_path(
    loaded: Loaded, question: Question, stage: Selector, min_l1: float, row_indices: Tensor | None = None
) -> WeightPath:
    """Return the weights that the elastic net gives the documents at every λ₁, for the question; cached.

    The selector represents the query by few documents: the larger λ₁, the fewer have a weight. stage: the selector;
    min_l1: where the path ends; row_indices: candidates, all documents by default
    """
    space = loaded.space
    query_bytes = question.vector.numpy().tobytes()
    pool = None if row_indices is None else tuple(row_indices.tolist())
    # The path covers all λ₁, so it is cached under the selector with any one of them, 0.
    label = type(stage)(**values_of(stage) | {"l1": 0.0}).label
    query_parts = query_bytes, question.id, question.text, question.document
    key = (space.embeddings.digest, *query_parts, label, min_l1, question.depth, pool, get_self_rule())

    def compute() -> WeightPath:
        """Compute the weights at every λ₁ from `min_l1` on."""
        # A document to be like is no candidate, whatever its text.
        without_self = True if question.document is not None else get_self_rule()
        query = as_embeddings(loaded, question)
        path = compute_weight_path(stage, space, query, min_l1, question.depth, row_indices, without_self)
        assert path is not None, "only selectors with weights are asked for their path"
        return path

    return get_or_compute("paths", key, compute, MAX_CACHED_PATHS)
