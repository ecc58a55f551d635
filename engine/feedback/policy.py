"""Documents drawn by the softmax of scores, with propensities; rerankers (Algorithms 1, 2); events from feedback.

Random numbers are counter-based: the same seed and round give the same numbers on every machine.

A reranker picks one of several documents that were drawn. It is called as reranker(session, query, items) with the rows
drawn, and returns the row it picks, or that and the chance with which it picks it among these (1 where it does not
say). The weights are unbiased where that chance is right; of a reranker that errs always alike, its accuracy makes them
so on average.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np
import torch

from engine.errors import DataError, ParamError
from engine.feedback.records import Event, Query, is_whole
from engine.feedback.session import Session, feed
from engine.feedback.temperature import softmax
from engine.params import Whole
from engine.space import QueryBatch
from engine.stages import Scorer

MIN_PROPENSITY = 1e-12
"""Least propensity."""
DRAW_SIZE = Whole(1, "K", 1, comfortable=(1, 20), name="k", help="So many documents are drawn.")
VoteKind = Literal["up", "down", "right"]
Planner = Callable[[Any], Sequence[Any]]
"""From a question to its sub-questions, in order; each as `Session.resolve_query` takes it."""


class Reranker(Protocol):
    """Picks a row, or a row and how sure that is."""

    def __call__(self, session: Session, query: Query, items: tuple[int, ...]) -> int | tuple[int, float]: ...


@dataclass(frozen=True, eq=False)
class Draw:
    """Documents drawn for a query.

    round: whose random numbers were used.
    items: the rows drawn.
    probabilities: (n,) of all documents at that moment.
    weights: one an item, the probability to be among the items, which feedback is divided by (the preset decides how).
    item: the one shown, as the reranker picked it.
    sure: the probability with which the reranker picks that one of the items.
    """

    query: Query
    round: int
    items: tuple[int, ...]
    probabilities: np.ndarray
    weights: tuple[float, ...]
    item: int
    sure: float = 1.0

    @property
    def p(self) -> float:
        """Probability of the item shown under the softmax."""
        return float(self.probabilities[self.item])

    @property
    def propensity(self) -> float:
        """The number that the outcome is divided by."""
        return max(self.weights[self.items.index(self.item)] * self.sure, MIN_PROPENSITY)


def probabilities(session: Session, query: Any) -> np.ndarray:
    """(n,) float64 softmax of the scores over τ; 0 for documents that are not available."""
    scaled_scores = session.scores(query)
    scaled_scores /= session.temperature
    if session.available is not None:
        scaled_scores[~session.available] = -np.inf
    return softmax(scaled_scores)


def ask(session: Session, query: Any, k: int = 1, reranker: Reranker | None = None, round: int | None = None) -> Draw:
    """Draw k documents without replacement, and one of them to show.

    query: as `Session.resolve_query` takes it; reranker: picks among several, by default the best score; round: whose
    random numbers to use, by default the next round's. Raises ParamError or DataError.
    """
    query, k = session.resolve_query(query), DRAW_SIZE.check(k)
    round = session.round + 1 if round is None else round
    row_probabilities = probabilities(session, query)
    if k == 1:
        item = draw_row(row_probabilities, draw_uniform(session.preset.seed, round))
        return Draw(query, round, (item,), row_probabilities, (float(row_probabilities[item]),), item)
    items, weights = draw_rows(row_probabilities, draw_gumbel(session.preset.seed, round, len(row_probabilities)), k)
    if session.preset.weights != "inclusion":
        weights = tuple(float(row_probabilities[row_index]) for row_index in items)
    item, pick_probability = max(items, key=lambda row_index: row_probabilities[row_index]), 1.0
    if reranker is not None:
        reranker_pick = reranker(session, query, items)
        item, pick_probability = reranker_pick if isinstance(reranker_pick, tuple) else (reranker_pick, 1.0)
        if item not in items:
            raise ParamError(f"reranker must pick one of the {len(items)} rows drawn, {items}; got {item!r}")
        if not 0 < pick_probability <= 1:
            raise ParamError(f"reranker must be sure with a chance in (0, 1]; got {pick_probability!r}")
    return Draw(query, round, items, row_probabilities, weights, int(item), float(pick_probability))


def draw_row(p: np.ndarray, u: float) -> int:
    """One row with the probabilities p; u: uniform in [0, 1)."""
    cumulative = np.cumsum(p)
    # The first total beyond u: a document of probability 0 is never drawn, and as u < 1 there is such a total.
    return int(np.searchsorted(cumulative, u * cumulative[-1], side="right"))


def draw_rows(p: np.ndarray, gumbel_noise: np.ndarray, k: int) -> tuple[tuple[int, ...], tuple[float, ...]]:
    """The k rows with the largest keys log p + noise, and weights whose inverses are unbiased.

    gumbel_noise: (n,) Gumbel. With κ the next largest key, π_i = 1 − exp(−exp(log p_i − κ)): given the others' keys, the
    chance that i's exceeds κ. So E[1{i drawn}/π_i] = 1 for every i (Vieira 2017; Kool et al. 2019). 1 where everyone is
    drawn.
    """
    with np.errstate(divide="ignore"):
        log_probabilities = np.log(p)
    n_possible = int(np.count_nonzero(p))
    keys = log_probabilities + gumbel_noise
    drawn_order = np.argsort(-keys, kind="stable")[: min(k, n_possible)]
    items = tuple(drawn_order.tolist())
    if k >= n_possible:
        return items, (1.0,) * len(items)
    threshold = np.partition(keys, len(keys) - k - 1)[len(keys) - k - 1]
    return items, tuple((-np.expm1(-np.exp(log_probabilities[drawn_order] - threshold))).tolist())


def draw_uniform(seed: int, round_number: int) -> float:
    """The round's number in [0, 1)."""
    return _round_generator(seed, round_number).random()


