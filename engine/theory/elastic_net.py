"""Statements of the NNN paper as numbers that can be checked: Theorem 1, Proposition 1, FISTA's bound."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from engine.candidates import without_autocast
from engine.decoder import SET_SIZE, resolve_search_inputs
from engine.display import OneLine
from engine.errors import DataError, ParamError
from engine.matrix import Matrix

UNIT_LENGTH_TOLERANCE = 1e-5
"""Allowed difference of a unit vector's length from 1."""


@dataclass(frozen=True)
class Witness(OneLine):
    """λ₁ and λ₂ at which the elastic net's support is exactly a query's k best documents."""

    l1: float
    l2: float
    alpha: float  # the lowest score within them
    beta: float  # the highest outside
    rows: tuple[int, ...]  # them, ascending


@dataclass(frozen=True, eq=False)
class Example(OneLine):
    """Three documents and a query for which the elastic net finds rows that no ranking by score can.

    Vectors are (3, 3) float64, the query (3,).
    """

    vectors: Tensor
    query: Tensor
    l1: float
    support: tuple[int, ...]  # the rows with a weight at l1 and λ₂ = 0
    weights: tuple[float, ...]  # theirs
    scores: tuple[float, ...]  # all documents' inner products


@dataclass(frozen=True)
class Outlook(OneLine):
    """FISTA's step length on a corpus, and its bound on how far from the minimum T steps end."""

    spectrum: float  # largest eigenvalue of UUᵀ
    length: int  # n, the eigenvalue if all rows were one unit vector
    common: float  # squared length of the mean row: the mean cosine of two random rows where rows are unit
    step: float  # 1 / (spectrum + λ₂), the step length

    def gap(self, weights: float, steps: int) -> float:
        """Bound the elastic net's objective after `steps` steps of FISTA, less its minimum.

        It is 2 |w*|² / (step · (steps + 1)²) (Beck & Teboulle 2009, Theorem 4.4). weights: |w*|, the length of the best
        weights
        """
        return 2 * weights**2 / (self.step * (steps + 1) ** 2)

    def steps(self, weights: float, gap: float) -> int:
        """Compute the number of steps that guarantee an objective within `gap` of its minimum."""
        return max(0, math.ceil(math.sqrt(2 * weights**2 / (self.step * gap)) - 1))


@without_autocast
def witness(vectors: Any, query: Any, k: int = 5) -> Witness:
    """Compute λ₁ and λ₂ that make the elastic net's support the k most relevant rows (NNN paper, Theorem 1, eq. 8).

    With α the k-th best score and β the next: λ₁ = (α + max(0, β))/2, δ = (α − max(0, β))/2, λ₂ = k/δ + k − 1.

    Parameters
    ----------
    vectors : array
        (n, d) unit rows, float64.
    query : array
        (d,) unit vector, float64.
    k : int
        The number of rows.

    Returns
    -------
    Witness
        The parameters and the support.

    Raises
    ------
    DataError
        If a vector is not of length 1.
    ParamError
        If α is not above max(0, β), where the theorem says nothing.

    Examples
    --------
    >>> import engine, torch
    >>> witness = engine.witness(torch.eye(3).double(), torch.eye(3)[0].double(), k=1)
    """
    k = SET_SIZE.check(k)
    matrix, points = resolve_search_inputs(vectors, query)
    rows, point = matrix.vectors.double(), points[0].double()
    if len(points) != 1 or rows.shape[1] != len(point):
        raise DataError(f"query must be one vector of {rows.shape[1]} numbers; got shape {tuple(points.shape)}")
    for name, lengths in (("vectors", torch.linalg.vector_norm(rows, dim=1)), ("query", point.norm().unsqueeze(0))):
        if float((lengths - 1).abs().max()) > UNIT_LENGTH_TOLERANCE:
            raise DataError(f"{name} must be of unit length; one is {float(lengths[(lengths - 1).abs().argmax()]):.4g}")
    scores = rows @ point
    row_order = torch.sort(scores, descending=True, stable=True).indices
    k = min(k, len(rows))
    alpha = float(scores[row_order[k - 1]])
    beta = float(scores[row_order[k]]) if k < len(rows) else -math.inf
    # The weights are non-negative: documents that score 0 or less get none at any λ₁ > 0, so only scores above 0 need
    # to be separated from the k-th.
    floor = max(0.0, beta)
    if alpha <= floor:
        raise ParamError(
            f"k must split the scores above 0: document {k} scores {alpha:.6g}, the next {beta:.6g}; choose another k"
        )
    delta = (alpha - floor) / 2
    return Witness((alpha + floor) / 2, k / delta + k - 1, alpha, beta, tuple(sorted(row_order[:k].tolist())))


def counterexample(l1: float = 0.1) -> Example:
    """Return vectors for which the elastic net omits a document that is more relevant than a chosen one.

    Rows 2 and 3 reconstruct the query, although row 1 scores above row 3 (NNN paper, Proposition 1).

    Parameters
    ----------
    l1 : float
        λ₁ in (0, 1/3), at λ₂ = 0.

    Returns
    -------
    Example
        The vectors, the query and the parameters.

    Raises
    ------
    ParamError
        If λ₁ is outside this range.

    Examples
    --------
    >>> import engine
    >>> example = engine.counterexample(0.1)
    """
    is_number = isinstance(l1, int | float | np.floating) and not isinstance(l1, bool)
    if not is_number or not 0 < l1 < 1 / 3:
        raise ParamError(f"l1 (λ₁) must be a number in (0, 1/3); got {l1!r}")
    # Row 1 scores more than row 3, but row 2 leaves it nothing to add, while row 3 alone has the last coordinate.
    half_root = math.sqrt(0.5)
    rows = torch.tensor([[1.0, 0, 0], [half_root, half_root, 0], [0, 0, 1]], dtype=torch.float64)
    query = torch.tensor([2.0, 2, 1], dtype=torch.float64) / 3
    # Rows 2 and 3 are orthogonal, so each weight is its row's soft-thresholded score, ⟨d, q⟩ − λ₁.
    weights = (2 * math.sqrt(2) / 3 - l1, 1 / 3 - l1)
    return Example(rows, query, float(l1), (1, 2), weights, tuple((rows @ query).tolist()))


@without_autocast
def outlook(vectors: Any, l2: float = 0.1) -> Outlook:
    """Compute the length of FISTA's steps on a corpus (NNN paper, eq. 5).

    The more the rows point in one direction, the larger is the largest eigenvalue of UUᵀ, at least n · |mean row|², and
    the shorter is a step.

    Parameters
    ----------
    vectors : array, Matrix or Space
        (n, d) vectors, or a Matrix or a Space.
    l2 : float
        λ₂.

    Returns
    -------
    Outlook
        The eigenvalue and the step length.

    Raises
    ------
    ParamError, DataError
        If an argument is invalid.

    Examples
    --------
    >>> import engine, torch
    >>> outlook = engine.outlook(torch.eye(3))
    """
    # A Space has a matrix, a Matrix is one.
    matrix = getattr(vectors, "matrix", vectors)
    if not isinstance(matrix, Matrix):
        # Checked as for a search, whose query does not matter here.
        matrix, _query = resolve_search_inputs(vectors, torch.zeros(1, len(vectors[0])))
    mean_square, spectrum = float(matrix.mean @ matrix.mean), matrix.spectral_norm_squared
    # The step is 1/L, L being the Lipschitz constant of the smooth part's gradient; a zero corpus at λ₂ = 0 has L = 0.
    return Outlook(spectrum, len(matrix), mean_square, 1 / max(spectrum + l2, 1e-300))
