"""Parts of several pages: the wait for a corpus, its chip, headings, sizes, notices."""

import re
from html import escape
from typing import Any

import streamlit as st

from dashboard.services import corpora, jobs
from dashboard.services.source import Loaded, Source
from dashboard.session import address
from dashboard.widgets.job_panel import draw_end, draw_running
from engine.progress import counted
from engine.wording import visible

CACHED_CAPTION = "Embeddings are cached. The next start takes seconds."


def wait_for_corpus(source: Source) -> Loaded | None:
    """Return a corpus once a job has loaded it; until then draw the progress or the error, return None.

    The job starts if there is none. After an error or a stop the page offers another try, or another corpus.
    """
    job = corpora.get_loading_job(source)
    # The state is read before the result: a job may end in between.
    is_running = job.running and not jobs.runs_for_others_only(job)
    loaded = corpora.get_loaded(job, source)
    if loaded is not None:
        return loaded
    st.title("Frontier")
    st.text("See what diversity costs in relevance — on your own corpus.")
    if is_running:
        # The demos' vectors came with Frontier; any other corpus is embedded in its first load.
        is_included = source.path in corpora.DEMOS
        caption = "Demo vectors are included; loading takes seconds." if is_included else CACHED_CAPTION
        draw_running(job, "corpus.cancel", title=f"Loading {source.name}", caption=caption, to_end=True)
        return None
    draw_end(job, "This corpus cannot be loaded.", "Stopped. Progress is saved.")
    retry_column, other_column = st.columns([1, 5])
    retry_column.button("Retry" if job.error else "Resume", on_click=corpora.drop_load, args=(source, job))
    if source.trained:
        other_column.button("Use the encoder's own", on_click=address.switch_source, args=(source.without_training,))
    elif source != (start_source := corpora.get_start_source()):
        other_column.button("Back to the first corpus", on_click=address.switch_source, args=(start_source,))
    return None


def as_label(text: str) -> str:
    """Escape a text for use as a label: Streamlit reads labels as Markdown with icons between colons."""
    # The zero-width space breaks Streamlit's icon syntax without changing the text.
    return re.sub(r"([\\`*_\[\]<>$~&#|])", r"\\\1", visible(text)).replace(":", ":\u200b")


def draw_method_heading(method_name: str, title: str) -> None:
    """Draw the title of a method or another system, with its symbol and colour from the charts."""
    from dashboard.charts.palette import method_style  # imports torch, which a page that still waits must not

    style = method_style(method_name)
    st.html(
        f'<span style="color: light-dark({style.light}, {style.dark}); font-size: 1.2rem">{style.sign}</span> '
        f"<strong>{escape(title)}</strong>"
    )


def draw_corpus_chip(loaded: Loaded, n_learned: int | None = None) -> None:
    """Draw the facts of the open corpus: name, size, dimension, fingerprint, number of votes.

    n_learned: votes and other feedback that have moved its vectors, None with live feedback off
    """
    space = loaded.origin.space
    encoder = space.encoder
    # Names are text and figures are captions: a name may hold what Markdown would format.
    location = space.device.type if loaded.reach is None else f"in {loaded.reach.ref.kind}"
    level = f"  \nrelevant from grade {loaded.source.relevant}" if loaded.source.relevant > 1 else ""
    level += f"  \njudgements declared {loaded.source.judgements}" if loaded.source.judgements != "auto" else ""
    with st.container(border=True):
        st.text(space.corpus.name)
        encoder_text = (
            "own vectors" if encoder is None else f"{corpora.format_encoder_name(encoder.name)}, {encoder.dtype}"
        )
        st.caption(
            f"{counted(loaded.size, 'document')} · {space.embeddings.dimension} dimensions · {location}  \n"
            f"{encoder_text} · fingerprint `{space.embeddings.digest[:8]}`{level}"
        )
        if loaded.origin.training:
            st.text(f"trained: {loaded.origin.training}")
        if n_learned is not None:
            adapted_digest = loaded.space.embeddings.digest[:8]
            st.caption(f"moved by {counted(n_learned, 'vote')}  \nΘ_t `{adapted_digest}`")


def format_bytes(n_bytes: float) -> str:
    """Format bytes as 12 kB, 3.4 MB or 1.2 GB."""
    if n_bytes < 1e6:
        return f"{n_bytes:.0f} B" if n_bytes < 1000 else f"{n_bytes / 1000:.0f} kB"
    return f"{n_bytes / 1e6:.1f} MB" if n_bytes < 1e9 else f"{n_bytes / 1e9:.1f} GB"


def draw_notices(dataset: Any) -> None:
    """Draw what the reader of the corpus has to say, as plain text, as it quotes ids."""
    from engine.data.encoders import SHIPPED_REMARK  # imports torch, which a page that still waits must not

    for notice in dataset.notices:
        # Vectors that came with Frontier are a fact and no fault of the corpus; the notice quotes nothing.
        if notice.remark == SHIPPED_REMARK:
            st.caption(f":material/info: {notice}")
        else:
            st.text(f"⚠ {notice.finding}")
