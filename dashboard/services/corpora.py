"""Loaded corpora, shared by all sessions: loaded by jobs, the least recently used dropped first."""

from __future__ import annotations

import contextlib
import ctypes
import gc
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dashboard.services import jobs, roots, uploads
from dashboard.services.jobs import Job, SharedJobs
from dashboard.services.memo import Memo
from dashboard.services.source import Loaded, Source

if TYPE_CHECKING:
    from engine.data.files import HeldFile
    from engine.errors import FrontierError
    from engine.progress import Progress, Stop
    from engine.stages import Selector
    from engine.values import Dataset

DEMOS = {
    "numpy-api": "NumPy's functions: about 820 documents full of near-duplicates, with judged tasks",
    "python-api": "NumPy, pandas, SciPy, scikit-learn and PyTorch: about 15,000 documents, no judgements",
}
MAX_LOADED_CORPORA = 3
"""Corpora that stay in memory."""
N_WARM_SELECTORS = 2
"""Selectors of the registry that Explore runs in a new session."""
FIRST_PAGE_SECONDS = 2.0
"""Seconds for which a first page has the processors to itself before the warm-up begins."""
STORE_SAMPLE_SIZE = 500
"""Documents of a vector engine that are fetched at the start."""
N_LOADING_STEPS = 3
"""Steps of loading: read the corpus, embed it, embed its queries."""
MAX_INSPECTED_BYTES = 16 << 20
"""Larger corpora, which take more than a second or two to read, are read when they are loaded only."""
MAX_INSPECTIONS = 8
"""Corpora, of all sessions, whose content stays in memory between inspecting and loading them."""
MAX_EAGER_QUERIES = 512
"""Up to this many labelled queries are embedded with the corpus: switching between them is then instant."""


@dataclass(frozen=True, eq=False)
class Inspection:
    """Files of a corpus as one session read them before loading it, to preview and check them.

    A Source says which columns, filters and judgements are read; each gives another data set of the same files.
    """

    path: str
    file_states: tuple[tuple[str, int, int], ...]  # name, time of the last change and bytes of each
    file: Path | HeldFile  # the table, held where its rows come from memory
    datasets: Memo[Source, Dataset | FrontierError] = field(default_factory=lambda: Memo(3))

    @property
    def is_large(self) -> bool:
        """True if the corpus is too large to be read before it is loaded."""
        return sum(size for _, _, size in self.file_states) > MAX_INSPECTED_BYTES

    def read_dataset(self, source: Source) -> Dataset | FrontierError:
        """Return the data set of a source (documents, queries, judgements), or the error of reading it."""
        from engine.errors import FrontierError

        if source not in self.datasets:
            # Reading parses a whole file: pages take turns, so that the cores are not oversubscribed.
            with jobs.page_turn():
                try:
                    self.datasets[source] = read_dataset(source, table_file=self.file)
                except FrontierError as error:
                    self.datasets[source] = error
        return self.datasets[source]

    def take_dataset(self, source: Source) -> Dataset | None:
        """Return the data set that was read for a source, to load it; None if unread or changed since."""
        from engine.values import Dataset

        # The inspection was keyed without an encoder, as which one embeds the documents does not change them.
        data = self.datasets.get(source.without_encoder)
        return data if isinstance(data, Dataset) and self.file_states == _list_file_states(Path(self.path)) else None


_INSPECTIONS: Memo[str, Inspection] = Memo(MAX_INSPECTIONS)
_LOADING_JOBS: SharedJobs[Source] = SharedJobs(MAX_LOADED_CORPORA)
_START_SOURCES = [Source("numpy-api")]
_LOADED_ONCE: set[Source] = set()
"""Corpora that have been loaded at least once."""


def set_start_sources(*paths: str) -> None:
    """Set the corpora that this server serves, by path; a new session opens the first."""
    _START_SOURCES[:] = [Source(path) for path in dict.fromkeys(paths)]
    # Loading one start corpus must not evict another, however many the command line names.
    _LOADING_JOBS.max_jobs = max(MAX_LOADED_CORPORA, len(_START_SOURCES))