def draw_gumbel(seed: int, round_number: int, n_rows: int) -> np.ndarray:
    """(count,) Gumbel numbers of the round."""
    return _round_generator(seed, round_number).gumbel(size=n_rows)


def _round_generator(seed: int, round_number: int) -> np.random.Generator:
    """Philox: a function of key and counter, so a round needs no state of the rounds before it."""
    if not is_whole(round_number) or not 0 <= round_number < 2**63:
        raise ParamError(f"round must be a whole number in [0, 2⁶³); got {round_number!r}")
    return np.random.Generator(np.random.Philox(key=seed, counter=round_number << 64))


def cosine(session: Session, query: Query, items: tuple[int, ...]) -> int:
    """The document nearest to the query in the space that the session began with."""
    item_vectors = session.origin[list(items)].astype(np.float64)
    item_lengths = np.linalg.norm(item_vectors, axis=1)
    return items[int(np.argmax(item_vectors @ query.exact / np.where(item_lengths > 0, item_lengths, 1.0)))]


def by_scorer(scorer: Scorer) -> Reranker:
    """A reranker from any scorer, a cross-encoder for example: the document that it gives the best score."""
    if not isinstance(scorer, Scorer):
        raise ParamError(f'scorer must be one made by engine.make("…"); got {scorer!r}')

    def best(session: Session, query: Query, items: tuple[int, ...]) -> int:
        space = session.space
        if scorer.words and query.text is None:
            raise DataError(f"{scorer.label} reads the query's words, and this query is a vector alone; ask in words")
        query_vectors = torch.from_numpy(query.vector.copy()).to(space.device, space.vectors.dtype).unsqueeze(0)
        query_batch = QueryBatch(("0",), query_vectors, None if query.text is None else (query.text,))
        item_rows = torch.tensor(sorted(items), device=space.device).unsqueeze(0)
        return int(item_rows[0, int(scorer.score(space, query_batch, item_rows)[0].argmax())])

    return best


