"""The dialogs of the menu Share: link, code and results, report, live page, saved views, and their buttons."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from operator import attrgetter, itemgetter
from typing import Any
from urllib.parse import urlsplit

import pandas as pd
import streamlit as st

from dashboard.components.picture import draw_copy_button
from dashboard.services import trained
from dashboard.services.candidates import measure_pool_depth
from dashboard.services.source import Loaded
from dashboard.session import decoders as setting
from dashboard.session.address import RELEVANT
from dashboard.session.link import build_url, get_link_params, get_state
from dashboard.session.query import Question
from dashboard.session.restore import parse_link, reopen_state
from dashboard.sharing import snapshots
from dashboard.sharing.export_results import (
    PARAMETER_COLUMNS,
    compute_results,
    format_figures_csv,
    format_sets_csv,
    format_sets_json,
)
from dashboard.sharing.live_page import draw_live_page
from dashboard.sharing.report_file import draw_report
from dashboard.sharing.snapshots import IN_BOTH, NEWER_ONLY, OLDER_ONLY, PageSnapshot, SavedAnswer
from dashboard.widgets.basics import download_button, show_failure, step_button
from dashboard.widgets.open_dialog import draw_dialog, find_open_dialog, forget_dialog
from dashboard.widgets.tables import draw_columns, draw_table, number_column
from engine.errors import FrontierError
from engine.evaluation.export_decoder import export_all
from engine.progress import counted, shorten
from engine.values import replace_surrogates
from engine.wording import visible

OTHER_KEY, VIEW_KEY, NAME_KEY, RENAME_KEY = ("snapshot.other", "snapshot.picked", "snapshot.name", "snapshot.rename")
OUTCOME_KEY = "snapshot.said"
"""Session key of the last step's outcome: (success, text)."""
LINK, EXPORT, REPORT = "Link to this page", "Code, results and metrics", "Report"
LIVE, VIEWS = "Live page", "Saved views"
MAX_COMPARED_ROWS = 10
COMPARE_COLUMNS = ("Setting", "Decoder", "Metric", "Difference", "Document", "Title", "Where")
"""A saved view may have one of these names too, but a table's columns must differ."""


def draw_menu(loaded: Loaded, question: Question | None) -> None:
    """Draw the Share menu in the header, and the dialog that was chosen in it.

    question: the current query, None without one
    """
    # Without a query there is nothing to export; measuring and a live page need all documents here.
    has_documents = loaded.reach is None
    is_offered = {EXPORT: question is not None, REPORT: has_documents, LIVE: question is not None and has_documents}
    options = [name for name in (LINK, EXPORT, REPORT, LIVE, VIEWS) if is_offered.get(name, True)]
    chosen = st.menu_button("Share", options, icon=":material/ios_share:", key="header.share")
    dialog = chosen or find_open_dialog()
    if dialog == LINK:
        draw_dialog(LINK, LINK, draw_link, loaded)
    elif dialog == EXPORT and question is not None:
        draw_dialog(EXPORT, EXPORT, draw_export, loaded, question, width="large")
    elif dialog == REPORT:
        draw_dialog(REPORT, REPORT, draw_report, loaded)
    elif dialog == LIVE and question is not None:
        draw_dialog(LIVE, LIVE, draw_live_page, loaded, question)
    elif dialog == VIEWS:
        if chosen:
            # A message of an earlier time would be misleading.
            st.session_state.pop(OUTCOME_KEY, None)
        draw_dialog(VIEWS, VIEWS, draw_snapshots, loaded, question, width="large")


def draw_link(loaded: Loaded) -> None:
    """Draw the dialog with the link to the current view, and words that say what the link restores."""
    base = st.context.url or "http://localhost:8501"
    try:
        address = build_url(base, get_link_params(loaded))
    except FrontierError as error:
        st.warning("This view is too long for a link.", icon=":material/link_off:")
        st.text(error.finding[:1].upper() + error.finding[1:] + ".")
        return
    st.code(address, language=None, wrap_lines=True)
    draw_copy_button("Copy link", address, "share.copy")
    state = get_state(loaded)
    decoders = counted(len(state.decoders), "decoder")
    content = f", {decoders} and settings of Trade-off" if state.tradeoff else f" and {decoders}"
    st.text(f"Opens this page with the same query, k, pool{content}. Viewers are warned if the corpus has changed.")
    # Votes move the documents of `loaded`; without any it is its own origin.
    omitted = "" if loaded is loaded.origin else " and votes"
    st.caption(
        f"Documents{omitted} are not included. Only works for people who can reach this server "
        f"({urlsplit(base).hostname})."
    )


