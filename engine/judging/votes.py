"""Conversion of votes in a feedback log to judgements; the caller writes them."""

from dataclasses import dataclass

from engine.errors import ParamError
from engine.feedback.records import VOTE_KINDS
from engine.feedback.session import Session
from engine.judging.log import GRADES, RELEVANT_GRADE, Judged, Judgement
from engine.judging.queries import collect_queries
from engine.values import Notice, Queries


@dataclass(frozen=True, eq=False)
class VotesToTake:
    """Additions to a log of judgements: `log.add_queries(queries)`, then `log.add(judgements)`.

    queries: those that are neither known nor in the log
    judgements: oldest first, each under its own person and time
    notices: votes that are left out
    """

    queries: Queries
    judgements: tuple[Judgement, ...]
    notices: tuple[Notice, ...] = ()


def convert_votes(
    session: Session, judged: Judged, dataset_queries: Queries | None = None, grade: int = RELEVANT_GRADE
) -> VotesToTake:
    """Convert a feedback session's votes to judgements: a thumb up is `grade`, a thumb down is 0.

    A document that was marked as the right one gets `grade` too.

    dataset_queries: queries of the data set, matched by text. Votes without a query's text, and votes on pairs that the
    same person has judged, are left out and counted in notices. Writes nothing. Raises ParamError.
    """
    if grade not in GRADES[1:]:
        raise ParamError(f"grade must be {', '.join(map(str, GRADES[1:]))}; got {grade!r}")
    text_events, query_texts, textless_ids = [], [], []
    for event in session.effective_events:
        query_text = event.query.text or ""
        if event.kind in VOTE_KINDS and query_text.strip():
            text_events.append(event)
            query_texts.append(query_text)
        elif event.kind in VOTE_KINDS:
            textless_ids.append(event.id)
    all_queries = judged.queries(dataset_queries)
    # A query is identified by its text, so that votes and judgements on it have one id.
    vote_queries = collect_queries(query_texts, all_queries) if text_events else None
    judged_keys = {(judgement.person, judgement.query, judgement.document) for judgement in judged.judgements}
    judgements: list[Judgement] = []
    already_judged, new_query_ids = [], set()
    for event, query_id in zip(text_events, vote_queries.lines if vote_queries else (), strict=True):
        # An unknown person is "" in a log of judgements; the id is there for every vote with a text.
        person, document, query = event.person or "", session.space.corpus.ids[event.item], query_id or ""
        # A deliberate judgement is worth more than a vote in passing, so it stays.
        if (person, query, document) in judged_keys:
            already_judged.append(document)
            continue
        # A thumb down is not good, False, so its grade is 0.
        vote_grade, vote_time = grade * event.good, event.time or 0.0
        judgements.append(Judgement(query=query, document=document, grade=vote_grade, person=person, time=vote_time))
        if query not in all_queries.position:
            new_query_ids.add(query)
    notices = Notice.for_ids("votes have no text of a query, and cannot be shown to anyone", textless_ids)
    notices += Notice.for_ids("votes are on pairs that the same person has judged, which stays", already_judged)
    new_queries = vote_queries.queries.only(new_query_ids) if vote_queries else Queries((), ())
    return VotesToTake(new_queries, tuple(judgements), notices)
