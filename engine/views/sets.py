"""One query's sets: documents, metrics, certificates in words, weights along λ₁, before and after feedback."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
import torch

from engine.evaluation.metrics import METRICS, available_metrics, measure
from engine.evaluation.trace import trace
from engine.solvers.elastic_net.path import WeightPath
from engine.space import Space
from engine.values import Embeddings, Qrels, Ranking, replace_surrogates
from engine.views.decision import Relevance, find_ranks, relevances
from engine.views.document import ShownDocument, shown_fields

SAME_MARK, NEW_MARK, DROPPED_MARK, NOWHERE_MARK = "=", "NEW", "DROPPED", "–"


@dataclass(frozen=True, kw_only=True)
class Row(ShownDocument):
    """One document of a retrieved set, with its change of rank against the baseline's set."""

    rank: int  # from 1
    change: int | None  # places gained (above 0) or lost, None where the baseline did not return it
    relevant: bool | None  # as judged, None without judgements
    relevance: float | None  # the score that the selector saw, None where it saw none
    cosine: float | None  # of document and query
    gain: float
    similarity: float | None  # inner product with the nearest document ranked above it, None for the first
    nearest: str | None  # the id of that document

    @property
    def mark(self) -> str:
        """▲2, ▼1, = or NEW."""
        return mark(self.change)


def mark(change: int | None) -> str:
    """Format places gained or lost as ▲2, ▼1 or =; NEW for None."""
    match change:
        case None:
            return NEW_MARK
        case 0:
            return SAME_MARK
        case up if up > 0:
            return f"▲{up}"
        case down:
            return f"▼{-down}"


@dataclass(frozen=True, kw_only=True)
class Card:
    """A decoder's metrics for one query; the deltas are to the baseline."""

    returned: int
    recall: float | None  # None without judgements
    recall_delta: float | None
    ilad: float | None  # None for fewer than two documents
    ilad_delta: float | None
    overlap: float  # share of the baseline's documents that it returns too
    others: Mapping[str, float]  # title → value of the remaining metrics


def diff(
    space: Space,
    query: torch.Tensor,
    query_id: str,
    ranking: Ranking,
    baseline: Ranking,
    qrels: Qrels | None,
    relevance: Relevance | None = None,
) -> tuple[list[Row], list[Row]]:
    """Compare a decoder's answer to one query with a baseline's, as rows for a page, best first.

    Returns the answer's documents, each with its change of rank, and the documents that only the baseline has. query:
    (d,) its vector; ranking, baseline: answers to this query alone; qrels: to mark relevant documents; relevance: the
    scores that the decoder's selector read, None for inner products.
    """
    set_rows, base_rows = ranking.rows(), baseline.rows()
    base_ranks = _rank_rows(base_rows)
    relevant = qrels.relevant(query_id) if qrels is not None else None
    queries = Embeddings((query_id,), query.unsqueeze(0), space.embeddings.encoder)
    scores = None if relevance is None else relevance.score.unsqueeze(0)

    def rows_of(documents: list[int], gains: list[float], left_out: set[int]) -> list[Row]:
        """Return a set's documents but for `left_out`, each with its gain and nearest neighbour above it."""
        # `trace` computes relevance, gain and nearest neighbour of each pick; the −1 that pad an answer are no picks.
        unpadded = Ranking(torch.tensor([documents]), torch.tensor([gains[: len(documents)]]), ({},))
        picks: list[Any] = trace(unpadded, space, queries, scores).rows() if documents else []
        rows = []
        for rank, (row, pick) in enumerate(zip(documents, picks, strict=True), 1):
            if row not in left_out:
                nearest = None if pick["nearest"] is None else replace_surrogates(space.corpus.ids[pick["nearest"]])
                rows.append(Row(
                    **shown_fields(space.corpus, row), rank=rank,
                    change=base_ranks[row] - rank if row in base_ranks else None,
                    relevant=None if not relevant else space.corpus.ids[row] in relevant,
                    relevance=pick["relevance"], cosine=pick["cosine"],
                    gain=pick["score"], similarity=pick["similarity"], nearest=nearest,
                ))  # fmt: skip
        return rows

    dropped = rows_of(base_rows, baseline.gain[0].tolist(), set(set_rows))
    return rows_of(set_rows, ranking.gain[0].tolist(), set()), dropped


def _rank_rows(rows: Iterable[int]) -> dict[int, int]:
    """Return row → its rank in the given order, from 1."""
    return {row: rank for rank, row in enumerate(rows, 1)}


