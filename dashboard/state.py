"""What outlives a script run: the loaded corpora, shared by all sessions, and which one a session looks at."""

from __future__ import annotations

import ctypes
import gc
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import streamlit as st

from dashboard.jobs import Job

DEMOS = {
    "numpy-api": "NumPy's functions: about 820 documents full of near-duplicates, with judged tasks",
    "python-api": "NumPy, pandas, SciPy, scikit-learn and PyTorch: about 15,000 documents, no judgements",
}
MOST_LOADED = 3
"""How many corpora stay in memory; the one not used for longest goes first."""
HOW = ("qrels", "encoder", "dtype", "trained")
COLUMNS = ("id_column", "text_column", "title_column")
"""What an address calls the fields of a Source and the columns of its table."""
VERSION_KEY = "v"
"""An address that has it is a link to a whole state."""
ADDRESS, LINK = "address", "link"
"""Where a session keeps which corpus its address names, and a link that is not applied yet."""
EAGER_QUERIES = 512
"""Up to so many labelled queries are embedded with the corpus, so that switching between them is instant."""


@dataclass(frozen=True)
class Source:
    """Where a corpus comes from and how it is embedded.

    path: a demo's name, a file or a folder; columns: (id, text, title) of a table; qrels: the folder of judgements;
    own: whether vectors that came with the corpus are used, if there are any; trained: the name of a checkpoint kept
    here, whose embeddings are used, "" for the encoder's own.
    """

    path: str
    columns: tuple[str | None, str, str | None] | None = None
    qrels: str = "qrels"
    encoder: str = "bundled"
    dtype: str = "auto"
    own: bool = True
    trained: str = ""

    @property
    def plain(self) -> Source:
        """The same corpus as its encoder embeds it."""
        return replace(self, trained="")


@dataclass(frozen=True)
class Loaded:
    """A corpus ready to be searched.

    queries: the vectors of its labelled queries, None if they come on demand; embedded: the corpus as it was embedded,
    where feedback has moved the documents of this one; base: the corpus as its encoder embedded it, where the vectors
    of this one were trained; training: what that is called, "" where they were not; trained_for: the decoder that it
    was for; learnt: whether it ever got better than where it started.
    """

    source: Source
    dataset: Any
    space: Any
    queries: Any | None
    embedded: Loaded | None = None
    base: Loaded | None = None
    training: str = ""
    trained_for: Any | None = None
    learnt: bool = True

    @property
    def plain(self) -> Loaded:
        """The corpus as its encoder embedded it: what training begins with."""
        return self.origin.base or self.origin

    @property
    def origin(self) -> Loaded:
        """The corpus as it was embedded: what links and logs name."""
        return self.embedded or self

    def vectors_of(self, queries: Any) -> Any | None:
        """The Embeddings of some of its labelled queries; None where they come on demand."""
        from engine.values import Embeddings

        if self.queries is None:
            return None
        rows = [self.dataset.queries.position[query] for query in queries.ids]
        return Embeddings(self.queries[rows], queries.ids, self.space.embeddings.encoder, queries.texts)


def _trim() -> Callable[[int], int] | None:
    """glibc's way to give freed memory back, None elsewhere: it keeps a heap for every thread, and each corpus is read
    in a thread of its own."""
    try:
        return ctypes.CDLL(None).malloc_trim
    except (OSError, AttributeError, TypeError):
        return None


_TRIM = _trim()
_LOCK = threading.RLock()
_JOBS: OrderedDict[Source, Job] = OrderedDict()
_START = Source("numpy-api")


def start_with(path: str) -> None:
    """Which corpus a new session opens."""
    global _START
    _START = Source(path)


def source_at_start() -> Source:
    """The corpus that a new session opens."""
    return _START


def addressed(chosen: Source) -> dict[str, str]:
    """How an address names a corpus: its path, and what is not as it is by default."""
    plain = Source(chosen.path)
    kept = {name: getattr(chosen, name) for name in HOW if getattr(chosen, name) != getattr(plain, name)}
    columns = {name: column for name, column in zip(COLUMNS, chosen.columns or (), strict=False) if column is not None}
    return {"corpus": chosen.path, **columns, **kept}


def named(address: Mapping[str, str]) -> Source | None:
    """The corpus that an address names, there or not; None where it names none."""
    if not address.get("corpus"):
        return None
    ident, text, title = (address.get(name) for name in COLUMNS)
    kept = {name: address[name] for name in HOW if name in address}
    return Source(address["corpus"], (ident, text, title) if text is not None else None, **kept)