def draw_export(loaded: Loaded, question: Question) -> None:
    """Draw the dialog that exports a decoder as code, and all decoders' results for the query as files."""
    decoders = setting.get_decoders()
    if not decoders:
        st.info("Choose a decoder on Explore to export its code and results.")
        return
    names = list(decoders)
    # The last one by default: people rarely export the baseline.
    titles = {name: setting.format_title(decoder) for name, decoder in decoders.items()}
    name = st.selectbox("Decoder", names, len(names) - 1, format_func=titles.__getitem__, key="export.decoder")
    # The code retrieves a pool that is large enough for the same documents.
    with st.spinner("Measuring how many candidates it needs"):
        depth = measure_pool_depth(loaded.origin, decoders[name], question.k)
    context = trained.export_context(loaded, question.k, query=question.text, pool=depth)
    snippets = export_all(decoders[name], context)
    if loaded is not loaded.origin:
        st.text("The code searches the original embeddings; the files include the effect of votes.")
    for tab, snippet in zip(st.tabs([each.title for each in snippets]), snippets, strict=True):
        if snippet.possible:
            tab.code(snippet.text, language=snippet.language)
        else:
            tab.text(snippet.text)
    try:
        with st.spinner("Retrieving"):
            results = compute_results(loaded, question, decoders)
    except FrontierError as error:
        show_failure("No results to export.", error)
        return
    st.text(f"Results of {counted(len(results), 'decoder')} for this query")
    with st.container(horizontal=True):
        made_by: dict[str, Any] = {"corpus": loaded.space.corpus.name, "encoder": _describe_encoder(loaded)}
        # Without judgements no document is called relevant.
        if question.qrels is not None:
            made_by["relevant_from"] = question.qrels.relevant_from
        all_json = format_sets_json(results, get_link_params(loaded), query=question.text, k=question.k, **made_by)
        for label, file_name, mime, data in (
            ("Results, CSV", "sets.csv", "text/csv", format_sets_csv(results)),
            ("Metrics, CSV", "figures.csv", "text/csv", format_figures_csv(results)),
            ("Both, JSON", "frontier.json", "application/json", all_json),
        ):
            download_button(label, data, file_name, mime, f"export.{file_name}", icon=":material/download:")


def draw_snapshots(loaded: Loaded, question: Question | None) -> None:
    """Draw the dialog that saves the current view, and opens, compares and deletes saved views.

    question: the current query, without which there is nothing to save
    """
    with st.container(horizontal=True, vertical_alignment="bottom"):
        st.text_input("Name", key=NAME_KEY, placeholder="For example: before tuning", disabled=question is None)
        save_options: dict[str, Any] = {
            "type": "primary",
            "disabled": question is None,
            "help": None if question is not None else "Pick a query first",
        }
        step_button("Save view", "snapshot.save", _save_snapshot, loaded, question, **save_options)
    st.caption("Everybody on this server sees saved views, with the corpus's path, and can rename and delete them.")
    saved, broken = snapshots.read_snapshots()
    for broken_file in broken:
        st.text(visible(f"Cannot be read: {broken_file}"))
    success, message = st.session_state.get(OUTCOME_KEY, (True, None))
    if not success:
        st.error("This was not done.", icon=":material/error:")
    if message is not None:
        st.text(visible(message))
    if not saved:
        st.info("No saved views yet. One keeps settings, results and metrics, to open or compare later.")
        return
    # Names may repeat: ids identify saved views.
    by_id, labels = {}, {}
    for saved_view in saved:
        by_id[saved_view.id] = saved_view
        labels[saved_view.id] = visible(f"{saved_view.name} · {saved_view.corpus} · {saved_view.when}")
    for key in (VIEW_KEY, OTHER_KEY):
        if st.session_state.get(key) not in (*by_id, None):
            del st.session_state[key]  # somebody deleted it
    snapshot = by_id[st.selectbox("Saved view", list(by_id), format_func=labels.__getitem__, key=VIEW_KEY)]
    _draw_snapshot(snapshot)
    # The one to compare with must differ from the one that is open.
    if other_ids := [snapshot_id for snapshot_id in by_id if snapshot_id != snapshot.id]:
        options: dict[str, Any] = {"format_func": labels.__getitem__, "placeholder": "Another saved view"}
        other_id = st.selectbox("Compare with", other_ids, None, key=OTHER_KEY, **options)
        if other_id is not None and other_id != snapshot.id:
            _draw_comparison(snapshot, by_id[other_id])


