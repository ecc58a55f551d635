"""Embedding of texts, chunk by chunk through the cache, so that no text is embedded twice.

A chunk is keyed by its texts, the model's files, the prompt and the arithmetic. Queries that a person types are cached
in memory only: a file for each would outnumber those of corpora and query sets.
"""

import os
import tempfile
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain

import numpy as np
import torch
from torch import Tensor

from engine.data import cache as store
from engine.data import inventory, shipped
from engine.data.endpoints.client import run_tasks
from engine.data.endpoints.config import is_endpoint
from engine.data.endpoints.consent import Estimate, estimate_tokens, require_consent
from engine.data.endpoints.embeddings import EndpointEncoder, EndpointSource, find_endpoint
from engine.data.models import encoder_model, precision
from engine.data.models.encoder_model import Dtype, Encoder, ModelSource, Role
from engine.errors import Cancelled, DataError, FrontierError
from engine.params import Whole
from engine.progress import Progress, Stop, counted
from engine.values import Corpus, Dataset, Embeddings, EncoderRef, Notice, Queries, digest_of, replace_surrogates

EMBEDDING_SECTION = "embeddings"
#: The remark of the notice of vectors that came with Frontier, which are in that precision.
SHIPPED_REMARK = "precomputed vectors (float16)"
LENGTH_SECTION = "lengths"
# The number of truncated texts is kept for as many texts.
_MIN_COUNTED_TEXTS = 2000
#: The remark of the notice of documents of which the encoder reads the beginning alone.
TRUNCATED_REMARK = "documents are longer than the encoder reads: their ends do not count"
# Changed whenever the same texts and model would give other vectors.
_FORMAT_VERSION = "1"

# A killed run loses one chunk: with the bundled model a second or two on one core.
_MAX_CHUNK_TEXTS = 256
_MAX_CHUNK_TOKENS = 8192
_MIN_CHUNK_TEXTS = 8
_MEAN_CHUNK_TEXTS = 64
# One core of a CPU encodes a batch well within the second in which a stop must take effect.
_MAX_BATCH_TOKENS = 2048
_MAX_TEXT_TOKENS = 512
# From so many tokens on, texts are worth an estimate of the time, which is that of a few of them.
_MIN_TIMED_TOKENS, _TIMED_TEXTS = 50_000, 16

MAPPED_MATRIX_BYTES = 1 << 30
"""Larger matrices are mapped from an unnamed file on the cache's disk instead of memory."""

_MAX_TYPED_TEXTS = 1000
_TYPED_VECTORS: dict[str, np.ndarray] = {}
"""Vectors of typed texts by the key of their chunk, the oldest first."""

Encode = Callable[[Sequence[str]], Tensor]
BATCH_SIZE = Whole(32, "batch", 1, name="batch_size", help="Texts that the encoder reads at once, at most.")
LOADING, DOWNLOADING = "loading the encoder", "downloading the encoder"
PROBING = "checking that bfloat16 is accurate enough"
READING, EMBEDDING = "reading the cache", "embedding"


