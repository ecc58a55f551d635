"""Runs of other systems: added from a file, one list for every page of a session."""

from pathlib import Path

import streamlit as st

from dashboard.services import roots, uploads
from dashboard.services.memo import get_or_compute
from dashboard.services.source import Loaded
from dashboard.widgets.basics import step_button, upload_field
from engine.errors import FrontierError
from engine.evaluation.runs import RankedRun, read_run
from engine.progress import counted
from engine.values import Queries

RUNS_KEY, RUN_PATH_KEY, RUN_ERROR_KEY = "runs", "runs.path", "runs.said"
"""Session keys: corpus → run name → file; the path field, and the error of the last file."""


def draw_runs(loaded: Loaded, queries: Queries) -> None:
    """Draw the ways to add a run (ranked lists of another system), and the added runs with their notices."""
    upload = upload_field("A run of another system", key="runs.file", help="A TREC run file, or JSONL.")
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small"):
        paths_off = not roots.accepts_typed_paths()
        hint = "off: frontier serve --root FOLDER" if paths_off else "results/bm25.run"
        st.text_input("Or its path", key=RUN_PATH_KEY, placeholder=hint, disabled=paths_off)
        step_button("Add the run", "runs.add", _add_run, loaded, queries, upload)
    if error_text := st.session_state.get(RUN_ERROR_KEY):
        st.text(error_text)
    for run_name, run in read_runs(loaded, queries).items():
        with st.container(horizontal=True, vertical_alignment="center", gap="small"):
            st.text(f"{run_name}: {counted(len(run.documents), 'query', 'queries')}", width="stretch")
            step_button("Remove", f"runs.remove.{run_name}", get_run_files(loaded).pop, run_name, None, type="tertiary")
        for notice in run.notices:
            st.text(f"⚠ {notice}")


def get_run_files(loaded: Loaded) -> dict[str, str]:
    """Return name → file of the runs that this session has added for a corpus; changes to it are kept.

    A run is another system's ranked lists.
    """
    files_by_corpus: dict[str, dict[str, str]] = st.session_state.setdefault(RUNS_KEY, {})
    return files_by_corpus.setdefault(loaded.space.corpus.digest, {})


def read_runs(loaded: Loaded, queries: Queries) -> dict[str, RankedRun]:
    """Return the runs of other systems that answer any of the queries, by name."""
    runs = {name: _read_run(Path(file), loaded, queries, name) for name, file in get_run_files(loaded).items()}
    return {name: run for name, run in runs.items() if run is not None}


def _read_run(run_file: Path, loaded: Loaded, queries: Queries, run_name: str) -> RankedRun | None:
    """Read another system's ranked lists from a file, once; None if invalid or of other queries."""
    corpus = loaded.space.corpus

    def read_or_none() -> RankedRun | None:
        """Read the ranked lists from the file; None if they cannot be read for these queries."""
        try:
            return read_run(run_file, corpus.ids, queries.ids, run_name)
        except FrontierError:
            return None  # its queries are other ones, or somebody has changed the file

    return get_or_compute(f"{RUNS_KEY}.read", (str(run_file), run_name, corpus.digest, queries.digest), read_or_none)


def _add_run(loaded: Loaded, queries: Queries, upload: object | None) -> None:
    """Add a run (another system's ranked lists) from an upload, or else the typed path; for a callback.

    An error is kept for the page.
    """
    typed_path = str(st.session_state.get(RUN_PATH_KEY) or "").strip()
    try:
        if upload is None and not typed_path:
            st.session_state[RUN_ERROR_KEY] = "Choose a file, or type a path."
            return
        run_path = uploads.save_uploads([upload]) if upload is not None else roots.check_path(typed_path)
        run = read_run(run_path, loaded.space.corpus.ids, queries.ids)
    except FrontierError as error:
        st.session_state[RUN_ERROR_KEY] = str(error)
        return
    # A run with the same name replaces the earlier one.
    get_run_files(loaded)[run.name] = str(run_path)
    st.session_state[RUN_ERROR_KEY] = st.session_state[RUN_PATH_KEY] = ""
