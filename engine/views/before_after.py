"""One query's documents before and after feedback moved them: scores, and ranks by every decoder."""

from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor

from engine.space import Space
from engine.values import Ranking
from engine.views.decision import relevances
from engine.views.document import ShownDocument, shown_fields


@dataclass(frozen=True, kw_only=True)
class BeforeAfter(ShownDocument):
    """A document that was or is in some set."""

    before: float  # its inner product with the query
    after: float
    ranks: Mapping[str, tuple[int | None, int | None]]  # by decoder then and now, from 1, None where it is out

    @property
    def moved(self) -> bool:
        """Whether score or rank differ."""
        return self.before != self.after or any(then != now for then, now in self.ranks.values())


def before_after(
    then: Space, now: Space, query: Tensor, rankings: Mapping[str, tuple[Ranking, Ranking]]
) -> tuple[BeforeAfter, ...]:
    """The documents of any set whose score or rank differs between two spaces of one corpus.

    query: (d,) its vector; rankings: by decoder, what it answered this query alone then, and now. Those whose scores
    changed most come first, then by the first decoder's ranks.
    """
    places = {
        name: tuple({row: rank for rank, row in enumerate(r.rows(), 1)} for r in two) for name, two in rankings.items()
    }
    rows = list(dict.fromkeys(row for two in places.values() for ranks in reversed(two) for row in ranks))
    if not rows:
        return ()
    before, after = relevances(then, query, rows), relevances(now, query, rows)
    changes = [
        BeforeAfter(
            **shown_fields(then.corpus, row),
            before=old,
            after=new,
            ranks={name: (two[0].get(row), two[1].get(row)) for name, two in places.items()},
        )
        for row, old, new in zip(rows, before, after, strict=True)
    ]
    return tuple(sorted((one for one in changes if one.moved), key=lambda one: -abs(one.after - one.before)))