def card(space: Space, query_id: str, ranking: Ranking, baseline: Ranking, qrels: Qrels | None, k: int) -> Card:
    """Return the metrics of one query's set, with the differences to those of the baseline's set.

    ranking, baseline: answers to this query alone; k: cut-off of the metrics, as in Recall@k and ILAD@k; qrels: the
    judgements. If they are None or lack the query, metrics of relevance are None.
    """
    # Metrics of relevance have no value for a query that nobody judged.
    judgements = qrels if qrels is not None and qrels.relevant(query_id) else None
    # Of the metrics that sets alone suffice for, only ILAD is shown; all others need judgements.
    names = ("ilad", *(name for name in available_metrics(judgements) if METRICS[name].needs))
    values = measure(ranking, space, (query_id,), judgements, k, names).per_query
    base_values = measure(baseline, space, (query_id,), judgements, k, names).per_query

    def delta(metric: str) -> float | None:
        """Return a metric's value less the baseline's, None where either has none."""
        value, base_value = values.get(metric, {}).get(query_id), base_values.get(metric, {}).get(query_id)
        return None if value is None or base_value is None else value - base_value

    documents, base_rows = ranking.rows(), set(baseline.rows())
    return Card(
        returned=len(documents),
        recall=values.get("recall", {}).get(query_id),
        recall_delta=delta("recall"),
        ilad=values.get("ilad", {}).get(query_id),
        ilad_delta=delta("ilad"),
        overlap=len(base_rows.intersection(documents)) / max(1, len(base_rows)),
        others={METRICS[m].title: values[m][query_id] for m in names if m not in ("recall", "ilad")},
    )


def find_missed(
    space: Space,
    query: torch.Tensor,
    query_id: str,
    ranking: Ranking | Iterable[Ranking],
    qrels: Qrels | None,
    relevance: Relevance | None = None,
) -> list[tuple[str, int | None]]:
    """Find the relevant documents that a set lacks, with their rank by relevance, nearest first.

    ranking: one answer to the query, or several of which none may have the documents; relevance: of the selector if it
    is not the inner product. The rank is None for a judged document that is not in the corpus.
    """
    if qrels is None:
        return []
    rankings = (ranking,) if isinstance(ranking, Ranking) else ranking
    returned = {space.corpus.ids[row] for decoder_ranking in rankings for row in decoder_ranking.rows()}
    missing = sorted(qrels.relevant(query_id) - returned)
    rows = {doc_id: space.corpus.position[doc_id] for doc_id in missing if doc_id in space.corpus.position}
    missing_rows = list(rows.values())
    row_ranks = find_ranks(space, query, missing_rows) if relevance is None else relevance.ranks[missing_rows].tolist()
    ranks = dict(zip(rows, row_ranks, strict=True))
    entries = [(replace_surrogates(doc_id), ranks.get(doc_id)) for doc_id in missing]
    # Documents without a rank go last: None cannot be compared with a number.
    return sorted(entries, key=lambda entry: (entry[1] is None, entry[1]))


@dataclass(frozen=True)
class Place:
    """Rank of a document in one decoder's set, from 1, None where it is out; mark: against the baseline.

    The mark is ▲2, ▼1, =, NEW, DROPPED or –, and "" in the baseline's own set.
    """

    rank: int | None
    mark: str

    def __str__(self) -> str:
        return " ".join(filter(None, [str(self.rank or ""), self.mark]))


@dataclass(frozen=True, kw_only=True)
class Merged(ShownDocument):
    """A document that one decoder or more returned."""

    relevance: float
    relevant: bool | None  # as judged, None without judgements
    places: Mapping[str, Place]  # by decoder
    sets: int  # the number of decoders that returned it


def merge_rankings(
    space: Space,
    query: torch.Tensor,
    query_id: str,
    rankings: Mapping[str, Ranking],
    baseline: str,
    qrels: Qrels | None,
) -> list[Merged]:
    """Merge the documents of all decoders for one query, the best rank first, then the baseline's.

    query: (d,) its vector; rankings: by decoder, of this query alone; baseline: the decoder that changes are marked
    against.
    """
    ranks = {decoder_name: _rank_rows(ranking.rows()) for decoder_name, ranking in rankings.items()}
    base_ranks = ranks[baseline]
    set_counts = Counter(chain.from_iterable(ranks.values()))
    rows = list(set_counts)
    relevance = dict(zip(rows, relevances(space, query, rows), strict=True))
    best_rank: dict[int, int] = {}
    for decoder_ranks in ranks.values():
        for row, rank in decoder_ranks.items():
            best_rank[row] = min(rank, best_rank.get(row, rank))
    relevant = qrels.relevant(query_id) if qrels is not None else None
    merged = []
    # Documents that the baseline lacks go behind its last rank; relevance and row decide the other ties.
    for row in sorted(rows, key=lambda row: (best_rank[row], base_ranks.get(row, len(rows) + 1), -relevance[row], row)):
        base_rank = base_ranks.get(row)
        places: dict[str, Place] = {}
        for decoder_name, decoder_ranks in ranks.items():
            places[decoder_name] = _make_place(decoder_ranks.get(row), base_rank, decoder_name == baseline)
        is_relevant = None if not relevant else space.corpus.ids[row] in relevant
        merged.append(Merged(
            **shown_fields(space.corpus, row), relevance=relevance[row], relevant=is_relevant, places=places,
            sets=set_counts[row],
        ))  # fmt: skip
    return merged


def _make_place(rank: int | None, base_rank: int | None, is_baseline: bool) -> Place:
    """Return a document's rank in a decoder's set, with a mark of its change from the baseline's set.

    rank, base_rank: None where the document is not in the set; is_baseline: the decoder is the baseline itself
    """
    if rank is None:
        return Place(None, NOWHERE_MARK if base_rank is None else DROPPED_MARK)
    if is_baseline:
        return Place(rank, "")
    return Place(rank, mark(None if base_rank is None else base_rank - rank))


