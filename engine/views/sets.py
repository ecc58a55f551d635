"""One query's sets: their documents, their figures, what a ranking says of itself, the lines of its weights."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from engine.evaluation.metrics import METRICS, available, measure
from engine.evaluation.trace import trace
from engine.solvers.regularization_path import WeightPath
from engine.space import Space
from engine.values import Embeddings, Qrels, Ranking, showable
from engine.views.decision import kept, places, relevances
from engine.views.relevance import Relevance

SAME, NEW, DROPPED, NOWHERE = "=", "NEW", "DROPPED", "–"
LEAST = 1e-16
"""float64 proves nothing finer."""


@dataclass(frozen=True)
class Row:
    """One document of a retrieved set, against the baseline's.

    rank: from 1; row: its position in the corpus; change: places gained (above 0) or lost, None where the baseline
    did not return it; relevant: as judged, None without judgements; relevance: the score that the selector saw, None
    where it saw none; similarity: inner product with the nearest document ranked above it (None for the first), whose
    id is `nearest`.
    """

    rank: int
    row: int
    id: str
    title: str
    text: str
    change: int | None
    relevant: bool | None
    relevance: float | None
    gain: float
    similarity: float | None
    nearest: str | None

    @property
    def mark(self) -> str:
        """▲2, ▼1, = or NEW."""
        return mark(self.change)


def mark(change: int | None) -> str:
    """Places gained or lost as ▲2, ▼1 or =; NEW for None."""
    match change:
        case None:
            return NEW
        case 0:
            return SAME
        case up if up > 0:
            return f"▲{up}"
        case down:
            return f"▼{-down}"


@dataclass(frozen=True)
class Card:
    """A decoder's figures for one query.

    recall: None without judgements; ilad: None for fewer than two documents; the deltas are to the baseline;
    overlap: share of the baseline's documents that it returns too; others: title → value of the remaining metrics.
    """

    returned: int
    recall: float | None
    recall_delta: float | None
    ilad: float | None
    ilad_delta: float | None
    overlap: float
    others: Mapping[str, float]


def diff(
    space: Space,
    query: torch.Tensor,
    query_id: str,
    ranking: Ranking,
    baseline: Ranking,
    qrels: Qrels | None,
    relevance: Relevance | None = None,
) -> tuple[list[Row], list[Row]]:
    """What one query's set holds, best first, and what the baseline holds that it dropped.

    query: (d,) its vector; ranking, baseline: of this query alone; relevance: what the ranking's selector saw where
    that was not the inner product.
    """
    base = kept(baseline)
    here = kept(ranking)
    places = {row: rank for rank, row in enumerate(base)}
    relevant = qrels.relevant(query_id) if qrels is not None else None
    rows = []
    for found, gains, only in ((here, ranking.gain[0].tolist(), None), (base, baseline.gain[0].tolist(), set(here))):
        only_these = Ranking(torch.tensor([found]), torch.tensor([gains[: len(found)]]), ({},))
        asked = Embeddings(query.unsqueeze(0), (query_id,), space.embeddings.encoder)
        scores = None if relevance is None else relevance.score.unsqueeze(0)
        picks = trace(only_these, space, asked, scores).rows() if found else []
        rows.append(
            [
                Row(
                    rank=rank + 1,
                    row=row,
                    id=showable(space.corpus.ids[row]),
                    title=showable(space.corpus.titles[row]),
                    text=showable(space.corpus.texts[row]),
                    change=places[row] - rank if row in places else None,
                    relevant=None if not relevant else space.corpus.ids[row] in relevant,
                    relevance=None if pick["relevance"] != pick["relevance"] else pick["relevance"],
                    gain=pick["score"],
                    similarity=pick["similarity"],
                    nearest=None if pick["nearest"] is None else showable(space.corpus.ids[pick["nearest"]]),
                )
                for rank, (row, pick) in enumerate(zip(found, picks, strict=True))
                if only is None or row not in only
            ]
        )
    return rows[0], rows[1]


def card(space: Space, query_id: str, ranking: Ranking, baseline: Ranking, qrels: Qrels | None, k: int) -> Card:
    """The figures of one query's set; k: for Recall@k and ILAD@k."""
    judged = qrels is not None and bool(qrels.relevant(query_id))
    wanted = ("ilad", *(m for m in available(qrels) if METRICS[m].needs)) if judged else ("ilad",)
    own, base = (
        measure(r, space, (query_id,), qrels if judged else None, k, wanted).per_query for r in (ranking, baseline)
    )
    figure = {m: own.get(m, {}).get(query_id) for m in ("recall", "ilad")}
    delta = {m: None if figure[m] is None or query_id not in base[m] else figure[m] - base[m][query_id] for m in figure}
    others = {METRICS[m].title: own[m][query_id] for m in wanted if m not in figure}
    found, shared = kept(ranking), set(kept(baseline))
    overlap = len(shared.intersection(found)) / max(1, len(shared))
    return Card(len(found), figure["recall"], delta["recall"], figure["ilad"], delta["ilad"], overlap, others)


