"""Words on the off-topic documents that settings put in their lists, beside the baseline's."""

from collections.abc import Mapping
from dataclasses import dataclass

from engine.progress import counted

MIN_VISIBLE_OFF_TOPIC = 0.1
"""Documents in each list by which a setting differs visibly from the baseline."""
MIN_ADDED_OFF_TOPIC = 0.5
"""Documents in each list from which a setting is said to put them there, and is not advised."""


@dataclass(frozen=True, kw_only=True)
class OffTopicCounts:
    """Mean numbers of off-topic documents in the lists of the baseline and of some settings, over the same queries."""

    baseline: str  # its name
    k: int
    baseline_count: float
    counts: Mapping[str, float]  # label of a setting → documents in each list, on average
    n_queries: int
    n_all_queries: int  # of which n_queries are a sample

    def adds_documents(self, label: str) -> bool:
        """Return True if a setting puts MIN_ADDED_OFF_TOPIC documents more in its lists than the baseline."""
        return self._find_difference(label) >= MIN_ADDED_OFF_TOPIC

    def describe(self, label: str) -> str:
        """Say how many documents of a setting are off-topic, "0.9 of 10 off-topic, Top-k 0.0".

        "" where they are not counted, or as many as the baseline's
        """
        if abs(self._find_difference(label)) < MIN_VISIBLE_OFF_TOPIC:
            return ""
        text = f"{_format_count(self.counts[label])} of {self.k:,} off-topic, {self.baseline} "
        text += _format_count(self.baseline_count)
        if self.n_queries < self.n_all_queries:
            text += f" (on {self.n_queries:,} of {counted(self.n_all_queries, 'query', 'queries')})"
        return text

    def describe_in_sentence(self, label: str) -> str:
        """Say what a setting does to lists, "puts 0.9 off-topic documents in each list"; "" if it adds hardly any."""
        if not self.adds_documents(label):
            return ""
        return f"puts {_format_count(self.counts[label])} off-topic documents in each list"

    def _find_difference(self, label: str) -> float:
        """Return how many off-topic documents a setting has beyond the baseline, 0 where they are not counted."""
        # As the counts are written, in tenths.
        written = round(self.counts.get(label, self.baseline_count), 1) - round(self.baseline_count, 1)
        return round(written, 1)


def _format_count(count: float) -> str:
    """Format a mean number of documents in tenths, "0.9"."""
    return f"{count:.1f}"
