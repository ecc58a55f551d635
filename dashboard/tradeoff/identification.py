"""Identification of another system from a run of it: its queries, its job, and a run to try it with."""

import engine
from dashboard.services.jobs import Job
from dashboard.services.query_vectors import embed_missing, find_query_vectors
from dashboard.services.sending import allow_typed
from dashboard.services.source import Loaded
from dashboard.session.query import find_first_split
from engine.decoder import Decoder, decode
from engine.evaluation.runs import UNANSWERED_REMARK, RankedRun
from engine.identification.identification import Identification
from engine.identification.run_lists import MAX_FURTHER_QUERIES
from engine.identification.run_vectors import find_dataset_vectors
from engine.values import Queries

IDENTIFICATION_PURPOSE = "tradeoff.identify"
MAX_LISTS = 60
"""Lists that are looked at unless a person wants all: a few dozen tell decoders apart, and each adds to the wait."""
MAX_EXAMPLE_LISTS = 200
EXAMPLE_NAME = "LangChain's MMR (example)"
EXAMPLE_WEIGHT, EXAMPLE_DEPTH, EXAMPLE_K = 0.5, 20, 5
"""LangChain's lambda_mult and fetch_k, which are its defaults, and the documents that are returned."""
FIRST_SECONDS, LIST_SECONDS = 3.0, 0.2
"""Time of an identification before its lists, and of each list on up to LIST_DOCUMENTS documents; two cores of 2024."""
LIST_DOCUMENTS = 1000
STEP_LABELS = {
    "lists": "Reading the lists, then weighing the hypotheses",
    "sample of lists": "Reading a sample of the lists",
    "hypotheses": "Weighing the hypotheses",
}
"""The engine's name of a step → the words of the page."""
STEP_SHARES = {"lists": 0.6, "hypotheses": 0.2}
"""Steps that take longest, and their share of the time, as on the demo; a later pass takes half of what is left."""
CHECK_LABEL = "Looking for losses of an index, the last step"


def can_build_example(loaded: Loaded) -> bool:
    """Return True if this corpus has queries whose vectors are at hand, by which a run can be made at once."""
    queries = _select_example_queries(loaded)
    return len(queries) > 0 and find_query_vectors(loaded, queries) is not None


def build_example_run(loaded: Loaded, job: Job | None = None) -> RankedRun:
    """Make the run that LangChain's rule of maximal marginal relevance returns for the corpus's own queries.

    The rule takes the `fetch_k` documents nearest to the query, and of those, one after the other, the document with
    the largest lambda_mult · cosine to the query − (1 − lambda_mult) · largest cosine to a document taken before. job:
    at work on it, which stops it
    """
    queries = _select_example_queries(loaded)
    vectors = find_query_vectors(loaded, queries)
    if vectors is None:
        with allow_typed():
            vectors = engine.embed_queries(loaded.space, queries)
    decoder = Decoder(engine.make("mmr", relevance_weight=EXAMPLE_WEIGHT), depth=min(EXAMPLE_DEPTH, len(loaded.space)))
    # On vectors of length 1 the cosine is the inner product, as which LangChain's utility computes it too.
    doc_ids, documents = loaded.space.corpus.ids, {}
    row_index = decode(decoder, loaded.space, vectors, EXAMPLE_K).index.tolist()
    for query_id, rows in zip(vectors.ids, row_index, strict=True):
        documents[query_id] = tuple(doc_ids[row] for row in rows if row >= 0)
    return RankedRun(EXAMPLE_NAME, documents)


def _select_example_queries(loaded: Loaded) -> Queries:
    """Return the labelled queries of the first split, or all queries of a corpus without judgements."""
    # The split that every page opens first, so that the example has a place on its frontier.
    split = find_first_split(loaded.dataset)
    queries = loaded.dataset.queries if split is None else loaded.dataset.judged(split)
    return queries.sample(MAX_EXAMPLE_LISTS)


def count_example_lists(loaded: Loaded) -> int:
    """Count the lists by which the example is identified, as `select_lists` takes them."""
    return min(MAX_LISTS, len(_select_example_queries(loaded)))


def count_lists(run: RankedRun) -> int:
    """Count the queries for which a run has documents."""
    return sum(map(bool, run.documents.values()))


def estimate_seconds(n_lists: int, n_documents: int) -> float:
    """Estimate how long an identification from so many lists takes; traces are as long as the corpus."""
    return FIRST_SECONDS + LIST_SECONDS * n_lists * max(1.0, n_documents / LIST_DOCUMENTS)


def select_lists(run: RankedRun, queries: Queries, with_all: bool = False) -> tuple[RankedRun, Queries]:
    """Return a run and the queries by which it is identified: MAX_LISTS of its lists, and queries without a list.

    queries: all of the corpus. Those without a list show which further ones would tell two decoders apart.
    with_all: take all lists
    """
    listed = queries.only([query_id for query_id in queries.ids if run.documents.get(query_id)])
    # The sample is seeded: the same run always shows the same result.
    listed = listed if with_all else listed.sample(MAX_LISTS)
    # Those with a list that is not drawn are left out: they are not further queries.
    unlisted_ids = [query_id for query_id in queries.ids if query_id not in run.documents][:MAX_FURTHER_QUERIES]
    documents = {query_id: run.documents[query_id] for query_id in listed.ids}
    # A few dozen lists are enough: that further queries have none is nothing odd.
    notices = tuple(notice for notice in run.notices if not notice.remark.startswith(UNANSWERED_REMARK))
    return RankedRun(run.name, documents, notices), queries.only([*listed.ids, *unlisted_ids])


class WholeShare:
    """Share of an identification that is done over its steps, of which it is not known how many there will be."""

    def __init__(self) -> None:
        """Begin at nothing done."""
        self._share = self._begin = self._size = 0.0
        self._pass: tuple[str, int] = ("", 0)
        self._shares_left = dict(STEP_SHARES)

    def take(self, n_done: int, n_total: int, step: str) -> float:
        """Return the share of the whole that is done, which never falls, after some parts of a step."""
        previous_step, previous_done = self._pass
        # A step that begins anew is another pass.
        if step != previous_step or n_done < previous_done:
            self._begin, undone = self._share, 1 - self._share
            self._size = min(self._shares_left.pop(step, undone / 2), undone)
        self._pass = step, n_done
        self._share = self._begin + self._size * (n_done / n_total if n_total else 0.0)
        return self._share


def run_identification(loaded: Loaded, run: RankedRun, queries: Queries, job: Job) -> Identification:
    """Identify the decoder behind a run in a job, after its queries are embedded. Raises FrontierError."""
    vectors = embed_missing(loaded, queries, job)

    weighed_encoders, progress = set[str](), WholeShare()

    def report(n_done: int, n_total: int, label: str) -> None:
        """Report the progress to the job, in words of the page that say what is left."""
        step, comma, encoder = label.partition(", ")
        text = STEP_LABELS.get(step, step)
        if step == "hypotheses":
            weighed_encoders.add(encoder)
        elif step == "lists" and encoder in weighed_encoders:
            # The lists of the best explanations are read again, with documents that an index may have lost.
            text = CHECK_LABEL
        job.report(n_done, n_total, f"{text}{comma}{encoder}", progress.take(n_done, n_total, step))

    embeddings = find_dataset_vectors(loaded.space, loaded.dataset)
    result: Identification = engine.identify(
        run, loaded.space, vectors, embeddings=embeddings, progress=report, stop=job.stop
    )
    return result