def get_start_source() -> Source:
    """Return the corpus that a new session opens."""
    return _START_SOURCES[0]


def list_start_sources() -> list[Source]:
    """Return the corpora that this server serves; a new session opens the first."""
    return list(_START_SOURCES)


def load_start_corpora() -> None:
    """Load the corpora that this server serves, one after the other; return when all have ended."""
    for source in list_start_sources():
        job = get_loading_job(source)
        job.join()
        if job.result is not None:
            _LOADED_ONCE.add(source)


def report_health() -> dict[str, Any]:
    """Report if the corpora that this server serves are loaded, for a health check.

    status: "ok" once each has been loaded, "failed" if one could not be, else "loading"; `failed` names those.
    """
    _LOADED_ONCE.update(loaded.source for loaded in list_loaded())  # pages load too
    waiting = [source for source in list_start_sources() if source not in _LOADED_ONCE]
    # No path goes out: the health check is open to everybody who reaches the server.
    failed_names = []
    for source in waiting:
        job = find_loading_job(source)
        if job is not None and not job.running and job.error:
            failed_names.append(source.name)
    status = "failed" if failed_names else "loading" if waiting else "ok"
    loaded = sorted({corpus.source.name for corpus in list_loaded() if corpus.source in list_start_sources()})
    return {"status": status, "loaded": loaded} | ({"failed": failed_names} if failed_names else {})


def inspect_files(source: Source) -> Inspection:
    """Return this session's reading of a source's files before they are loaded, anew if they have changed."""
    from engine.data.files import HeldFile
    from engine.data.tables import TEXT_SUFFIXES

    path, visitor = Path(source.path), uploads.get_visitor()
    file_states, inspection = _list_file_states(path), _INSPECTIONS.get(visitor)
    if inspection is None or (inspection.path, inspection.file_states) != (source.path, file_states):
        inspection = Inspection(source.path, file_states, path)
        # A held file is parsed from memory and stays as inspected while the visitor chooses columns.
        if path.suffix.lower() in TEXT_SUFFIXES and not inspection.is_large:
            inspection = replace(inspection, file=HeldFile(path))
        _INSPECTIONS[visitor] = inspection
    return inspection


def _list_file_states(path: Path) -> tuple[tuple[str, int, int], ...]:
    """Return name, modification time in ns and size of a corpus's files, to see if one has changed."""
    # In a folder, judgements lie one level down: qrels/dev.tsv.
    paths = [path] if path.is_file() else sorted((*path.glob("*"), *path.glob("*/*.tsv")))
    stats = [(str(file), file.stat()) for file in paths if file.is_file()]
    return tuple((name, stat.st_mtime_ns, stat.st_size) for name, stat in stats)


def get_loading_job(source: Source | None = None, resubscribe: bool = False) -> Job:
    """Return the job that loads a corpus, started if there is none; its result is a Loaded.

    It is one job for all sessions. This call subscribes the session to it: the job runs on while a subscriber is left.
    resubscribe: even if the session has cancelled it for itself; a new job then uses what the session has read of the
    corpus for its preview.
    """
    source = source or get_start_source()
    inspection = _INSPECTIONS.get(uploads.get_visitor()) if resubscribe else None
    # Sessions share the job; whoever cancels only unsubscribes unless nobody else waits.
    job = _LOADING_JOBS.get_or_start(source, f"load {source.path}", partial(_load_and_freeze, source, inspection))
    jobs.subscribe(job, resubscribe)
    return job


def list_loads() -> list[tuple[Source, Job]]:
    """Return the corpora of all sessions with their loading jobs, ended or not, the latest used last."""
    return _LOADING_JOBS.items()


def list_other_loads(used: Source | None) -> list[tuple[Source, Job]]:
    """Return the corpora that this session is loading, with their jobs, except the one in use."""
    return [(source, job) for source, job in list_loads() if job.running and source != used and jobs.is_subscribed(job)]


