"""Labelled queries for a corpus without any: passages of its documents, to be found again."""

from dataclasses import replace

import engine
from dashboard.services import jobs
from dashboard.services.jobs import Job
from dashboard.services.memo import Memo
from dashboard.services.source import Loaded
from engine.data.cloze import COUNT, PASSAGES_SPLIT
from engine.values import Dataset

PASSAGES_TITLE = "Passages of this corpus"
MAX_PAGE_CHARACTERS = 5_000_000
"""Characters of a corpus that are searched while the page is drawn; a job searches more."""
_PASSAGE_TASKS: Memo[str, Dataset] = Memo(3)


def can_make(loaded: Loaded) -> bool:
    """Return True if passages can serve as labelled queries: nothing is judged, and there is an encoder."""
    return not loaded.dataset.qrels and loaded.space.encoder is not None


def find_task(loaded: Loaded) -> Dataset | None:
    """Return passages of a corpus as labelled queries, made now if that is quick; None if a job has to.

    Each passage is a query whose right answer is the document that contains it. Raises FrontierError if no document
    has enough words.
    """
    digest = loaded.space.corpus.digest
    # A long corpus would block the page, so a job searches it.
    if digest not in _PASSAGE_TASKS and sum(map(len, loaded.dataset.corpus.texts)) <= MAX_PAGE_CHARACTERS:
        with jobs.limit_page_computations():
            make_task(loaded)
    return _PASSAGE_TASKS.get(digest)


def make_task(loaded: Loaded, job: Job | None = None) -> Dataset:
    """Choose passages of a corpus as labelled queries, whose answers are the documents with them; cached.

    job: the job that this runs in, None while a page waits
    """
    corpus = loaded.dataset.corpus
    progress, stop = (None, None) if job is None else (job.report, job.stop)
    task: Dataset = engine.containing_passages(corpus, COUNT.default, distractors=0, progress=progress, stop=stop)
    _PASSAGE_TASKS[corpus.digest] = task
    return task


def has_passages(loaded: Loaded) -> bool:
    """Return True if the labelled queries of a corpus are passages of its own texts."""
    task = _PASSAGE_TASKS.get(loaded.space.corpus.digest)
    return task is not None and loaded.dataset.queries is task.queries


def swap_queries(loaded: Loaded, task: Dataset) -> Loaded:
    """Return the corpus with passages of its texts as labelled queries, which are embedded when needed.

    task: the passages, with the documents that contain them as right answers, of a single split
    """
    qrels = {PASSAGES_SPLIT: next(iter(task.qrels.values()))}
    dataset = replace(loaded.dataset, queries=task.queries, qrels=qrels, aspects=None)
    return replace(loaded, dataset=dataset, queries=None)
