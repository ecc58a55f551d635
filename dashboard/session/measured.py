"""Settings that Trade-off has measured last in this browser session, for the report in the menu Share."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import streamlit as st

from dashboard.services.source import Loaded
from engine.evaluation.curve import Curve
from engine.evaluation.decide import OptionEstimates
from engine.evaluation.decision import Decision

MEASURED_KEY = "tradeoff.measured"
"""Session key of the last MeasuredSweep, with the digests of its corpus and vectors."""


@dataclass(frozen=True, eq=False, kw_only=True)
class MeasuredSweep:
    """Settings that Trade-off has measured, with the decision that it draws."""

    cells: Sequence[Any]  # a setting's metrics for each query, the baseline among them
    x: str  # name of the metric on the horizontal axis, or of time
    y: str
    k: int
    baseline: str  # label of the setting that the others are compared with
    curves: Sequence[Curve]  # exact ones, at every λ
    decided: tuple[OptionEstimates, Decision] | None  # None where nothing can be decided, as on one query


def remember_measured(loaded: Loaded, measured: MeasuredSweep) -> None:
    """Keep what was measured of a corpus for this browser session, in place of what it had."""
    st.session_state[MEASURED_KEY] = _get_digests(loaded), measured


def find_measured(loaded: Loaded) -> MeasuredSweep | None:
    """Return what this browser session has measured last if that was of this corpus and these vectors, else None."""
    digests, measured = st.session_state.get(MEASURED_KEY, (None, None))
    return measured if digests == _get_digests(loaded) else None


def _get_digests(loaded: Loaded) -> tuple[str, str]:
    """Return the digests of a corpus and of its vectors."""
    return loaded.space.corpus.digest, loaded.space.embeddings.digest
