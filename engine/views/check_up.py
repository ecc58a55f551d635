"""A corpus's check-up in words."""

from engine.evaluation.studies.check_up import CheckUp
from engine.progress import counted, shorten
from engine.wording import percent

LONGEST = 70
"""Characters of a query in a headline."""


def headline(checked: CheckUp, texts: tuple[str, ...], asked: int, documents: bool = False) -> str:
    """How many queries get near-duplicates, and which most.

    texts: of the queries; asked: how many queries there are, of which these may be a sample; documents: whether these
    are documents of the corpus.
    """
    count = len(checked)
    kind = counted(count, "document asked as a query", "documents asked as queries")
    if not documents:
        kind = ("your " if count == asked else "") + counted(count, "query", "queries")
    whole = "" if count == asked else f" (a random sample of {asked:,})"
    top = f"the top {checked.rows.shape[1]}"
    if not checked.n_redundant:
        return f"None of {kind}{whole} has near-duplicates in {top}."
    worst = checked.order[0]
    return (
        f"On {percent(checked.n_redundant / count)} of {kind}{whole} {top} holds near-duplicates. Worst: "
        f"{shorten(texts[worst], LONGEST)} ({counted(int(checked.pairs[worst]), 'pair')})."
    )
