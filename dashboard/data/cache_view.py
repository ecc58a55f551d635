"""The cache on disk: its items, their state, and their deletion."""

from collections.abc import Sequence
from datetime import datetime

import streamlit as st

from dashboard.services import corpora, jobs, roots, training_runs, uploads
from dashboard.services.trained import TRAINED_SECTION as TRAINED
from dashboard.widgets.basics import step_button
from dashboard.widgets.choices import select
from dashboard.widgets.common import format_bytes
from dashboard.widgets.tables import draw_table
from engine.data import inventory
from engine.data.inventory import Item
from engine.errors import FrontierError
from engine.paths import home, storage_warning
from engine.progress import counted, format_duration

ALL_SECTIONS = "Everything"
SECTION_TITLES = {
    "codes": "8-bit codes of vectors in files",
    "probes": "Precision tests",
    TRAINED: "Trained embeddings",
    inventory.STORE_SECTION: "Sweeps and stores",
    inventory.CODE_SECTION: "Compiled code",
}
RECOMPUTED_TEXT = "are recomputed when needed"
LOSS_TEXTS = {
    "uploads": "have to be uploaded again",
    TRAINED: "have to be trained again, and links to them stop working",
    inventory.STORE_SECTION: "are lost: sweeps are measured again",
    inventory.CODE_SECTION: "is compiled again once, in about a minute",
}
MAX_CACHE_ROWS = 10
SECONDS_PER_MINUTE, SECONDS_PER_DAY = 60, 86_400
CACHE_TABLE_KEY, CACHE_MESSAGE_KEY = "data.cache.picked", "data.cache.said"


def draw() -> None:
    """Draw sections with their bytes, their items, and the buttons that delete."""
    items = inventory.list_items()
    n_free = inventory.count_free_bytes()
    used_text = format_bytes(inventory.count_bytes(items))
    left_column, right_column = st.columns(2, gap="large")
    with left_column:
        st.subheader("Cache")
        st.text(f"{used_text} used" + (f" · {format_bytes(n_free)} free on this disk" if n_free is not None else ""))
        section = ALL_SECTIONS
        if not roots.get_rules().shared:
            st.code(str(home()), language=None)
            sections = [ALL_SECTIONS, *dict.fromkeys(item.section for item in items)]
            section = select("Section", sections, "data.cache.section", format_func=_section_title)
        if problem := storage_warning():
            st.text("⚠ Nothing new is kept on this server's disk." if roots.get_rules().shared else f"⚠ {problem}")
        if message := st.session_state.pop(CACHE_MESSAGE_KEY, None):
            st.text(message)
    if not items:
        st.info("The cache is empty. Embeddings are kept here.", icon=":material/inventory_2:")
        return
    with right_column:
        _draw_sections(items)
    rows = [item for item in items if section in (ALL_SECTIONS, item.section)]
    if roots.get_rules().shared:
        # Items are made by all who can reach the server, and reveal what they worked on.
        rows = [item for item in rows if item.section == uploads.UPLOADS_SECTION and uploads.is_own_upload(item.name)]
        if not rows:
            st.caption("Others can reach this server: each sees and deletes here what was uploaded in this window.")
            return
    ticked = _draw_items(rows, section)
    _draw_delete_buttons(ticked, rows, items, section)


def _draw_sections(items: Sequence[Item]) -> None:
    """Draw every section with its files and bytes."""
    sections = list(dict.fromkeys(item.section for item in items))
    by_section = [[item for item in items if item.section == section] for section in sections]
    table = {
        "Section": [_section_title(section) for section in sections],
        "Files": [len({path for item in section_items for path in item.files}) for section_items in by_section],
        "Size": [format_bytes(inventory.count_bytes(section_items)) for section_items in by_section],
    }
    draw_table(table, max_rows=len(sections))


def _draw_items(items: Sequence[Item], section: str) -> list[Item]:
    """Draw the items of a section; return the ticked ones."""
    timestamp = datetime.now().timestamp()
    encoders = [
        ""
        if "encoder" not in item.facts or _is_of_others(item)
        else f"{corpora.format_encoder_name(str(item.facts['encoder']))}, {item.facts.get('arithmetic')}"
        for item in items
    ]
    states = [("in use" if _is_in_use(item) else "", "incomplete" if item.missing else "") for item in items]
    table = {
        **({"Section": [_section_title(item.section) for item in items]} if section == ALL_SECTIONS else {}),
        "What": [_describe_item(item) for item in items],
        **({"Encoder": encoders} if any(encoders) else {}),
        "State": [", ".join(filter(None, state)) for state in states],
        "Last used": [_format_age(timestamp - item.used) for item in items],
        "Size": [format_bytes(item.bytes) for item in items],
    }
    event = draw_table(
        table,
        key=f"{CACHE_TABLE_KEY}.{section}.{st.session_state.get('data.cache.turn', 0)}",
        max_rows=MAX_CACHE_ROWS,
        on_select="rerun",
        selection_mode="multi-row",
        placeholder="",
    )
    return [items[row_index] for row_index in event.selection.rows if row_index < len(items)]


