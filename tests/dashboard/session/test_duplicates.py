"""The threshold of near-duplicates that a session has set."""

import pytest

from dashboard.session.duplicates import threshold_key
from support import pages


@pytest.mark.parametrize(("threshold", "used"), [(0.8, 0.8), (None, 0.9)])
def test_the_tiles_of_explore_count_by_the_threshold_that_is_set(threshold, used):
    app = pages.screen("explore", pages.DEMO, **{threshold_key(pages.load()): threshold})
    tiles = pages.tiles(app)
    assert tiles and {tile["now"]["duplicate"] for tile in tiles.values()} == {used}
