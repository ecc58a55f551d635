"""Labelled queries for a corpus without any: passages of its documents, to be found again."""

from dataclasses import replace

import engine
from dashboard.services import jobs
from dashboard.services.jobs import Job
from dashboard.services.memo import Memo
from dashboard.services.source import Loaded
from engine.data.cloze import COUNT
from engine.values import Dataset

NAME = "Passages of this corpus"
SPLIT = "passages"
"""The split of these queries."""
AT_ONCE = 5_000_000
"""Characters of a corpus that are searched while the page is drawn; a job searches more."""
_MADE: Memo[str, Dataset] = Memo(3)


def offered(loaded: Loaded) -> bool:
    """Whether passages can stand in: nothing is judged, and an encoder can embed queries."""
    return not loaded.dataset.qrels and loaded.space.encoder is not None


def available(loaded: Loaded) -> Dataset | None:
    """The task of a corpus, None where making it takes a job. Raises FrontierError: no document has words enough."""
    digest = loaded.space.corpus.digest
    if digest not in _MADE and sum(map(len, loaded.dataset.corpus.texts)) <= AT_ONCE:
        with jobs.turn():
            make(loaded)
    return _MADE.get(digest)


def make(loaded: Loaded, job: Job | None = None) -> Dataset:
    """Choose the passages of a corpus, and keep them."""
    corpus = loaded.dataset.corpus
    progress, stop = (None, None) if job is None else (job.report, job.stop)
    task: Dataset = engine.containing_passages(corpus, COUNT.default, distractors=0, progress=progress, stop=stop)
    _MADE[corpus.digest] = task
    return task


def with_passages(loaded: Loaded, task: Dataset) -> Loaded:
    """The same corpus and vectors with passages as its labelled queries, whose vectors come on demand."""
    qrels = {SPLIT: next(iter(task.qrels.values()))}
    return replace(
        loaded, dataset=replace(loaded.dataset, queries=task.queries, qrels=qrels, aspects=None), queries=None
    )
