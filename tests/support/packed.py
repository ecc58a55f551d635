"""Packed sets of a query read as a browser reads them: a second reading of what engine/views/slider.py documents."""

from bisect import bisect_left

from engine.views.slider import PRECISION


class Packed:
    """Sets of documents with their figures; a set is known by the number of its ranking."""

    def __init__(self, data):
        self.data, self.near, cosines = data, {}, iter(data["near"])
        for ids in data["sets"]:
            for i, first_id in enumerate(ids):
                for second_id in ids[:i]:
                    pair = frozenset((first_id, second_id))
                    if pair not in self.near:
                        self.near[pair] = next(cosines) / PRECISION
        assert next(cosines, None) is None, "cosines of pairs that meet nowhere"

    def ids(self, ranking=0):
        return self.data["sets"][self.data["which"][ranking]]

    def rows(self, ranking=0):
        """Return the corpus' rows of a ranking's documents, in order."""
        return [self.data["rows"][i] for i in self.ids(ranking)]

    def names(self, ranking=0):
        return [self.data["names"][i] for i in self.ids(ranking)]

    def cosines(self, ranking=0):
        """Return the cosines of all pairs of a ranking."""
        ids = self.ids(ranking)
        return [self.near[frozenset((a, b))] for i, a in enumerate(ids) for b in ids[:i]]

    def diversity(self, ranking=0):
        """Compute the mean of 1 − cosine over all pairs; None without a pair."""
        cosines = self.cosines(ranking)
        return 1 - sum(cosines) / len(cosines) - 0.5 / PRECISION if cosines else None

    def count_relevant(self, ranking=0):
        """Count a ranking's documents that are judged relevant."""
        return len(set(self.ids(ranking)) & set(self.data["right"]))


class PackedPath(Packed):
    """Sets along a slider."""

    def __init__(self, data):
        super().__init__(data)
        self.stops, self.separate = data["stops"], dict(data.get("apart") or ())

    def rows_at(self, value):
        """Return the rows at a value; None if they are unknown."""
        if value in self.separate:
            return self.rows(self.separate[value])
        if self.data["ends"] is None:
            return self.rows(self.stops.index(value)) if value in self.stops else None
        if not self.data["start"] <= value <= self.stops[-1]:
            return None
        return self.rows(bisect_left(self.data["ends"], value))