def oracle(right: Callable[[Query], Collection[int]], noise: float = 0.0, seed: int = 0) -> Reranker:
    """Picks a right document where one was drawn; with probability `noise` any of those drawn instead.

    right: the right rows of a query; for simulation.
    """
    if not 0 <= noise <= 1:
        raise ParamError(f"noise must be a number in [0, 1]; got {noise!r}")

    def pick(session: Session, query: Query, items: tuple[int, ...]) -> tuple[int, float]:
        right_items = [item for item in items if item in right(query)]
        # A stream of its own: the rounds' numbers have been spent on the draw.
        generator = np.random.default_rng([seed, session.round, 1])
        random_probability = noise / len(items) if right_items else 1 / len(items)
        if not right_items or generator.random() < noise:
            item = items[int(generator.integers(len(items)))]
        else:
            # Each of several alike: a fixed choice among them would be divided by the wrong chance.
            item = right_items[0] if len(right_items) == 1 else right_items[int(generator.integers(len(right_items)))]
        return item, random_probability + ((1 - noise) / len(right_items) if item in right_items else 0.0)

    return pick


def outcome(session: Session, draw: Draw, y: bool | int, *, relevant: int = 1, person: str | None = None) -> Event:
    """Outcome y of a draw as an event, weighted by 1/propensity: unbiased, Lemma 3.1 and appendix B.2.

    relevant: how many documents would have succeeded, where that is known; more than one without saying so is a loss
    without a lower bound. Raises ParamError.
    """
    if y not in (0, 1):
        raise ParamError(f"y must be 0 or 1; got {y!r}")
    if not is_whole(relevant) or relevant < 1:
        raise ParamError(f"relevant must be a whole number in [1, ∞); got {relevant!r}")
    if session.available is not None:
        session.row_of(draw.item)
    success_term = (1.0 / (draw.propensity * relevant)) if y else 0.0
    items: Sequence[int]
    coefficients: Sequence[float] | np.ndarray
    if session.preset.mode == "full":
        items = _available_rows(session)
        row_probabilities = draw.probabilities
        coefficients = row_probabilities.copy() if session.available is None else row_probabilities[list(items)]
        coefficients[items.index(draw.item)] -= success_term
        coefficients.flags.writeable = False
    elif len(draw.items) == 1 or session.preset.weights == "paper":
        items, coefficients = (draw.item,), (1.0 - success_term,)
    else:
        # Every document drawn is pushed by p/π, whose mean is p; with one document drawn it is 1.
        items = draw.items
        coefficients = tuple(
            float(draw.probabilities[row_index]) / inclusion_weight - (success_term if row_index == draw.item else 0.0)
            for row_index, inclusion_weight in zip(items, draw.weights, strict=True)
        )
    return Event(
        draw.round, "sampled", draw.query, items, coefficients, draw.item, bool(y), draw.propensity,
        session.preset.mode, draw.items, person, session.writer,
    )  # fmt: skip


def thumb(
    session: Session,
    query: Any,
    item: int | str,
    up: bool = True,
    *,
    person: str | None = None,
    propensity: float | None = None,
    shown: Iterable[int | str] = (),
) -> Event:
    """A thumb on a document of a list: up moves it by +η towards the query, down by −η away.

    A list is not a draw, so nothing is divided by a chance. propensity: the chance with which the document was shown,
    only where it was drawn (`ask`): then it counts as an outcome that moves the chosen document alone. person: whose;
    shown: the list, for the log. One vote per (query, item, person): a newer one counts in its place, and undoing that
    brings the older back; people who are not named are taken for different ones. Raises ParamError or DataError.
    """
    item_row, query = session.row_of(item), session.resolve_query(query)
    if not isinstance(up, bool | np.bool_):
        raise ParamError(f"up must be true or false; got {up!r}")
    if propensity is None:
        coefficient = -1.0 if up else 1.0
    elif isinstance(propensity, bool) or not 0 < propensity <= 1:
        raise ParamError(f"propensity must be a number in (0, 1] or none (not drawn); got {propensity!r}")
    else:
        propensity = float(propensity)
        coefficient = 1.0 - (1.0 / propensity if up else 0.0)
    return Event(
        session.round + 1, "thumb", query, (item_row,), (coefficient,), item_row, bool(up), propensity,
        session.preset.mode, session.resolve_items(shown), person, session.writer,
    )  # fmt: skip


