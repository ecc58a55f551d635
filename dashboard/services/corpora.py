"""Loaded corpora, shared by all sessions: loaded by jobs, the least recently used given up first."""

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
MOST_LOADED = 3
"""Corpora that stay in memory."""
FIRST = 2
"""Selectors of the registry that a new session's Explore asks."""
HEAD_START = 2.0
"""Seconds in which a first page has the processors to itself, before what comes later is made ready."""
SAMPLE = 500
"""Documents of a vector engine that are here from the start."""
STEPS = 3
"""Steps of loading: the corpus is read, embedded, and so are its queries."""
MAX_INSPECTED_BYTES = 16 << 20
"""Larger corpora, which take more than a second or two to read, are read when they are loaded only."""
MAX_INSPECTIONS = 8
"""Corpora, of all sessions, whose content stays in memory between a look at it and loading it."""
EAGER_QUERIES = 512
"""Up to this many labelled queries are embedded with the corpus: switching between them is then instant."""


@dataclass(frozen=True, eq=False)
class Inspection:
    """The files of a corpus as one session read them before loading: first rows, and data sets by how they are read."""

    path: str
    files: tuple[tuple[str, int, int], ...]  # name, time of the last change and bytes of each
    file: Path | HeldFile  # the table, held where its rows come from memory
    datasets: Memo[Source, Dataset | FrontierError] = field(default_factory=lambda: Memo(3))

    @property
    def large(self) -> bool:
        """Whether the corpus is read when it is loaded only."""
        return sum(size for _, _, size in self.files) > MAX_INSPECTED_BYTES

    def dataset(self, source: Source) -> Dataset | FrontierError:
        """The data set of a source with this path, or why it cannot be read."""
        from engine.errors import FrontierError

        if source not in self.datasets:
            with jobs.turn():
                try:
                    self.datasets[source] = read(source, file=self.file)
                except FrontierError as error:
                    self.datasets[source] = error
        return self.datasets[source]

    def take(self, source: Source) -> Dataset | None:
        """The data set that was read for a source; None where none was, or the files have changed since."""
        from engine.values import Dataset

        found = self.datasets.get(source.unembedded)
        return found if isinstance(found, Dataset) and self.files == _files_of(Path(self.path)) else None


_INSPECTIONS: Memo[str, Inspection] = Memo(MAX_INSPECTIONS)
_JOBS: SharedJobs[Source] = SharedJobs(MOST_LOADED)
_STARTS = [Source("numpy-api")]
_ONCE: set[Source] = set()
"""Corpora that have been loaded, in memory still or not."""


def start_with(*paths: str) -> None:
    """Set the corpora that this server is for: a new session opens the first, an address any; all stay in memory."""
    _STARTS[:] = [Source(path) for path in dict.fromkeys(paths)]
    _JOBS.most = max(MOST_LOADED, len(_STARTS))


def source_at_start() -> Source:
    """The corpus that a new session opens."""
    return _STARTS[0]


def sources_at_start() -> list[Source]:
    """The corpora that this server is for, the one that a new session opens first."""
    return list(_STARTS)


def load_all() -> None:
    """Load the corpora that this server is for, one after the other."""
    for chosen in sources_at_start():
        job = loading(chosen)
        job.join()
        if job.result is not None:
            _ONCE.add(chosen)


def health() -> dict[str, Any]:
    """How the corpora stand that this server is for, with the names of those in memory; no paths.

    status: "ok" once each has been loaded, "failed" where one could not be, else "loading"; `failed` names those.
    """
    _ONCE.update(loaded.source for loaded in in_memory())  # one that failed at first may have been loaded on a page
    waiting = [chosen for chosen in sources_at_start() if chosen not in _ONCE]
    found = [(chosen, known(chosen)) for chosen in waiting]
    failed = [chosen.name for chosen, job in found if job is not None and not job.running and job.error]
    status = "failed" if failed else "loading" if waiting else "ok"
    loaded = sorted({one.source.name for one in in_memory() if one.source in sources_at_start()})
    return {"status": status, "loaded": loaded} | ({"failed": failed} if failed else {})


def inspect(source: Source) -> Inspection:
    """Read the files of a source's path for this session's look before loading; anew where they have changed since."""
    from engine.data.files import HeldFile
    from engine.data.tables import TEXT_SUFFIXES

    path, visitor = Path(source.path), uploads.visitor()
    files, last = _files_of(path), _INSPECTIONS.get(visitor)
    if last is None or (last.path, last.files) != (source.path, files):
        last = Inspection(source.path, files, path)
        if path.suffix.lower() in TEXT_SUFFIXES and not last.large:
            last = replace(last, file=HeldFile(path))
        _INSPECTIONS[visitor] = last
    return last


def _files_of(path: Path) -> tuple[tuple[str, int, int], ...]:
    """Name, time of the last change and bytes of each file that a corpus is read from."""
    files = [path] if path.is_file() else sorted(file for file in (*path.glob("*"), *path.glob("*/*.tsv")))
    stats = [(str(file), file.stat()) for file in files if file.is_file()]
    return tuple((name, stat.st_mtime_ns, stat.st_size) for name, stat in stats)


