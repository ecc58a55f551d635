"""Near-duplicates of the open corpus before any query: groups, and the corpus without copies or near-duplicates."""

from dataclasses import replace
from typing import Any

import numpy as np
import streamlit as st

from dashboard.services import corpora, jobs
from dashboard.services.jobs import Job, SharedJobs
from dashboard.services.source import COPIES, KEEP_ALL, NEAR, Loaded, Source
from dashboard.session import address, query
from dashboard.session.duplicates import get_threshold, store_default, threshold_key
from dashboard.widgets.basics import step_button
from dashboard.widgets.common import as_label
from dashboard.widgets.job_panel import SharedPanel, draw_end, draw_running
from dashboard.widgets.tables import draw_columns, number_column
from engine.evaluation.duplicate_threshold import DUPLICATE_THRESHOLD, compute_pair_cosines
from engine.evaluation.studies.near_duplicates import DuplicateGroup, NearDuplicates, find_near_duplicates
from engine.progress import counted
from engine.views.names import name_document
from engine.views.near_duplicates import describe_neighbours, describe_reduction, headline
from engine.wording import visible

MAX_UNASKED_DOCUMENTS = 20_000
"""Pairs of more documents are compared only after a click."""
PENDING_KEY, EARLIER_KEY = "duplicates.pending", "duplicates.earlier"
"""Session keys: (corpus open at the click, corpus to open), and the corpus before each reduction, for Undo."""
WAIT_SECONDS, OPENING_SECONDS = 0.5, 1.0
"""Seconds that a page waits for the groups, and for a corpus without some documents, before it shows progress."""
MAX_GROUP_ROWS = 200
"""Listed documents of a group."""

_GROUPS: SharedJobs[tuple[str, str, float | None]] = SharedJobs(6)


def draw_duplicates(loaded: Loaded, n_shown: int) -> None:
    """Draw the near-duplicates of a corpus, and buttons that leave them out.

    n_shown: groups that are listed at first
    """
    if _draw_pending(loaded):
        return
    draw_reduction(loaded, "panel")
    # Of a corpus without its near-duplicates there is nothing to list: Undo comes before another threshold.
    if loaded.source.drop_duplicates == NEAR:
        return
    groups = _find_groups(loaded)
    if groups is None:
        return
    st.text(_write_headline(loaded, groups))
    st.caption(describe_neighbours(groups))
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small"):
        _draw_threshold(loaded, groups.threshold)
        _draw_buttons(loaded, groups)
    _draw_groups(loaded, groups, n_shown)


def draw_headline(loaded: Loaded) -> None:
    """Draw which documents were left out; else the near-duplicates in a sentence, if they are found at once."""
    if _draw_pending(loaded):
        return
    draw_reduction(loaded, "headline")
    if loaded.source.drop_duplicates != KEEP_ALL:
        return
    panel = _build_panel(loaded, get_threshold(loaded))
    if panel.job is None and panel.autostart:
        panel.start_job()
        if (job := panel.job) is not None:
            job.join(WAIT_SECONDS)
    if (job := panel.job) is not None and job.result is not None:
        st.text(_write_headline(loaded, job.result))


def draw_reduction(loaded: Loaded, key: str) -> None:
    """Draw which documents were left out of the corpus, with Undo; nothing if all are there.

    key: tells this button from that of another place
    """
    reduction = loaded.without_training.reduction
    if reduction is None:
        return
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        st.text(
            describe_reduction(reduction.kind, reduction.n_dropped, reduction.n_judgements, reduction.threshold),
            width="content",
        )
        why = "Open the corpus with all its documents again."
        step_button("Undo", f"duplicates.undo.{key}", _undo, loaded, icon=":material/undo:", help=why)