def _draw_snapshot(snapshot: PageSnapshot) -> None:
    """Draw what one saved view contains, and the buttons that open, rename and delete it."""
    st.text(visible(shorten(snapshot.query, 300)))
    words = ", ".join(answer.words or answer.title for answer in snapshot.answers.values()) or "no decoder"
    level = f" · relevant from grade {snapshot.state[RELEVANT.name]}" if RELEVANT.name in snapshot.state else ""
    details = f"k = {snapshot.state.get('k', '–')}{level} · {snapshot.corpus}, {snapshot.encoder}, embeddings"
    st.text(visible(f"{words} · {details} {snapshot.vectors[:8]} · Frontier {snapshot.frontier}"))
    rows = [(answer.title, *row) for answer in snapshot.answers.values() for row in answer.parameters]
    if rows:
        with st.expander("Parameters"):
            names = ("Decoder", *map(str.capitalize, PARAMETER_COLUMNS))
            # `zip` turns the rows into columns.
            columns = dict(zip(names, zip(*rows, strict=True), strict=True))
            draw_columns({name: (list(cells), None) for name, cells in columns.items()})
    # The saved state may be of an earlier version: what it cannot restore is said.
    reading = parse_link(snapshot.state)
    state = reading.state
    parts = ["the corpus", "the query", "k", "the pool", counted(len(state.decoders), "decoder")]
    parts += [counted(len(state.tradeoff), "setting") + " of Trade-off"] if state.tradeoff else []
    st.caption(f"Open restores {', '.join(parts[:-1])} and {parts[-1]}.")
    for remark in reading.remarks:
        st.text(f"Not restored: {remark}.")
    with st.container(horizontal=True):
        if st.button("Open", key="snapshot.open", type="primary"):
            reopen_state(dict(snapshot.state))
            forget_dialog()
            st.rerun()
        with st.popover("Rename"):
            st.text_input("New name", key=RENAME_KEY, placeholder=visible(snapshot.name))
            step_button("Rename", "snapshot.renamed", _rename_snapshot, snapshot.id)
        with st.popover("Delete"):
            st.text("This deletes it for everybody on this server.")
            step_button("Delete", "snapshot.deleted", _delete_snapshot, snapshot, type="primary")


@contextmanager
def _record_errors() -> Iterator[None]:
    """Catch an error of a callback and store it for the dialog, which draws it in the next run.

    As a decorator it wraps the callback.
    """
    try:
        yield
    except FrontierError as error:
        st.session_state[OUTCOME_KEY] = (False, error.finding)
    # The folder of snapshots may be read-only.
    except OSError as error:
        st.session_state[OUTCOME_KEY] = (False, f"{snapshots.get_folder()}: {error.strerror or error}")


@_record_errors()
def _save_snapshot(loaded: Loaded, question: Question) -> None:
    """Save the current view under the typed name; for a callback."""
    snapshot = snapshots.save(_take_snapshot(st.session_state.get(NAME_KEY, ""), loaded, question))
    st.session_state[OUTCOME_KEY] = (True, f"✓ Saved: {snapshot.name}")
    # The saved view is selected, and the field is empty for the next name.
    st.session_state[VIEW_KEY] = snapshot.id
    st.session_state[NAME_KEY] = ""


@_record_errors()
def _rename_snapshot(snapshot_id: str) -> None:
    """Give a saved view the typed name; for a callback."""
    snapshot = snapshots.rename_snapshot(snapshot_id, st.session_state.get(RENAME_KEY, ""))
    st.session_state[OUTCOME_KEY] = (True, f"✓ Renamed: {snapshot.name}")
    st.session_state[RENAME_KEY] = ""


@_record_errors()
def _delete_snapshot(snapshot: PageSnapshot) -> None:
    """Delete a saved view; for a callback."""
    snapshots.delete_snapshot(snapshot.id)
    st.session_state[OUTCOME_KEY] = (True, f"✓ Deleted: {snapshot.name}")


def _take_snapshot(name: str, loaded: Loaded, question: Question) -> PageSnapshot:
    """Return the current page as a snapshot with its settings, results and metrics, not saved yet.

    name: as typed. Raises FrontierError if a decoder cannot run or the name is empty.
    """
    space, answers = loaded.space, {}
    for result in compute_results(loaded, question, setting.get_decoders()):
        documents = tuple(map(attrgetter("id", "title"), result.rows))
        details = result.figures, result.words, result.parameters
        answers[result.name] = SavedAnswer(result.title, result.setting, documents, *details)
    return snapshots.make_snapshot(
        name,
        state=get_link_params(loaded),
        corpus=replace_surrogates(space.corpus.name),
        digest=space.corpus.digest,
        vectors=space.embeddings.digest,
        encoder=_describe_encoder(loaded),
        query=question.text,
        answers=answers,
    )


