"""Runs of other systems: added from a file, one list for every page of a session, and removed again."""

from pathlib import Path

import streamlit as st

from dashboard.services import roots, uploads
from dashboard.services.memo import remembered
from dashboard.services.source import Loaded
from dashboard.widgets.basics import step_button, upload_field
from engine.errors import FrontierError
from engine.evaluation.runs import RankedRun, read_run
from engine.progress import counted
from engine.values import Queries

RUNS, PATH, SAID = "runs", "runs.path", "runs.said"
"""Session keys: corpus → its runs, name → file; the field of a path, and why a file could not be added."""


def control(loaded: Loaded, queries: Queries) -> None:
    """Draw the ways to a run, and the runs that there are, each with what was odd about it."""
    file = upload_field("A run of another system", key="runs.file", help="A TREC run file, or JSONL.")
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small"):
        off = not roots.typed_paths()
        hint = "off: frontier serve --root FOLDER" if off else "results/bm25.run"
        st.text_input("Or its path", key=PATH, placeholder=hint, disabled=off)
        step_button("Add the run", "runs.add", _add, loaded, queries, file)
    if said := st.session_state.get(SAID):
        st.text(said)
    for name, run in added_runs(loaded, queries).items():
        with st.container(horizontal=True, vertical_alignment="center", gap="small"):
            st.text(f"{name}: {counted(len(run.documents), 'query', 'queries')}", width="stretch")
            step_button("Remove", f"runs.remove.{name}", files(loaded).pop, name, None, type="tertiary")
        for notice in run.notices:
            st.text(f"⚠ {notice}")


def files(loaded: Loaded) -> dict[str, str]:
    """The files of the session's runs on a corpus by the runs' names."""
    runs: dict[str, dict[str, str]] = st.session_state.setdefault(RUNS, {})
    return runs.setdefault(loaded.space.corpus.digest, {})


def added_runs(loaded: Loaded, queries: Queries) -> dict[str, RankedRun]:
    """The session's runs on a corpus by name, those that answer any of the queries."""
    found = {name: _read(Path(file), loaded, queries, name) for name, file in files(loaded).items()}
    return {name: run for name, run in found.items() if run is not None}


def _read(file: Path, loaded: Loaded, queries: Queries, name: str) -> RankedRun | None:
    corpus = loaded.space.corpus

    def read() -> RankedRun | None:
        try:
            return read_run(file, corpus.ids, queries.ids, name)
        except FrontierError:
            return None  # its queries are other ones, or somebody has changed the file

    return remembered(f"{RUNS}.read", (str(file), name, corpus.digest, queries.digest), read)


def _add(loaded: Loaded, queries: Queries, file: object | None) -> None:
    """Keep a run; for a callback."""
    path = str(st.session_state.get(PATH) or "").strip()
    try:
        if file is None and not path:
            st.session_state[SAID] = "Choose a file, or type a path."
            return
        chosen = uploads.keep([file]) if file is not None else roots.check(path)
        run = read_run(chosen, loaded.space.corpus.ids, queries.ids)
    except FrontierError as error:
        st.session_state[SAID] = str(error)
        return
    files(loaded)[run.name] = str(chosen)
    st.session_state[SAID] = st.session_state[PATH] = ""
