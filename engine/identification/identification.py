"""The result of an identification: what made a run, as far as its lists tell."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from engine.display import DataFrame, Tabular, build_rows_table
from engine.evaluation.sweep.cell import decoder_to_json
from engine.identification.hypotheses import Hypothesis
from engine.progress import counted
from engine.values import Notice
from engine.wording import percent


@dataclass(frozen=True, kw_only=True, eq=False)
class Identification(Tabular):
    """The decoder that made a run, as far as its lists tell.

    Parameters
    ----------
    best : Hypothesis
        The hypothesis that explains most picks; the simplest of those that give the same lists.
    runner_up : Hypothesis or None
        The next one that gives other lists.
    hypotheses : tuple of Hypothesis
        All that were tried, by the share that they explain.
    sure : bool
        True if the best explains more than every other by more than chance, and 93 % of the picks, as they are or once
        the losses of an index at one stated rate are counted. Otherwise the best is only the nearest.
    n_lists : int
        The number of queries with a list.
    n_picks : int
        The number of picks that were looked at.
    k : int
        The length of the longest list.
    further : tuple of str
        Queries without a list for which best and runner-up would return other documents.
    weaker_encoders : tuple of str
        Other encoders whose vectors explain much less of a sample of the lists, so that not all was tried with them.
    notices : tuple of Notice
        What was odd in the run.
    sentences : tuple of str
        The result in words, the most important first.

    Examples
    --------
    >>> import engine, numpy
    >>> space = engine.Space.of(list("abc"), [[1.0, 0.0], [0.8, 0.6], [0.0, 1.0]])
    >>> engine.identify({"0": ["0", "1"]}, space, numpy.array([1.0, 0.0])).sure
    False
    """

    best: Hypothesis
    runner_up: Hypothesis | None
    hypotheses: tuple[Hypothesis, ...]
    sure: bool
    n_lists: int
    n_picks: int
    k: int
    further: tuple[str, ...]
    weaker_encoders: tuple[str, ...]
    notices: tuple[Notice, ...]
    sentences: tuple[str, ...]

    def __str__(self) -> str:
        """Return the sentences, one on each line."""
        return "\n".join(self.sentences)

    def _describe(self) -> str:
        certainty = "sure" if self.sure else "not sure"
        lists = f"{self.n_picks:,} picks of {counted(self.n_lists, 'list')}"
        return f"{certainty}, explains {percent(self.best.explained, 1)} of {lists}, {self.best.decoder.label}"

    def to_frame(self) -> DataFrame:
        """Return one row for each hypothesis, the one that explains most first.

        Columns: label, decoder (in full), explained (share of the picks), low and high (interval of λ; missing for
        relevance alone), depth_low and depth_high (interval of the pool's depth), metric (how vectors are compared),
        encoder (missing for that of the space), loss_rate, explained_with_losses, and is_best.
        """
        rows = []
        for each in self.hypotheses:
            low, high = each.interval or (None, None)
            facts = {"label": each.label, "decoder": each.decoder.label, "explained": each.explained}
            facts |= {"low": low, "high": high, "depth_low": each.depth[0], "depth_high": each.depth[1]}
            facts |= {"metric": each.metric, "encoder": each.encoder, "loss_rate": each.loss_rate}
            facts |= {"explained_with_losses": each.explained_with_losses, "is_best": each is self.best}
            rows.append(facts)
        return build_rows_table(rows, numbers=("low", "high", "loss_rate", "explained_with_losses"))

    def as_json(self) -> dict[str, Any]:
        """Return the result as plain JSON values."""
        runner_up = None if self.runner_up is None else hypothesis_as_json(self.runner_up)
        return {
            "sure": self.sure, "sentences": list(self.sentences), "best": hypothesis_as_json(self.best),
            "runner_up": runner_up, "hypotheses": [hypothesis_as_json(each) for each in self.hypotheses],
            "lists": self.n_lists, "picks": self.n_picks, "k": self.k, "further": list(self.further),
            "weaker_encoders": list(self.weaker_encoders),
            "notices": list(map(str, self.notices)),
        }  # fmt: skip


def hypothesis_as_json(hypothesis: Hypothesis) -> dict[str, Any]:
    """Return a hypothesis as plain JSON values, without its plane."""
    return {
        "label": hypothesis.label, "decoder": decoder_to_json(hypothesis.decoder), "metric": hypothesis.metric,
        "encoder": hypothesis.encoder,
        "explained": hypothesis.explained, "interval": hypothesis.interval, "depth": hypothesis.depth,
        "same": list(hypothesis.same), "loss_rate": hypothesis.loss_rate,
        "explained_with_losses": hypothesis.explained_with_losses, "missing": list(hypothesis.missing),
        "unexplained": [vars(pick) for pick in hypothesis.unexplained],
    }  # fmt: skip