def may_see_load(source: Source, job: Job, path: str) -> bool:
    """Return True if this session may see a load: it asked for it, or it reveals no other visitor's path.

    path: the corpus's path that this session knows already
    """
    # An encoder or judgements in a folder have a path that another visitor typed.
    shared = source.path == path and not any(map(roots.is_model_folder, (source.encoder, source.qrels)))
    return shared or source in _START_SOURCES or jobs.is_subscribed(job)


def find_loading_job(source: Source) -> Job | None:
    """Return the job that loads or has loaded a corpus, if there is one."""
    return _LOADING_JOBS.get(source)


def list_loaded() -> list[Loaded]:
    """Return all loaded corpora, the most recently used last."""
    return [job.result for _, job in list_loads() if job.result is not None]


def list_sources() -> list[Source]:
    """Return the sources of the corpora that are loaded or loading."""
    return [source for source, job in list_loads() if job.running or job.result is not None]


def list_variants(loaded: Loaded) -> list[Loaded]:
    """Return a corpus as embedded by each encoder that this session may see, `loaded` first."""
    # The first variant of an encoder wins, so that the open one is listed once, and first.
    by_encoder = {compute_encoder_key(loaded): loaded}
    for source, job in list_loads():
        variant = job.result
        if variant is None or variant.space.corpus != loaded.space.corpus:
            continue
        if may_see_load(source, job, loaded.origin.source.path):
            by_encoder.setdefault(compute_encoder_key(variant), variant)
    return list(by_encoder.values())


def format_encoder_name(name: str) -> str:
    """Return an encoder's name, or the last part of its path."""
    path = Path(name).expanduser()
    return path.name if path.is_absolute() else name


def format_variant_names(variants: Sequence[Loaded]) -> list[str]:
    """Return display names of one corpus embedded in several ways: encoder, number format and training.

    Equal names are told apart by the beginning of a digest.
    """
    names, suffixes = [], []
    for variant in variants:
        encoder = variant.space.encoder
        name = "own vectors" if encoder is None else f"{format_encoder_name(encoder.name)}, {encoder.dtype}"
        name += f" · trained: {variant.training}" if variant.training else ""
        # Vectors that came with a corpus have no encoder: then their own digest tells them apart.
        embeddings = variant.space.embeddings
        names.append(name)
        suffixes.append(f" ({(embeddings.encoder or embeddings).digest[:6]})")
    return [name if names.count(name) == 1 else name + suffix for name, suffix in zip(names, suffixes, strict=True)]


def compute_encoder_key(loaded: Loaded) -> str:
    """Return a text that identifies a corpus's encoder by weights and number format, for widgets' keys."""
    # Feedback moves the documents' vectors, not the encoder: the origin, as embedded before, identifies it.
    embeddings = loaded.origin.space.embeddings
    encoder = embeddings.encoder
    return f"{encoder.digest[:16]}.{encoder.dtype}" if encoder else f"own.{embeddings.digest[:16]}"


def drop_load(source: Source, job: Job) -> None:
    """Forget a corpus's loading job, so that the next one reads again; rejoin one that others wait for."""
    if jobs.is_subscribed(job) or not job.is_active:
        _LOADING_JOBS.drop_job(source, job)
    else:
        jobs.subscribe(job, resubscribe=True)


def read_dataset(
    source: Source,
    progress: Progress | None = None,
    stop: Stop | None = None,
    table_file: Path | HeldFile | None = None,
) -> Dataset:
    """Read the documents, queries and judgements of a source, if its path lies where this server may read.

    table_file: the table's content if it is in memory already. Raises DataError if they cannot or must not be read, and
    Cancelled if stopped.
    """
    import engine

    if source.path not in DEMOS:
        roots.check_corpus(source.path)
    # Judgements in a folder inside the corpus's need no permission of their own; other paths do.
    is_inside = source.qrels == "qrels" or (Path(source.path) / source.qrels).is_dir()
    if len(Path(source.qrels).parts) > 1 or not is_inside:
        roots.check_corpus(source.qrels)
    dataset: Dataset = engine.load_dataset(table_file or source.path, **source.reading, progress=progress, stop=stop)
    return dataset


