"""Drawing documents by the softmax of scores, with propensities (ORAG, Algorithms 1 and 2), and events from feedback.

Random numbers are counter-based: the same seed and round give the same numbers on every machine.

A reranker picks one of several drawn documents. It is called as reranker(session, query, items) with the drawn rows,
and returns the row that it picks, or that row and the probability of this pick (by default 1). The weights are unbiased
if that probability is right. For a reranker that always errs alike, its accuracy makes them unbiased on average.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np
import torch

from engine.display import OneLine
from engine.errors import DataError, ParamError
from engine.feedback.embedding_state import freeze
from engine.feedback.records import Event, Query, is_whole
from engine.feedback.session import Session, feed
from engine.feedback.temperature import softmax
from engine.params import Whole
from engine.progress import counted
from engine.space import QueryBatch
from engine.stages import Scorer

#: Keeps 1/propensity finite.
MIN_PROPENSITY = 1e-12
DRAW_SIZE = Whole(1, "K", 1, comfortable=(1, 20), name="k", help="Number of documents drawn.")
VoteKind = Literal["up", "down", "right"]
#: Function from a question to its sub-questions, in order, each as `Session.resolve_query` takes it.
Planner = Callable[[Any], Sequence[Any]]


class Reranker(Protocol):
    """Function that picks one of the drawn rows, or such a row and the probability of this pick.

    Examples
    --------
    >>> def pick_first(session, query, items):
    ...     return items[0]
    >>> draw = orag.ask(session, "how to sort?", k=2, reranker=pick_first)
    >>> draw.item == draw.items[0]
    True
    """

    def __call__(self, session: Session, query: Query, items: tuple[int, ...]) -> int | tuple[int, float]: ...


@dataclass(frozen=True, eq=False)
class Draw(OneLine):
    """Documents drawn for a query, and the one to show.

    Parameters
    ----------
    query : Query
        The query with its vector.
    round : int
        Round whose random numbers were used.
    items : tuple of int
        Drawn rows.
    probabilities : ndarray
        (n,) softmax probabilities of all documents when they were drawn.
    weights : tuple of float
        Divisor of feedback on each item, by default its probability of being drawn (see Preset.weights).
    item : int
        Row to show, picked by the reranker.
    sure : float
        Probability with which the reranker picks `item` among the items.

    Examples
    --------
    >>> draw = orag.ask(session, "how to sort?", k=2)
    >>> draw.item in draw.items
    True
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
        """Softmax probability of the shown item."""
        return float(self.probabilities[self.item])

    @property
    def propensity(self) -> float:
        """Probability of showing the item, by which its outcome is divided."""
        # The item's weight is its chance to be drawn; `sure` is that of being picked among those drawn.
        return max(self.weights[self.items.index(self.item)] * self.sure, MIN_PROPENSITY)


def probabilities(session: Session, query: Any) -> np.ndarray:
    """Compute the probability with which each document is drawn (equation 1, with temperature τ).

    Parameters
    ----------
    session : Session
        Stays as it is.
    query : str, (d,) array, Queries, Embeddings or Query
        One query, as `Session.resolve_query` takes it.

    Returns
    -------
    ndarray, shape (n,)
        Softmax of the scores divided by τ, float64; 0 for documents that are not available.

    Raises
    ------
    DataError
        For an invalid query.

    Examples
    --------
    >>> p = orag.probabilities(session, "how to sort?")
    """
    scaled_scores = session.scores(query)
    scaled_scores /= session.temperature
    if session.available is not None:
        scaled_scores[~session.available] = -np.inf
    return softmax(scaled_scores)