def _describe_encoder(loaded: Loaded) -> str:
    """Describe in words where the embeddings come from: encoder, trained or not, moved by votes or not."""
    encoder, origin = loaded.space.encoder, loaded.origin
    made_by = "own vectors" if encoder is None else f"{encoder.name} {encoder.dtype}"
    made_by += f", trained: {origin.training}" if origin.training else ""
    return made_by + ("" if loaded is origin else ", moved by votes")


def _draw_comparison(*pair: PageSnapshot) -> None:
    """Draw how two saved views differ in settings, metrics and results, the older one first."""
    older, newer = sorted(pair, key=lambda snapshot: snapshot.made)
    if difference := snapshots.describe_difference(older, newer):
        st.warning("These views are not of the same corpus and vectors.", icon=":material/warning:")
        st.text(difference)
    # Names are the columns' titles.
    older_name, newer_name = older.name, newer.name
    # A data frame with equal column names cannot be drawn.
    if older_name in COMPARE_COLUMNS or newer_name in COMPARE_COLUMNS or older_name == newer_name:
        older_name, newer_name = f"{older_name} (older)", f"{newer_name} (newer)"
    settings_tab, metrics_tab, sets_tab = st.tabs(["Settings", "Metrics", "Results"])
    with settings_tab:
        if settings := snapshots.compare_settings(older, newer):
            _draw_compared(pd.DataFrame(settings, columns=["Setting", older_name, newer_name]), "compare.settings")
        else:
            st.info("Same settings")
    with metrics_tab:
        if metrics := snapshots.compare_metrics(older, newer):
            number = number_column("%.3f")
            signed = number_column("%+.3f", help="Newer minus older")
            frame = pd.DataFrame(metrics, columns=["Decoder", "Metric", older_name, newer_name, "Difference"])
            _draw_compared(frame, "compare.figures", {older_name: number, newer_name: number, "Difference": signed})
        else:
            st.info("No metrics: neither view has a decoder.")
    with sets_tab:
        _draw_set_comparison(older, newer, older_name, newer_name)


def _draw_set_comparison(older: PageSnapshot, newer: PageSnapshot, older_name: str, newer_name: str) -> None:
    """Draw which documents two decoders share, one chosen from each saved view, with their ranks."""
    if not (older.answers and newer.answers):
        st.info("No results to compare: one view has no decoder.")
        return
    # The last decoder of both views is compared by default.
    common_names = [name for name in older.answers if name in newer.answers]
    answers = []
    columns = zip(st.columns(2), ("Older", "Newer"), (older, newer), (older_name, newer_name), strict=True)
    for position, (column, age_title, snapshot, label) in enumerate(columns):
        titles = {name: answer.title for name, answer in snapshot.answers.items()}
        with column:
            name = st.selectbox(
                f"{age_title}: decoder",
                list(titles),
                list(titles).index(common_names[-1]) if common_names else 0,
                format_func=titles.__getitem__,
                key=f"compare.set.{position}.{snapshot.id}",
            )
            answers.append(snapshot.answers[name])
            st.text(f"{label}: {snapshot.answers[name].setting}")
    rows = snapshots.compare_sets(*answers)
    counts = Counter(map(itemgetter(-1), rows))
    only_counts = f"{counts[OLDER_ONLY]} {OLDER_ONLY}, {counts[NEWER_ONLY]} {NEWER_ONLY}"
    st.text(f"{counts[IN_BOTH]} in both, {only_counts}")
    ranks = [f"# {older_name}", f"# {newer_name}"]
    frame = pd.DataFrame(rows, columns=["Document", "Title", *ranks, "Where"])
    # Ranks are whole numbers, or missing, which plain integers cannot be.
    _draw_compared(frame.astype(dict.fromkeys(ranks, "Int64")), "compare.sets")


def _draw_compared(frame: pd.DataFrame, key: str, columns: dict[str, Any] | None = None) -> None:
    """Draw a table of a comparison; columns: settings of single columns."""
    draw_table(frame, columns, key=key, max_rows=MAX_COMPARED_ROWS, placeholder="–")