def available(wanted: Source) -> Source | None:
    """The corpus that an address may open: a demo, or what this server has been asked to load; and nothing else.

    With what was trained for it, there or not: loading it says which.
    """
    there = [s for s, _ in _jobs() if s.path == wanted.path]
    demo = Source(wanted.path) if wanted.path in DEMOS else None
    if wanted.plain in (*(s.plain for s in there), demo):
        return wanted
    return there[-1] if there else demo


def source() -> Source:
    """The corpus this session looks at; its name stands in the address, so that a reload comes back to it.

    A link in the address of a session's first run is kept in the session for when its corpus is there.
    """
    if "source" not in st.session_state:
        wanted = named(st.query_params)
        st.session_state["source"] = st.session_state[ADDRESS] = (wanted and available(wanted)) or _START
        if VERSION_KEY in st.query_params:
            st.session_state[LINK] = st.query_params.to_dict()
    chosen = st.session_state["source"]
    if st.session_state.get(ADDRESS) != chosen or (chosen != _START and "corpus" not in st.query_params):
        plain_address()
    return chosen


def plain_address() -> None:
    """Have the address name the corpus and no more: what else stood there is no longer what the session shows."""
    chosen = st.session_state[ADDRESS] = st.session_state["source"]
    wanted = {} if chosen == _START else addressed(chosen)
    if st.query_params.to_dict() != wanted:
        st.query_params.from_dict(wanted)


def use(chosen: Source) -> None:
    """Look at another corpus from the next run on."""
    st.session_state["source"] = chosen


def loading(chosen: Source | None = None) -> Job:
    """The job that loads a corpus, started now if it is not there: its result is a Loaded."""
    chosen = chosen or _START
    with _LOCK:
        job = _JOBS.get(chosen)
        if job is None:
            job = _JOBS[chosen] = Job(f"load {chosen.path}", partial(_settled, chosen))
            finished = [s for s, j in _JOBS.items() if not j.running and s != chosen]
            finished.sort(key=lambda s: _JOBS[s].result is not None)  # what failed goes before what is of use
            for old in finished[: max(0, len(_JOBS) - MOST_LOADED)]:
                del _JOBS[old]
        _JOBS.move_to_end(chosen)
        return job


def _jobs() -> list[tuple[Source, Job]]:
    """All that is loaded or on its way, the one used last at the end."""
    # Even a copy has to wait: a source's hash is Python code, in which threads change places.
    with _LOCK:
        return list(_JOBS.items())


def others_loading(mine: Source | None) -> list[tuple[Source, Job]]:
    """What is being loaded, by whatever session, other than `mine`."""
    return [(s, job) for s, job in _jobs() if job.running and s != mine]


def known(chosen: Source) -> Job | None:
    """The job that loads or has loaded a corpus, if there is one."""
    with _LOCK:
        return _JOBS.get(chosen)


def in_memory() -> list[Loaded]:
    """All corpora that are loaded, the one used last at the end."""
    return [job.result for _, job in _jobs() if job.result is not None]


def sources() -> list[Source]:
    """Where the corpora come from that are loaded or on their way."""
    return [source for source, job in _jobs() if job.running or job.result is not None]


def variants(loaded: Loaded) -> list[Loaded]:
    """The same corpus by every encoder that it is loaded with, each once; the one given comes first."""
    found = {seen_by(loaded): loaded}
    for other in in_memory():
        if other.space.corpus == loaded.space.corpus:
            found.setdefault(seen_by(other), other)
    return list(found.values())


def encoder_name(name: str) -> str:
    """An encoder's name, or the last part of its path."""
    path = Path(name).expanduser()
    return path.name if path.is_absolute() else name


def variant_names(loaded: Sequence[Loaded]) -> list[str]:
    """What tells variants apart: the encoder's name and arithmetic, what was trained on top of it, its weights where
    two have one name."""
    short = []
    for one in loaded:
        ref = one.space.encoder
        name = "own vectors" if ref is None else f"{encoder_name(ref.name)}, {ref.dtype}"
        name += f" · trained: {one.training}" if one.training else ""
        known = one.space.embeddings.encoder
        short.append((name, one.space.embeddings.digest if known is None else known.digest))
    names = [name for name, _ in short]
    return [name if names.count(name) == 1 else f"{name} ({digest[:6]})" for name, digest in short]