def ask(session: Session, query: Any, k: int = 1, reranker: Reranker | None = None, round: int | None = None) -> Draw:
    """Draw k documents without replacement, and one of them to show (Algorithms 1 and 2).

    Parameters
    ----------
    session : Session
        Stays as it is.
    query : str, (d,) array, Queries, Embeddings or Query
        One query, as `Session.resolve_query` takes it.
    k : int
        Number of documents drawn.
    reranker : Reranker, optional
        Picks the one to show; by default the best score.
    round : int, optional
        Round whose random numbers are used; by default the next one.

    Returns
    -------
    Draw
        Drawn rows, their weights, and the row to show.

    Raises
    ------
    ParamError, DataError
        For an invalid query or number, or an invalid pick of the reranker.

    Examples
    --------
    >>> draw = orag.ask(session, "how to sort?", k=3)
    """
    query, k = session.resolve_query(query), DRAW_SIZE.check(k)
    round = session.round + 1 if round is None else round
    row_probabilities = probabilities(session, query)
    if k == 1:
        item = draw_row(row_probabilities, draw_uniform(session.preset.seed, round))
        return Draw(query, round, (item,), row_probabilities, (float(row_probabilities[item]),), item)
    items, weights = draw_rows(row_probabilities, draw_gumbel(session.preset.seed, round, len(row_probabilities)), k)
    if session.preset.weights != "inclusion":
        # ORAG's Algorithm 2 as printed divides by p_i, which is biased for k > 1.
        weights = tuple(float(row_probabilities[row_index]) for row_index in items)
    item, pick_probability = max(items, key=lambda row_index: row_probabilities[row_index]), 1.0
    if reranker is not None:
        reranker_pick = reranker(session, query, items)
        item, pick_probability = reranker_pick if isinstance(reranker_pick, tuple) else (reranker_pick, 1.0)
        if item not in items:
            raise ParamError(f"reranker must pick one of the {counted(len(items), 'row')} drawn, {items}; got {item!r}")
        if not 0 < pick_probability <= 1:
            raise ParamError(f"reranker must be sure with a chance in (0, 1]; got {pick_probability!r}")
    return Draw(query, round, items, row_probabilities, weights, int(item), float(pick_probability))


def draw_row(p: np.ndarray, u: float) -> int:
    """Draw one row with probabilities p: the first whose cumulative sum exceeds u.

    u: a uniform random number in [0, 1), as a share of the sum of p
    """
    cumulative = np.cumsum(p)
    # The first sum beyond u is taken: a document of probability 0 is never drawn, and as u < 1 such a sum exists.
    return int(np.searchsorted(cumulative, u * cumulative[-1], side="right"))


def draw_rows(p: np.ndarray, gumbel_noise: np.ndarray, k: int) -> tuple[tuple[int, ...], tuple[float, ...]]:
    """Draw k rows without replacement with probabilities p; return them and their feedback's divisors.

    gumbel_noise: (n,) Gumbel numbers. A row's key is log p + noise, and the k rows with the largest keys are such a
    draw. The divisors, called weights, are inclusion probabilities π_i = 1 − exp(−exp(log p_i − κ)). Here κ is the
    largest key of a row that is not drawn, and π_i is the probability, given the other rows' keys, that row i's key
    exceeds κ. So E[1{i drawn}/π_i] = 1 for every i (Vieira 2017; Kool et al. 2019). The weights are 1 if all documents
    are drawn.
    """
    with np.errstate(divide="ignore"):
        log_probabilities = np.log(p)
    n_possible = int(np.count_nonzero(p))
    # Gumbel-top-k: the k largest perturbed log probabilities are a sample without replacement.
    keys = log_probabilities + gumbel_noise
    drawn_order = np.argsort(-keys, kind="stable")[: min(k, n_possible)]
    items = tuple(drawn_order.tolist())
    if k >= n_possible:
        return items, (1.0,) * len(items)
    # The largest key of those that are not drawn: κ of the docstring.
    threshold = np.partition(keys, len(keys) - k - 1)[len(keys) - k - 1]
    return items, tuple((-np.expm1(-np.exp(log_probabilities[drawn_order] - threshold))).tolist())


def draw_uniform(seed: int, round_number: int) -> float:
    """Return the number in [0, 1) that decides a round's draw of one document."""
    return _round_generator(seed, round_number).random()


def draw_gumbel(seed: int, round_number: int, n_rows: int) -> np.ndarray:
    """Return the (n_rows,) Gumbel numbers that decide a round's draw of several documents."""
    return _round_generator(seed, round_number).gumbel(size=n_rows)


def _round_generator(seed: int, round_number: int) -> np.random.Generator:
    """Return the random generator of a round, which depends on seed and round alone. Raises ParamError."""
    if not is_whole(round_number) or not 0 <= round_number < 2**63:
        raise ParamError(f"round must be a whole number in [0, 2⁶³); got {round_number!r}")
    # A round has 2⁶⁴ numbers of the counter to itself, so that rounds never share random numbers.
    return np.random.Generator(np.random.Philox(key=seed, counter=round_number << 64))


def cosine(session: Session, query: Query, items: tuple[int, ...]) -> int:
    """Pick the drawn document with the largest cosine in the first vectors; a Reranker.

    Parameters
    ----------
    session : Session
        Stays as it is.
    query : Query
        Query of the draw.
    items : tuple of int
        Drawn rows.

    Returns
    -------
    int
        The picked row.

    Examples
    --------
    >>> draw = orag.ask(session, "how to sort?", k=3, reranker=orag.cosine)
    """
    item_vectors = session.origin[list(items)].astype(np.float64)
    item_lengths = np.linalg.norm(item_vectors, axis=1)
    return items[int(np.argmax(item_vectors @ query.exact / np.where(item_lengths > 0, item_lengths, 1.0)))]