def embed(
    what: Corpus | Queries | Sequence[str] | str,
    encoder: str = "bundled",
    *,
    dtype: str = "auto",
    device: str | None = None,
    role: Role | None = None,
    batch_size: int = 32,
    cache: bool = True,
    label: str | None = None,
    progress: Progress | None = None,
    stop: Stop | None = None,
) -> Embeddings:
    """Embed a corpus (as documents) or queries (as queries) as unit vectors.

    A matrix above MAPPED_MATRIX_BYTES is a mapped file if `cache` is set.

    Parameters
    ----------
    what : Corpus, Queries, sequence of str or str
        Texts to embed.
    encoder : str, default "bundled"
        "bundled", a model folder, a sentence-transformers name, or "endpoint:NAME" for an entry of endpoints.toml,
        whose server the texts are then sent to.
    dtype : {"auto", "float32", "bfloat16"}, default "auto"
        Arithmetic of the encoder, not the type of the result; "auto" is bfloat16 where it is fast and accurate.
    device : str, optional
        None for a GPU if there is one.
    role : {"document", "query"}, optional
        Which prompt to use, if not the usual one.
    batch_size : int, default 32
        Largest batch. It is no part of the cache key, though the last bits of a vector depend on it.
    cache : bool, default True
        If False, the disk is neither read nor written. A few plain texts, as queries, are cached in memory only.
    label : str, optional
        Name in the list of cached items; by default the name of the corpus.
    progress : callable, optional
        Called as progress(done, total, label) before the encoder is loaded and after every batch.
    stop : Stop, optional
        Checked between batches; loading the encoder cannot be interrupted.

    Returns
    -------
    Embeddings
        Vectors of shape (n, d), float32, on the CPU.

    Raises
    ------
    DataError
        If there are no texts, or a text is not a string.
    Cancelled
        If `stop` was set; finished chunks are cached.
    FrontierError
        If the encoder is unavailable, options are invalid, or the cache cannot be written.

    Examples
    --------
    >>> import engine
    >>> engine.embed(["sort an array", "matrix inverse"]).vectors.shape
    torch.Size([2, 384])
    """
    ids, texts, role = _resolve_inputs(what, role)
    BATCH_SIZE.check(batch_size)
    run = _EmbeddingRun(texts, progress, stop, cache)
    run.report(LOADING)
    device = encoder_model.device_of(device)
    model_source = find_model(encoder, cache, lambda: run.report(DOWNLOADING))
    shipped_vectors = _find_shipped(texts, role, model_source, dtype) if cache else None
    dtype = shipped.SHIPPED_ARITHMETIC if shipped_vectors else dtype
    arithmetic = _choose_arithmetic(model_source, device, dtype, cache, lambda: run.report(PROBING))
    prompt, encoder_reference = model_source.prompt(role), EncoderRef(encoder, model_source.digest, arithmetic)
    is_typed, missing_spans, chunk_keys = _is_typed(what, role, texts), [], []
    for span, key in _key_chunks(texts, model_source.digest, arithmetic, role, prompt):
        chunk_keys.append(key)
        cached_rows = _read_chunk(key, is_typed) if cache else None
        if cached_rows is None:
            missing_spans.append((span, key))
        else:
            run.add_rows(span.start, torch.from_numpy(cached_rows), READING)
    if cache:
        _label_chunks(what, label, role, encoder_reference, chunk_keys)
    if isinstance(model_source, EndpointSource):
        _send_spans(EndpointEncoder(model_source, is_typed), missing_spans, prompt, is_typed, cache, run)
        return run.build_embeddings(ids, encoder_reference, role)
    # Shipped vectors are rounded; mixing them with cached ones would give a corpus of two kinds.
    has_vector, shipped_matrix = torch.zeros(len(texts), dtype=torch.bool), torch.empty(len(texts), 0)
    if shipped_vectors and len(missing_spans) == len(chunk_keys):
        has_vector, shipped_matrix = shipped_vectors
    missing_indices = {span: [index for index in span if not has_vector[index]] for span, _ in missing_spans}
    # The model is loaded only if some text has neither a cached nor a shipped vector.
    encode_missing = None
    if any(missing_indices.values()):
        run.report(LOADING)
        model = encoder_model.load(model_source, device, arithmetic)
        run.report(EMBEDDING)
        encode_missing = partial(_encode_texts, model, role=role, prompt=prompt, batch_size=batch_size, run=run)
    for span, key in missing_spans:
        vectors = _complete_span(span, shipped_matrix, missing_indices[span], encode_missing, run)
        if cache:
            _store_chunk(key, vectors.numpy(), is_typed)
        run.add_rows(span.start, vectors)
    return run.build_embeddings(ids, encoder_reference, role)


def find_model(
    name: str, use_cache: bool = True, on_download: Callable[[], None] = lambda: None
) -> ModelSource | EndpointSource:
    """Find an encoder: a model on disk, downloaded if need be, or an entry of endpoints.toml; no server is asked.

    use_cache, on_download: as `encoder_model.find_source` takes them. Raises FrontierError.
    """
    return find_endpoint(name) if is_endpoint(name) else encoder_model.find_source(name, use_cache, on_download)


def _choose_arithmetic(
    source: ModelSource | EndpointSource,
    device: str,
    dtype: str,
    use_cache: bool = True,
    on_probe: Callable[[], None] = lambda: None,
) -> Dtype:
    """Return the arithmetic of an encoder, as `precision.choose_dtype`; that of an endpoint is the server's matter."""
    if isinstance(source, EndpointSource):
        return EndpointEncoder.dtype
    return precision.choose_dtype(source, device, dtype, use_cache, on_probe)


