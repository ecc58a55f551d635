"""The map of a corpus, made by a job that all sessions share; a quick one until it is there."""

import hashlib

import numpy as np

from dashboard.charts.map import map_backdrop
from dashboard.components.live_plot import Backdrop
from dashboard.services.jobs import Job, SharedJobs
from dashboard.services.memo import remembered
from dashboard.services.source import Loaded
from dashboard.session.query import Question
from dashboard.widgets.job_panel import SharedPanel
from engine.maps import layout as maps
from engine.space import Space
from engine.values import replace_surrogates

WAYS = {"t-SNE": "tsne", "PCA": "pca"}
QUICK = "pca"
"""What stands in until a slower map is there."""
NEAREST = 10
MOST_MAPS = 6
MOST_QUERIES = 64
"""Places of queries in a session's memory."""
PATIENCE, QUICK_WAIT = 0.15, 2.0
"""Seconds that a page waits for a map, as PCA and what lies on the disk come at once; and for the quick one."""
_MAPS: SharedJobs[tuple[str, str]] = SharedJobs(MOST_MAPS)


def layout_of(loaded: Loaded, way: str) -> tuple[maps.Layout, float] | None:
    """The map and how much of the neighbourhoods it keeps; until it is there how far it is, and a quick one."""
    result = _panel(loaded, way).result()
    if result is None:
        quick = _panel(loaded, QUICK)
        job = quick.job or quick.begin()
        job.join(QUICK_WAIT)
        result = job.result
    return result


def _panel(loaded: Loaded, way: str) -> SharedPanel[tuple[maps.Layout, float]]:
    def work(job: Job) -> tuple[maps.Layout, float]:
        layout = maps.layout(loaded.space, way, progress=job.report, stop=job.stop)
        return layout, maps.fidelity(layout, loaded.space, NEAREST)

    return SharedPanel(
        purpose="map",
        key=(loaded.space.embeddings.digest, way),
        title=f"map of {loaded.source.path}",
        work=work,
        shared=_MAPS,
        again="Make the map",
        patience=PATIENCE,
        caption="A map is made once for a corpus, and kept.",
        failed="The map cannot be made.",
    )


def query_place(space: Space, question: Question, layout: maps.Layout) -> np.ndarray:
    """(2,) the query's place; nothing else moves for it."""
    key = (layout.digest, hashlib.sha256(question.vector.numpy().tobytes()).hexdigest())
    return remembered("placed", key, lambda: maps.place(layout, space, question.vector.unsqueeze(0))[0], MOST_QUERIES)


def describe(layout: maps.Layout) -> str:
    """The projection and its parameters in words."""
    return "PCA" if layout.perplexity is None else f"t-SNE, perplexity {layout.perplexity:g}, seed {layout.seed}"


def document_name(loaded: Loaded, row: int) -> str:
    corpus = loaded.space.corpus
    return replace_surrogates(corpus.titles[row] or corpus.texts[row][:80] or corpus.ids[row])


def backdrop(loaded: Loaded, layout: maps.Layout, dark: bool) -> Backdrop:
    """All documents of a layout, drawn once below whatever a chart adds."""
    digest = hashlib.sha256(f"{layout.digest} {loaded.space.corpus.digest} {dark}".encode()).hexdigest()[:32]
    rows = layout.rows.tolist()
    return Backdrop(
        digest, lambda: map_backdrop(layout.points, rows, [document_name(loaded, row) for row in rows], dark)
    )
