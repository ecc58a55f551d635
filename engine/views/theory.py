"""Theory page data: a theorem's witness and certificate, a query turned in a plane, bounds measured."""

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from engine.candidates import without_autocast
from engine.decoder import select
from engine.errors import ParamError
from engine.params import Whole
from engine.progress import counted
from engine.space import Space
from engine.stages import methods
from engine.theory.elastic_net import Witness, counterexample, witness
from engine.theory.margins import Margins
from engine.theory.projection_bounds import simple_dimension, sufficient_dimension
from engine.theory.random_projections import PairErrors, find_kept_dimensions
from engine.theory.segments import Segments
from engine.views.decision import weights_of
from engine.views.document import ShownDocument, shown_fields
from engine.wording import decimal, percent

QUERY_ANGLE = Whole(20, "φ", 0, 90, name="angle", help="Of v, in degrees: at 0 it is document 2, at 90 document 3.")
N_NEXT_SHOWN = 5
"""Documents below the set that are shown with it."""
NEEDED_SHARES = (0.5, 0.75, 0.95)


def find_weighing_selector() -> str:
    """Return the name of the first selector whose answers have weights."""
    return next(name for name, method_spec in methods("selector").items() if method_spec.cls.has_weights())


@dataclass(frozen=True, kw_only=True)
class Weighed(ShownDocument):
    """A document beside Theorem 1's set: its rank, score and weight."""

    place: int  # by score
    score: float
    weight: float  # 0 outside the support
    inside: bool  # True if it is in the set


@dataclass(frozen=True, kw_only=True)
class Proof:
    """Theorem 1 of the NNN paper checked on a query: its λ₁ and λ₂, and the elastic net's support there."""

    method: str
    witness: Witness
    rows: tuple[Weighed, ...]  # the set's documents and the next ones, by score
    support: int  # number of documents with a weight at the witness
    same: bool  # True if they are the set
    residual: float  # of the optimality conditions
    certified: bool  # True if these hold


@without_autocast
def proof(space: Space, query: Tensor, k: int) -> Proof:
    """Compute Theorem 1's λ₁ and λ₂ for a query's k best documents, and solve the elastic net there.

    By the theorem exactly these documents then get a weight. Raises as `witness` does, where it says nothing.
    """
    vectors = space.vectors.double()
    query = query.to(vectors)
    located = witness(vectors, query, k)
    # One more than the set: a support that is too large would show.
    n_shown = min(len(located.rows) + 1, len(space))
    answer = select(find_weighing_selector(), vectors, query, k=n_shown, l1=located.l1, l2=located.l2)
    weights = weights_of(answer)
    scores = vectors @ query
    row_order = torch.sort(scores, descending=True, stable=True).indices[: len(located.rows) + N_NEXT_SHOWN].tolist()
    set_rows = set(located.rows)
    rows = tuple(
        Weighed(
            **shown_fields(space.corpus, row), place=rank, score=float(scores[row]), weight=weights.get(row, 0.0),
            inside=row in set_rows,
        )
        for rank, row in enumerate(row_order, start=1)
    )  # fmt: skip
    info = answer.info[0]
    return Proof(
        method=find_weighing_selector(), witness=located, rows=rows, support=info["support"],
        same=set(weights) == set_rows, residual=info["residual"], certified=bool(info["certified"]),
    )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Turned:
    """Proposition 1's three documents, and the elastic net's choice for a query turned in a plane.

    The plane is that of documents 2 and 3.
    """

    angle: int
    l1: float
    points: tuple[tuple[float, float], ...]  # the documents there, document 1 as its shadow, whose score is its own
    query: tuple[float, float]  # coordinates of v
    scores: tuple[float, ...]  # of the documents
    weights: tuple[float, ...]  # of the documents
    support: tuple[int, ...]  # the documents with a weight, rising
    best: tuple[int, ...]  # as many by score, rising

    @property
    def is_ranked(self) -> bool:
        """True if a ranking by score finds the support."""
        return self.support == self.best


