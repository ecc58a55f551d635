"""Loaded corpora, shared by all sessions: loaded by jobs, the least recently used dropped first."""

from __future__ import annotations

import gc
import glob
import os
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from dashboard.services import answer_jobs, jobs, roots, sending, transfer, uploads
from dashboard.services.garbage import freeze_heap
from dashboard.services.jobs import Job, SharedJobs
from dashboard.services.memo import Memo
from dashboard.services.source import KEEP_ALL, NEAR, DroppedDocuments, Loaded, Source
from engine.data.judgement_files import QRELS_NAME, list_candidates

if TYPE_CHECKING:
    from engine.data.columns import Columns
    from engine.data.files import HeldFile
    from engine.errors import FrontierError
    from engine.progress import Progress, Stop
    from engine.stages import Selector
    from engine.values import Dataset

DEMOS = {
    "numpy-api": "NumPy's functions: about 820 documents full of near-duplicates, with labelled queries",
    "python-api": "NumPy, pandas, SciPy, scikit-learn and PyTorch: about 15,000 documents, no labelled queries",
}
MAX_LOADED_CORPORA = 3
"""Corpora that stay in memory."""
N_WARM_SELECTORS = 2
"""Selectors of the registry that Explore runs in a new session."""
FIRST_PAGE_SECONDS = 10.0
"""Seconds for which the warm-up waits for a first page, which needs the processors until it asks for answers."""
ANSWER_POLL_SECONDS = 0.2
"""Seconds between two looks at whether the warm-up would keep a visitor's answer waiting."""
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


FileState: TypeAlias = tuple[str, int, int]
"""A file's name, the time of its last change in ns, and its bytes."""


@dataclass(frozen=True, eq=False)
class Inspection:
    """Files of a corpus as one session read them before loading it, to preview and check them.

    A Source says which columns, filters and judgements are read; each gives another data set of the same files.
    """

    path: str
    file_states: tuple[FileState, ...]
    file: Path | HeldFile  # the table, held where its rows come from memory
    datasets: Memo[tuple[Source, tuple[FileState, ...]], Dataset | FrontierError] = field(
        default_factory=lambda: Memo(3)
    )

    @property
    def is_large(self) -> bool:
        """True if the corpus is too large to be read before it is loaded."""
        return sum(size for _, _, size in self.file_states) > MAX_INSPECTED_BYTES

    def read_dataset(self, source: Source) -> Dataset | FrontierError:
        """Return the data set of a source (documents, queries, judgements), or the error of reading it."""
        from engine.errors import FrontierError

        key = source, _list_vector_states(source)
        if key not in self.datasets:
            # Reading parses a whole file: pages take turns, so that the cores are not oversubscribed.
            with jobs.limit_page_computations():
                try:
                    self.datasets[key] = read_dataset(source, table_file=self.file)
                except FrontierError as error:
                    self.datasets[key] = error
        return self.datasets[key]

    def take_dataset(self, source: Source) -> Dataset | None:
        """Return the data set that was read for a source, to load it; None if unread or changed since."""
        from engine.values import Dataset

        # The inspection was keyed without an encoder, as which one embeds the documents does not change them.
        source = source.without_encoder
        data = self.datasets.get((source, _list_vector_states(source)))
        # In place of a data set there can be the error that reading it raised, which is of no use here.
        return data if isinstance(data, Dataset) and self.file_states == _list_file_states(Path(self.path)) else None


_INSPECTIONS: Memo[str, Inspection] = Memo(MAX_INSPECTIONS)
_LOADING_JOBS: SharedJobs[Source] = SharedJobs(MAX_LOADED_CORPORA)
_START_SOURCES = [Source("numpy-api")]
_LOADED_ONCE: set[Source] = set()
"""Corpora that have been loaded at least once."""


def set_start_sources(*sources: str | Source) -> None:
    """Set the corpora that this server serves, paths among them; a new session opens the first."""
    _START_SOURCES[:] = [Source(each) if isinstance(each, str) else each for each in dict.fromkeys(sources)]
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
    # A corpus counts as loaded from its first load on, also if memory has dropped it since. Pages load corpora too.
    _LOADED_ONCE.update(loaded.source for loaded in list_loaded())
    waiting = [source for source in list_start_sources() if source not in _LOADED_ONCE]
    # No path goes out: the health check is open to everybody who reaches the server.
    failed_names = []
    for source in waiting:
        job = find_loading_job(source)
        if job is not None and not job.running and job.error:
            failed_names.append(source.name)
    status = "loading" if waiting else "ok"
    loaded = sorted({corpus.source.name for corpus in list_loaded() if corpus.source in list_start_sources()})
    return {"status": status, "loaded": loaded} | ({"status": "failed", "failed": failed_names} if failed_names else {})


