"""The map of a corpus, made by a job that all sessions share; a quick one until it is ready."""

import hashlib
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import streamlit as st

from dashboard.charts.map import MAP_PX, plot_backdrop
from dashboard.components.live_plot import Backdrop
from dashboard.services.jobs import Job, SharedJobs
from dashboard.services.memo import get_or_compute
from dashboard.services.source import Loaded
from dashboard.session.query import Question
from dashboard.widgets.job_panel import SharedPanel, draw_running
from dashboard.widgets.skeleton import draw_boxes, format_skeleton
from engine.maps import layout as maps
from engine.maps.clusters import Clusters, find_clusters, title_prefix
from engine.maps.density import estimate_density
from engine.progress import shorten
from engine.space import Space
from engine.views.colouring import Groups, Numbers, colouring
from engine.views.drift_map import trajectories
from engine.views.names import name_document
from engine.wording import visible

MAP_WAYS = {"t-SNE": "tsne", "PCA": "pca"}
QUICK_METHOD = "pca"
"""Method of the map that is displayed until a slower one is ready."""
N_NEAREST = 10
MAX_MAPS = 6
MAX_PLACES = 64
"""Query positions in a session's cache."""
MAX_MOVED = 200
"""Documents that feedback moved most, which are drawn where they are now."""
WAIT_SECONDS, QUICK_WAIT_SECONDS = 0.15, 0.5
"""Seconds that a page waits for a map, as PCA and stored maps come at once; and for the quick one."""
MAP_PROGRESS_PX = 144
"""Height of the progress above the box that stands for the map, with the gap between both."""
NO_COLOUR, CLUSTER_COLOUR = "None", "Cluster"
"""Colourings besides those by a metadata column."""


@dataclass(frozen=True)
class CorpusMap:
    """Map of a corpus: a point in the plane for each document, where similar ones are close together."""

    layout: maps.Layout
    fidelity: float  # share of a document's nearest neighbours that it preserves
    clusters: Clusters
    prefix: str  # common beginning of all titles


_MAPS: SharedJobs[tuple[str, str, str]] = SharedJobs(MAX_MAPS)


def get_map(loaded: Loaded, method: str) -> CorpusMap | None:
    """Return the map of a corpus; while a job computes it, draw its progress and return a rough one.

    method: "tsne" or "pca"; the rough one is by "pca", None if even that is not ready: the progress then has the map's
    height
    """
    panel, slot = _map_panel(loaded, method), st.empty()
    if panel.job is None:
        # Before the job starts: what it imports holds the page up for seconds.
        slot.html(format_skeleton(((1, MAP_PX),), text="Laying out the documents"))
        panel.start_job()
        # Stored maps come at once, and need no rough one.
        _wait_briefly(panel.job, WAIT_SECONDS)
    has_map = panel.job is not None and panel.job.result is not None
    rough_job = None if has_map or method == QUICK_METHOD else _start_rough_map(loaded)
    # Read once: it may arrive while the page is drawn.
    rough_map: CorpusMap | None = None if rough_job is None else rough_job.result
    if rough_map is None:
        panel = replace(panel, draw_waiting=partial(_draw_place, rough_job))
    slot.empty()
    corpus_map = panel.draw_until_result()
    is_stopped = panel.job is None or not panel.job.is_active
    if corpus_map is None and rough_map is None and rough_job is not None and rough_job.is_active and is_stopped:
        # A person who stopped the slow map still gets the rough one.
        draw_running(rough_job, None)
    return rough_map if corpus_map is None else corpus_map


def _start_rough_map(loaded: Loaded) -> Job | None:
    """Start the job of the rough map unless it has run, and wait for it a moment; return it."""
    panel = _map_panel(loaded, QUICK_METHOD)
    if panel.job is None:
        panel.start_job()
    # PCA takes a fraction of a second, so the page mostly has a map at once.
    _wait_briefly(panel.job, QUICK_WAIT_SECONDS)
    return panel.job


def _wait_briefly(job: Job | None, seconds: float) -> None:
    """Wait until a job ends, but no longer than so many seconds."""
    if job is not None:
        job.join(seconds)


def _draw_place(rough_job: Job | None) -> None:
    """Draw a box below the progress, with which it is as high as the map; the page anew once a rough map is there."""
    if rough_job is not None and rough_job.result is not None:
        st.rerun()
    draw_boxes(((1, MAP_PX - MAP_PROGRESS_PX),))