def missed(
    space: Space,
    query: torch.Tensor,
    query_id: str,
    ranking: Ranking | Iterable[Ranking],
    qrels: Qrels | None,
    relevance: Relevance | None = None,
) -> list[tuple[str, int | None]]:
    """The relevant documents that a set lacks, with their rank by relevance in the whole corpus, nearest first.

    ranking: one, or several whose sets all lack them. The rank is None for a judged document that the corpus does not
    have; relevance: what the selector saw where that was not the inner product.
    """
    if qrels is None:
        return []
    rankings = (ranking,) if isinstance(ranking, Ranking) else ranking
    held = {space.corpus.ids[row] for found in rankings for row in kept(found)}
    lacking = sorted(qrels.relevant(query_id) - held)
    there = [doc for doc in lacking if doc in space.corpus.position]
    rows = [space.corpus.position[doc] for doc in there]
    found = places(space, query, rows) if relevance is None else relevance.place[rows].tolist()
    ranks = dict(zip(there, found, strict=True))
    found = [(showable(doc), ranks.get(doc)) for doc in lacking]
    return sorted(found, key=lambda entry: (entry[1] is None, entry[1]))


@dataclass(frozen=True)
class Place:
    """Where a decoder has a document: rank, from 1, or None; mark: against the baseline, "" for the baseline's own."""

    rank: int | None
    mark: str

    def __str__(self) -> str:
        return " ".join(filter(None, [str(self.rank or ""), self.mark]))


@dataclass(frozen=True)
class Merged:
    """A document that one decoder or more returned.

    row: its position in the corpus; relevant: as judged, None without judgements; places: by decoder; sets: how many
    decoders returned it.
    """

    row: int
    id: str
    title: str
    text: str
    relevance: float
    relevant: bool | None
    places: Mapping[str, Place]
    sets: int


def merged(
    space: Space,
    query: torch.Tensor,
    query_id: str,
    rankings: Mapping[str, Ranking],
    baseline: str,
    qrels: Qrels | None,
) -> list[Merged]:
    """All documents that any decoder returned for one query, by their best rank, then by the baseline's.

    query: (d,) its vector; rankings: by decoder, of this query alone; baseline: the one that changes are marked
    against.
    """
    ranks = {name: {row: at for at, row in enumerate(kept(found), 1)} for name, found in rankings.items()}
    base = ranks[baseline]
    rows = list({row: None for found in ranks.values() for row in found})
    relevance = dict(zip(rows, relevances(space, query, rows), strict=True))
    best = {row: min(found[row] for found in ranks.values() if row in found) for row in rows}
    relevant = qrels.relevant(query_id) if qrels is not None else None
    return [
        Merged(
            row,
            showable(space.corpus.ids[row]),
            showable(space.corpus.titles[row]),
            showable(space.corpus.texts[row]),
            relevance[row],
            None if not relevant else space.corpus.ids[row] in relevant,
            {name: _place(found.get(row), base.get(row), name == baseline) for name, found in ranks.items()},
            sum(row in found for found in ranks.values()),
        )
        for row in sorted(rows, key=lambda row: (best[row], base.get(row, len(rows) + 1), -relevance[row], row))
    ]


def _place(rank: int | None, base: int | None, own: bool) -> Place:
    if rank is None:
        return Place(None, DROPPED if base is not None else NOWHERE)
    return Place(rank, "" if own else mark(None if base is None else base - rank))