def inspect_files(source: Source) -> Inspection:
    """Return this browser session's reading of a source's files, anew if they have changed.

    They are read before the corpus is loaded.
    """
    from engine.data.files import HeldFile
    from engine.data.tables import TEXT_SUFFIXES, find_table_suffix

    path, visitor = Path(source.path), uploads.get_visitor()
    file_states, inspection = _list_file_states(path), _INSPECTIONS.get(visitor)
    if inspection is None or (inspection.path, inspection.file_states) != (source.path, file_states):
        inspection = Inspection(source.path, file_states, path)
        # A held file is parsed from memory and stays as inspected while the visitor chooses columns.
        if find_table_suffix(path) in TEXT_SUFFIXES and not inspection.is_large:
            inspection = replace(inspection, file=HeldFile(path))
        _INSPECTIONS[visitor] = inspection
    return inspection


def find_columns(source: Source) -> Columns | None:
    """Return the columns of a table, also of that in a folder, that a source's documents are read from.

    None for a corpus without a table, or one that cannot be read.
    """
    from engine.data.table_kinds import find_corpus_table
    from engine.data.tables import TABLE_SUFFIXES, find_table_suffix, preview_table
    from engine.errors import DataError

    if source.store or source.path in DEMOS:
        return None
    try:
        path = Path(source.path)
        table = find_corpus_table(path) if path.is_dir() else path
        if table is None or find_table_suffix(table) not in TABLE_SUFFIXES:
            return None
        options: dict[str, Any] = {"separator": source.separator or None, "header": source.header}
        return preview_table(table, **options, requested=source.reading.get("columns")).guessed_columns
    # Files may have been deleted since they were read.
    except (DataError, OSError):
        return None


def _list_vector_states(source: Source) -> tuple[FileState, ...]:
    """Return the states of the file of the queries' vectors, and of those of its ids, if it lies elsewhere."""
    if not source.query_vectors:
        return ()
    path = Path(source.query_vectors).expanduser()
    return _take_states([path, *map(path.with_name, ("ids.txt", f"{path.stem}.ids.txt"))])


def _list_file_states(path: Path) -> tuple[FileState, ...]:
    """Return the states of a corpus's files, to see if one has changed."""
    from engine.data.files import split_suffix

    # In a folder, judgements lie beside the corpus or one level down: qrels/dev.tsv; vectors of a table lie beside it.
    # A name may hold characters that a pattern takes for its own.
    if path.is_file():
        paths = [path, *path.parent.glob(f"{glob.escape(split_suffix(path)[0])}.vectors.*")]
    else:
        paths = sorted({*path.glob("*"), *list_candidates(path)})
    return _take_states(paths)


def _take_states(paths: Iterable[Path]) -> tuple[FileState, ...]:
    """Return the states of those of the paths that are files."""
    stats = [(str(file), file.stat()) for file in paths if file.is_file()]
    return tuple((name, stat.st_mtime_ns, stat.st_size) for name, stat in stats)


def get_loading_job(source: Source | None = None, resubscribe: bool = False) -> Job:
    """Return the job that loads a corpus, started if there is none; its result is a Loaded.

    It is one job for all browser sessions. This call subscribes the session to it: the job runs on while a subscriber
    is left. resubscribe: True to subscribe even if this browser session has cancelled the job for itself. A new job
    then starts from the part of the corpus that this browser session has read for its preview.
    """
    source = source or get_start_source()
    inspection = _INSPECTIONS.get(uploads.get_visitor()) if resubscribe else None
    # Sessions share the job; whoever cancels only unsubscribes unless nobody else waits.
    # One job serves every level of relevance: `get_loaded` applies it to what the job has read.
    source = source.without_level
    job = _LOADING_JOBS.get_or_start(source, f"load {source.path}", partial(_load_and_freeze, source, inspection))
    jobs.subscribe(job, resubscribe)
    return job


