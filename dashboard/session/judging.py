"""Documents that a page asks people to judge, for one setting and the queries that it was measured on."""

from collections.abc import Mapping
from dataclasses import dataclass

import streamlit as st

from dashboard.services.source import Loaded
from engine.decoder import Decoder
from engine.evaluation.decide import OptionEstimates
from engine.evaluation.runs import RankedRun
from engine.evaluation.sweep.cell import decoder_from_json

JUDGE_VIEW_KEY, JUDGE = "data.view", "Judge"
"""Session key of the view on the Data page, and the view where documents are judged."""
REQUEST_KEY = "judge.request"
"""Session key of the documents that another page asked for."""


@dataclass(frozen=True, eq=False, kw_only=True)
class JudgingRequest:
    """Request to judge the documents of one setting that have no judgement yet."""

    corpus: str  # digest
    system: Decoder | RankedRun
    name: str  # as the pages write it
    query_ids: tuple[str, ...]  # those that it was measured on
    k: int
    n_missing: int  # documents without a judgement, over all queries

    @property
    def key(self) -> tuple[object, ...]:
        """Key under which its documents are cached."""
        return self.system.label, self.query_ids, self.k


def build_request(
    loaded: Loaded, estimates: OptionEstimates | None, keep: float, runs_by_label: Mapping[str, RankedRun]
) -> JudgingRequest | None:
    """Build the request for whose missing judgements stand in the way first; None if none are missing.

    That is the baseline, or else the best setting that is no candidate.

    keep: the budget, the share of the baseline's metric that a setting must keep; runs_by_label: other systems' lists
    """
    n_missing = 0 if estimates is None else estimates.count_missing(keep)
    cell_index = None if estimates is None else estimates.find_cell_to_judge(keep)
    if estimates is None or cell_index is None or not n_missing:
        return None
    cell, name = estimates.aligned.cells[cell_index], estimates.aligned.names[cell_index]
    # The baseline is the first cell; the others are the settings that have estimates.
    decoder = decoder_from_json(cell.decoder) if cell_index == 0 else estimates.decoders[cell_index - 1]
    system = decoder or runs_by_label.get(cell.label)
    if system is None:
        return None
    digest, query_ids = loaded.space.corpus.digest, tuple(cell.queries)
    return JudgingRequest(corpus=digest, system=system, name=name, query_ids=query_ids, k=cell.k, n_missing=n_missing)


def set_request(request: JudgingRequest | None) -> None:
    """Have the Data page open the view where people judge, with these documents; None for those of every decoder."""
    st.session_state[JUDGE_VIEW_KEY], st.session_state[REQUEST_KEY] = JUDGE, request


def get_request(loaded: Loaded) -> JudgingRequest | None:
    """Return the documents that another page asked for; None without any, or if they are of another corpus."""
    request: JudgingRequest | None = st.session_state.get(REQUEST_KEY)
    # Judgements may have been changed since, but every query that was measured must be there.
    if request is None or request.corpus != loaded.space.corpus.digest:
        return None
    return request if set(request.query_ids) <= set(loaded.dataset.queries.ids) else None
