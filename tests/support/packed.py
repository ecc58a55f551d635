"""Packed sets of a query read as a browser reads them: a second reading of what engine/views/slider.py documents."""

from bisect import bisect_left

from engine.views.slider import PRECISION


class Packed:
    """Sets of documents with their figures; a set is known by the number of its ranking."""

    def __init__(self, told):
        self.told, self.near, given = told, {}, iter(told["near"])
        for ids in told["sets"]:
            for i, one in enumerate(ids):
                for other in ids[:i]:
                    pair = frozenset((one, other))
                    if pair not in self.near:
                        self.near[pair] = next(given) / PRECISION
        assert next(given, None) is None, "cosines of pairs that meet nowhere"

    def ids(self, ranking=0):
        return self.told["sets"][self.told["which"][ranking]]

    def rows(self, ranking=0):
        """The corpus' rows of a ranking's documents, in order."""
        return [self.told["rows"][i] for i in self.ids(ranking)]

    def names(self, ranking=0):
        return [self.told["names"][i] for i in self.ids(ranking)]

    def cosines(self, ranking=0):
        """Of all pairs of a ranking."""
        ids = self.ids(ranking)
        return [self.near[frozenset((a, b))] for i, a in enumerate(ids) for b in ids[:i]]

    def diversity(self, ranking=0):
        """Mean of 1 − cosine over all pairs; None where there is none."""
        cosines = self.cosines(ranking)
        return 1 - sum(cosines) / len(cosines) - 0.5 / PRECISION if cosines else None

    def found(self, ranking=0):
        """How many of a ranking's documents are judged relevant."""
        return len(set(self.ids(ranking)) & set(self.told["right"]))


class PackedPath(Packed):
    """Sets along a slider."""

    def __init__(self, told):
        super().__init__(told)
        self.stops, self.apart = told["stops"], dict(told.get("apart") or ())

    def at(self, value):
        """The rows at a value; None where they are not known."""
        if value in self.apart:
            return self.rows(self.apart[value])
        if self.told["ends"] is None:
            return self.rows(self.stops.index(value)) if value in self.stops else None
        if not self.told["start"] <= value <= self.stops[-1]:
            return None
        return self.rows(bisect_left(self.told["ends"], value))