def trust(info: Mapping[str, Any]) -> str:
    """What a ranking says of itself, in words: how it was reached, and what it is certain of."""
    parts = []
    pool, of = info.get("pool"), info.get("candidates")
    if info.get("certified"):
        parts.append("exact" if not pool or pool == of else f"exact, by a pool of {pool:,}")
    elif info.get("whole") is False:
        parts.append(f"of the {pool:,} most relevant only")
    if info.get("past_rank") is not None:
        parts.append(f"by relevance alone from #{info['past_rank'] + 1} on: the rest adds nothing new")
    if "swaps" in info:
        best = "no swap improves it" if info.get("swap_optimal") else "not every swap was tried"
        parts.append(f"{_counted(info['swaps'], 'swap')}, {best}")
    elif info.get("iterations") and "support" not in info:
        parts.append(_counted(info["iterations"], "step"))
    if "objective" in info:
        parts.append(f"objective {info['objective']:.4f}")
    if "support" in info:
        parts += _weights_trust(info)
    return "; ".join(parts)


def _weights_trust(info: Mapping[str, Any]) -> list[str]:
    """What weights that rebuild the query rest on."""
    parts = []
    if not info.get("certified"):
        after = f"after {_counted(info['iterations'], 'step')} " if "iterations" in info else ""
        parts.append(f"not the minimiser: {after}the optimality conditions are off by up to {info['residual']:.2g}")
    if info["support"]:
        parts.append(f"{_counted(info['support'], 'document has', 'documents have')} a weight")
        if info["bound"] is not None:
            parts.append(f"none is off by more than {max(info['bound'], LEAST):.1g}")
        elif info.get("certified"):
            parts.append(f"all conditions hold to {max(info['residual'], LEAST):.1g}")
    if info["tied"]:
        others = sum(map(len, info["tied"].values()))
        parts.append(f"{_counted(others, 'exact duplicate')} could stand for them")
    return [*parts, *info["messages"]]


def _counted(count: int, thing: str, things: str | None = None) -> str:
    return f"{count:,} {thing if count == 1 else things or thing + 's'}"


@dataclass(frozen=True)
class WeightLine:
    """A document's weight along λ₁: id, title, relevant (None without judgements); chosen: its rank at the current λ₁,
    from 1, None where it has no weight there; l1, weight: the corners of the line, λ₁ falling."""

    id: str
    title: str
    relevant: bool | None
    chosen: int | None
    l1: Sequence[float]
    weight: Sequence[float]


def weight_lines(
    space: Space, query_id: str, path: WeightPath, l1: float, qrels: Qrels | None, most: int = 40
) -> list[WeightLine]:
    """The documents with the largest weights along a path, those with a weight at l1 first, by rank."""
    corners: dict[int, list[tuple[float, float]]] = {}
    for t in range(len(path)):
        own = path.segment(t)
        upper, lower = float(path.levels[t]), float(path.levels[t + 1])
        for row, p, q in zip(path.members[own].tolist(), path.p[own].tolist(), path.q[own].tolist(), strict=True):
            line = corners.setdefault(row, [])
            if not line or line[-1][0] > upper:
                # It had no weight just above this kink.
                line += [(level, 0.0) for level, _ in line[-1:]] + [(upper, 0.0)]
            line.append((upper, max(p - upper * q, 0.0)))
            line.append((lower, max(p - lower * q, 0.0)))
    for line in corners.values():
        if line[-1][0] > path.levels[-1]:
            line += [(line[-1][0], 0.0), (float(path.levels[-1]), 0.0)]
    ranks = {row: rank for rank, row in enumerate(path.at(l1)[0].tolist(), 1)}
    relevant = qrels.relevant(query_id) if qrels is not None else None
    order = sorted(corners, key=lambda row: (ranks.get(row, len(corners) + 1), -max(w for _, w in corners[row]), row))
    return [
        WeightLine(
            showable(space.corpus.ids[row]),
            showable(space.corpus.titles[row]),
            None if not relevant else space.corpus.ids[row] in relevant,
            ranks.get(row),
            *zip(*corners[row], strict=True),
        )
        for row in order[:most]
    ]
