"""Near-duplicates in words."""

import numpy as np
import pytest

import engine
from engine.views.near_duplicates import describe_neighbours, describe_reduction, headline


def groups_of(angles, texts=None, threshold=0.9):
    """Near-duplicates of documents at some angles on the unit circle, in degrees."""
    rows = np.stack([np.cos(np.radians(angles)), np.sin(np.radians(angles))], axis=1)
    ids = tuple(map(str, range(len(angles))))
    corpus = engine.Corpus(ids, tuple(texts or ids))
    return engine.find_near_duplicates(engine.Space(corpus, engine.Embeddings(ids, rows), "cpu"), threshold)


def test_the_headline_counts_groups_documents_and_copies():
    groups = groups_of([0, 0, 5, 90, 95, 180], ["a", "a", "b", "c", "d", "e"])
    assert headline(groups, "a title") == (
        "2 groups of near-duplicates: 5 of 6 documents (83%), 1 of them a copy of an earlier one. "
        "The largest has 3: a title"
    )
    assert headline(groups_of([0, 90])) == "No near-duplicates among 2 documents."
    assert len(headline(groups, "x" * 500)) < 200


def test_neighbours_are_told_from_members_of_a_group_and_stand_beside_random_pairs():
    linked = "Each document of a group has a cosine of 0.9 or more to another one of it, not to all: "
    words = describe_neighbours(groups_of([0, 5, 10, 15, 20, 25, 120]))
    assert words.startswith(f"{linked}6 (86%) have 5 or more such neighbours. Of 21")
    # A chain: one group of seven, of which none is near to five others.
    chain = groups_of([0, 20, 40, 60, 80, 100, 120])
    assert len(chain.groups[0]) == 7 and describe_neighbours(chain).startswith(f"{linked}none has 5 or more")
    assert describe_neighbours(groups_of([0, 90])).startswith("Of 1 pair half")


@pytest.mark.parametrize(
    "arguments,sentence",
    [
        (("copies", 13, 4), "13 copies dropped; their 4 judgements count for the documents that stay."),
        (("copies", 1, 1), "1 copy dropped; its 1 judgement counts for the documents that stay."),
        (("near", 1, 0, 0.9134), "1 near-duplicate collapsed at a cosine of 0.9134."),
    ],
)
def test_a_reduction_says_what_became_of_judgements(arguments, sentence):
    assert describe_reduction(*arguments) == sentence
