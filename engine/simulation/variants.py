"""Variants of a simulated deployment: a reranker, documents that arrive later, questions of several hops.

Online-Optimized RAG, section 3.1 and Algorithms 2, 3 and 4. A reranker picks what is shown among K drawn. Documents
that have not arrived are neither drawn nor moved nor found. The hops of a question come one after the other, a round
each.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
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
"""Rerankers beside the scorers, with a description of their picks."""
N_CANDIDATES = Whole(
    10, "K", 2, comfortable=(2, 20), name="candidates", source="Algorithm 2",
    help="So many documents are drawn, and the reranker picks the one that is shown.",
)  # fmt: skip
NEWCOMER_START = Choice(
    "neighbours", "InitEmbed", ("neighbours", "printed"), name="newcomers", source="Algorithm 3",
    help=f"Where a newcomer starts: neighbours, at its vector moved as its {DRIFT_NEIGHBOURS} nearest have moved, "
    "which is not the paper's; printed, at its vector.",
)  # fmt: skip
N_UPDATES = Whole(
    None, "updates", 1, comfortable=(100, 5000), unset="as exposure says", name="updates", source="appendix C.3",
    help="Queries come again until documents were updated so many times; the paper has about 3,000.",
)  # fmt: skip
ARRIVAL_SHARE = Real(0.5, "share", 0.0, 1.0, name="share", help="Of the documents.")
ARRIVAL_ROUND = Whole(0, "round", 0, name="round", help="After so many rounds they come.")
_ARRIVAL_STREAM = 7


@dataclass(frozen=True, eq=False, kw_only=True)
class Deployment:
    """The way that documents are shown in a simulation, and the rounds in which they arrive.

    reranker: "cosine", "judgements" or a Scorer, None for none (Algorithm 1). candidates: number of documents drawn, 1
    without a reranker. arrivals: (share of the documents, rounds after which they come). newcomers: "neighbours" or
    "printed". hops: question → its sub-queries by id, in order.
    """

    reranker: str | Scorer | None = None
    candidates: int = 1
    arrivals: tuple[tuple[float, int], ...] = ()
    newcomers: str = NEWCOMER_START.default
    hops: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @classmethod
    def build(
        cls,
        reranker: str | Scorer | None = None,
        candidates: int | None = None,
        arrivals: Sequence[tuple[float, int]] = (),
        newcomers: str = NEWCOMER_START.default,
        hops: Mapping[str, Sequence[str]] | None = None,
    ) -> Deployment:
        """Check the arguments and build a deployment; `hops` maps a question's id to its sub-queries' ids."""
        if reranker is None and candidates is not None:
            raise ParamError(
                f"candidates (K) needs a reranker that picks among them: {', '.join(RERANKERS)} or a scorer; got "
                f"{candidates!r} without one"
            )
        if isinstance(reranker, str) and reranker not in RERANKERS:
            reranker = make_scorer(reranker)
        if reranker is not None and not isinstance(reranker, str | Scorer):
            raise ParamError(f"reranker must be {', '.join(RERANKERS)}, a scorer or None; got {reranker!r:.80}")
        n_candidates = N_CANDIDATES.check(N_CANDIDATES.default if candidates is None else candidates)
        return cls(
            reranker=reranker,
            candidates=1 if reranker is None else n_candidates,
            arrivals=_check_arrivals(arrivals),
            newcomers=NEWCOMER_START.check(newcomers),
            hops={question: tuple(ids) for question, ids in (hops or {}).items()},
        )

    def make_picker(self, right: np.ndarray) -> Reranker | None:
        """Return the reranker that picks one of the documents drawn in a round; None if there is none.

        right: the rows judged right for the round's query. Only a perfect reranker, made of the judgements, uses them
        """
        if self.reranker == JUDGEMENTS:
            right_rows = set(right.tolist())
            # `oracle` wants a function from a query to its right rows; this round has only one query.
            return oracle(lambda query: right_rows)
        return self._picker

    @cached_property
    def _picker(self) -> Reranker | None:
        """The reranker that picks among the drawn documents, if it is the same in every round; else None.

        A scorer, or the cosine: a reranker of judgements is made anew for each round's query.
        """
        if isinstance(self.reranker, Scorer):
            return by_scorer(self.reranker)
        return None if self.reranker is None else cosine

    @cached_property
    def owner(self) -> Mapping[str, str]:
        """The question that each sub-query (hop) belongs to. Raises DataError for one of two questions."""
        owner: dict[str, str] = {}
        for question, query_ids in self.hops.items():
            for query in query_ids:
                if owner.setdefault(query, question) != question:
                    raise DataError(f"hops must give each sub-query one question; {query!r} has two")
        return owner

    def group_hops(self, ids: Sequence[str]) -> list[np.ndarray]:
        """Return for each question the positions in `ids` of its hops, its sub-queries, in their order.

        ids: of the queries of a stream; a query without a plan is a question of one hop.
        """
        position = dict(zip(ids, range(len(ids)), strict=True))
        groups = []
        # `owner` maps a sub-query to its question; other queries are their own question.
        for question in dict.fromkeys(self.owner.get(query, query) for query in ids):
            plan = self.hops.get(question, (question,))
            # The plan may name sub-queries that nobody judged, which the stream does not have.
            groups.append(np.array([position[query] for query in plan if query in position], dtype=np.int64))
        return groups

    def plan_inventory(self, n_documents: int, seed: int) -> Inventory:
        """Draw which documents arrive after which round; return the plan. Raises ParamError if all come later."""
        row_order = np.random.default_rng([seed, _ARRIVAL_STREAM, n_documents]).permutation(n_documents)
        waves, begin, total_share = [], 0, 0.0
        for share, n_rounds in self.arrivals:
            # Documents that come after 0 rounds are there from the start.
            if n_rounds > 0:
                # Rounding the cumulated shares, not each share, makes their numbers add up.
                total_share += share
                end = round(total_share * n_documents)
                if begin < end:
                    waves.append((n_rounds, np.sort(row_order[begin:end])))
                begin = end
        if begin >= n_documents:
            raise ParamError(f"arrivals must leave a document to begin with; all {n_documents:,} come later")
        return Inventory(n_documents, tuple(sorted(waves, key=lambda wave: wave[0])))

    def list_settings(self) -> dict[str, Any]:
        """Return the settings that differ from the ORAG paper's Algorithm 1, as plain JSON values."""
        differences: dict[str, Any] = {}
        if self.reranker is not None:
            differences |= {"reranker": format_reranker(self.reranker), "candidates": self.candidates}
        if self.has_arrivals:
            differences |= {"arrivals": list(map(list, self.arrivals)), "newcomers": self.newcomers}
        if self.hops:
            # A line break is no part of an id, so that it separates one question's hops from the next.
            hop_parts = ((question, "\n", *ids) for question, ids in self.hops.items())
            differences["hops"] = digest_of(chain.from_iterable(hop_parts))
        return differences

    @property
    def has_arrivals(self) -> bool:
        """True if documents come after the start."""
        return any(n_rounds for _share, n_rounds in self.arrivals)

    @property
    def doubts(self) -> tuple[str, ...]:
        """Reasons why the ORAG paper's bound on regret, Theorem 5.1, does not apply to this deployment."""
        reasons = [] if self.reranker is None else [f"{self.candidates} documents are drawn, and one of them is picked"]
        if self.has_arrivals:
            reasons.append("documents come later; rounds without a right one there are left out")
        return tuple(reasons)


