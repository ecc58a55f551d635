"""The trainings of a corpus that lie on this machine, and which of them a session looks at."""

from __future__ import annotations

import streamlit as st

from dashboard.state import Loaded
from dashboard.training import runs
from dashboard.training.request import Request
from engine.errors import FrontierError
from engine.learning.training.recipes import RECIPES, declared
from engine.values import showable

AT, MOST = "train.at", 12


def looked_at(plain: Loaded) -> str | None:
    """The run that the session looks at on these embeddings."""
    return st.session_state.setdefault(AT, {}).get(plain.space.embeddings.digest)


def look_at(plain: Loaded, digest: str | None) -> None:
    """Look at another run, None for none, from the next run of the page on."""
    st.session_state.setdefault(AT, {})[plain.space.embeddings.digest] = digest


def request_of(plain: Loaded, digest: str) -> Request | None:
    """What a run was asked for, None where it is not there."""
    return next((one.request for one in runs.of(plain) if one.digest == digest), None)


def named(request: Request) -> str:
    """A run as people tell it from others: its method, what is not at its default, its splits and its seed."""
    given = dict(request.params)
    own = [
        f"{p.symbol} = {p.text(given[p.name])}"
        for p in declared(request.method)
        if p.name in given and (given[p.name] != p.default or p.name in RECIPES[request.method].late)
    ]
    where = request.train if request.divide is None else f"parts of {request.divide} (seed {request.parting})"
    return ", ".join([RECIPES[request.method].title, *own, f"learnt from {where}", f"seed {request.seed}"])


def show(plain: Loaded) -> None:
    """All of them, each a click away."""
    found = runs.of(plain)
    if not found:
        return
    with st.expander(f"Trainings of this corpus ({len(found):,})"):
        for one in found[:MOST]:
            with st.container(horizontal=True, vertical_alignment="center", gap="small"):
                st.text(showable(f"{named(one.request)} · {runs.standing(one)}"), width="stretch")
                current = one.digest == looked_at(plain)
                st.button(
                    "Shown" if current else "Open",
                    key=f"train.open.{one.digest}",
                    disabled=current,
                    on_click=look_at,
                    args=(plain, one.digest),
                )
                st.button(
                    "Delete",
                    key=f"train.delete.{one.digest}",
                    disabled=runs.under_way(one.digest) is not None,
                    on_click=_delete,
                    args=(plain, one.digest),
                    help="Its checkpoints. Embeddings that are in use stay; the Data page, Cache, deletes those.",
                )


def _delete(plain: Loaded, digest: str) -> None:
    try:
        runs.forget(digest)
    except FrontierError as error:
        st.toast(showable(str(error)), icon=":material/error:")
    if looked_at(plain) == digest:
        look_at(plain, None)
