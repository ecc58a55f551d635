"""The sentence on what feedback has done to the document of a vote."""

import pytest

from dashboard.widgets.live_feedback import _describe_change
from engine.views.sets import BeforeAfter


@pytest.mark.parametrize(
    ("ranks", "expected"),
    [
        ((2, 2), "0.550 → 0.540, still #2"),
        ((2, 4), "0.550 → 0.540, #4 instead of #2"),
        ((10, None), "0.550 → 0.540, out instead of #10"),
        ((None, 1), "0.550 → 0.540, #1 instead of out"),
        ((None, None), "0.550 → 0.540"),
    ],
)
def test_change_of_a_document_has_its_scores_and_its_ranks(ranks, expected):
    change = BeforeAfter(
        row=3, id="d", title="", text="", name="d", before=0.55, after=0.54, ranks={"top_k": ranks, "mmr": (1, 9)}
    )
    assert _describe_change(change) == expected