def _map_panel(loaded: Loaded, method: str) -> SharedPanel[CorpusMap]:
    """Return the panel (job, progress and buttons) that computes a map of a corpus for all sessions.

    method: of projection into the plane, "tsne" or "pca"
    """
    corpus = loaded.space.corpus

    def compute_map(job: Job) -> CorpusMap:
        """Place the documents on the map, measure how faithful it is, and find named clusters."""
        layout = maps.layout(loaded.space, method, progress=job.report, stop=job.stop)
        fidelity = maps.measure_fidelity(layout, loaded.space, N_NEAREST)
        return CorpusMap(layout, fidelity, find_clusters(layout, corpus), title_prefix(corpus.titles))

    return SharedPanel(
        purpose="map",
        key=(loaded.space.embeddings.digest, corpus.digest, method),
        title=f"map of {loaded.source.name}",
        work=compute_map,
        shared_jobs=_MAPS,
        resume_label="Run",
        caption="Computed once per corpus",
        failed_text="The map cannot be made.",
    )


def find_moved(loaded: Loaded, layout: maps.Layout) -> dict[int, np.ndarray]:
    """Return where the documents that feedback has moved are on the map, row → (2,); {} without feedback.

    layout: map of the corpus as it was embedded, which a vote leaves as it is
    """

    def trace() -> dict[int, np.ndarray]:
        """Follow the documents that moved most from their vectors as embedded to the present ones."""
        states = [(1, loaded.space.matrix.on_cpu.numpy())]
        paths = trajectories(layout, loaded.origin.space, states, MAX_MOVED)
        return dict(zip(paths.rows.tolist(), paths.points[-1], strict=True))

    if loaded.embedded is None:
        return {}
    return get_or_compute("map.moved", (layout.digest, loaded.space.embeddings.digest), trace, max_entries=2)


def name_clusters(chart: CorpusMap) -> dict[str, Any]:
    """Return a map's clusters (place, size, name) and the common beginning of titles, for the overlay's script."""
    clustering, named_clusters = chart.clusters, []
    for centre, size, name in zip(
        clustering.centres.tolist(), clustering.sizes.tolist(), clustering.names, strict=True
    ):
        if name:
            named_clusters.append([*centre, size, shorten(name, 28)])
    return {"clusters": named_clusters, "prefix": chart.prefix}


def move_documents(corpus_map: CorpusMap, moved: dict[int, np.ndarray]) -> CorpusMap:
    """Return the map with some documents elsewhere, row → (2,): all others, and the clusters' names, stay."""
    layout = corpus_map.layout
    # A map of a sample lacks some of them: those are drawn by the overlay alone.
    moved_rows = np.array(sorted(set(layout.rows.tolist()).intersection(moved)), np.int64)
    if not len(moved_rows):
        return corpus_map
    points = layout.points.copy()
    points[np.searchsorted(layout.rows, moved_rows)] = np.stack([moved[row] for row in moved_rows.tolist()])
    return replace(corpus_map, layout=replace(layout, points=points))


def query_digest(question: Question) -> str:
    """Return a digest of a query's vector."""
    return hashlib.sha256(question.vector.numpy().tobytes()).hexdigest()


def place_query(space: Space, question: Question, layout: maps.Layout) -> np.ndarray:
    """Return the query's position on the map of the documents, which stay where they are, (2,)."""
    key = (layout.digest, query_digest(question))
    return get_or_compute("placed", key, lambda: maps.place(layout, space, question.vector.unsqueeze(0))[0], MAX_PLACES)


def describe_map(layout: maps.Layout) -> str:
    """Describe the projection and its parameters in words."""
    return "PCA" if layout.perplexity is None else f"t-SNE, perplexity {layout.perplexity:g}, seed {layout.seed}"


def build_backdrop(loaded: Loaded, corpus_map: CorpusMap, dark: bool, colour: str = NO_COLOUR) -> Backdrop:
    """Build the picture of all documents on a map, which the browser fetches once, below any chart.

    colour: NO_COLOUR, CLUSTER_COLOUR, or a column of the corpus's metadata; dark: for a dark page
    """
    # The digest covers everything drawn, so that the browser may keep the picture.
    layout, corpus = corpus_map.layout, loaded.space.corpus
    values = corpus.metadata.get(colour, ())
    digest_parts = (layout.digest, corpus.digest, str(dark), colour, *values)
    row_ids = layout.rows.tolist()

    def group_colours() -> Groups | Numbers | None:
        """Return the groups or numbers by which the map colours documents; None for grey."""
        if colour == CLUSTER_COLOUR:
            return Groups(tuple(map(visible, corpus_map.clusters.names)), corpus_map.clusters.of)
        return colouring([visible(values[row]) for row in row_ids]) if values else None

    def draw_documents() -> Any:
        """Draw the picture; called only if the server does not have one of this digest yet."""
        names = [name_document(loaded.space.corpus, row_id) for row_id in row_ids]
        return plot_backdrop(layout.points, row_ids, names, dark, estimate_density(layout.points), group_colours())

    digest = hashlib.sha256("\0".join(digest_parts).encode("utf-8", "replace")).hexdigest()[:32]
    return Backdrop(digest, draw_documents)