@dataclass(frozen=True, kw_only=True)
class WeightLine(ShownDocument):
    """A document's weight along λ₁."""

    relevant: bool | None  # as judged, None without judgements
    chosen: int | None  # its rank at the current λ₁, from 1, None where it has no weight there
    l1: Sequence[float]  # the corners of the line, falling
    weight: Sequence[float]  # at these corners


def weight_lines(
    space: Space, query_id: str, path: WeightPath, l1: float, qrels: Qrels | None, max_lines: int = 40
) -> list[WeightLine]:
    """Return the lines of a chart: each document's weight in the elastic net against its penalty λ₁.

    path: the weights at all λ₁, in segments: a document gains or loses its weight where two segments meet, and within a
    segment each weight is a straight line. l1: the present λ₁. Documents with a weight there come first, by rank, then
    those with the largest weights anywhere; max_lines: number of documents at most.
    """
    # Row → the corners of its line, (λ₁, weight), in falling λ₁. Within a segment the weight is p − λ₁q.
    corners: dict[int, list[tuple[float, float]]] = {}
    for segment_index in range(len(path)):
        segment = path.segment(segment_index)
        upper, lower = float(path.levels[segment_index]), float(path.levels[segment_index + 1])
        columns = (path.members[segment], path.p[segment], path.q[segment])
        for row, p, q in zip(*map(np.ndarray.tolist, columns), strict=True):
            row_corners = corners.setdefault(row, [])
            if not row_corners or row_corners[-1][0] > upper:
                # It comes in: its line was at 0 from the end of its last segment, if any, to the start of this one.
                if row_corners:
                    row_corners.append((row_corners[-1][0], 0.0))
                row_corners.append((upper, 0.0))
            row_corners += [(upper, max(p - upper * q, 0.0)), (lower, max(p - lower * q, 0.0))]
    for row_corners in corners.values():
        # A document that left before the end of the path stays at 0 until there.
        if row_corners[-1][0] > path.levels[-1]:
            row_corners += [(row_corners[-1][0], 0.0), (float(path.levels[-1]), 0.0)]
    # Documents with a weight at l1, the best first.
    ranks = _rank_rows(path.at(l1)[0].tolist())
    relevant = qrels.relevant(query_id) if qrels is not None else None
    largest_weight = {row: max(weight for _level, weight in row_corners) for row, row_corners in corners.items()}
    row_order = sorted(corners, key=lambda row: (ranks.get(row, len(corners) + 1), -largest_weight[row], row))
    weight_lines = []
    for row in row_order[:max_lines]:
        levels, weights = map(list, zip(*corners[row], strict=True))
        is_relevant = None if not relevant else space.corpus.ids[row] in relevant
        weight_lines.append(WeightLine(
            **shown_fields(space.corpus, row), relevant=is_relevant, chosen=ranks.get(row), l1=levels, weight=weights
        ))  # fmt: skip
    return weight_lines


@dataclass(frozen=True, kw_only=True)
class BeforeAfter(ShownDocument):
    """A document that was or is in some set."""

    before: float  # its inner product with the query
    after: float
    ranks: Mapping[str, tuple[int | None, int | None]]  # by decoder then and now, from 1, None where it is out

    @property
    def has_moved(self) -> bool:
        """True if score or rank differ."""
        return self.before != self.after or any(then != now for then, now in self.ranks.values())


def before_after(
    then: Space, now: Space, query: torch.Tensor, rankings: Mapping[str, tuple[Ranking, Ranking]]
) -> tuple[BeforeAfter, ...]:
    """List a query's documents whose score or rank feedback has changed, the largest changes first.

    then, now: the same corpus with its vectors before and after feedback; query: (d,) vector; rankings: decoder → its
    answers to this query alone, then and now. Only documents in some answer are compared; of equal changes the first
    decoder's order now decides.
    """
    ranks_by_decoder = {}
    for name, (old_ranking, new_ranking) in rankings.items():
        ranks_by_decoder[name] = _rank_rows(old_ranking.rows()), _rank_rows(new_ranking.rows())
    # Each row once, those of present answers first: a stable sort keeps this order among equal changes.
    rows_by_decoder = ([*new_ranks, *old_ranks] for old_ranks, new_ranks in ranks_by_decoder.values())
    rows = list(dict.fromkeys(chain.from_iterable(rows_by_decoder)))
    if not rows:
        return ()
    changes = []
    old_scores, new_scores = relevances(then, query, rows), relevances(now, query, rows)
    for row, old_score, new_score in zip(rows, old_scores, new_scores, strict=True):
        ranks = {name: (old.get(row), new.get(row)) for name, (old, new) in ranks_by_decoder.items()}
        change = BeforeAfter(**shown_fields(then.corpus, row), before=old_score, after=new_score, ranks=ranks)
        if change.has_moved:
            changes.append(change)
    return tuple(sorted(changes, key=lambda changed: -abs(changed.after - changed.before)))