def by_scorer(scorer: Scorer) -> Reranker:
    """Build a reranker that picks the document with the best score of a scorer.

    Parameters
    ----------
    scorer : Scorer
        For example a cross-encoder, from `engine.make`.

    Returns
    -------
    Reranker
        Raises DataError for a scorer of texts if the query is a vector without text.

    Raises
    ------
    ParamError
        If `scorer` is no Scorer.

    Examples
    --------
    >>> reranker = orag.by_scorer(engine.make("bm25"))
    """
    if not isinstance(scorer, Scorer):
        raise ParamError(f'scorer must be one made by engine.make("…"); got {scorer!r}')

    def best(session: Session, query: Query, items: tuple[int, ...]) -> int:
        """Pick the drawn row with the best score; of equal scores, the smallest row."""
        space = session.space
        if scorer.words and query.text is None:
            raise DataError(f"{scorer.label} reads the query's words, and this query is a vector alone; ask in words")
        query_vectors = torch.from_numpy(query.vector.copy()).to(space.device, space.vectors.dtype).unsqueeze(0)
        query_batch = QueryBatch(("0",), query_vectors, None if query.text is None else (query.text,))
        # Sorted, so that equal scores are decided by row and not by the order of the draw. A batch of one query: (1,
        # k).
        item_rows = torch.tensor(sorted(items), device=space.device).unsqueeze(0)
        return int(item_rows[0, int(scorer.score(space, query_batch, item_rows)[0].argmax())])

    return best


def oracle(right: Callable[[Query], Collection[int]], noise: float = 0.0, seed: int = 0) -> Reranker:
    """Build a simulated reranker that picks a right document if one was drawn.

    Parameters
    ----------
    right : callable
        Function from a Query to its right rows.
    noise : float
        Probability of picking any drawn document instead.
    seed : int
        Seed of the random picks.

    Returns
    -------
    Reranker
        Returns the picked row and the probability of this pick.

    Raises
    ------
    ParamError
        If `noise` is not in [0, 1].

    Examples
    --------
    >>> reranker = orag.oracle(lambda query: {0}, noise=0.1)
    """
    if not 0 <= noise <= 1:
        raise ParamError(f"noise must be a number in [0, 1]; got {noise!r}")

    def pick(session: Session, query: Query, items: tuple[int, ...]) -> tuple[int, float]:
        """Pick a right row, or with probability `noise` any drawn one; return it and its probability.

        Without a right row among those drawn, each is equally likely.
        """
        right_items = [item for item in items if item in right(query)]
        # A separate stream of random numbers, as the draw uses those of the round.
        generator = np.random.default_rng([seed, session.round, 1])
        random_probability = noise / len(items) if right_items else 1 / len(items)
        if not right_items or generator.random() < noise:
            item = items[int(generator.integers(len(items)))]
        else:
            # Several right documents are equally likely: a fixed choice would be divided by the wrong probability.
            item = right_items[0] if len(right_items) == 1 else right_items[int(generator.integers(len(right_items)))]
        # A right document can be picked by noise or on purpose, so its two probabilities add up.
        return item, random_probability + ((1 - noise) / len(right_items) if item in right_items else 0.0)

    return pick


