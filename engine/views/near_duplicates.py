"""Near-duplicates of a corpus in words."""

from collections.abc import Sequence

import numpy as np

from engine.evaluation.duplicate_threshold import RandomPairs
from engine.evaluation.studies.near_duplicates import NearDuplicates
from engine.progress import counted, shorten
from engine.values import Corpus
from engine.views.names import name_document
from engine.wording import count_share, decimal, percent

MAX_HEAD_LENGTH = 60
"""Characters of a document's name in a sentence."""
MANY_NEIGHBOURS = 5
"""Near-duplicates from which on a document alone can fill a list of results."""


def describe_near_duplicates(duplicates: NearDuplicates) -> tuple[str, ...]:
    """State how many documents have near-duplicates, what dropping them would leave, and what random pairs are like."""
    n_documents, n_near = len(duplicates), duplicates.count_with_neighbours()
    n_crowded = duplicates.count_with_neighbours(MANY_NEIGHBOURS)
    if not duplicates.groups:
        n_searched = counted(n_documents, "document")
        summary = f"None of {n_searched} has a near-duplicate (cosine ≥ {duplicates.threshold:g})."
        return summary, describe_random_pairs(duplicates.random_pairs)
    n_grouped = sum(map(len, duplicates.groups))
    sentences = [
        f"{n_near:,} of {counted(n_documents, 'document')} ({percent(n_near / n_documents)}) have a near-duplicate "
        f"(cosine ≥ {duplicates.threshold:g}), {n_crowded:,} of them {MANY_NEIGHBOURS} or more.",
        f"{counted(len(duplicates.groups), 'group')} of near-duplicates, {n_grouped:,} documents: "
        f"{duplicates.n_collapsed:,} are left with one of each.",
    ]
    if duplicates.copies:
        n_copies = sum(map(len, duplicates.copies))
        sentences.append(
            f"{counted(len(duplicates.copies), 'group')} of copies, {n_copies:,} documents: "
            f"{duplicates.n_without_copies:,} are left without copies."
        )
    return *sentences, describe_random_pairs(duplicates.random_pairs)


def describe_random_pairs(pairs: RandomPairs) -> str:
    """State the cosines of random pairs of documents, with which those of near-duplicates are compared."""
    if not len(pairs):
        return "No two documents have different vectors."
    low, median, high = np.quantile(pairs.cosines, (0.05, 0.5, 0.95)).tolist()
    kind = "random pair" if pairs.is_sample else "pair"
    return (
        f"Of {counted(len(pairs), kind)} half have a cosine above {decimal(median, 2)}, and 90% lie from "
        f"{decimal(low, 2)} to {decimal(high, 2)}; their diversity (ILAD) is {decimal(pairs.ilad)}."
    )


def name_documents(corpus: Corpus, rows: Sequence[int]) -> list[str]:
    """Return the documents' names as pages show them."""
    return [name_document(corpus, row) for row in rows]


def headline(groups: NearDuplicates, largest_name: str = "") -> str:
    """State how many groups of near-duplicates a corpus has, how large they are, and how many copies.

    largest_name: of the document that stands for the largest group
    """
    n_documents = len(groups)
    if not groups.groups:
        return f"No near-duplicates among {counted(n_documents, 'document')}."
    n_grouped = sum(map(len, groups.groups))
    n_copies = n_documents - groups.n_without_copies
    kind = "a copy" if n_copies == 1 else "copies"
    copies_text = f", {n_copies:,} of them {kind} of an earlier one" if n_copies else ""
    return (
        f"{counted(len(groups.groups), 'group')} of near-duplicates: {n_grouped:,} of {n_documents:,} documents "
        f"({percent(n_grouped / n_documents)}){copies_text}. The largest has {len(groups.groups[0]):,}: "
        f"{shorten(largest_name, MAX_HEAD_LENGTH)}"
    )


def describe_neighbours(groups: NearDuplicates) -> str:
    """State what the documents of a group have in common, and how alike random pairs are beside that."""
    random_pairs = describe_random_pairs(groups.random_pairs)
    if not groups.groups:
        return random_pairs
    n_crowded = groups.count_with_neighbours(MANY_NEIGHBOURS)
    crowded = count_share(n_crowded, len(groups)) if n_crowded else "none"
    verb = "have" if n_crowded > 1 else "has"
    # A group is linked from document to document, so a large one need not hold anything that is near many others.
    return (
        f"Each document of a group has a cosine of {groups.threshold:g} or more to another one of it, not to all: "
        f"{crowded} {verb} {MANY_NEIGHBOURS} or more such neighbours. {random_pairs}"
    )


def describe_reduction(kind: str, n_dropped: int, n_judgements: int, threshold: float | None = None) -> str:
    """State which documents were left out of a corpus, and what became of their judgements.

    kind: "copies" or "near"; threshold: cosine of near-duplicates
    """
    if kind == "copies":
        text = f"{counted(n_dropped, 'copy', 'copies')} dropped"
    else:
        at_text = "" if threshold is None else f" at a cosine of {threshold:g}"
        text = f"{counted(n_dropped, 'near-duplicate')} collapsed{at_text}"
    if n_judgements:
        owner, verb = "its" if n_dropped == 1 else "their", "counts" if n_judgements == 1 else "count"
        text += f"; {owner} {counted(n_judgements, 'judgement')} {verb} for the documents that stay"
    return f"{text}."