def loading(chosen: Source | None = None, again: bool = False) -> Job:
    """The job that loads a corpus, started now if there is none; its result is a Loaded.

    The session that asks wants it from then on; one that has left it only where it asks again, and then the job takes
    what the session has read of it.
    """
    chosen = chosen or source_at_start()
    inspection = _INSPECTIONS.get(uploads.visitor()) if again else None
    job = _JOBS.begin(chosen, f"load {chosen.path}", partial(_load_and_settle, chosen, inspection))
    jobs.join(job, again)
    return job


def loads() -> list[tuple[Source, Job]]:
    """All corpora that are loaded or loading, the one used last at the end."""
    return _JOBS.items()


def also_loading(shown: Source | None) -> list[tuple[Source, Job]]:
    """Corpora that this session loads, other than `shown`."""
    return [(s, job) for s, job in loads() if job.running and s != shown and jobs.is_mine(job)]


def may_see(source: Source, job: Job, path: str) -> bool:
    """Whether this session, which knows a corpus's path, may see how it is loaded: no path that another one typed."""
    shared = source.path == path and not roots.is_path(source.encoder) and not roots.is_path(source.qrels)
    return shared or source in _STARTS or jobs.is_mine(job)


def known(chosen: Source) -> Job | None:
    """The job that loads or has loaded a corpus, if there is one."""
    return _JOBS.get(chosen)


def in_memory() -> list[Loaded]:
    """All corpora that are loaded, the one used last at the end."""
    return [job.result for _, job in loads() if job.result is not None]


def sources() -> list[Source]:
    """The sources of the corpora that are loaded or loading."""
    return [source for source, job in loads() if job.running or job.result is not None]


def variants(loaded: Loaded) -> list[Loaded]:
    """The same corpus by every encoder that this session may know of, each once; `loaded` comes first."""
    by_encoder = {encoder_key(loaded): loaded}
    for source, job in loads():
        other = job.result
        if other is None or other.space.corpus != loaded.space.corpus:
            continue
        if may_see(source, job, loaded.origin.source.path):
            by_encoder.setdefault(encoder_key(other), other)
    return list(by_encoder.values())


def encoder_name(name: str) -> str:
    """An encoder's name, or the last part of its path."""
    path = Path(name).expanduser()
    return path.name if path.is_absolute() else name


def variant_names(loaded: Sequence[Loaded]) -> list[str]:
    """Names that tell variants apart: encoder, arithmetic, training, and the weights' digest where two are alike."""
    short = []
    for variant in loaded:
        ref = variant.space.encoder
        name = "own vectors" if ref is None else f"{encoder_name(ref.name)}, {ref.dtype}"
        name += f" · trained: {variant.training}" if variant.training else ""
        embeddings = variant.space.embeddings
        short.append((name, (embeddings.encoder or embeddings).digest))
    names = [name for name, _ in short]
    return [name if names.count(name) == 1 else f"{name} ({digest[:6]})" for name, digest in short]


def encoder_key(loaded: Loaded) -> str:
    """Names the encoder of a corpus: two may give the same vectors to documents and others to queries."""
    embeddings = loaded.origin.space.embeddings
    ref = embeddings.encoder
    return f"{ref.digest[:16]}.{ref.dtype}" if ref else f"own.{embeddings.digest[:16]}"


def forget(chosen: Source, job: Job) -> None:
    """Drop a load that has ended, so that the next one reads anew; not one that somebody has started since.

    One that goes on for others is joined again.
    """
    if jobs.is_mine(job) or not job.going:
        _JOBS.forget(chosen, job)
    else:
        jobs.join(job, again=True)


def read(
    chosen: Source,
    progress: Progress | None = None,
    stop: Stop | None = None,
    file: Path | HeldFile | None = None,
) -> Dataset:
    """The documents, queries and judgements of a source; file: its table, read already. Raises DataError; Cancelled."""
    import engine

    if chosen.path not in DEMOS:
        roots.check_corpus(chosen.path)
    inside = chosen.qrels == "qrels" or (Path(chosen.path) / chosen.qrels).is_dir()
    if len(Path(chosen.qrels).parts) > 1 or not inside:
        roots.check_corpus(chosen.qrels)
    dataset: Dataset = engine.load_dataset(file or chosen.path, **chosen.reading, progress=progress, stop=stop)
    return dataset


def _load_and_settle(chosen: Source, inspection: Inspection | None, job: Job) -> Loaded:
    job.partial = inspection and inspection.take(chosen)
    loaded = _load(chosen, job)
    settle()  # here, where the temporary objects of loading are gone
    return loaded


def _attach(chosen: Source, job: Job) -> Loaded:
    """A corpus in a vector engine, with a sample of its documents here."""
    from engine.reach import attach
    from engine.reach import sample_documents as sampled
    from engine.values import Dataset, Queries

    job.report(0, 0, f"asking {chosen.store}")
    reach = attach(chosen.store)
    sample = sampled(reach, SAMPLE)
    dataset = Dataset(sample.corpus, Queries((), ()))
    return Loaded(source=chosen, dataset=dataset, space=sample, queries=None, reach=reach)


