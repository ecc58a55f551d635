"""What tests of tuning share."""

import pytest

from support.judged_clusters import judged_clusters


@pytest.fixture(scope="module")
def judged():
    """(space, queries, judgements by split): clusters of near-duplicates, a relevant document in several."""
    return judged_clusters()
