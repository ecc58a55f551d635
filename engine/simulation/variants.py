"""Variants of a simulated deployment: a reranker, documents that come later, questions of several hops.

Online-Optimized RAG, section 3.1 and Algorithms 2, 3 and 4. A reranker picks what is shown among K drawn. Documents
that have not come are neither drawn nor moved nor found. The hops of a question come one after the other, each a round.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from engine.drift.measures import Drift, DriftBaseline, Mover, origin
from engine.errors import DataError, ParamError
from engine.feedback import Preset, Reranker, Session, by_scorer, cosine, oracle
from engine.feedback.dynamic_corpus import DRIFT_NEIGHBOURS
from engine.params import Choice, Real, Whole
from engine.space import Space
from engine.stages import Scorer, make_scorer
from engine.values import Corpus, Embeddings, digest_of

JUDGEMENTS, COSINE = "judgements", "cosine"
RERANKERS = {
    COSINE: "the nearest to the query in the vectors of the start",
    JUDGEMENTS: "a right one where any was drawn: the best reranker there is",
}
"""Rerankers beside the scorers, and what each picks."""
CANDIDATES = Whole(
    10, "K", 2, comfortable=(2, 20), name="candidates", source="Algorithm 2",
    help="So many documents are drawn, and the reranker picks the one that is shown.",
)  # fmt: skip
NEWCOMERS = Choice(
    "neighbours", "InitEmbed", ("neighbours", "printed"), name="newcomers", source="Algorithm 3",
    help=f"Where a newcomer starts: neighbours, at its vector moved as its {DRIFT_NEIGHBOURS} nearest have moved, "
    "which is not the paper's; printed, at its vector.",
)  # fmt: skip
UPDATES = Whole(
    None, "updates", 1, comfortable=(100, 5000), unset="as exposure says", name="updates", source="appendix C.3",
    help="Queries come again until documents were updated so many times; the paper has about 3,000.",
)  # fmt: skip
SHARE = Real(0.5, "share", 0.0, 1.0, name="share", help="Of the documents.")
AFTER = Whole(0, "round", 0, name="round", help="After so many rounds they come.")
_COMING = 7


@dataclass(frozen=True, eq=False, kw_only=True)
class Deployment:
    """What is shown, and when documents come.

    reranker: "cosine", "judgements" or a Scorer, None for none (Algorithm 1).
    candidates: how many documents are drawn, 1 without a reranker.
    arrivals: (share of the documents, rounds after which they come).
    newcomers: "neighbours" or "printed".
    hops: question → its sub-queries by id, in order.
    """

    reranker: str | Scorer | None = None
    candidates: int = 1
    arrivals: tuple[tuple[float, int], ...] = ()
    newcomers: str = NEWCOMERS.default
    hops: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        reranker: str | Scorer | None = None,
        candidates: int | None = None,
        arrivals: Sequence[tuple[float, int]] = (),
        newcomers: str = NEWCOMERS.default,
        hops: Mapping[str, Sequence[str]] | None = None,
    ) -> Deployment:
        """A variant, checked. Raises ParamError, DataError."""
        if reranker is None and candidates is not None:
            raise ParamError(
                f"candidates (K) needs a reranker that picks among them: {', '.join(RERANKERS)} or a scorer; got "
                f"{candidates!r} without one"
            )
        if isinstance(reranker, str) and reranker not in RERANKERS:
            reranker = make_scorer(reranker)
        if reranker is not None and not isinstance(reranker, str | Scorer):
            raise ParamError(f"reranker must be {', '.join(RERANKERS)}, a scorer or None; got {reranker!r:.80}")
        drawn = 1 if reranker is None else CANDIDATES.check(CANDIDATES.default if candidates is None else candidates)
        return cls(
            reranker=reranker,
            candidates=drawn,
            arrivals=_checked_arrivals(arrivals),
            newcomers=NEWCOMERS.check(newcomers),
            hops={question: tuple(ids) for question, ids in (hops or {}).items()},
        )

    def picker(self, right: np.ndarray) -> Reranker | None:
        """The reranker of a round; right: the rows that are right there."""
        if self.reranker == JUDGEMENTS:
            rows = set(right.tolist())
            return oracle(lambda query: rows)
        return self._picker

    @cached_property
    def _picker(self) -> Reranker | None:
        if isinstance(self.reranker, Scorer):
            return by_scorer(self.reranker)
        return None if self.reranker is None else cosine

    @cached_property
    def owner(self) -> Mapping[str, str]:
        """The question of each sub-query. Raises DataError for one of two questions."""
        owner: dict[str, str] = {}
        for question, ids in self.hops.items():
            for query in ids:
                if owner.setdefault(query, question) != question:
                    raise DataError(f"hops must give each sub-query one question; {query!r} has two")
        return owner

    def groups(self, ids: Sequence[str]) -> list[np.ndarray]:
        """The places of each question's hops, in the plan's order; ids: of the stream's queries.

        A query without a plan is a question of one hop.
        """
        place = {query: row for row, query in enumerate(ids)}
        questions = dict.fromkeys(self.owner.get(query, query) for query in ids)
        plans = (self.hops.get(question, (question,)) for question in questions)
        return [np.array([place[query] for query in plan if query in place], dtype=np.int64) for plan in plans]

    def inventory(self, n: int, seed: int) -> Inventory:
        """When which of n documents come. Raises ParamError where none is there at the start."""
        later = [(share, after) for share, after in self.arrivals if after > 0]
        order = np.random.default_rng([seed, _COMING, n]).permutation(n)
        ends = np.rint(np.cumsum([share for share, _ in later]) * n).astype(int).tolist()
        if ends and ends[-1] >= n:
            raise ParamError(f"arrivals must leave a document to begin with; all {n:,} come later")
        parts = [np.sort(order[begin:end]) for begin, end in pairwise([0, *ends])]
        waves = [(after, rows) for (_, after), rows in zip(later, parts, strict=True) if len(rows)]
        return Inventory(n, tuple(sorted(waves, key=lambda wave: wave[0])))

    def settings(self) -> dict[str, Any]:
        """What differs from Algorithm 1, as plain JSON values."""
        shown: dict[str, Any] = {}
        if self.reranker is not None:
            shown |= {"reranker": name_of(self.reranker), "candidates": self.candidates}
        if any(after for _, after in self.arrivals):
            shown |= {"arrivals": [list(arrival) for arrival in self.arrivals], "newcomers": self.newcomers}
        if self.hops:
            shown["hops"] = digest_of(part for question, ids in self.hops.items() for part in (question, "\n", *ids))
        return shown

    @property
    def doubts(self) -> tuple[str, ...]:
        """Why Theorem 5.1 does not speak of it."""
        reasons = [] if self.reranker is None else [f"{self.candidates} documents are drawn, and one of them is picked"]
        if any(after for _, after in self.arrivals):
            reasons.append("documents come later; rounds without a right one there are left out")
        return tuple(reasons)


@dataclass(frozen=True, eq=False)
class Inventory:
    """When documents come; waves: (rounds before it, rows), rising, those that are there from the start left out."""

    n: int
    waves: tuple[tuple[int, np.ndarray], ...] = ()

    def arrived(self, t: int) -> np.ndarray | None:
        """(n,) bool, the documents that are there after t rounds; None where all have been from the start."""
        if not self.waves:
            return None
        there = np.ones(self.n, dtype=bool)
        for after, rows in self.waves:
            there[rows] = after <= t
        there.flags.writeable = False
        return there

    def coming(self, t: int) -> list[int]:
        """The rows that come after round t."""
        return [row for after, rows in self.waves if after == t for row in rows.tolist()]


def name_of(reranker: str | Scorer) -> str:
    """A reranker's name, a scorer's with its parameters."""
    return reranker.label if isinstance(reranker, Scorer) else reranker


def exposure_of(updates: int, preset: Preset, queries: int) -> tuple[int, int]:
    """(exposure, rounds) with which a stream of so many queries makes so many updates of a preset."""
    rounds = updates * preset.batch
    return max(preset.exposure, -(-rounds // queries)), rounds


def _checked_arrivals(arrivals: Sequence[tuple[float, int]]) -> tuple[tuple[float, int], ...]:
    if not isinstance(arrivals, Sequence) or any(not isinstance(a, Sequence) or len(a) != 2 for a in arrivals):
        raise ParamError(
            f"arrivals must be pairs of a share in [0, 1] and a round, such as (0.5, 1000); got {arrivals!r:.80}"
        )
    pairs = tuple((SHARE.check(share), AFTER.check(after)) for share, after in arrivals)
    if sum(share for share, _ in pairs) > 1 + 1e-9:
        raise ParamError(f"arrivals must be of all documents at most; the shares of {arrivals!r:.80} add up to more")
    return pairs


@dataclass(frozen=True, eq=False)
class Stock:
    """The documents that are there: a space of them, what their drift is measured against, and their rows.

    rows: None for all of the corpus.
    """

    space: Space
    baseline: DriftBaseline
    rows: np.ndarray | None

    @classmethod
    def of(cls, begun: Session, rows: np.ndarray | None, probes: Embeddings, right: Sequence[np.ndarray]) -> Stock:
        """probes: queries that are followed; right: the right rows of each."""
        space, vectors = begun.space, begun.origin
        if rows is not None:
            place = np.full(len(space), -1)
            place[rows] = np.arange(len(rows))
            right = [(found := place[of_probe])[found >= 0] for of_probe in right]
            space, vectors = part_of(space, rows.tolist()), vectors[rows]
        given: dict[str, Any] = {"temperature": begun.temperature, "seed": begun.preset.seed}
        return cls(space, origin(vectors, probes, right=right, **given), rows)

    def whole(self, measured: Drift) -> Drift:
        """The drift of these documents with the rows of the whole corpus."""
        if self.rows is None:
            return measured
        movers = tuple(Mover(int(self.rows[row]), distance) for row, distance in measured.movers)
        return replace(measured, movers=movers)


def part_of(space: Space, rows: Sequence[int]) -> Space:
    """A space of some of the documents; several vectors a document are not taken along, as where documents move."""
    corpus = space.corpus
    columns = {name: tuple(values[row] for row in rows) for name, values in corpus.metadata.items()}
    ids, texts, titles = (tuple(column[row] for row in rows) for column in (corpus.ids, corpus.texts, corpus.titles))
    part = Corpus(ids, texts, titles, corpus.name, columns)
    return Space(part, space.embeddings.take(list(rows)), space.device, adapt=space.adapt)