def _load(chosen: Source, job: Job) -> Loaded:
    if chosen.store:
        return _attach(chosen, job)
    if not chosen.trained:
        return _embed(chosen, job)
    from dashboard.services import trained

    path = trained.path_of(chosen.trained)  # raises before anything is read
    plain = known(chosen.plain)
    base = plain.result if plain is not None and plain.result is not None else _embed(chosen.plain, job)
    job.report(0, 0, "reading what was trained")
    return trained.apply_checkpoint(base, chosen, path)


def _embed(chosen: Source, job: Job) -> Loaded:
    report = _freezing(job, 1)
    report(0, 0, "reading the corpus")
    import engine
    from engine.data.encoders import count_truncated, shipped_notices
    from engine.values import Notice

    roots.check_model(chosen.encoder)
    job.partial = dataset = _interned(job.partial or read(chosen, report, job.stop))
    report = _freezing(job, 2, "documents")
    options = {"encoder": chosen.encoder, "dtype": chosen.dtype, "stop": job.stop, "label": dataset.corpus.name}
    embeddings = (chosen.own and dataset.vectors) or engine.embed(dataset.corpus, progress=report, **options)
    queries = None
    if embeddings.encoder is not None:
        if cut := count_truncated(dataset.corpus, chosen.encoder):
            notice = Notice("documents are longer than the encoder reads: their ends do not count", cut)
            dataset = replace(dataset, notices=(*dataset.notices, notice))
        came = shipped_notices(dataset.corpus, embeddings)
        dataset = replace(dataset, notices=(*dataset.notices, *came))
        if 0 < len(dataset.queries) <= EAGER_QUERIES:
            options["dtype"] = embeddings.encoder.dtype
            queries = engine.embed(dataset.queries, progress=_freezing(job, 3, "queries"), **options).vectors
    space = engine.Space(dataset.corpus, embeddings)
    return Loaded(source=chosen, dataset=dataset, space=space, queries=queries)


def _interned(dataset: Any) -> Any:
    """The data set with the texts of another encoder's corpus, where those are the same and in memory."""
    for other in in_memory():
        if other.dataset.corpus == dataset.corpus and other.dataset.corpus.name == dataset.corpus.name:
            corpus, metadata = other.dataset.corpus, dataset.corpus.metadata
            # The columns beside the documents are no part of what makes two corpora the same.
            return replace(
                dataset, corpus=corpus if corpus.metadata == metadata else replace(corpus, metadata=metadata)
            )
    return dataset


def _freezing(job: Job, step: int, what: str = "") -> Callable[[int, int, str], None]:
    """The job's progress callback; each new label hides what was imported since from the garbage collector.

    what: the texts that are embedded in this step of loading
    """

    def report(done: int, total: int, label: str) -> None:
        if what:
            from engine.data.encoders import EMBEDDING  # imports torch, which the first words need not wait for

            label = f"{label} {what}" if label == EMBEDDING else label
        label = f"Step {step} of {STEPS} · {label[:1].upper()}{label[1:]}"
        if label != job.progress.label:
            gc.freeze()
        job.report(done, total, label)

    return report


def settle() -> None:
    """Move everything alive out of the garbage collector's sight.

    Streamlit collects after every script run; with torch loaded that takes 190 ms and starves worker threads.
    """
    gc.unfreeze()  # else what died since the last time would never be freed
    gc.collect()
    gc.freeze()
    # glibc keeps a heap for every thread, and each corpus is read in its own; elsewhere there is nothing to trim.
    with contextlib.suppress(OSError, AttributeError, TypeError):
        ctypes.CDLL(None).malloc_trim(0)


def warm_encoder(chosen: Source) -> None:
    """Run the encoder, and compile the methods, in a job: the first typed query and choice then need not wait."""
    Job("warm the encoder", partial(_warm, chosen))


def _warm(chosen: Source, job: Job) -> None:
    from engine.stages import methods

    kinds = [spec.cls for spec in methods("selector").values()]
    for kind in kinds[:FIRST]:
        if kind.is_warm():  # else compiled once the first page is drawn, which needs a core for itself
            kind.warm()
    load = loading(chosen)
    while load.running and not job.stop.is_set():
        load.join(0.2)
    if load.result is None or job.stop.wait(HEAD_START):
        return
    ref = load.result.space.encoder
    steps: list[Callable[[], Any]] = [partial(_warm_path, kind) for kind in kinds[:FIRST]]
    if ref is not None:
        import engine

        steps.append(partial(engine.embed, ["warm up"], encoder=ref.name, dtype=ref.dtype, cache=False))
    for step in (*steps, *(kind.warm for kind in kinds)):
        if not job.stop.is_set():
            step()
    settle()


def _warm_path(kind: type[Selector]) -> None:
    """Compile what finds a selector's rankings at every λ."""
    import torch

    from engine.candidates import Candidates
    from engine.matrix import Matrix

    if (stage := kind()).no_path is None:
        rows = torch.eye(8)
        stage.lambda_path(Candidates(rows, rows[:1], rows[:1], Matrix(rows, cached=True)), 2, (0.0, 1.0))