@dataclass(frozen=True, eq=False)
class Inventory:
    """Plan of the arrival of n documents in a simulation.

    waves: (number of rounds before it, rows that come), rising, without the documents available from the start.
    """

    n: int
    waves: tuple[tuple[int, np.ndarray], ...] = ()

    def find_available(self, t: int) -> np.ndarray | None:
        """Return an (n,) mask of the documents available after t rounds; None if all are from the start."""
        if not self.waves:
            return None
        is_available = np.ones(self.n, dtype=bool)
        for n_rounds, rows in self.waves:
            is_available[rows] = n_rounds <= t
        is_available.flags.writeable = False
        return is_available

    def list_arrivals(self, t: int) -> list[int]:
        """Return the rows of the documents that arrive after round t."""
        return [row for n_rounds, rows in self.waves if n_rounds == t for row in rows.tolist()]


def format_reranker(reranker: str | Scorer) -> str:
    """Format a reranker as text: a scorer with its parameters, else its name."""
    return reranker.label if isinstance(reranker, Scorer) else reranker


def compute_exposure(n_updates: int, preset: Preset, n_queries: int) -> tuple[int, int]:
    """Return how often every query must come, and the rounds, so that a stream makes `n_updates` updates.

    preset: its batch is the number of rounds that make one update
    """
    n_rounds = n_updates * preset.batch
    return max(preset.exposure, -(-n_rounds // n_queries)), n_rounds


def _check_arrivals(arrivals: Sequence[tuple[float, int]]) -> tuple[tuple[float, int], ...]:
    """Check the pairs of a share of the documents and the round after which it arrives. Raises ParamError."""
    if not isinstance(arrivals, Sequence) or any(not isinstance(pair, Sequence) or len(pair) != 2 for pair in arrivals):
        raise ParamError(
            f"arrivals must be pairs of a share in [0, 1] and a round, such as (0.5, 1000); got {arrivals!r:.80}"
        )
    # Shares that add up to 1 may exceed it by rounding.
    pairs = tuple((ARRIVAL_SHARE.check(share), ARRIVAL_ROUND.check(n_rounds)) for share, n_rounds in arrivals)
    if sum(share for share, _round in pairs) > 1 + 1e-9:
        raise ParamError(f"arrivals must be of all documents at most; the shares of {arrivals!r:.80} add up to more")
    return pairs


@dataclass(frozen=True, eq=False)
class Stock:
    """The documents that have arrived by some round: a space of them, their drift's baseline, their rows.

    rows: None for all of the corpus.
    """

    space: Space
    baseline: DriftBaseline
    rows: np.ndarray | None

    @classmethod
    def build(cls, begun: Session, rows: np.ndarray | None, probes: Embeddings, right: Sequence[np.ndarray]) -> Stock:
        """Build the stock of documents that have arrived, those at `rows` of the corpus, None for all.

        begun: the feedback session before the first round; probes: queries whose answers are compared with those at the
        start, to measure drift; right: the right rows of each
        """
        space, vectors = begun.space, begun.origin
        if rows is not None:
            position = np.full(len(space), -1)
            position[rows] = np.arange(len(rows))
            # Right documents are renumbered within the stock; those that have not arrived cannot be found.
            right = [rows_in_stock[rows_in_stock >= 0] for rows_in_stock in map(position.__getitem__, right)]
            space, vectors = select_documents(space, rows.tolist()), vectors[rows]
        options: dict[str, Any] = {"temperature": begun.temperature, "seed": begun.preset.seed}
        return cls(space, origin(vectors, probes, right=right, **options), rows)

    def with_corpus_rows(self, stock_drift: Drift) -> Drift:
        """Return a drift of this stock, the documents that have arrived, with the full corpus's row numbers.

        A drift says how far the embeddings have moved from the start, and which documents most.
        """
        if self.rows is None:
            return stock_drift
        movers = tuple(Mover(int(self.rows[row]), distance) for row, distance in stock_drift.movers)
        return replace(stock_drift, movers=movers)


def select_documents(space: Space, rows: Sequence[int]) -> Space:
    """Build a space of some documents, such as those that have arrived, with one vector each."""
    corpus = space.corpus

    def select_rows(column: Sequence[Any]) -> tuple[Any, ...]:
        return tuple(column[row] for row in rows)

    columns = {name: select_rows(values) for name, values in corpus.metadata.items()}
    ids, texts, titles = map(select_rows, (corpus.ids, corpus.texts, corpus.titles))
    part_corpus = Corpus(ids, texts, titles, corpus.name, columns)
    return Space(part_corpus, space.embeddings.take(list(rows)), space.device, adapt=space.adapt)
