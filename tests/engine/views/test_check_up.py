"""The check-up's headline."""

import numpy as np

from engine.evaluation.studies.check_up import CheckUp
from engine.views.check_up import brief_headline, describe_threshold, headline


def checked(pairs):
    """A check-up whose queries have so many pairs each, in sets of ten."""
    count = len(pairs)
    return CheckUp(
        queries=tuple(f"q{i}" for i in range(count)),
        rows=np.zeros((count, 10), dtype=int),
        similarity=np.zeros((count, 10, 10), dtype=np.float32),
        pairs=np.array(pairs),
        groups=np.minimum(pairs, 1),
        ilad=np.ones(count),
        threshold=0.93,
        random_ilad=0.62,
    )


def test_it_says_how_many_and_which_most():
    said = headline(checked([0, 12, 1]), ("a", "hide readings", "c"), 3)
    share = "On 67% of 3 queries the top 10 holds near-duplicates (cosine ≥ 0.93)."
    assert said == f"{share} Worst: hide readings (12 pairs)."
    here = headline(checked([0, 12, 1]), ("a", "hide readings", "c"), 3, is_worst_open=True)
    assert here.endswith("Worst: this query (12 pairs).") and "hide" not in here
    assert brief_headline(checked([0, 12, 1])) == "67% of 3 queries hold near-duplicates"
    one = headline(checked([1]), ("x" * 200,), 1)
    assert one.startswith("On 100% of 1 query the top 10") and one.endswith("… (1 pair).") and len(one) < 160


def test_it_says_what_was_asked():
    assert headline(checked([0, 0]), ("a", "b"), 2) == (
        "None of 2 queries has near-duplicates (cosine ≥ 0.93) in the top 10."
    )
    sample = headline(checked([0, 2]), ("a", "b"), 3000)
    assert sample.startswith("On 50% of 2 queries (a random sample of 3,000) the top 10")
    documents = headline(checked([0, 2]), ("a", "b"), 9, documents=True)
    assert documents.startswith("On 50% of 2 documents asked as queries (a random sample of 9) the top 10")


def test_the_threshold_of_near_duplicates_is_written_as_it_is_used():
    assert describe_threshold(checked([0, 2])) == "Near-duplicate: cosine ≥ 0.93."