def _build_panel(loaded: Loaded, threshold: float | None) -> SharedPanel[NearDuplicates]:
    """Return the panel that finds the near-duplicates of a corpus, once for all sessions.

    threshold: cosine of near-duplicates, None for that of the corpus
    """
    # Trained embeddings and votes move documents; which documents are alike is a question of the encoder's.
    space = loaded.without_training.space

    def find_groups(job: Job) -> NearDuplicates:
        """Compare all pairs of documents."""
        return find_near_duplicates(space, threshold, progress=job.report, stop=job.stop)

    waits_for_click = threshold is None and len(space) > MAX_UNASKED_DOCUMENTS
    return SharedPanel(
        purpose="duplicates",
        key=(space.embeddings.digest, space.corpus.digest, threshold),
        title=f"near-duplicates of {loaded.source.name}",
        work=find_groups,
        shared_jobs=_GROUPS,
        # Who has changed the threshold has asked for it.
        autostart=not waits_for_click,
        start_label="Find near-duplicates" if waits_for_click else "",
        offer_text=f"All pairs of {counted(len(space), 'document')} are compared." if waits_for_click else "",
        resume_label="Find near-duplicates",
        wait_seconds=WAIT_SECONDS,
        failed_text="Near-duplicates cannot be found.",
    )


def _find_groups(loaded: Loaded) -> NearDuplicates | None:
    """Return the near-duplicates at the threshold that is set; until a job has found them, draw its progress."""
    threshold = get_threshold(loaded)
    groups = _build_panel(loaded, threshold).draw_until_result()
    if groups is not None and threshold is None:
        store_default(loaded, groups.threshold)
    return groups


def _draw_threshold(loaded: Loaded, used_threshold: float) -> None:
    """Draw the field of the cosine from which on documents are near-duplicates."""
    why = f"{DUPLICATE_THRESHOLD.help} By default it is {DUPLICATE_THRESHOLD.unset}. Explore counts by it too."
    options: dict[str, Any] = {"format": "%g", "help": why, "persist_state": "session", "width": 160}
    st.number_input("Threshold", 0.0, 1.0, used_threshold, 0.01, key=threshold_key(loaded), **options)


def _write_headline(loaded: Loaded, groups: NearDuplicates) -> str:
    """State the groups of near-duplicates of a corpus."""
    return headline(groups, name_document(loaded.space.corpus, groups.groups[0].head) if groups.groups else "")


def _draw_buttons(loaded: Loaded, groups: NearDuplicates) -> None:
    """Draw the buttons that leave copies, or all near-duplicates but one of each group, out of the corpus."""
    n_documents, source = len(groups), loaded.source.without_training
    without_copies = replace(source, drop_duplicates=COPIES, duplicate_threshold=None)
    collapsed = replace(source, drop_duplicates=NEAR, duplicate_threshold=groups.threshold)
    trained_note = " The encoder's own embeddings are used then." if loaded.source.trained else ""
    # Without a copy the first button would do nothing.
    if loaded.source.drop_duplicates == KEEP_ALL and groups.copies:
        why = f"{n_documents:,} → {groups.n_without_copies:,} documents: of equal ones the first stays.{trained_note}"
        label = f"Drop copies ({n_documents - groups.n_without_copies:,})"
        step_button(label, "duplicates.copies", _open_reduced, loaded, without_copies, help=why)
    if groups.groups:
        why = f"{n_documents:,} → {groups.n_collapsed:,} documents: of each group one stays.{trained_note}"
        label = f"Collapse near-duplicates ({n_documents - groups.n_collapsed:,})"
        step_button(label, "duplicates.near", _open_reduced, loaded, collapsed, help=why)


def _draw_groups(loaded: Loaded, groups: NearDuplicates, n_shown: int) -> None:
    """Draw a list of the groups, the largest first; an open one lists its documents."""
    key = f"duplicates.shown.{query.corpus_key(loaded)}"
    n_listed = st.session_state.get(key, n_shown)
    copy_heads = groups.find_heads("copies")
    for group in groups.groups[:n_listed]:
        n_copies = int((copy_heads[list(group.rows)] != group.rows).sum())
        copies_text = f" · {counted(n_copies, 'copy', 'copies')}" if n_copies else ""
        label = f"{len(group):,} · {as_label(name_document(loaded.space.corpus, group.head))}{copies_text}"
        # An open group belongs to its head, wherever another threshold puts it in the list.
        expander = st.expander(label, key=f"duplicates.group.{key}.{group.head}", on_change="rerun")
        if expander.open:
            with expander:
                _draw_members(loaded, group)
    # A corpus may have thousands of groups, and each is a widget of the page.
    n_more = len(groups.groups) - n_listed
    if n_more > 0:
        more = {key: n_listed + 2 * n_shown}
        label = f"Show more groups ({n_more:,})"
        st.button(label, key="duplicates.more", on_click=st.session_state.update, args=(more,))