def get_loaded(job: Job, source: Source) -> Loaded | None:
    """Return the corpus that a job has loaded, with the source's level of relevance and kind of judgements, or None."""
    loaded: Loaded | None = job.result
    return loaded and loaded.with_judged_as(source)


def estimate_embedding(source: Source) -> float | None:
    """Estimate the seconds that embedding a corpus will take, whose files were read for the preview; None if unknown.

    It is unknown for an encoder that would be downloaded first, and 0 for a corpus that has its vectors already.
    """
    from engine.data import encoders
    from engine.data.models import hub

    dataset = inspect_files(source).take_dataset(source)
    # A corpus that is loading, or loaded, needs no forecast.
    if dataset is None or find_loading_job(source) is not None or source.encoder not in hub.list_local_encoders():
        return None
    if dataset.vectors is not None and source.own:
        return 0.0
    return encoders.estimate_seconds(dataset.corpus, source.encoder, dtype=source.dtype)


def list_loads() -> list[tuple[Source, Job]]:
    """Return the corpora of all sessions with their loading jobs, ended or not, the latest used last."""
    return _LOADING_JOBS.items()


def list_other_loads(used: Source | None) -> list[tuple[Source, Job]]:
    """Return the corpora that this browser session is loading, with their jobs, except the one in use."""
    used = used and used.without_level
    return [(source, job) for source, job in list_loads() if job.running and source != used and jobs.is_subscribed(job)]


def may_see_load(source: Source, job: Job, path: str) -> bool:
    """Return True if this browser session may see that a corpus is being loaded.

    It may if it has asked for that corpus itself, or if the name reveals no path that another visitor typed. path: the
    corpus's path that this browser session knows already
    """
    # An encoder, judgements or vectors elsewhere have a path that another visitor typed.
    has_typed_path = bool(source.query_vectors) or any(map(roots.is_model_folder, (source.encoder, source.qrels)))
    shared = source.path == path and not has_typed_path
    return shared or source in _START_SOURCES or jobs.is_subscribed(job)


def find_loading_job(source: Source) -> Job | None:
    """Return the job that loads or has loaded a corpus, if there is one."""
    return _LOADING_JOBS.get(source.without_level)


def is_loading(source: Source) -> bool:
    """Return True while a corpus is being loaded for the session that asks."""
    job = find_loading_job(source)
    return job is not None and job.running and not jobs.runs_for_others_only(job)


def list_loaded() -> list[Loaded]:
    """Return all loaded corpora, the most recently used last."""
    return [job.result for _, job in list_loads() if job.result is not None]


def list_sources() -> list[Source]:
    """Return the sources of the corpora that are loaded or loading."""
    return [source for source, job in list_loads() if job.running or job.result is not None]


def list_variants(loaded: Loaded) -> list[Loaded]:
    """Return a corpus as embedded by each encoder that this browser session may see, `loaded` first."""
    # The first variant of an encoder wins, so that the open one is listed once, and first.
    by_encoder = {compute_encoder_key(loaded): loaded}
    for source, job in list_loads():
        variant = job.result
        if variant is None or variant.space.corpus != loaded.space.corpus:
            continue
        if may_see_load(source, job, loaded.origin.source.path):
            # The level belongs to the judgements: a variant that was loaded with others has a level of its own.
            has_same_qrels = source.qrels == loaded.source.qrels
            variant = variant.with_judged_as(loaded.source) if has_same_qrels else variant
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
    """Forget a corpus's loading job, so that the next one reads the files again; for Retry and Resume.

    A job that works on for other sessions, after this one has cancelled it, is not forgotten: this browser session
    waits for it again.
    """
    if jobs.is_subscribed(job) or not job.is_active:
        _LOADING_JOBS.drop_job(source.without_level, job)
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

    # A corpus that another process sent lies in no file, so that there is nothing to read or to permit.
    if (sent_dataset := transfer.find_dataset(source.path)) is not None:
        return sent_dataset
    if source.path not in DEMOS:
        roots.check_corpus(source.path)
    if source.query_vectors:
        roots.check_corpus(source.query_vectors)
    _check_judgements(source)
    dataset: Dataset = engine.load_dataset(table_file or source.path, **source.reading, progress=progress, stop=stop)
    return dataset


