"""Votes as judgements: what would be taken over from a log of feedback, listed and never written by itself."""

from dataclasses import dataclass

from engine.errors import ParamError
from engine.feedback.records import VOTE_KINDS
from engine.feedback.session import Session
from engine.judging.log import GRADES, Judged, Judgement
from engine.judging.queries import asked
from engine.values import Notice, Queries


@dataclass(frozen=True, eq=False)
class VotesToTake:
    """What a log of judgements would gain: `log.ask(queries)`, then `log.add(judgements)`.

    queries: those that are neither known nor in the log
    judgements: oldest first, each under its own person and time
    notices: votes that are left out
    """

    queries: Queries
    judgements: tuple[Judgement, ...]
    notices: tuple[Notice, ...] = ()


def votes_to_take(session: Session, judged: Judged, known: Queries | None = None, grade: int = 1) -> VotesToTake:
    """The votes of a session that count, as judgements: a thumb up or "the right one" as `grade`, a thumb down as 0.

    known: queries of the data set, found by their text. Left out and counted: votes without a query's text, and those
    of people who have judged the pair themselves. Nothing is written. Raises ParamError.
    """
    if grade not in GRADES[1:]:
        raise ParamError(f"grade must be {', '.join(map(str, GRADES[1:]))}; got {grade!r}")
    votes = [event for event in session.effective_events if event.kind in VOTE_KINDS]
    worded = [event for event in votes if event.query.text and event.query.text.strip()]
    every = judged.queries(known)
    found = asked([event.query.text or "" for event in worded], every) if worded else None
    own = {(given.person, given.query, given.document) for given in judged.given}
    taken: list[Judgement] = []
    twice: list[str] = []
    for event, query in zip(worded, found.lines if found else (), strict=True):
        person, document = event.person or "", session.space.corpus.ids[event.item]
        time = event.time or 0.0
        said = Judgement(query=query or "", document=document, grade=grade * event.good, person=person, time=time)
        if (person, query, document) in own:
            twice.append(document)
        else:
            taken.append(said)
    new = [query for query in dict.fromkeys(judgement.query for judgement in taken) if query not in every.position]
    silent = [event.id for event in votes if event not in worded]
    return VotesToTake(
        found.queries.only(new) if found else Queries((), ()),
        tuple(taken),
        (
            *Notice.of("votes have no text of a query, and cannot be shown to anyone", silent),
            *Notice.of("votes are on pairs that the same person has judged, which stays", twice),
        ),
    )