def _load_and_freeze(source: Source, inspection: Inspection | None, job: Job) -> Loaded:
    """Load a corpus in a job, from what its preview has read if possible; tidy the memory afterwards."""
    # The page may have read the files already: they need not be read twice. `_embed_corpus` takes them from here.
    job.partial = inspection and inspection.take_dataset(source)
    loaded = _load_corpus(source, job)
    freeze_heap()  # here, where the temporary objects of loading are gone
    return loaded


def _attach_store(source: Source, job: Job) -> Loaded:
    """Connect to a vector engine (a database of documents); return its corpus, with a sample in memory."""
    from engine.reach import attach, sample_documents
    from engine.values import Dataset, Queries

    job.report(0, 0, f"asking {source.store}")
    # A reach is the engine's connection to a database of vectors, which answers searches.
    reach = attach(source.store)
    sample = sample_documents(reach, STORE_SAMPLE_SIZE)
    dataset = Dataset(sample.corpus, Queries((), ()))
    return Loaded(source=source, dataset=dataset, space=sample, queries=None, reach=reach)


def _load_corpus(source: Source, job: Job) -> Loaded:
    """Load a corpus from a vector engine (a database), by an encoder, or with embeddings trained here."""
    if source.store:
        return _attach_store(source, job)
    if not source.trained:
        return _embed_corpus(source, job)
    from dashboard.services import trained

    checkpoint_path = trained.find_checkpoint(source.trained)  # raises before anything is read
    # The trained embeddings are computed from the untrained ones, which may be in memory.
    untrained_source = source.without_training
    ready_job = find_loading_job(untrained_source)
    base = (ready_job and ready_job.result) or _embed_corpus(untrained_source, job)
    job.report(0, 0, "reading what was trained")
    return trained.apply_checkpoint(base, source, checkpoint_path)


def _embed_corpus(source: Source, job: Job) -> Loaded:
    """Read a corpus; embed its documents, and its labelled queries if they are few; return it for search.

    The job's `partial` may hold the data set already, and gets it before the documents are embedded, for its report.
    """
    report = _freezing_progress(job, 1)
    report(0, 0, "reading the corpus")
    import engine
    from engine.data.encoders import count_truncated, shipped_notices
    from engine.values import Notice

    roots.check_model(source.encoder)
    job.partial = dataset = _share_loaded_texts(job.partial or read_dataset(source, report, job.stop))
    report = _freezing_progress(job, 2, "documents")
    options = {"encoder": source.encoder, "dtype": source.dtype, "stop": job.stop, "label": dataset.corpus.name}
    # Vectors that came with the corpus win over the encoder unless the visitor chose otherwise.
    embeddings = (source.own and dataset.vectors) or engine.embed(dataset.corpus, progress=report, **options)
    query_vectors = None
    if embeddings.encoder is not None:
        if n_truncated := count_truncated(dataset.corpus, source.encoder):
            notice = Notice("documents are longer than the encoder reads: their ends do not count", n_truncated)
            dataset = replace(dataset, notices=(*dataset.notices, notice))
        shipped = shipped_notices(dataset.corpus, embeddings)
        dataset = replace(dataset, notices=(*dataset.notices, *shipped))
        # More labelled queries are embedded by the job that needs them.
        if 0 < len(dataset.queries) <= MAX_EAGER_QUERIES:
            options["dtype"] = embeddings.encoder.dtype
            report = _freezing_progress(job, 3, "queries")
            query_vectors = engine.embed(dataset.queries, progress=report, **options).vectors
    space = engine.Space(dataset.corpus, embeddings)
    return Loaded(source=source, dataset=dataset, space=space, queries=query_vectors)