def _check_judgements(source: Source) -> None:
    """Raise DataError if judgements, or the queries that they bring, do not lie where this server may read."""
    if source.qrels == QRELS_NAME:
        return
    # Judgements in a folder inside the corpus's need no permission of their own; other paths do, "../x" and ".." too.
    # The name of a demo is no path.
    inner_path = None if source.path in DEMOS else Path(source.path) / source.qrels
    is_name = len(Path(source.qrels).parts) == 1 and source.qrels != ".."
    if inner_path is not None and is_name and inner_path.is_dir():
        return
    # The reader looks for a name inside the corpus's folder first.
    is_inside = inner_path is not None and os.path.exists(inner_path)
    roots.check_corpus(inner_path if inner_path is not None and is_inside else source.qrels)
    from engine.data.readers import locate_source_judgements

    # The path may be read: only now may an error tell what is there.
    judgement_place = locate_source_judgements(source.path, source.qrels)
    if judgement_place.queries_folder is not None:
        roots.check_corpus(judgement_place.queries_folder)


def _load_and_freeze(source: Source, inspection: Inspection | None, job: Job) -> Loaded:
    """Load a corpus in a job, from what its preview has read, and exempt it from garbage collection.

    inspection: what the page has read of the files for the preview, None for nothing
    """
    # The job's partial result hands the data set that was read already to `_embed_corpus`, so it is not read twice.
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
        return _load_untrained(source, job)
    from dashboard.services import trained

    checkpoint_path = trained.find_checkpoint(source.trained)  # raises before anything is read
    # The trained embeddings are computed from the untrained ones, which may be in memory.
    untrained_source = source.without_training
    base = _find_loaded(untrained_source) or _load_untrained(untrained_source, job)
    job.report(0, 0, "reading what was trained")
    return trained.apply_checkpoint(base, source, checkpoint_path)


def _load_untrained(source: Source, job: Job) -> Loaded:
    """Load a corpus with its encoder's embeddings, without the copies or near-duplicates that the source leaves out."""
    if source.drop_duplicates == KEEP_ALL:
        return _embed_corpus(source, job)
    # All documents are embedded, as which are near-duplicates depends on it; they may be in memory.
    full_source = source.with_all_documents
    return _drop_duplicates(_find_loaded(full_source) or _embed_corpus(full_source, job), source, job)


def _find_loaded(source: Source) -> Loaded | None:
    """Return a corpus if it is in memory."""
    job = find_loading_job(source)
    return None if job is None else job.result


def _drop_duplicates(full: Loaded, source: Source, job: Job) -> Loaded:
    """Return a corpus without its copies or near-duplicates, whose judgements count for the documents that stay."""
    import engine
    from engine.evaluation.studies.drop_duplicates import DROPPED_REMARK, keep_heads
    from engine.evaluation.studies.near_duplicates import find_copies, find_near_duplicates

    threshold = None
    if source.drop_duplicates == NEAR:
        groups = find_near_duplicates(full.space, source.duplicate_threshold, progress=job.report, stop=job.stop)
        heads, threshold = groups.find_heads(), groups.threshold
    else:
        # Documents without a text are copies if their vectors are equal.
        heads = find_copies(full.space.corpus, full.space.matrix.duplicate_of.cpu().numpy())
    dataset = keep_heads(full.dataset, heads, full.space.embeddings)
    space = engine.Space(dataset.corpus, dataset.vectors)
    # How many documents are gone is said by the reduction.
    notices = tuple(notice for notice in dataset.notices if notice.remark != DROPPED_REMARK)
    # Only vectors that came with the corpus belong to its data set.
    dataset = replace(dataset, notices=notices, vectors=full.dataset.vectors and dataset.vectors)
    # Counted from the full judgements: those of the data set are one for each document that stays.
    dropped_ids = set(full.space.corpus.ids).difference(space.corpus.ids)
    n_judgements = 0
    for qrels in full.dataset.qrels.values():
        n_judgements += sum(len(dropped_ids.intersection(grades)) for grades in qrels.grades.values())
    reduction = DroppedDocuments(
        kind=source.drop_duplicates, threshold=threshold, n_dropped=len(dropped_ids), n_judgements=n_judgements
    )
    return Loaded(source=source, dataset=dataset, space=space, queries=full.queries, reduction=reduction)


