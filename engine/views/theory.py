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
    """Check on a query that some elastic net gives weights to exactly its k best documents.

    The NNN paper's Theorem 1 says so, and names λ₁ and λ₂ for it. This function computes them, solves the elastic net
    there, and compares the documents that have a weight with the k best by score. query: (d,) vector. Raises ParamError
    where the theorem says nothing: if the k-th best score is not above 0, or not above the next one.
    """
    vectors = space.vectors.double()
    query = query.to(vectors)
    located = witness(vectors, query, k)
    # One document more than the set is requested, so that a support (documents with a weight) too large would show.
    n_shown = min(len(located.rows) + 1, len(space))
    answer = select(find_weighing_selector(), vectors, query, k=n_shown, l1=located.l1, l2=located.l2)
    weights = weights_of(answer)
    scores = vectors @ query
    row_order = torch.sort(scores, descending=True, stable=True).indices[: len(located.rows) + N_NEXT_SHOWN].tolist()
    set_rows = set(located.rows)
    weighed_documents = tuple(
        Weighed(
            **shown_fields(space.corpus, row), place=rank, score=float(scores[row]), weight=weights.get(row, 0.0),
            inside=row in set_rows,
        )
        for rank, row in enumerate(row_order, start=1)
    )  # fmt: skip
    info = answer.info[0]
    return Proof(
        method=find_weighing_selector(), witness=located, rows=weighed_documents, support=info["support"],
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
        """True if the documents with a weight in the elastic net are also the best by score."""
        return self.support == self.best


def turn_query(angle: int = QUERY_ANGLE.default, l1: float = 0.1) -> Turned:
    """Solve the elastic net on three documents whose best set no ranking by score finds.

    They are the example of the NNN paper's Proposition 1. Returns the documents that get a weight (the support), the
    same number of documents with the best scores to compare them with, and coordinates to draw both. angle: degrees, a
    whole number in [0, 90], by which the query is turned from document 2 to document 3; l1: λ₁, in (0, 1/3); λ₂ is 0.
    Raises ParamError.
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
        """The bound's dimension divided by the smallest that measurements found enough; None if none was."""
        return None if self.measured is None else self.guaranteed / self.measured


def compare_with_bound(errors: PairErrors, error: float) -> tuple[Bounded, ...]:
    """Compare the dimensions measured to keep the order of document pairs with those that bounds ask.

    The dimensions are of random projections, which may reverse two documents with nearly equal scores. The bounds are
    Lemma 1 and Corollary 1 of the sparse-dense paper. There is one result for each bin of margins, the scaled
    differences of scores. errors: shares of pairs that are reversed, by bin and dimension; error: β, the share that may
    be reversed, in (0, 1). Raises ParamError.
    """
    smallest_tried = min(cell.k for cell in errors.cells)
    return tuple(
        Bounded(
            least=margin_bin.least,
            most=margin_bin.most,
            pairs=margin_bin.pairs,
            measured=dimension,
            guaranteed=sufficient_dimension(margin_bin.least, error),
            at_once=dimension == smallest_tried,
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
    """Compute dimensions of a random projection that keep the best document ahead of its nearest rival.

    There is one result for each share of queries in NEEDED_SHARES. It holds two dimensions proven to be enough: by
    Lemma 1 of the sparse-dense paper, and by the simpler formula of its Corollary 1. measured: margins of one bin of
    document lengths, where a margin is the scaled score difference of the best document and a rival; error: the chance
    β, in (0, 1), that a query's best document falls behind. Raises ParamError if `measured` lacks the margins over the
    nearest rival (rank 1).
    """
    nearest = [row for row in measured.rows if row.rank == 1]
    if len(nearest) != 1:
        raise ParamError(
            f"measured must be margins of one bin with rank 1 among the ranks; got {len(nearest)} such rows"
        )
    query_margins = nearest[0].values
    if not len(query_margins):
        return ()
    needed = []
    for share in NEEDED_SHARES:
        # The lower of two neighbours is a margin that some query has, so that the share is reached.
        margin = float(np.quantile(query_margins, 1 - share, method="lower"))
        needed.append(Needed(share, margin, sufficient_dimension(margin, error), simple_dimension(margin, error)))
    return tuple(needed)


def describe_segments(segments: Segments, queries: int, words: int) -> tuple[str, ...]:
    """Say in sentences how often a theorem covers pairs of documents, and if it holds for them.

    By Theorem 1 of the sparse-dense paper, a query's best document leads another by at least the same margin if only a
    segment of each, a part of it, is compared. The theorem's segments share no words. Real passages, runs of `words`
    words, may share some, and are measured too. segments: the measured pairs of a query's best document and another;
    queries: number of queries
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
