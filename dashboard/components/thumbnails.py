"""A wall of small heat maps, one for each query, in two states: the baseline's sets, and a decoder's along a slider."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from dashboard.components import vendor


@dataclass(frozen=True, kw_only=True)
class WallContent:
    """Similarities, counts and titles of n queries, in the order of the wall's squares."""

    version: str  # digest of the queries and the baseline's sets
    titles: Sequence[str]  # of the queries
    size: int  # of the baseline's largest set
    base: dict[str, Any]  # the baseline's sets, of `pack_redundancy` and `pack_costs`
    n_relevant: Sequence[int]  # documents judged relevant to each query
    current: int | None  # position of the square whose query is open
    base_title: str
    headline: str  # of the baseline's sets
    caption: str  # of the wall, in one line
    legend: str  # of the squares
    random_ilad: float | None  # mean ILAD of random pairs of the corpus, None where it is unknown


def draw_wall(
    content: WallContent,
    decoders: Sequence[dict[str, Any]],
    state: dict[str, Any],
    key: str,
    on_click: Callable[[int], None],
    on_release: Callable[[dict[str, Any]], None],
) -> None:
    """Draw the similarities within the sets of many queries as small pictures.

    decoders: the look, slider and `urls` of each decoder that can be compared; state: `decoder`, the one that is
    compared, `shown`, True if its sets are shown in place of the baseline's, `serial` of the last report, and `address`
    of the page, None to leave it; key: of the component; on_click: called with a square's position before the page is
    drawn again; on_release: called with `decoder`, `value`, `shown` and `serial` after a slider was released or a state
    chosen
    """

    def report_click(position: Any) -> None:
        """Call back with the position of the square that the browser reports as clicked."""
        # A browser may still show the previous wall, which can have more squares.
        if isinstance(position, int) and 0 <= position < len(content.titles):
            on_click(position)

    # A run of the page with the same version leaves the squares as they are, with the focus on one of them.
    data = {
        "version": content.version,
        "titles": list(content.titles),
        "size": content.size,
        "base": content.base,
        "judged": list(content.n_relevant),
        "current": content.current,
        "baseTitle": content.base_title,
        "headline": content.headline,
        "caption": content.caption,
        "legend": content.legend,
        "randomDiversity": content.random_ilad,
        "decoders": list(decoders),
        **state,
    }
    vendor.draw_view("check_up", key, data, {"clicked": report_click, "released": on_release})