def _draw_members(loaded: Loaded, group: DuplicateGroup) -> None:
    """Draw the documents of a group, the one that stands for it first, with their cosines to it."""
    rows, space = list(group.rows[:MAX_GROUP_ROWS]), loaded.without_training.space
    cosines = compute_pair_cosines(space.vectors, np.full(len(rows), group.head), np.array(rows))
    # Titles of near-duplicates are often the same, and ids are not.
    names, ids = [], []
    for row in rows:
        names.append(name_document(loaded.space.corpus, row))
        ids.append(visible(space.corpus.ids[row]))
    columns = {
        "Document": (names, None),
        "Id": (ids, None),
        "Cosine to the first": (cosines.tolist(), number_column("%.3f", 130)),
    }
    draw_columns(columns)
    if len(group) > MAX_GROUP_ROWS:
        st.caption(f"The first {MAX_GROUP_ROWS} of {len(group):,} are listed.")


def _open_reduced(loaded: Loaded, target: Source) -> None:
    """Open the corpus without some documents, as soon as it is loaded; for a callback."""
    earlier: dict[Source, Source] = st.session_state.setdefault(EARLIER_KEY, {})
    # Undo goes back to all documents at once, also after both buttons.
    earlier[target] = earlier.get(loaded.source, loaded.source)
    if not _finish_opening(loaded, _start_loading(target), target):
        # The panel shows its progress, and the present corpus stays open until then.
        st.session_state[PENDING_KEY] = loaded.source, target


def _undo(loaded: Loaded) -> None:
    """Open the corpus as it was before documents were left out; for a callback."""
    source = loaded.source
    earlier = st.session_state.get(EARLIER_KEY, {}).get(source.without_training)
    # The level may have been changed since.
    target = replace(earlier or source.without_training.with_all_documents, relevant=source.relevant)
    if not _finish_opening(loaded, _start_loading(target), target):
        # Every page shows how the corpus loads that is open in it.
        address.switch_source(target)


def _start_loading(target: Source) -> Job:
    """Start to load a corpus, from anew if it failed before, and wait a moment for it."""
    job = corpora.find_loading_job(target)
    if job is not None and not job.running and job.result is None:
        corpora.drop_load(target, job)
    job = corpora.get_loading_job(target, resubscribe=True)
    # Most corpora are ready within this time, as nothing has to be embedded.
    job.join(OPENING_SECONDS)
    return job


def _finish_opening(loaded: Loaded, job: Job, target: Source) -> bool:
    """Open a corpus in this session if its job has loaded it, and take the query along; return True if it has."""
    opened = corpora.get_loaded(job, target)
    if opened is None:
        return False
    mode, split, entry = query.get_selection(loaded)
    # A document to search by may be one of those that are left out.
    if mode != query.SIMILAR or entry in opened.space.corpus.position:
        query.select_query(opened, mode, split, entry)
    # A threshold that the person chose holds for what is left, too.
    if (threshold := get_threshold(loaded)) is not None:
        st.session_state[threshold_key(opened)] = threshold
    address.switch_source(target)
    return True


def _draw_pending(loaded: Loaded) -> bool:
    """Draw the progress of the corpus that is to be opened; return False if there is none, or it has failed."""
    opened_from, target = st.session_state.get(PENDING_KEY, (None, None))
    job = None if target is None else corpora.find_loading_job(target)
    # Another corpus may have been opened since.
    if target is None or job is None or opened_from != loaded.source:
        st.session_state.pop(PENDING_KEY, None)
        return False
    # The state is read before the result: a job may end in between.
    is_running = job.running and not jobs.runs_for_others_only(job)
    if _finish_opening(loaded, job, target):
        del st.session_state[PENDING_KEY]
        st.rerun()
    if is_running:
        draw_running(job, "duplicates.opening.cancel", title=f"Loading {target.name}", to_end=True)
        return True
    del st.session_state[PENDING_KEY]
    draw_end(job, "The corpus stays as it is.", "Stopped. The corpus stays as it is.")
    return False