def _draw_delete_buttons(ticked: Sequence[Item], listed: Sequence[Item], items: Sequence[Item], section: str) -> None:
    """Draw the buttons that delete, each with a confirmation."""
    with st.container(horizontal=True, vertical_alignment="center"):
        with st.popover(f"Delete selected ({len(ticked)})" if ticked else "Delete selected", disabled=not ticked):
            _draw_confirmation(ticked, items, "ticked")
        clear_label = "Clear everything" if section == ALL_SECTIONS else "Clear this section"
        with st.popover(clear_label, disabled=not listed):
            _draw_confirmation(listed, items, "all")
    if not ticked:
        st.caption("Select rows to delete. Embeddings that two corpora share stay until both are deleted.")


def _draw_confirmation(selected: Sequence[Item], items: Sequence[Item], key_suffix: str) -> None:
    locked = [item for item in selected if _is_locked(item)]
    deleted = [item for item in selected if item not in locked]
    n_in_use = sum(_is_in_use(item) for item in deleted)
    st.text(f"{counted(len(deleted), 'entry', 'entries')}, {format_bytes(inventory.count_freed_bytes(deleted, items))}")
    for section in dict.fromkeys(item.section for item in deleted):
        st.text(f"{_section_title(section)} {LOSS_TEXTS.get(section, RECOMPUTED_TEXT)}.")
    if n_in_use:
        entries = counted(n_in_use, "entry", "entries")
        st.text(f"{entries} of a loaded corpus: it keeps working and is embedded again when reloaded.")
    if locked:
        st.text(
            "Not deleted, in use: " + ", ".join(f"{_section_title(e.section)}, {_describe_item(e)}" for e in locked[:4])
        )
    key_suffix = f"data.cache.delete.{key_suffix}"
    step_button("Delete", key_suffix, _remove_items, deleted, type="primary", disabled=not deleted)


def _remove_items(items: Sequence[Item]) -> None:
    try:
        st.session_state[CACHE_MESSAGE_KEY] = f"{format_bytes(inventory.remove_items(items))} freed"
    except FrontierError as error:
        st.session_state[CACHE_MESSAGE_KEY] = f"Some entries were not deleted: {error}"
    # A new key draws a new table: ticks of the old one would mark other rows.
    st.session_state["data.cache.turn"] = st.session_state.get("data.cache.turn", 0) + 1


def _is_locked(item: Item) -> bool:
    """Return True if an item must stay: a job uses it, or a present session sent it."""
    if item.section == uploads.UPLOADS_SECTION:
        return uploads.belongs_to_others(item.name) or _is_in_use(item)
    if item.section == TRAINED:
        return training_runs.find_training_job(item.name) is not None
    # A database may be open in any job, and recent changes may not be closed yet.
    working_jobs = [job for job in jobs.list_running_jobs() if not job.title.startswith("load ")]
    return item.is_database and (item.is_recent or bool(working_jobs))


def _is_in_use(item: Item) -> bool:
    """Return True if a corpus that is loaded or loading comes from an item."""
    if item.section == uploads.UPLOADS_SECTION:
        folder = str(home() / item.section / item.name)
        return any(source.path.startswith(folder) for source in corpora.list_sources())
    if item.section == TRAINED:
        return item.name in {source.trained for source in corpora.list_sources()}
    # Embeddings are identified by the encoder's weights and dtype, and by their texts.
    weights = item.facts.get("weights"), item.facts.get("arithmetic")
    return any(
        (encoder := loaded.space.encoder) is not None
        and (encoder.digest, encoder.dtype) == weights
        and item.facts.get("content") in (loaded.dataset.corpus.digest, loaded.dataset.queries.digest)
        for loaded in corpora.list_loaded()
    )


def _describe_item(item: Item) -> str:
    facts = item.facts
    if _is_of_others(item):
        return "from another window"
    if "texts" in facts:
        role = "documents" if facts.get("role") == "document" else "queries"
        return f"{facts['name']}, {facts['texts']:,} {role}"
    if "name" in facts:
        return str(facts["name"])
    if item.section == TRAINED and (title := training_runs.describe_training(item.name)):
        return title
    if "files" in facts:
        return str(facts["files"])
    return counted(len(item.files), "file") + (" without a label" if item.section == "embeddings" else "")


def _is_of_others(item: Item) -> bool:
    """Return True if an item was sent by another session, or computed from such an upload."""
    if item.section == uploads.UPLOADS_SECTION:
        return uploads.belongs_to_others(item.name)
    content = item.facts.get("content")
    sources = [
        corpus
        for corpus in corpora.list_loaded()
        if content in (corpus.dataset.corpus.digest, corpus.dataset.queries.digest)
    ]
    folders = [folder for corpus in sources if (folder := uploads.find_upload_folder(corpus.source.path))]
    return bool(folders) and all(map(uploads.belongs_to_others, folders))


def _section_title(section: str) -> str:
    return SECTION_TITLES.get(section, section.capitalize())


def _format_age(seconds: float) -> str:
    if seconds < SECONDS_PER_MINUTE:
        return "just now"
    return f"{format_duration(seconds)} ago" if seconds < SECONDS_PER_DAY else f"{seconds / SECONDS_PER_DAY:,.0f} d ago"