def estimate_sending(text_sources: Iterable[Corpus | Queries], encoder: str) -> Estimate | None:
    """Estimate what `embed` would send for texts without a cached vector; None if nothing, or by a model on this disk.

    Raises the errors of `embed`.
    """
    source = find_model(encoder) if is_endpoint(encoder) else None
    if not isinstance(source, EndpointSource):
        return None
    n_texts = n_tokens = 0
    for text_source in text_sources:
        _, texts, role = _resolve_inputs(text_source, None)
        prompt = source.prompt(role)
        for span, key in _key_chunks(texts, source.digest, EndpointEncoder.dtype, role, prompt):
            if store.get(EMBEDDING_SECTION, key) is None:
                n_texts += len(span)
                n_tokens += source.estimate(texts[span.start : span.stop], prompt).n_tokens
    return source.add_probes(Estimate(n_texts, n_tokens, source.settings.host)) if n_texts else None


def estimate_seconds(text_source: Corpus | Queries, encoder: str = "bundled", *, dtype: str = "auto") -> float:
    """Estimate the seconds that `embed` would take on this machine for the texts without a cached vector.

    A few of them are encoded, so the encoder is loaded; few texts are taken to need no time. An endpoint is not asked:
    0. Raises the errors of `embed`.
    """
    _, texts, role = _resolve_inputs(text_source, None)
    model_source, device = find_model(encoder), encoder_model.device_of(None)
    if isinstance(model_source, EndpointSource) or _find_shipped(texts, role, model_source, dtype):
        return 0.0
    prompt, arithmetic = model_source.prompt(role), _choose_arithmetic(model_source, device, dtype)
    missing_texts = list[str]()
    for span, key in _key_chunks(texts, model_source.digest, arithmetic, role, prompt):
        if store.get(EMBEDDING_SECTION, key) is None:
            missing_texts += texts[span.start : span.stop]
    n_tokens = _count_tokens(missing_texts)
    if n_tokens < _MIN_TIMED_TOKENS:
        return 0.0
    # From the whole corpus, as the beginning of a file may have shorter texts than its end.
    samples = missing_texts[:: max(1, len(missing_texts) // _TIMED_TEXTS)][:_TIMED_TEXTS]
    model, run = encoder_model.load(model_source, device, arithmetic), _EmbeddingRun(samples, None, None, on_disk=False)
    # The first encoding is several times slower than the next.
    model.warm_up()
    start_time = time.perf_counter()
    _encode_texts(model, samples, role, prompt, BATCH_SIZE.default, run)
    return (time.perf_counter() - start_time) * n_tokens / _count_tokens(samples)


def _count_tokens(texts: Iterable[str]) -> int:
    """Estimate the number of tokens that an encoder reads of all texts."""
    return sum(_estimate_tokens(text.encode("utf-8", "replace")) for text in texts)


def _send_spans(
    encoder: EndpointEncoder,
    missing_spans: Sequence[tuple[range, str]],
    prompt: str,
    is_typed: bool,
    use_cache: bool,
    run: "_EmbeddingRun",
) -> None:
    """Have an endpoint embed spans of texts with their keys, and cache each chunk as it comes.

    Asks for consent first. is_typed, use_cache: where the chunks are cached, if anywhere.
    """
    if not missing_spans:
        return
    host = encoder.source.settings.host
    missing_texts = (run.texts[index] for span, _ in missing_spans for index in span)
    estimate = encoder.source.estimate(missing_texts, prompt)
    # Nothing is mixed where nothing is cached, and then the model is not probed.
    require_consent(encoder.source.add_probes(estimate) if use_cache else estimate)
    if use_cache:
        run.report(f"asking {host} whether its model is that of before")
        encoder.check_probes(run.stop)
    # A chunk is cut from the texts when it is sent, as a large corpus may lie on the disk.
    chunks = ((chunk, [run.texts[index] for index in chunk[0]]) for chunk in missing_spans)
    n_tokens, label = 0, f"{EMBEDDING} by {host}, tokens"

    def report_tokens(waiting: str = "") -> None:
        """Report the tokens that came back so far."""
        run.report_tokens(n_tokens, estimate.n_tokens, f"{label}, {waiting}" if waiting else label)

    report_tokens()

    def encode_chunk(chunk: tuple[tuple[range, str], Sequence[str]], stop: Stop) -> tuple[Tensor, int]:
        """Have one chunk's texts encoded."""
        return encoder.encode_texts(chunk[1], prompt, stop)

    results = run_tasks(encoder.endpoint, chunks, encode_chunk, run.stop, report_tokens)
    for ((span, key), _), (rows, n_cut) in results:
        if len(run.vectors) and rows.shape[1] != run.vectors.shape[1]:
            raise encoder.endpoint.wrong_answer(f"answered with vectors of another length, {rows.shape[1]:,}")
        if use_cache:
            # The count is stored first: vectors whose count is missing would never be counted.
            if n_cut:
                store.put(LENGTH_SECTION, key, str(n_cut).encode())
            _store_chunk(key, rows.numpy(), is_typed)
        run.add_rows(span.start, rows)
        n_tokens += encoder.source.estimate((run.texts[index] for index in span), prompt).n_tokens
        report_tokens()


def _is_typed(text_source: object, role: Role, texts: Sequence[str]) -> bool:
    """Return True for a few texts that a person typed: neither a query set nor documents.

    Their vectors are cached in memory only.
    """
    return role == "query" and not isinstance(text_source, Corpus | Queries) and len(texts) < _MIN_CHUNK_TEXTS


def _read_chunk(key: str, is_typed: bool) -> np.ndarray | None:
    """Return the cached vectors of a chunk, None if there are none.

    Those of typed texts are looked up in memory first.
    """
    typed_rows = _TYPED_VECTORS.get(key) if is_typed else None
    return store.get_array(EMBEDDING_SECTION, key) if typed_rows is None else typed_rows.copy()


def _store_chunk(key: str, vectors: np.ndarray, is_typed: bool) -> None:
    """Cache the vectors of a chunk: on the disk, or in memory if a person typed its texts."""
    if not is_typed:
        return store.put_array(EMBEDDING_SECTION, key, vectors)
    _TYPED_VECTORS[key] = vectors.copy()
    # Dictionaries keep the order of insertion, so the first keys beyond the limit are the oldest.
    for oldest_key in list(_TYPED_VECTORS)[:-_MAX_TYPED_TEXTS]:
        _TYPED_VECTORS.pop(oldest_key, None)


class TextEncoder:
    """Encoder for single texts, which neither reads nor writes the cache of vectors.

    Arguments and errors as of `embed`. Called with texts and their role, returns (n, d) float32 unit vectors.
    """

    def __init__(self, encoder: str = "bundled", *, dtype: str = "auto", device: str | None = None) -> None:
        """Load the encoder, downloaded if need be.

        encoder: "bundled", a folder, a name on the Hugging Face hub, or endpoint:NAME, whose server is not asked yet;
        dtype: its arithmetic, "auto" chooses; device: None for a GPU if there is one. Raises FrontierError.
        """
        model_source, device = find_model(encoder), encoder_model.device_of(device)
        self._model: Encoder | EndpointEncoder
        if isinstance(model_source, EndpointSource):
            self._model = EndpointEncoder(model_source, is_typed=True)
        else:
            self._model = encoder_model.load(model_source, device, precision.choose_dtype(model_source, device, dtype))
        self.reference = EncoderRef(encoder, model_source.digest, self._model.dtype)

    def __call__(self, texts: Sequence[str], role: Role) -> Tensor:
        """Return (n, d) float32 unit vectors of n texts; role: "document" or "query", which choose the prompt."""
        _check_texts(texts)
        # A run without listeners: it reports no progress and cannot be stopped.
        run, prompt = _EmbeddingRun(texts, None, None, on_disk=False), self._model.source.prompt(role)
        if isinstance(self._model, EndpointEncoder):
            source = self._model.source
            require_consent(source.add_probes(source.estimate(texts, prompt)))
        return _encode_texts(self._model, texts, role, prompt, BATCH_SIZE.check(32), run)


def _complete_span(
    span: range, shipped_matrix: Tensor, missing_indices: Sequence[int], encode: Encode | None, run: "_EmbeddingRun"
) -> Tensor:
    """Return the (len(span), d) vectors of a span of texts, shipped ones where there are any.

    span: positions of the texts; shipped_matrix: (n, d) vectors shipped with Frontier, (n, 0) if none apply;
    missing_indices: positions in the span without such a vector, which `encode` computes; encode: None if nothing is
    missing anywhere.
    """
    # `torch` slices are views; the rows of texts without a shipped vector are zeros, which are filled in below.
    span_vectors = shipped_matrix[span.start : span.stop]
    if len(missing_indices) < len(span):
        run.report(READING, len(span) - len(missing_indices))
    if not missing_indices or encode is None:
        return span_vectors
    encoded_rows = encode([run.texts[index] for index in missing_indices])
    if len(missing_indices) == len(span):
        return encoded_rows
    span_vectors[[index - span.start for index in missing_indices]] = encoded_rows
    return span_vectors


def read_embedded_texts(
    text_source: Corpus | Queries | Sequence[str] | str, encoder: str = "bundled", *, dtype: str = "auto"
) -> Embeddings | None:
    """Read the embeddings of texts from the cache on the disk; None unless all of them are there.

    Nothing is encoded. Raises the errors of `embed`.
    """
    ids, texts, role = _resolve_inputs(text_source, None)
    model_source = find_model(encoder)
    # The key of a chunk holds the arithmetic that `embed` would choose. For a demo that is the arithmetic of the
    # vectors shipped with Frontier, if `embed` would use these.
    arithmetic = shipped.SHIPPED_ARITHMETIC
    if not _find_shipped(texts, role, model_source, dtype):
        arithmetic = _choose_arithmetic(model_source, encoder_model.device_of(None), dtype)
    run = _EmbeddingRun(texts, None, None, on_disk=True)
    for span, key in _key_chunks(texts, model_source.digest, arithmetic, role, model_source.prompt(role)):
        cached_rows = store.get_array(EMBEDDING_SECTION, key)
        if cached_rows is None:
            return None
        run.add_rows(span.start, torch.from_numpy(cached_rows))
    return run.build_embeddings(ids, EncoderRef(encoder, model_source.digest, arithmetic), role)


def list_cached_encoders(text_source: Corpus | Queries) -> tuple[EncoderRef, ...]:
    """List the encoders, in each arithmetic, that a corpus or query set was embedded by here, the last used first.

    The encoders themselves may be gone, and so may some of their vectors.
    """
    labels = inventory.find_labelled(EMBEDDING_SECTION, {"content": text_source.digest, "role": _role_of(text_source)})
    references: dict[tuple[str, str], EncoderRef] = {}
    for facts, _ in labels:
        name, digest, dtype = (str(facts.get(fact)) for fact in ("encoder", "weights", "arithmetic"))
        # One model may have been named by its folder and by its name on the hub.
        references.setdefault((digest, dtype), EncoderRef(name, digest, dtype))
    return tuple(references.values())


def read_cached_vectors(text_source: Corpus | Queries, encoder: EncoderRef) -> Embeddings | None:
    """Read the embeddings of a corpus or query set by an encoder from the cache; None unless all of them are there.

    Unlike `read_embedded_texts` it needs no encoder on this machine: the label of the vectors has their keys.
    """
    ids, texts, role = _resolve_inputs(text_source, _role_of(text_source))
    facts: inventory.Facts = {
        "content": text_source.digest, "role": role, "weights": encoder.digest, "arithmetic": encoder.dtype
    }  # fmt: skip
    for _facts, chunk_keys in inventory.find_labelled(EMBEDDING_SECTION, facts):
        spans, run = list(split_chunks(texts)), _EmbeddingRun(texts, None, None, on_disk=True)
        if len(spans) != len(chunk_keys):
            continue
        # Chunks depend on the texts alone, so the label's keys are in the order of the spans.
        for span, key in zip(spans, chunk_keys, strict=True):
            cached_rows = store.get_array(EMBEDDING_SECTION, key)
            if cached_rows is None or len(cached_rows) != len(span):
                break
            run.add_rows(span.start, torch.from_numpy(cached_rows))
        else:
            return run.build_embeddings(ids, encoder, role)
    return None


def _role_of(text_source: Corpus | Queries) -> Role:
    """Return the role in which texts are embedded if no other is asked for."""
    return "document" if isinstance(text_source, Corpus) else "query"


def _find_shipped(
    texts: Sequence[str], role: Role, source: ModelSource | EndpointSource, dtype: str
) -> tuple[Tensor, Tensor] | None:
    """Find the vectors that are shipped with Frontier for a demo's texts, which need no encoding.

    Returns a mask of the texts that have one, (n,), and rows, (n, d). Returns None if bfloat16 is requested, because
    the shipped ones are float32; and if bfloat16 vectors of these texts are cached already, which are never replaced.
    Where shipped vectors are used, nobody waits for a test of whether bfloat16 is accurate.
    """
    prompt, rounded_arithmetic = source.prompt(role), "bfloat16"
    chunk_keys = (key for _span, key in _key_chunks(texts, source.digest, rounded_arithmetic, role, prompt))
    if dtype == rounded_arithmetic or any(store.get(EMBEDDING_SECTION, key) is not None for key in chunk_keys):
        return None
    return shipped.shipped_vectors(source.digest, role, prompt, texts)


def shipped_notices(text_source: Corpus | Queries, embeddings: Embeddings) -> tuple[Notice, ...]:
    """Return a notice of the number of vectors that were shipped with Frontier; empty if none were.

    A vector counts as shipped if it equals the shipped one exactly, so that re-encoded texts are not reported.
    """
    _, texts, role = _resolve_inputs(text_source, None)
    source = find_model(embeddings.encoder.name) if embeddings.encoder else None
    shipped_vectors = source and shipped.shipped_vectors(source.digest, role, source.prompt(role), texts)
    if not shipped_vectors:
        return ()
    has_vector, unit_rows = shipped_vectors
    # A text without a shipped vector has a row of zeros, which an all-zero embedding would equal.
    n_shipped = int((has_vector & (unit_rows == embeddings.vectors).all(1)).sum())
    return (Notice(SHIPPED_REMARK, n_shipped),) if n_shipped else ()


def count_truncated(text_source: Corpus | Queries | Sequence[str] | str, encoder: str = "bundled") -> int | None:
    """Count the texts that exceed the encoder's limit of tokens; None if the limit is unknown.

    The encoder is not loaded; of an endpoint those count that were cut when they were embedded. Raises the errors of
    `embed`.
    """
    _, texts, role = _resolve_inputs(text_source, None)
    model_source = find_model(encoder)
    prompt = model_source.prompt(role)
    if isinstance(model_source, EndpointSource):
        chunks = _key_chunks(texts, model_source.digest, EndpointEncoder.dtype, role, prompt)
        return sum(int(store.get(LENGTH_SECTION, key) or 0) for _, key in chunks)
    prompted_texts = map(prompt.__add__, texts)
    if len(texts) < _MIN_COUNTED_TEXTS:
        return model_source.over_limit(prompted_texts)
    # Counting takes seconds for many documents, and every command on them asks for it.
    key = digest_of(chain((_FORMAT_VERSION, model_source.digest, prompt), texts))
    stored_count = store.get(LENGTH_SECTION, key)
    if stored_count is not None:
        return int(stored_count)
    n_truncated = model_source.over_limit(prompted_texts)
    if n_truncated is not None:
        store.put(LENGTH_SECTION, key, str(n_truncated).encode())
    return n_truncated


def _key_chunks(texts: Sequence[str], *key_parts: str) -> Iterator[tuple[range, str]]:
    """Split texts into chunks; yield the positions of each chunk, and its key in the cache.

    key_parts: whatever else the vectors depend on: model, arithmetic, role and prompt.
    """
    for span in split_chunks(texts):
        yield span, digest_of([_FORMAT_VERSION, *key_parts, *texts[span.start : span.stop]])


def split_chunks(texts: Sequence[str]) -> Iterator[range]:
    """Split texts into consecutive ranges whose ends depend on the texts around them.

    A chunk ends at a text whose checksum says so, or when it is full. So an inserted text changes its own chunk and
    leaves the others, with their cached vectors, as they are.
    """
    start_index = n_tokens = 0
    for index, text in enumerate(texts):
        raw_text = text.encode("utf-8", "surrogatepass")
        n_tokens += _estimate_tokens(raw_text)
        n_texts = index + 1 - start_index
        is_boundary = n_texts >= _MIN_CHUNK_TEXTS and zlib.crc32(raw_text) % _MEAN_CHUNK_TEXTS == 0
        if is_boundary or n_texts == _MAX_CHUNK_TEXTS or n_tokens >= _MAX_CHUNK_TOKENS:
            yield range(start_index, index + 1)
            start_index, n_tokens = index + 1, 0
    if start_index < len(texts):
        yield range(start_index, len(texts))


class _EmbeddingRun:
    """State of one call of `embed`: the matrix as it fills, progress and cancellation."""

    def __init__(self, texts: Sequence[str], progress: Progress | None, stop: Stop | None, on_disk: bool) -> None:
        """Prepare an empty matrix for the vectors of `texts`, and a count of those done for the progress.

        stop: an event whose setting cancels the run; on_disk: a large matrix may be a mapped file.
        """
        self.texts, self.vectors, self.stop = texts, torch.empty(0, 0), stop
        self._disk = on_disk
        self._total, self._progress, self._done = len(texts), progress, 0

    def report(self, label: str, n_finished: int = 0) -> None:
        """Report `n_finished` more texts to the listener. Raises Cancelled if a stop was requested."""
        self._check_stop()
        self._done += n_finished
        if self._progress is not None:
            self._progress(self._done, self._total, label)

    def report_tokens(self, n_tokens: int, total_tokens: int, label: str) -> None:
        """Report progress in tokens. Raises Cancelled if a stop was requested."""
        self._check_stop()
        if self._progress is not None:
            self._progress(n_tokens, total_tokens, label)

    def _check_stop(self) -> None:
        """Raise Cancelled if a stop was requested."""
        if self.stop is not None and self.stop.is_set():
            raise Cancelled(f"embedding stopped at {self._done:,} of {counted(self._total, 'text')}")

    def add_rows(self, start_index: int, new_rows: Tensor, label: str | None = None) -> None:
        """Write vectors into the matrix from a row on; label: reported as progress, None for no report."""
        if not len(self.vectors):
            # The width is known only now. Rows are written into one matrix, because two would not fit in memory.
            # Only a run that may use the disk gets a mapped file for a large matrix.
            self.vectors = (_allocate_matrix if self._disk else torch.empty)(self._total, new_rows.shape[1])
        self.vectors[start_index : start_index + len(new_rows)] = new_rows
        if label:
            self.report(label, len(new_rows))

    def build_embeddings(self, ids: tuple[str, ...], encoder: EncoderRef, role: Role) -> Embeddings:
        """Return the filled matrix as embeddings."""
        # The texts of queries are for scorers that read words; a corpus has its own.
        return Embeddings(ids, self.vectors, encoder, tuple(self.texts) if role == "query" else None)


def _allocate_matrix(n_texts: int, dimension: int) -> Tensor:
    """Allocate a float32 matrix: in memory, or if it is large in an unnamed file.

    Raises FrontierError if the disk has no room.
    """
    n_bytes = 4 * n_texts * dimension
    if n_bytes <= MAPPED_MATRIX_BYTES:
        return torch.empty(n_texts, dimension)
    folder = store.open_section(EMBEDDING_SECTION)
    with store.translate_write_errors(folder), tempfile.TemporaryFile(dir=folder, prefix=".", suffix=".tmp") as file:
        if hasattr(os, "posix_fallocate"):
            # Writing to a sparse file on a full disk would kill the process, so the space is reserved here.
            os.posix_fallocate(file.fileno(), 0, n_bytes)
        else:
            file.truncate(n_bytes)
        return torch.from_numpy(np.memmap(file, np.float32, "r+", shape=(n_texts, dimension)))


def _encode_texts(
    model: Encoder | EndpointEncoder, texts: Sequence[str], role: Role, prompt: str, batch_size: int, run: _EmbeddingRun
) -> Tensor:
    """Encode the texts of one chunk in batches, (len(texts), d).

    Only these texts are batched together, so that a chunk's vectors do not depend on the rest of the corpus; run: for
    progress.
    """
    encoded_rows = torch.empty(0, 0)
    for batch_indices in _split_batches(texts, batch_size, model.device):
        batch_vectors = model.encode([texts[index] for index in batch_indices], role, prompt)
        # The dimension is known only after the first batch.
        encoded_rows = encoded_rows if len(encoded_rows) else torch.empty(len(texts), batch_vectors.shape[1])
        encoded_rows[batch_indices] = batch_vectors
        # `retreat` is empty, or says that the device had no room, so that batches are smaller or on the CPU.
        run.report(f"{EMBEDDING} {model.retreat}".rstrip(), len(batch_indices))
    return encoded_rows


def _split_batches(texts: Sequence[str], batch_size: int, device: str) -> Iterator[list[int]]:
    """Yield positions of texts in batches of similar length, the longest first.

    A batch is padded to its longest text, so that mixed lengths would waste work.
    """
    token_counts = [_estimate_tokens(text.encode("utf-8", "replace")) for text in texts]
    remaining = sorted(range(len(texts)), key=lambda index: -token_counts[index])
    while remaining:
        # On a CPU the longest text, to which all are padded, also limits the batch, so that a stop soon takes effect.
        max_texts = min(batch_size, _MAX_BATCH_TOKENS // token_counts[remaining[0]]) if device == "cpu" else batch_size
        batch_indices, remaining = remaining[: max(1, max_texts)], remaining[max(1, max_texts) :]
        yield batch_indices


def _label_chunks(source: object, label: str | None, role: Role, encoder: EncoderRef, keys: Sequence[str]) -> None:
    """Label chunks of vectors in the cache with their corpus or query set, for a person's list.

    source: what was embedded; typed texts get no label; keys: of the chunks.
    """
    if not isinstance(source, Corpus | Queries):
        return
    # A single query without a name was most likely typed by a person, and is no query set worth a line in the list.
    if len(source) < 2 and label is None and isinstance(source, Queries):
        return
    label_facts: inventory.Facts = {
        "name": replace_surrogates(label or (source.name if isinstance(source, Corpus) else "queries")),
        "role": role,
        "texts": len(source),
        "content": source.digest,
        "encoder": encoder.name,
        "weights": encoder.digest,
        "arithmetic": encoder.dtype,
    }
    label_name = digest_of([source.digest, encoder.digest, encoder.dtype, role])
    inventory.label_entries(EMBEDDING_SECTION, label_name, keys, label_facts)


def _estimate_tokens(raw_text: bytes) -> int:
    """Estimate the number of tokens that an encoder reads of a text, from its number of bytes."""
    return min(estimate_tokens(raw_text), _MAX_TEXT_TOKENS)


def _resolve_inputs(text_source: object, role: Role | None) -> tuple[tuple[str, ...], Sequence[str], Role]:
    """Return ids, texts and role of whatever `embed` accepts.

    role: None for that of the input, documents for a corpus and queries for everything else. Raises FrontierError or
    DataError for invalid input.
    """
    if role not in (None, "document", "query"):
        raise FrontierError(f"role must be 'document' or 'query'; got {role!r}")
    match text_source:
        case Corpus():
            _check_texts(text_source.texts)
            return text_source.ids, text_source.passages, role or "document"
        case Queries():
            _check_texts(text_source.texts)
            return text_source.ids, text_source.texts, role or "query"
        case Dataset():
            raise DataError("a data set has two kinds of text: embed its .corpus or its .queries")
        case str():
            return _resolve_inputs((text_source,), role)
        # Iterating a data frame would embed the names of its columns.
        case Iterable() if not isinstance(text_source, (bytes, dict)) and not hasattr(text_source, "columns"):
            texts = tuple(text_source)
            _check_texts(texts)
            # Plain texts are numbered as ids, and count as queries unless `role` says otherwise.
            return _resolve_inputs(Queries.of(texts), role)
    fix = ". Pass one of its columns" if hasattr(text_source, "columns") else ""
    raise DataError(f"embed takes a Corpus, Queries or a list of strings; got {type(text_source).__name__}{fix}")


def _check_texts(texts: Sequence[object]) -> None:
    """Raise a DataError if there are no texts, or one is not a string."""
    if not texts:
        raise DataError("there is nothing to embed: no texts")
    for index, text in enumerate(texts):
        if not isinstance(text, str):
            raise DataError(f"text {index} (counting from 0) is {type(text).__name__}, not a string: {text!r:.60}")