def right_one(
    session: Session, query: Any, shown: Iterable[int | str], clicked: int | str, *, person: str | None = None
) -> Event:
    """ "This is the right one" of a list: the gradient of the cross-entropy over the list, p − e_clicked.

    shown: the list. One vote per (query, person). Raises ParamError or DataError.
    """
    query, shown_rows, clicked_row = session.resolve_query(query), session.resolve_items(shown), session.row_of(clicked)
    if clicked_row not in shown_rows or len(set(shown_rows)) != len(shown_rows):
        raise ParamError(f"shown must hold every document once, and the one clicked; got {shown!r} and {clicked!r}")
    shown_vectors = np.stack([session.row(shown_row) for shown_row in shown_rows])
    list_probabilities = softmax(shown_vectors @ query.exact / session.temperature)
    list_probabilities[shown_rows.index(clicked_row)] -= 1.0
    return Event(
        session.round + 1, "right_one", query, shown_rows, tuple(list_probabilities.tolist()), clicked_row, True, None, session.preset.mode, shown_rows,
        person, session.writer,
    )  # fmt: skip


def find_votes(events: Iterable[Event], query: Query, person: str) -> dict[tuple[int, VoteKind], str]:
    """Map row and kind of a person's votes on a query to the event's id; events: those that count."""
    own_votes = [event for event in events if event.person == person and event.query.key == query.key]
    return {
        (vote.item, "right" if vote.kind == "right_one" else "up" if vote.good else "down"): vote.id
        for vote in own_votes
    }


def full_information(session: Session, query: Any, right: Iterable[int | str]) -> Event:
    """Full information, as a simulation has it: p − 1/|S| on the right documents S, the gradient itself.

    Raises ParamError or DataError.
    """
    query, right_rows = session.resolve_query(query), sorted(set(session.resolve_items(right)))
    if not right_rows:
        raise ParamError("right must hold at least one document; got none")
    row_probabilities = probabilities(session, query)
    row_probabilities[right_rows] -= 1.0 / len(right_rows)
    available_rows = _available_rows(session)
    row_probabilities = row_probabilities if session.available is None else row_probabilities[list(available_rows)]
    row_probabilities.flags.writeable = False
    return Event(
        session.round + 1, "full", query, available_rows, row_probabilities, right_rows[0], True, None, session.preset.mode, tuple(right_rows), None,
        session.writer,
    )  # fmt: skip


def multi_hop(
    session: Session,
    query: Any,
    planner: Planner | Sequence[Any],
    judge: Callable[[Query, int], bool | int],
    *,
    k: int = 1,
    reranker: Reranker | None = None,
    person: str | None = None,
) -> tuple[Session, tuple[Event, ...]]:
    """The session after all hops of a query, and their outcomes; each hop goes on from the one before (Algorithm 4).

    planner: makes the sub-questions, or these themselves; judge: whether a document helps with a sub-question.
    Raises ParamError or DataError.
    """
    sub_questions = planner(query) if callable(planner) else planner
    if isinstance(sub_questions, str) or not len(sub_questions):
        raise ParamError(f"planner must give a list of at least one sub-question; got {sub_questions!r}")
    events = []
    for sub_question in sub_questions:
        draw = ask(session, sub_question, k, reranker)
        event = outcome(session, draw, judge(draw.query, draw.item), person=person)
        session = feed(session, event)
        events.append(event)
    return session, tuple(events)


def _available_rows(session: Session) -> Sequence[int]:
    """The rows that are available, rising."""
    return range(len(session)) if session.available is None else tuple(np.flatnonzero(session.available).tolist())