def turn_query(angle: int = QUERY_ANGLE.default, l1: float = 0.1) -> Turned:
    """Solve the elastic net on Proposition 1's three documents for a query turned by `angle` degrees.

    At λ₁ = l1 and λ₂ = 0. angle: whole, in [0, 90], from document 2 to document 3; l1: in (0, 1/3). Raises ParamError.
    """
    angle = QUERY_ANGLE.check(angle)
    example = counterexample(l1)
    vectors, radians = example.vectors, math.radians(angle)
    # Documents 2 and 3 are orthogonal, so they are the axes; document 1 is drawn as its projection onto them.
    axes = vectors[1:]
    query = math.cos(radians) * axes[0] + math.sin(radians) * axes[1]
    scores = tuple((vectors @ query).tolist())
    answer = select(find_weighing_selector(), vectors, query, k=len(vectors), l1=l1, l2=0.0)
    weights = weights_of(answer)
    row_order = sorted(range(len(scores)), key=lambda row: (-scores[row], row))
    return Turned(
        angle=angle, l1=l1, points=tuple(map(tuple, (vectors @ axes.T).tolist())),
        query=(math.cos(radians), math.sin(radians)), scores=scores,
        weights=tuple(weights.get(row, 0.0) for row in range(len(vectors))), support=tuple(sorted(weights)),
        best=tuple(sorted(row_order[: len(weights)])),
    )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Bounded:
    """Dimensions that keep the order of pairs of documents of like margin: measured, and by two bounds."""

    least: float  # of their margins
    most: float  # of their margins
    pairs: int  # their number
    measured: int | None  # the k that was enough, None where no k that was tried is
    guaranteed: int  # the bound's k
    at_once: bool  # True if the first k that was tried was enough
    simple: int  # the k of Corollary 1

    @property
    def times(self) -> float | None:
        """The ratio of the bound's k to the measured k."""
        return None if self.measured is None else self.guaranteed / self.measured


def compare_with_bound(errors: PairErrors, error: float) -> tuple[Bounded, ...]:
    """Compare the dimensions measured to be enough for pairs of like margin with those that bounds ask.

    errors: shares of pairs that random projections reverse, by bin of margins; error: β, the share of pairs that may be
    reversed, in (0, 1). Raises ParamError.
    """
    first = min(cell.k for cell in errors.cells)
    return tuple(
        Bounded(
            least=margin_bin.least,
            most=margin_bin.most,
            pairs=margin_bin.pairs,
            measured=dimension,
            guaranteed=sufficient_dimension(margin_bin.least, error),
            at_once=dimension == first,
            simple=simple_dimension(margin_bin.least, error),
        )
        for margin_bin, dimension in zip(errors.bins, find_kept_dimensions(errors, error), strict=True)
    )


@dataclass(frozen=True)
class Needed:
    """Dimension that keeps the best document first for a share of the queries."""

    share: float  # of the queries
    margin: float  # the smallest margin that their best documents have over the nearest rival
    dimension: int  # the k that the bound asks
    simple: int  # the k that Corollary 1 asks


def compute_needed(measured: Margins, error: float) -> tuple[Needed, ...]:
    """Compute the dimensions that keep the best document ahead of its rivals, for shares of queries.

    By Lemma 1's and Corollary 1's bounds, with a chance of error β for each query. measured: margins of one bin, with
    rank 1 among the ranks; error: β, in (0, 1). Raises ParamError.
    """
    rows = [row for row in measured.rows if row.rank == 1]
    if len(rows) != 1:
        raise ParamError(f"measured must be margins of one bin with rank 1 among the ranks; got {len(rows)} such rows")
    values = rows[0].values
    if not len(values):
        return ()
    needed = []
    for share in NEEDED_SHARES:
        # The lower of two neighbours is a margin that some query has, so that the share is reached.
        margin = float(np.quantile(values, 1 - share, method="lower"))
        needed.append(Needed(share, margin, sufficient_dimension(margin, error), simple_dimension(margin, error)))
    return tuple(needed)


def describe_segments(segments: Segments, queries: int, words: int) -> tuple[str, ...]:
    """Say in sentences how often Theorem 1 covers pairs of documents, and if it holds, the verdict first.

    segments: measured pairs; queries: their number; words: length of a passage
    """
    n_pairs, query_text = len(segments), counted(queries, "query", "queries")
    if not n_pairs:
        return (f"No pairs: none of {query_text} shares words with two documents.",)
    n_promised, n_apart = int(segments.promised.sum()), int(segments.apart.sum())
    verdict = " and holds for all of them" if not segments.broken else f", violated for {segments.broken:,}"
    sentences = [
        f"The theorem covers {n_promised:,} of {counted(n_pairs, 'pair')} ({percent(n_promised / n_pairs)}) "
        f"from {query_text}" + (f"{verdict}." if n_promised else "."),
        *(["This should be impossible: please report it."] if segments.broken else []),
        f"It covers pairs whose best document has all query words in one passage of {counted(words, 'word')}.",
    ]
    passages = segments.passages[~np.isnan(segments.passages)]
    if len(passages):
        median, document_median = decimal(float(np.median(passages))), decimal(float(np.median(segments.documents)))
        sentences.append(
            f"Real passages, for which nothing is proved: {percent(segments.passages_gain)} of the pairs keep at least "
            f"the documents' margin (median {median}, documents {document_median})."
        )
    sentences.append(
        "The theorem assumes segments without common words. "
        + (
            f"In {percent((n_pairs - n_apart) / n_pairs)} of the pairs the best passages share words with the rest of "
            "their documents."
            if n_pairs > n_apart
            else "Here no best passage shares a word with the rest of its document; a short document is one passage."
        )
    )
    return tuple(sentences)
