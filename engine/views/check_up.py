"""Check-up of a corpus in words."""

from engine.evaluation.studies.check_up import CheckUp
from engine.progress import counted, shorten
from engine.wording import percent

MAX_QUERY_LENGTH = 70
"""Characters of a query in a headline."""


def headline(
    checked: CheckUp, texts: tuple[str, ...], n_asked: int, documents: bool = False, is_worst_open: bool = False
) -> str:
    """State the number of queries with near-duplicates, and the worst query.

    texts: of the queries; n_asked: the number of queries, of which these may be a sample; documents: True if these are
    documents of the corpus; is_worst_open: True where the worst query's text stands above the sentence already
    """
    n_checked = len(checked)
    query_text = counted(n_checked, "document asked as a query", "documents asked as queries")
    if not documents:
        query_text = counted(n_checked, "query", "queries")
    sample_text = "" if n_checked == n_asked else f" (a random sample of {n_asked:,})"
    top_text = f"the top {checked.rows.shape[1]}"
    limit_text = f"cosine ≥ {checked.threshold:g}"
    if not checked.n_redundant:
        return f"None of {query_text}{sample_text} has near-duplicates ({limit_text}) in {top_text}."
    worst_query = checked.order[0]
    worst_text = "this query" if is_worst_open else shorten(texts[worst_query], MAX_QUERY_LENGTH)
    return (
        f"On {percent(checked.n_redundant / n_checked)} of {query_text}{sample_text} {top_text} holds "
        f"near-duplicates ({limit_text}). "
        f"Worst: {worst_text} ({counted(int(checked.pairs[worst_query]), 'pair')})."
    )


def brief_headline(checked: CheckUp) -> str:
    """State the share of queries with near-duplicates in one line of a phone."""
    queries_text = counted(len(checked), "query", "queries")
    return f"{percent(checked.n_redundant / len(checked))} of {queries_text} hold near-duplicates"


def describe_threshold(checked: CheckUp) -> str:
    """State which documents are near-duplicates."""
    return f"Near-duplicate: cosine ≥ {checked.threshold:g}."