def seen_by(loaded: Loaded) -> str:
    """What names the encoder of a corpus, as a key: two may give documents the same vectors, and queries others."""
    embeddings = loaded.origin.space.embeddings
    ref = embeddings.encoder
    return f"{ref.digest[:16]}.{ref.dtype}" if ref else f"own.{embeddings.digest[:16]}"


def forget(chosen: Source, job: Job) -> None:
    """Drop a load that has ended, so that the next one reads anew; not one that somebody has started since."""
    with _LOCK:
        if _JOBS.get(chosen) is job:
            del _JOBS[chosen]


def _settled(chosen: Source, job: Job) -> Loaded:
    loaded = _load(chosen, job)
    settle()  # here, where what loading held in between is gone
    return loaded


def _load(chosen: Source, job: Job) -> Loaded:
    if not chosen.trained:
        return _embedded(chosen, job)
    from dashboard.training import kept

    path = kept.path_of(chosen.trained)  # before anything is read: it may not be there
    plain = known(chosen.plain)
    base = plain.result if plain is not None and plain.result is not None else _embedded(chosen.plain, job)
    job.report(0, 0, "reading what was trained")
    return kept.over(base, chosen, path)


def _embedded(chosen: Source, job: Job) -> Loaded:
    job.report(0, 0, "reading the corpus")
    report = _freezing(job, "documents")
    import engine
    from engine.data.encoders import truncated_count
    from engine.data.tables import Columns
    from engine.values import Notice

    columns = None
    if chosen.columns:
        ident, text, title = chosen.columns
        columns = Columns(id=ident, text=text, title=title)
    dataset = engine.load_dataset(chosen.path, qrels=chosen.qrels, columns=columns, progress=report, stop=job.stop)
    dataset = _interned(dataset)
    job.partial = dataset
    how = {"encoder": chosen.encoder, "dtype": chosen.dtype, "stop": job.stop, "label": dataset.corpus.name}
    embeddings = (chosen.own and dataset.vectors) or engine.embed(dataset.corpus, progress=report, **how)
    queries = None
    if embeddings.encoder is not None:
        if cut := truncated_count(dataset.corpus, chosen.encoder):
            notice = Notice("documents are longer than the encoder reads: their ends do not count", cut)
            dataset = replace(dataset, notices=(*dataset.notices, notice))
        if 0 < len(dataset.queries) <= EAGER_QUERIES:
            queries = engine.embed(dataset.queries, progress=_freezing(job, "queries"), **how).vectors
    return Loaded(chosen, dataset, engine.Space(dataset.corpus, embeddings), queries)


def _interned(dataset: Any) -> Any:
    """The data set with the texts that are in memory already, where another encoder's are the same."""
    for other in in_memory():
        if other.dataset.corpus == dataset.corpus and other.dataset.corpus.name == dataset.corpus.name:
            return replace(dataset, corpus=other.dataset.corpus)
    return dataset


def _freezing(job: Job, what: str) -> Callable[[int, int, str], None]:
    """The job's progress callback; each new stretch of work hides what was imported for it from the collector."""
    from engine.data.encoders import EMBEDDING

    def report(done: int, total: int, label: str) -> None:
        label = f"{label} {what}" if label == EMBEDDING else label
        if label != job.progress.label:
            gc.freeze()
        job.report(done, total, label)

    return report


def settle() -> None:
    """Move everything alive out of the garbage collector's sight.

    Streamlit collects after every script run; with torch loaded that takes 190 ms and starves worker threads.
    """
    gc.unfreeze()  # else what died since the last time would stay for ever
    gc.collect()
    gc.freeze()
    if _TRIM is not None:
        _TRIM(0)


def warm_encoder(chosen: Source) -> None:
    """Run the encoder, and what methods compile, once beside the page: neither the first typed query nor the first
    choice of a method then waits for them."""
    Job("warm the encoder", partial(_warm, chosen))


def _warm(chosen: Source, job: Job) -> None:
    load = loading(chosen)
    while load.running and not job.stop.is_set():
        load.join(0.2)
    if load.result is None or job.stop.is_set():
        return
    import engine
    from engine.stages import methods

    ref = load.result.space.encoder
    if ref is not None:
        engine.embed(["warm up"], encoder=ref.name, dtype=ref.dtype, cache=False)
    for spec in methods("selector").values():
        if not job.stop.is_set():
            spec.cls.warm()
    settle()
