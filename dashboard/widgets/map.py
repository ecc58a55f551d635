"""The map of a corpus, made by a job that all sessions share; a quick one until it is there."""

import hashlib
from dataclasses import dataclass

import numpy as np

from dashboard.charts.map import map_backdrop
from dashboard.components.live_plot import Backdrop
from dashboard.services.jobs import Job, SharedJobs
from dashboard.services.memo import remembered
from dashboard.services.source import Loaded
from dashboard.session.query import Question
from dashboard.widgets.job_panel import SharedPanel
from engine.maps import layout as maps
from engine.maps.clusters import Clusters, find_clusters, title_prefix
from engine.maps.density import estimate_density
from engine.space import Space
from engine.views.colouring import Groups, Numbers, colouring
from engine.wording import visible

WAYS = {"t-SNE": "tsne", "PCA": "pca"}
QUICK = "pca"
"""What stands in until a slower map is there."""
NEAREST = 10
MOST_MAPS = 6
MOST_QUERIES = 64
"""Places of queries in a session's memory."""
PATIENCE, QUICK_WAIT = 0.15, 2.0
"""Seconds that a page waits for a map, as PCA and what lies on the disk come at once; and for the quick one."""
PLAIN, CLUSTER = "None", "Cluster"
"""Colours beside those by a column of the corpus' metadata."""


@dataclass(frozen=True)
class CorpusMap:
    """A map of a corpus."""

    layout: maps.Layout
    fidelity: float  # the share of a document's nearest that it keeps
    clusters: Clusters
    prefix: str  # what all titles begin with


_MAPS: SharedJobs[tuple[str, str, str]] = SharedJobs(MOST_MAPS)


def map_of(loaded: Loaded, way: str) -> CorpusMap | None:
    """The map of a corpus; until it is there how far it is, and a quick one."""
    result = _panel(loaded, way).result()
    if result is None:
        quick = _panel(loaded, QUICK)
        if quick.job is None:
            quick.begin()
        if (job := quick.job) is not None:
            job.join(QUICK_WAIT)
            result = job.result
    return result


def _panel(loaded: Loaded, way: str) -> SharedPanel[CorpusMap]:
    corpus = loaded.space.corpus

    def work(job: Job) -> CorpusMap:
        layout = maps.layout(loaded.space, way, progress=job.report, stop=job.stop)
        fidelity = maps.measure_fidelity(layout, loaded.space, NEAREST)
        return CorpusMap(layout, fidelity, find_clusters(layout, corpus), title_prefix(corpus.titles))

    return SharedPanel(
        purpose="map",
        key=(loaded.space.embeddings.digest, corpus.digest, way),
        title=f"map of {loaded.source.name}",
        work=work,
        shared=_MAPS,
        again="Run",
        patience=PATIENCE,
        caption="Computed once per corpus",
        failed="The map cannot be made.",
    )


def query_digest(question: Question) -> str:
    """Names a query by its vector."""
    return hashlib.sha256(question.vector.numpy().tobytes()).hexdigest()


def query_place(space: Space, question: Question, layout: maps.Layout) -> np.ndarray:
    """(2,) the query's place; nothing else moves for it."""
    key = (layout.digest, query_digest(question))
    return remembered("placed", key, lambda: maps.place(layout, space, question.vector.unsqueeze(0))[0], MOST_QUERIES)


def describe(layout: maps.Layout) -> str:
    """The projection and its parameters in words."""
    return "PCA" if layout.perplexity is None else f"t-SNE, perplexity {layout.perplexity:g}, seed {layout.seed}"


def document_name(loaded: Loaded, row: int) -> str:
    corpus = loaded.space.corpus
    return visible(corpus.titles[row] or corpus.texts[row][:80] or corpus.ids[row])


def backdrop(loaded: Loaded, drawn: CorpusMap, dark: bool, colour: str = PLAIN) -> Backdrop:
    """All documents of a map over contours of their density, drawn once below whatever a chart adds.

    colour: PLAIN, CLUSTER, or a column of the corpus' metadata.
    """
    layout, corpus = drawn.layout, loaded.space.corpus
    values = corpus.metadata.get(colour, ())
    words = (layout.digest, corpus.digest, str(dark), colour, *values)
    rows = layout.rows.tolist()

    def colours() -> Groups | Numbers | None:
        if colour == CLUSTER:
            return Groups(tuple(map(visible, drawn.clusters.names)), drawn.clusters.of)
        return colouring([visible(values[row]) for row in rows]) if values else None

    return Backdrop(
        hashlib.sha256("\0".join(words).encode("utf-8", "replace")).hexdigest()[:32],
        lambda: map_backdrop(
            layout.points,
            rows,
            [document_name(loaded, row) for row in rows],
            dark,
            estimate_density(layout.points),
            colours(),
        ),
    )