def _share_loaded_texts(dataset: Any) -> Any:
    """Return a data set with the texts of an equal corpus in memory, so that two encoders share a copy."""
    for loaded in list_loaded():
        if loaded.dataset.corpus == dataset.corpus and loaded.dataset.corpus.name == dataset.corpus.name:
            corpus, metadata = loaded.dataset.corpus, dataset.corpus.metadata
            # The columns beside the documents are no part of what makes two corpora the same.
            if corpus.metadata != metadata:
                corpus = replace(corpus, metadata=metadata)
            return replace(dataset, corpus=corpus)
    return dataset


def _freezing_progress(job: Job, step_number: int, text_kind: str = "") -> Callable[[int, int, str], None]:
    """Build a progress callback for one numbered step of loading; it also keeps garbage collections short.

    text_kind: "documents" or "queries" if texts are embedded in this step, to say which; "" otherwise
    """

    def report(n_done: int, n_total: int, label: str) -> None:
        """Report a step's progress to the job, with the number of the step in the label."""
        if text_kind:
            from engine.data.encoders import EMBEDDING  # imports torch, which the first words need not wait for

            label = f"{label} {text_kind}" if label == EMBEDDING else label
        label = f"Step {step_number} of {N_LOADING_STEPS} · {label[:1].upper()}{label[1:]}"
        # Imports during a step create long-lived objects; freezing them keeps collections short.
        if label != job.progress.label:
            gc.freeze()
        job.report(n_done, n_total, label)

    return report


def freeze_heap() -> None:
    """Exempt everything alive from garbage collection, after a last collection.

    Streamlit collects after every script run; with torch loaded that takes 190 ms and starves worker threads.
    """
    gc.unfreeze()  # else what died since the last time would never be freed
    gc.collect()
    gc.freeze()
    # glibc keeps a heap for every thread, and each corpus is read in its own; elsewhere there is nothing to trim.
    with contextlib.suppress(OSError, AttributeError, TypeError):
        ctypes.CDLL(None).malloc_trim(0)


def warm_encoder(source: Source) -> None:
    """Start a job that compiles the selectors and runs the encoder: the first query need not wait.

    A selector is an algorithm that chooses the k documents of an answer.
    """
    Job("warm the encoder", partial(_run_warm_up, source))


def _run_warm_up(source: Source, job: Job) -> None:
    """Compile the selectors and run the encoder once, in a job that lets the first page go first.

    A selector is an algorithm that chooses the k documents of an answer; the registry names the usual ones first.
    """
    from engine.stages import methods

    kinds = [spec.cls for spec in methods("selector").values()]
    for kind in kinds[:N_WARM_SELECTORS]:
        if kind.is_warm():  # else compiled once the first page is drawn, which needs a core for itself
            kind.warm()
    loading_job = get_loading_job(source)
    # Short joins, so that a shutdown is not delayed by a long load.
    while loading_job.running and not job.stop.is_set():
        loading_job.join(0.2)
    if loading_job.result is None or job.stop.wait(FIRST_PAGE_SECONDS):
        return
    encoder = loading_job.result.space.encoder
    steps: list[Callable[[], Any]] = [partial(_compile_lambda_path, kind) for kind in kinds[:N_WARM_SELECTORS]]
    if encoder is not None:
        import engine

        steps.append(partial(engine.embed, ["warm up"], encoder=encoder.name, dtype=encoder.dtype, cache=False))
    for warm_up in (*steps, *(kind.warm for kind in kinds)):
        if not job.stop.is_set():
            warm_up()
    freeze_heap()


def _compile_lambda_path(selector: type[Selector]) -> None:
    """Compile the code that ranks documents at every λ, the weight of relevance against diversity.

    It runs on eight made-up vectors, with the first of them as the query; the result is dropped.
    """
    import torch

    from engine.candidates import Candidates
    from engine.matrix import Matrix

    # Some selectors cannot be computed at every λ, and say why in `no_path`.
    if (instance := selector()).no_path is None:
        vectors = torch.eye(8)
        instance.lambda_path(Candidates(vectors, vectors[:1], vectors[:1], Matrix(vectors, cached=True)), 2, (0.0, 1.0))