def outcome(session: Session, draw: Draw, y: bool | int, *, relevant: int = 1, person: str | None = None) -> Event:
    """Turn the outcome of a draw into an event whose gradient is unbiased (equation 4, Lemma 3.1).

    Parameters
    ----------
    session : Session
        Stays as it is.
    draw : Draw
        From `ask`.
    y : bool or int
        1 if the shown document succeeded, else 0.
    relevant : int
        Number of documents that would have succeeded, if known. With more than one and the default of 1, the
        loss has no lower bound.
    person : str, optional
        Who gave the feedback; people without a name are taken for different ones.

    Returns
    -------
    Event
        Feedback to pass to `feed`.

    Raises
    ------
    ParamError
        For an invalid outcome or number.

    Examples
    --------
    >>> event = orag.outcome(session, orag.ask(session, "how to sort?"), True)
    """
    if y not in (0, 1):
        raise ParamError(f"y must be 0 or 1; got {y!r}")
    if not is_whole(relevant) or relevant < 1:
        raise ParamError(f"relevant must be a whole number in [1, ∞); got {relevant!r}")
    if session.available is not None:
        session.row_of(draw.item)
    # Second term of the gradient estimate (ORAG, equation 4): 1{success} / π, shared among the right documents.
    success_term = (1.0 / (draw.propensity * relevant)) if y else 0.0
    items: Sequence[int]
    coefficients: Sequence[float] | np.ndarray
    if session.preset.mode == "full":
        # ORAG, Algorithm 1, line 5: every document is pushed away by its probability, and a success is pulled closer.
        items = _available_rows(session)
        row_probabilities = draw.probabilities
        coefficients = row_probabilities.copy() if session.available is None else row_probabilities[list(items)]
        coefficients[items.index(draw.item)] -= success_term
        freeze(coefficients)
    # ORAG, appendix B.2: only the chosen document moves. For a single draw its first term is p/π = 1.
    elif len(draw.items) == 1 or session.preset.weights == "paper":
        items, coefficients = (draw.item,), (1.0 - success_term,)
    else:
        # Every drawn document is pushed away by p_i/π_i, whose expectation is p_i; with one document drawn it is 1.
        items = draw.items
        coefficients = tuple(
            float(draw.probabilities[row_index]) / inclusion_weight - (success_term if row_index == draw.item else 0.0)
            for row_index, inclusion_weight in zip(items, draw.weights, strict=True)
        )
    return Event(
        draw.round, "sampled", query=draw.query, items=items, coefficients=coefficients, item=draw.item, good=bool(y),
        propensity=draw.propensity, mode=session.preset.mode, shown=draw.items, person=person, writer=session.writer,
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
    """Turn a thumb on a document of a list into an event: up moves it by +η · query, down by −η · query.

    A person has one vote per query and document: a newer one replaces it, and undoing that restores the older.

    Parameters
    ----------
    session : Session
        Stays as it is.
    query : str, (d,) array, Queries, Embeddings or Query
        One query, as `Session.resolve_query` takes it.
    item : int or str
        Row or id of the document.
    up : bool
        False for a thumb down.
    person : str, optional
        Who gave the feedback; people without a name are taken for different ones.
    propensity : float, optional
        Probability with which a drawn document was shown (`ask`); then the event counts as an outcome that moves
        this document alone. None for a list that was not drawn at random: it has no probability to divide by.
    shown : iterable of int or str
        The list in which the document was seen.

    Returns
    -------
    Event
        Feedback to pass to `feed`.

    Raises
    ------
    ParamError, DataError
        For an unknown document, query or probability.

    Examples
    --------
    >>> event = orag.thumb(session, "how to sort?", "sort", up=False)
    """
    item_row, query = session.row_of(item), session.resolve_query(query)
    if not isinstance(up, bool | np.bool_):
        raise ParamError(f"up must be true or false; got {up!r}")
    # The document moves by −η · coefficient · query, so a thumb up is −1.
    if propensity is None:
        coefficient = -1.0 if up else 1.0
    elif isinstance(propensity, bool) or not 0 < propensity <= 1:
        raise ParamError(f"propensity must be a number in (0, 1] or none (not drawn); got {propensity!r}")
    else:
        # The loss's gradient in a document's score is p − y: its softmax probability less 1 if it is right. Only the
        # drawn document moves, so its term is divided by its chance to be shown, p too: 1 − y/p (ORAG, appendix
        # B.2).
        propensity = float(propensity)
        coefficient = 1.0 - (1.0 / propensity if up else 0.0)
    return Event(
        session.round + 1, "thumb", query=query, items=(item_row,), coefficients=(coefficient,), item=item_row,
        good=bool(up), propensity=propensity, mode=session.preset.mode, shown=session.resolve_items(shown),
        person=person, writer=session.writer,
    )  # fmt: skip


def right_one(
    session: Session, query: Any, shown: Iterable[int | str], clicked: int | str, *, person: str | None = None
) -> Event:
    """Turn the choice of the right document of a list into an event.

    A person has one such vote per query; a newer one replaces it.

    Parameters
    ----------
    session : Session
        Stays as it is.
    query : str, (d,) array, Queries, Embeddings or Query
        One query, as `Session.resolve_query` takes it.
    shown : iterable of int or str
        The list.
    clicked : int or str
        Row or id of the chosen document.
    person : str, optional
        Who gave the feedback; people without a name are taken for different ones.

    Returns
    -------
    Event
        Its coefficients are the gradient of the cross-entropy over the list, p − e_clicked.

    Raises
    ------
    ParamError, DataError
        For an unknown document or query, or a list with duplicates or without the chosen document.

    Examples
    --------
    >>> event = orag.right_one(session, "how to sort?", ["sort", "argsort"], "sort")
    """
    query, shown_rows, clicked_row = session.resolve_query(query), session.resolve_items(shown), session.row_of(clicked)
    if clicked_row not in shown_rows or len(set(shown_rows)) != len(shown_rows):
        raise ParamError(f"shown must hold every document once, and the one clicked; got {shown!r} and {clicked!r}")
    # The softmax is over the list alone, so documents that the person did not see do not move.
    shown_vectors = np.stack([session.row(shown_row) for shown_row in shown_rows])
    list_probabilities = softmax(shown_vectors @ query.exact / session.temperature)
    list_probabilities[shown_rows.index(clicked_row)] -= 1.0
    return Event(
        session.round + 1, "right_one", query=query, items=shown_rows, coefficients=tuple(list_probabilities.tolist()),
        item=clicked_row, good=True, mode=session.preset.mode, shown=shown_rows, person=person, writer=session.writer,
    )  # fmt: skip


def find_votes(events: Iterable[Event], query: Query, person: str) -> dict[tuple[int, VoteKind], str]:
    """Find the votes of a person on a query; map (row, kind) of each vote to the id of its event.

    A kind is "up", "down" or "right". events: those that count, so that undone and replaced votes are left out.
    """
    vote_ids: dict[tuple[int, VoteKind], str] = {}
    for event in events:
        if event.person == person and event.query.key == query.key:
            thumb_kind: VoteKind = "up" if event.good else "down"
            vote_ids[event.item, "right" if event.kind == "right_one" else thumb_kind] = event.id
    return vote_ids


def full_information(session: Session, query: Any, right: Iterable[int | str]) -> Event:
    """Build an event from full information, as a simulation has it: the exact gradient of the loss (2).

    Parameters
    ----------
    session : Session
        Stays as it is.
    query : str, (d,) array, Queries, Embeddings or Query
        One query, as `Session.resolve_query` takes it.
    right : iterable of int or str
        All right documents S of the query.

    Returns
    -------
    Event
        Its coefficients are p, and p − 1/|S| for the documents in S.

    Raises
    ------
    ParamError, DataError
        For an unknown document or query, or if no document is right.

    Examples
    --------
    >>> event = orag.full_information(session, "how to sort?", ["sort"])
    """
    query, right_rows = session.resolve_query(query), sorted(set(session.resolve_items(right)))
    if not right_rows:
        raise ParamError("right must hold at least one document; got none")
    # Gradient of the cross-entropy (ORAG, equation 2), whose target is uniform over the right documents.
    row_probabilities = probabilities(session, query)
    row_probabilities[right_rows] -= 1.0 / len(right_rows)
    available_rows = _available_rows(session)
    row_probabilities = row_probabilities if session.available is None else row_probabilities[list(available_rows)]
    return Event(
        session.round + 1, "full", query=query, items=available_rows, coefficients=freeze(row_probabilities),
        item=right_rows[0], good=True, mode=session.preset.mode, shown=tuple(right_rows), writer=session.writer,
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
    """Answer a question in several hops, and learn from each before the next (Algorithm 4).

    Parameters
    ----------
    session : Session
        Stays as it is.
    query : object
        Question that the planner splits.
    planner : Planner or sequence
        Function from the question to its sub-questions, or the sub-questions themselves.
    judge : callable
        Function of a sub-question and a row that returns True if the document helps.
    k : int
        Number of documents drawn for each sub-question.
    reranker : Reranker, optional
        Picks the document to judge.
    person : str, optional
        Who gave the feedback; people without a name are taken for different ones.

    Returns
    -------
    session : Session
        The session after all hops.
    events : tuple of Event
        Outcome of each hop.

    Raises
    ------
    ParamError, DataError
        If there is no sub-question, or one is invalid.

    Examples
    --------
    >>> after, events = orag.multi_hop(session, "q", ["how to sort?"], lambda query, row: row == 0)
    """
    sub_questions = planner(query) if callable(planner) else planner
    if isinstance(sub_questions, str) or not len(sub_questions):
        raise ParamError(f"planner must give a list of at least one sub-question; got {sub_questions!r}")
    events = []
    # Each hop updates the vectors before the next one is drawn.
    for sub_question in sub_questions:
        draw = ask(session, sub_question, k, reranker)
        event = outcome(session, draw, judge(draw.query, draw.item), person=person)
        session = feed(session, event)
        events.append(event)
    return session, tuple(events)


def _available_rows(session: Session) -> Sequence[int]:
    """Return the rows of the documents that may be drawn and moved, in rising order."""
    return range(len(session)) if session.available is None else tuple(np.flatnonzero(session.available).tolist())