def _embed_corpus(source: Source, job: Job) -> Loaded:
    """Read a corpus; embed its documents, and its labelled queries if they are few; return it for search.

    The job's `partial` may hold the data set already, and gets it before the documents are embedded, for its report.
    """
    report = _freezing_progress(job, 1)
    report(0, 0, "reading the corpus")
    import engine
    from engine.data.encoders import TRUNCATED_REMARK, count_truncated, shipped_notices
    from engine.values import Notice

    roots.check_model(source.encoder)
    job.partial = dataset = _share_loaded_texts(job.partial or read_dataset(source, report, job.stop))
    report = _freezing_progress(job, 2, "documents")
    options = {"encoder": source.encoder, "dtype": source.dtype, "stop": job.stop, "label": dataset.corpus.name}
    # Vectors that came with the corpus win over the encoder unless the visitor chose otherwise.
    own_embeddings = dataset.vectors if source.own else None
    # Those that another process sent name their encoder, and its queries may have vectors too.
    own_queries = dataset.queries.embeddings if own_embeddings is not None else None
    # More labelled queries are embedded by the job that needs them.
    is_eager = own_queries is None and 0 < len(dataset.queries) <= MAX_EAGER_QUERIES
    eager_queries = dataset.queries if is_eager else None
    if own_embeddings is None:
        sending.require_agreement(source, dataset.corpus, eager_queries)
    with sending.allow_agreed(source, dataset.corpus, eager_queries):
        embeddings = own_embeddings or engine.embed(dataset.corpus, progress=report, **options)
        query_vectors = None if own_queries is None else own_queries.vectors
        if eager_queries is not None and embeddings.encoder is not None:
            options["dtype"] = embeddings.encoder.dtype
            report = _freezing_progress(job, 3, "queries")
            query_vectors = engine.embed(eager_queries, progress=report, **options).vectors
    if embeddings.encoder is not None:
        if n_truncated := count_truncated(dataset.corpus, source.encoder):
            notice = Notice(TRUNCATED_REMARK, n_truncated)
            dataset = replace(dataset, notices=(*dataset.notices, notice))
        shipped = shipped_notices(dataset.corpus, embeddings)
        dataset = replace(dataset, notices=(*dataset.notices, *shipped))
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


def warm_selectors(source: Source) -> None:
    """Start a job that compiles the selectors, so that later answers need not wait for the compiler.

    A selector is an algorithm that chooses the k documents of an answer.
    """
    Job("compile the selectors", partial(_run_warm_up, source))


def _run_warm_up(source: Source, job: Job) -> None:
    """Compile the selectors in a job: those that a new session runs first, and their answers at every λ.

    A selector is an algorithm that chooses the k documents of an answer; the registry names the usual ones first. Most
    of the work waits until the corpus is loaded and its first page has its curves, as those need the cores. The encoder
    is left alone: it takes seconds to load, and only a typed query needs it.
    """
    from engine.solvers.gram import warm as warm_products
    from engine.stages import methods

    kinds = [spec.cls for spec in methods("selector").values()]
    warm_products()  # the first page needs them even where all other loops run as Python
    for kind in kinds[:N_WARM_SELECTORS]:
        if kind.is_warm():  # else compiled once the first page is drawn, which needs a core for itself
            kind.warm()
    loading_job = get_loading_job(source)
    # Short joins, so that a shutdown is not delayed by a long load.
    while loading_job.running and not job.stop.is_set():
        loading_job.join(0.2)
    page_deadline = time.monotonic() + FIRST_PAGE_SECONDS
    while not answer_jobs.was_asked() and time.monotonic() < page_deadline and not job.stop.is_set():
        job.stop.wait(ANSWER_POLL_SECONDS)
    if loading_job.result is None or job.stop.is_set():
        return
    paths: list[Callable[[], Any]] = [partial(_compile_lambda_path, kind) for kind in kinds[:N_WARM_SELECTORS]]
    for warm_up in (*paths, *(kind.warm for kind in kinds)):
        # Numba compiles one loop at a time: a visitor's answer comes first.
        while answer_jobs.is_busy() and not job.stop.wait(ANSWER_POLL_SECONDS):
            pass
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
    from engine.solvers.jit import compiling

    # Some selectors cannot be computed at every λ, and say why in `no_path`.
    if (instance := selector()).no_path is None:
        vectors = torch.eye(8)
        candidates = Candidates(vectors, vectors[:1], vectors[:1], Matrix(vectors, cached=True))
        with compiling():
            instance.lambda_path(candidates, 2, (0.0, 1.0))
