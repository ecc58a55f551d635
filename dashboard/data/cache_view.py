"""The cache on disk: its items, their state, and their deletion."""

from collections.abc import Sequence
from datetime import datetime
from itertools import chain

import pandas as pd
import streamlit as st

from dashboard.services import corpora, jobs, roots, training_runs, uploads
from dashboard.services.source import Loaded
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
    "lengths": "Counts of long documents",
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
    """Draw the cache on disk: its sections with their sizes, the stored items, and buttons that delete.

    On a server that others can reach, only this window's uploads are listed.
    """
    items = inventory.list_items()
    n_free = inventory.count_free_bytes()
    used_text = format_bytes(inventory.count_bytes(items))
    left_column, right_column = st.columns(2, gap="large")
    with left_column:
        st.header("Cache")
        st.text(f"{used_text} used" + (f" · {format_bytes(n_free)} free on this disk" if n_free is not None else ""))
        section = ALL_SECTIONS
        if not roots.get_rules().shared:
            st.code(str(home()), language=None)
            sections = [ALL_SECTIONS, *_list_sections(items)]
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
    """Draw a table of the cache's sections (kinds of stored things) with their numbers of files and sizes."""
    rows = []
    for section in _list_sections(items):
        section_items = [item for item in items if item.section == section]
        # Items can share files, as two corpora can share embeddings.
        files = set(chain.from_iterable(item.files for item in section_items))
        rows.append((_section_title(section), len(files), format_bytes(inventory.count_bytes(section_items))))
    draw_table(pd.DataFrame(rows, columns=["Section", "Files", "Size"]), max_rows=len(rows))


def _draw_items(items: Sequence[Item], section: str) -> list[Item]:
    """Draw the items of a section of the cache (or of all) as a table; return the ticked ones."""
    timestamp = datetime.now().timestamp()
    rows = []
    for item in items:
        encoder = ""
        if "encoder" in item.facts and not _is_of_others(item):
            encoder = f"{corpora.format_encoder_name(str(item.facts['encoder']))}, {item.facts.get('arithmetic')}"
        states = ("in use" if _is_in_use(item) else "", "incomplete" if item.missing else "")
        state, age = ", ".join(filter(None, states)), _format_age(timestamp - item.used)
        rows.append((_section_title(item.section), _describe_item(item), encoder, state, age, format_bytes(item.bytes)))
    table = pd.DataFrame(rows, columns=["Section", "What", "Encoder", "State", "Last used", "Size"])
    # Columns that would say the same in every row are left out.
    if section != ALL_SECTIONS:
        del table["Section"]
    if not any(table["Encoder"]):
        del table["Encoder"]
    # The turn goes up with each deletion, as ticks of the old table would mark other rows.
    key = f"{CACHE_TABLE_KEY}.{section}.{st.session_state.get('data.cache.turn', 0)}"
    event = draw_table(
        table, key=key, max_rows=MAX_CACHE_ROWS, on_select="rerun", selection_mode="multi-row", placeholder=""
    )
    return [items[row_index] for row_index in event.selection.rows if row_index < len(items)]


def _draw_delete_buttons(ticked: Sequence[Item], listed: Sequence[Item], items: Sequence[Item], section: str) -> None:
    """Draw the buttons that delete the ticked or all listed items of the cache, each with a confirmation.

    items: all of the cache, as two may share a file
    """
    with st.container(horizontal=True, vertical_alignment="center"):
        with st.popover(f"Delete selected ({len(ticked)})" if ticked else "Delete selected", disabled=not ticked):
            _draw_confirmation(ticked, items, "ticked")
        clear_label = "Clear everything" if section == ALL_SECTIONS else "Clear this section"
        with st.popover(clear_label, disabled=not listed):
            _draw_confirmation(listed, items, "all")
    if not ticked:
        st.caption("Select rows to delete. Embeddings that two corpora share stay until both are deleted.")


def _draw_confirmation(selected: Sequence[Item], items: Sequence[Item], suffix: str) -> None:
    """Draw what deleting these items of the cache frees and costs, and the button that does it.

    items: all of the cache, as two may share a file; suffix: of the button's key
    """
    locked = list(filter(_is_locked, selected))
    deleted = [item for item in selected if item not in locked]
    n_in_use = sum(map(_is_in_use, deleted))
    st.text(f"{counted(len(deleted), 'entry', 'entries')}, {format_bytes(inventory.count_freed_bytes(deleted, items))}")
    for section in _list_sections(deleted):
        st.text(f"{_section_title(section)} {LOSS_TEXTS.get(section, RECOMPUTED_TEXT)}.")
    if n_in_use:
        entries = counted(n_in_use, "entry", "entries")
        st.text(f"{entries} of a loaded corpus: it keeps working and is embedded again when reloaded.")
    if locked:
        descriptions = (f"{_section_title(item.section)}, {_describe_item(item)}" for item in locked[:4])
        st.text(f"Not deleted, in use: {', '.join(descriptions)}")
    step_button("Delete", f"data.cache.delete.{suffix}", _remove_items, deleted, type="primary", disabled=not deleted)


def _remove_items(items: Sequence[Item]) -> None:
    """Delete items of the cache; keep a message of what was freed or failed for the page; for a callback."""
    try:
        st.session_state[CACHE_MESSAGE_KEY] = f"{format_bytes(inventory.remove_items(items))} freed"
    except FrontierError as error:
        st.session_state[CACHE_MESSAGE_KEY] = f"Some entries were not deleted: {error}"
    # A new key draws a new table: ticks of the old one would mark other rows.
    st.session_state["data.cache.turn"] = st.session_state.get("data.cache.turn", 0) + 1


def _is_locked(item: Item) -> bool:
    """Return True if an item of the cache must not be deleted: it is in use, or another visitor's upload.

    In use are an upload of a loaded corpus, a training that runs, and a database that a job may have open.
    """
    if item.section == uploads.UPLOADS_SECTION:
        return uploads.belongs_to_others(item.name) or _is_in_use(item)
    if item.section == TRAINED:
        return training_runs.find_training_job(item.name) is not None
    # A database may be open in any job but one that loads a corpus; a recent change may come from another process.
    working_jobs = [job for job in jobs.list_running_jobs() if not job.title.startswith("load ")]
    return item.is_database and (item.is_recent or bool(working_jobs))


def _is_in_use(item: Item) -> bool:
    """Return True if a corpus that is loaded or loading uses this item of the cache on disk.

    An item is an upload, trained embeddings, or embeddings of a corpus's documents or queries.
    """
    if item.section == uploads.UPLOADS_SECTION:
        folder = str(home() / item.section / item.name)
        return any(source.path.startswith(folder) for source in corpora.list_sources())
    if item.section == TRAINED:
        return item.name in {source.trained for source in corpora.list_sources()}
    # Embeddings are identified by the encoder's weights and dtype, and by their texts.
    weights = item.facts.get("weights"), item.facts.get("arithmetic")
    for loaded in corpora.list_loaded():
        encoder = loaded.space.encoder
        if encoder is not None and (encoder.digest, encoder.dtype) == weights and _holds_texts(item, loaded):
            return True
    return False


def _holds_texts(item: Item, loaded: Loaded) -> bool:
    """Return True if an item of the cache was computed from the documents or the queries of this corpus."""
    return item.facts.get("content") in (loaded.dataset.corpus.digest, loaded.dataset.queries.digest)


def _describe_item(item: Item) -> str:
    """Describe what an item of the cache on disk (embeddings, a training, an upload) holds, in words.

    What belongs to other visitors is not named.
    """
    facts = item.facts  # from the item's label; an older or damaged one may lack any of them
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
    """Return True if a cache's item came from other visitors' uploads, so that its name must not be shown."""
    if item.section == uploads.UPLOADS_SECTION:
        return uploads.belongs_to_others(item.name)
    # The corpora in memory whose texts the item is made of.
    sources = (loaded.source for loaded in corpora.list_loaded() if _holds_texts(item, loaded))
    # The folder is "" for a corpus that was not uploaded.
    folders = list(filter(None, (uploads.find_upload_folder(source.path) for source in sources)))
    # A name may be shown if this visitor, too, has uploaded one of the corpora.
    return bool(folders) and all(map(uploads.belongs_to_others, folders))


def _list_sections(items: Sequence[Item]) -> list[str]:
    """Return the sections of the cache that have items."""
    return list(dict.fromkeys(item.section for item in items))


def _section_title(section: str) -> str:
    """Return the display name of a section of the cache."""
    return SECTION_TITLES.get(section, section.capitalize())


def _format_age(seconds: float) -> str:
    """Format how long ago something was used."""
    if seconds < SECONDS_PER_MINUTE:
        return "just now"
    return f"{format_duration(seconds)} ago" if seconds < SECONDS_PER_DAY else f"{seconds / SECONDS_PER_DAY:,.0f} d ago"
