"""Texts to vectors: chunk by chunk through the cache, so that nothing is ever embedded twice.

A chunk is keyed by its texts, the model's files, the prompt and the arithmetic. What somebody types is asked once and
stays in memory: a file for each would outnumber those of corpora and query sets.
"""

import os
import tempfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial

import numpy as np
import torch
from torch import Tensor

from engine.data import cache as store
from engine.data import inventory, shipped
from engine.data.models import encoder_model, precision
from engine.data.models.encoder_model import Encoder, ModelSource, Role
from engine.errors import Cancelled, DataError, FrontierError
from engine.params import Whole
from engine.progress import Progress, Stop
from engine.values import Corpus, Dataset, Embeddings, EncoderRef, Notice, Queries, digest_of, replace_surrogates

SECTION = "embeddings"
_FORMAT = "1"  # a new one whenever the same texts and model would give other vectors

# A chunk is what a killed run loses: with the bundled model a second or two on one core.
_CHUNK_TEXTS = 256
_CHUNK_TOKENS = 8192
_CHUNK_LEAST = 8
_CHUNK_MEAN = 64
# What one core of a CPU encodes well within the second in which a stop has to be heard.
_BATCH_TOKENS = 2048
_MOST_TOKENS = 512

MAPPED = 1 << 30
"""Bytes of a matrix above which it is a mapped file without a name, on the disk of the cache, and not in memory."""

_MOST_TYPED = 1000
_TYPED: dict[str, np.ndarray] = {}
"""Vectors of texts that were typed, by the key of their chunk, the oldest first."""

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
    """Unit vectors of a corpus (as documents) or of queries (as queries): (n, d) float32, on the CPU.

    encoder: "bundled", a model folder, or a sentence-transformers name. dtype: "auto" (bfloat16 where it is fast and
    faithful), "float32" or "bfloat16": the arithmetic, not the result. device: None for a GPU if there is one. role:
    "document" or "query", which prompt to use, if not the usual one. batch_size: an upper limit; it is no part of the
    cache key, though the last bits of a vector depend on it. cache: False neither reads nor writes the disk; a few
    plain texts, as queries, stay in memory. label: what the list of cached things calls these, by default a corpus by
    its name. progress(done, total, label): called before the encoder is loaded and after every batch. stop: checked
    between batches; loading the encoder cannot be interrupted. A matrix above MAPPED bytes is a mapped file if cache.
    Raises DataError for no texts or a text that is no string, Cancelled when stopped (finished chunks are kept), and
    FrontierError for an encoder that cannot be had, options that make no sense, or a cache that cannot be written.
    """
    ids, texts, role = _inputs(what, role)
    BATCH_SIZE.check(batch_size)
    run = _Run(len(texts), progress, stop, cache)
    run.tell(LOADING)
    device = encoder_model.device_of(device)
    source = encoder_model.find(encoder, cache, lambda: run.tell(DOWNLOADING))
    given = _shipped(texts, role, source, dtype) if cache else None
    dtype = shipped.ARITHMETIC if given else dtype
    arithmetic = precision.choose(source, device, dtype, cache, lambda: run.tell(PROBING))
    prompt, reference = source.prompt(role), EncoderRef(encoder, source.digest, arithmetic)
    typed, missing, keys = _is_typed(what, role, texts), [], []
    for span, key in _keyed(texts, source.digest, arithmetic, role, prompt):
        keys.append(key)
        stored = _stored(key, typed) if cache else None
        if stored is None:
            missing.append((span, key))
        else:
            run.place(span.start, torch.from_numpy(stored), READING)
    if cache:
        _describe(what, label, role, reference, keys)
    # Where the cache holds some, all are of one making.
    there, rows = given if given and len(missing) == len(keys) else _nothing(len(texts))
    lacking = {span: [i for i in span if not there[i]] for span, _ in missing}
    encode = None
    if any(lacking.values()):
        run.tell(LOADING)
        model = encoder_model.load(source, device, arithmetic)
        run.tell(EMBEDDING)
        encode = partial(_encoded, model, role=role, prompt=prompt, batch_size=batch_size, run=run)
    for span, key in missing:
        vectors = _of_span(span, rows, lacking[span], texts, encode, run)
        if cache:
            _keep(key, vectors.numpy(), typed)
        run.place(span.start, vectors)
    return run.embeddings(ids, texts, reference, role)


def _is_typed(what: object, role: Role, texts: Sequence[str]) -> bool:
    """Whether these are a few plain texts as somebody asks them, no set of queries and no documents."""
    return role == "query" and not isinstance(what, Corpus | Queries) and len(texts) < _CHUNK_LEAST


def _stored(key: str, typed: bool) -> np.ndarray | None:
    """The vectors of a chunk, of what is typed from memory first."""
    known = _TYPED.get(key) if typed else None
    return store.get_array(SECTION, key) if known is None else known.copy()


def _keep(key: str, vectors: np.ndarray, typed: bool) -> None:
    if not typed:
        return store.put_array(SECTION, key, vectors)
    _TYPED[key] = vectors.copy()
    for oldest in list(_TYPED)[:-_MOST_TYPED]:
        _TYPED.pop(oldest, None)


class TextEncoder:
    """An encoder in memory for texts that are asked once: nothing is read from the cache of vectors or written to it.

    Arguments and errors as of `embed`. Called with texts and their role, returns (n, d) float32 unit vectors.
    """

    def __init__(self, encoder: str = "bundled", *, dtype: str = "auto", device: str | None = None) -> None:
        source, device = encoder_model.find(encoder), encoder_model.device_of(device)
        self._model = encoder_model.load(source, device, precision.choose(source, device, dtype))
        self.reference = EncoderRef(encoder, source.digest, self._model.dtype)

    def __call__(self, texts: Sequence[str], role: Role) -> Tensor:
        _check(texts)
        run = _Run(len(texts), None, None)
        return _encoded(self._model, texts, role, self._model.source.prompt(role), BATCH_SIZE.check(32), run)


def _nothing(count: int) -> tuple[Tensor, Tensor]:
    """No text has a vector yet."""
    return torch.zeros(count, dtype=torch.bool), torch.empty(count, 0)


def _of_span(
    span: range,
    rows: Tensor,
    lacking: Sequence[int],
    texts: Sequence[str],
    encode: Callable[..., Tensor] | None,
    run: "_Run",
) -> Tensor:
    """The vectors of a span of texts: those at `lacking` are encoded, the others are there."""
    vectors = rows[span.start : span.stop]
    if len(lacking) < len(span):
        run.tell(READING, len(span) - len(lacking))
    if not lacking or encode is None:
        return vectors
    encoded = encode([texts[i] for i in lacking])
    if len(lacking) == len(span):
        return encoded
    vectors[[i - span.start for i in lacking]] = encoded
    return vectors


def embedded(
    what: Corpus | Queries | Sequence[str] | str, encoder: str = "bundled", *, dtype: str = "auto"
) -> Embeddings | None:
    """What `embed` would return, read from the disk; None where something would be embedded. Raises as `embed`."""
    ids, texts, role = _inputs(what, None)
    source = encoder_model.find(encoder)
    given = _shipped(texts, role, source, dtype)
    arithmetic = shipped.ARITHMETIC if given else precision.choose(source, encoder_model.device_of(None), dtype)
    run = _Run(len(texts), None, None, disk=True)
    for span, key in _keyed(texts, source.digest, arithmetic, role, source.prompt(role)):
        rows = store.get_array(SECTION, key)
        if rows is None:
            return None
        run.place(span.start, torch.from_numpy(rows))
    return run.embeddings(ids, texts, EncoderRef(encoder, source.digest, arithmetic), role)


def _shipped(texts: Sequence[str], role: Role, source: ModelSource, dtype: str) -> tuple[Tensor, Tensor] | None:
    """The vectors that came with Frontier, as `shipped_vectors`; None where bfloat16 is asked for, or in the cache.

    So the demo needs no probe of the precision, and nobody's vectors are replaced.
    """
    prompt, rounded = source.prompt(role), "bfloat16"
    keys = (key for _, key in _keyed(texts, source.digest, rounded, role, prompt))
    if dtype == rounded or any(store.get(SECTION, key) is not None for key in keys):
        return None
    return shipped.shipped_vectors(source.digest, role, prompt, texts)


def shipped_notices(what: Corpus | Queries, embeddings: Embeddings) -> tuple[Notice, ...]:
    """Says how many texts have the very vector that came with Frontier; nothing where none has."""
    _, texts, role = _inputs(what, None)
    source = encoder_model.find(embeddings.encoder.name) if embeddings.encoder else None
    given = source and shipped.shipped_vectors(source.digest, role, source.prompt(role), texts)
    came = int((given[0] & (given[1] == embeddings.vectors).all(1)).sum()) if given else 0
    return (Notice("vectors came with Frontier, rounded to float16", came),) if came else ()


def truncated_count(what: Corpus | Queries | Sequence[str] | str, encoder: str = "bundled") -> int | None:
    """How many texts are longer than the encoder, which is not loaded, reads; None where unknown. Raises as `embed`."""
    _, texts, role = _inputs(what, None)
    source = encoder_model.find(encoder)
    prompt = source.prompt(role)
    return source.over_limit([prompt + text for text in texts])


def _keyed(texts: Sequence[str], *how: str) -> Iterator[tuple[range, str]]:
    """The chunks of the texts, each with what its vectors are called in the cache."""
    for span in chunks(texts):
        yield span, digest_of([_FORMAT, *how, *texts[span.start : span.stop]])


def chunks(texts: Sequence[str]) -> Iterator[range]:
    """Consecutive positions, up to a text whose checksum says so or a full chunk: a change moves ends near it only."""
    start = tokens = 0
    for i, text in enumerate(texts):
        raw = text.encode("utf-8", "surrogatepass")
        tokens += _tokens(raw)
        size = i + 1 - start
        natural = size >= _CHUNK_LEAST and zlib.crc32(raw) % _CHUNK_MEAN == 0
        if natural or size == _CHUNK_TEXTS or tokens >= _CHUNK_TOKENS:
            yield range(start, i + 1)
            start, tokens = i + 1, 0
    if start < len(texts):
        yield range(start, len(texts))


class _Run:
    """One call of `embed`: the matrix as it fills, what is told, and whether to go on."""

    def __init__(self, total: int, progress: Progress | None, stop: Stop | None, disk: bool = False) -> None:
        self.vectors = torch.empty(0, 0)
        self._disk = disk
        self._total, self._progress, self._stop, self._done = total, progress, stop, 0

    def tell(self, label: str, more: int = 0) -> None:
        if self._stop is not None and self._stop.is_set():
            raise Cancelled(f"embedding stopped at {self._done:,} of {self._total:,} texts")
        self._done += more
        if self._progress is not None:
            self._progress(self._done, self._total, label)

    def place(self, start: int, rows: Tensor, label: str | None = None) -> None:
        if not len(self.vectors):
            # Only now is the width known; one matrix, as the largest corpora would not fit twice.
            self.vectors = (_mapped if self._disk else torch.empty)(self._total, rows.shape[1])
        self.vectors[start : start + len(rows)] = rows
        if label:
            self.tell(label, len(rows))

    def embeddings(self, ids: tuple[str, ...], texts: Sequence[str], encoder: EncoderRef, role: Role) -> Embeddings:
        # The texts of queries are for scorers that read words; a corpus has its own.
        return Embeddings(ids, self.vectors, encoder, tuple(texts) if role == "query" else None)


def _mapped(count: int, dimension: int) -> Tensor:
    """An empty float32 matrix: in memory, or where it is large in a file that is gone with it.

    Raises FrontierError where the disk has no room.
    """
    size = 4 * count * dimension
    if size <= MAPPED:
        return torch.empty(count, dimension)
    folder = store.section(SECTION)
    with store.explained(folder), tempfile.TemporaryFile(dir=folder, prefix=".", suffix=".tmp") as file:
        if hasattr(os, "posix_fallocate"):
            # A hole that the disk has no room for would end the process when it is written to.
            os.posix_fallocate(file.fileno(), 0, size)
        else:
            file.truncate(size)
        return torch.from_numpy(np.memmap(file, np.float32, "r+", shape=(count, dimension)))


def _encoded(model: Encoder, texts: Sequence[str], role: Role, prompt: str, batch_size: int, run: _Run) -> Tensor:
    """The vectors of one chunk, whatever else the corpus holds: (len(texts), d)."""
    rows = torch.empty(0, 0)
    for batch in _batches(texts, batch_size, model.device):
        vectors = model.encode([texts[i] for i in batch], role, prompt)
        rows = rows if len(rows) else torch.empty(len(texts), vectors.shape[1])
        rows[batch] = vectors
        run.tell(f"{EMBEDDING} {model.retreat}".rstrip(), len(batch))
    return rows


def _batches(texts: Sequence[str], batch_size: int, device: str) -> Iterator[list[int]]:
    """Positions in batches of similar length, the longest first, so that little is computed on padding."""
    length = [_tokens(text.encode("utf-8", "replace")) for text in texts]
    order = sorted(range(len(texts)), key=lambda i: -length[i])
    while order:
        most = min(batch_size, _BATCH_TOKENS // length[order[0]]) if device == "cpu" else batch_size
        batch, order = order[: max(1, most)], order[max(1, most) :]
        yield batch


def _describe(what: object, label: str | None, role: Role, encoder: EncoderRef, keys: Sequence[str]) -> None:
    """Say in the cache what these chunks are; a single text, as somebody types it, is not worth it."""
    if not isinstance(what, (Corpus, Queries)) or (len(what) < 2 and label is None and isinstance(what, Queries)):
        return
    facts: inventory.Facts = {
        "name": replace_surrogates(label or (what.name if isinstance(what, Corpus) else "queries")),
        "role": role,
        "texts": len(what),
        "content": what.digest,
        "encoder": encoder.name,
        "weights": encoder.digest,
        "arithmetic": encoder.dtype,
    }
    inventory.describe(SECTION, digest_of([what.digest, encoder.digest, encoder.dtype, role]), keys, facts)


def _tokens(raw: bytes) -> int:
    # Three bytes a token: right for code and for Chinese, cautious for English prose.
    return min(len(raw) // 3 + 2, _MOST_TOKENS)


def _inputs(what: object, role: Role | None) -> tuple[tuple[str, ...], Sequence[str], Role]:
    """ids, texts and role, checked."""
    if role not in (None, "document", "query"):
        raise FrontierError(f"role must be 'document' or 'query'; got {role!r}")
    match what:
        case Corpus():
            _check(what.texts)
            return what.ids, what.passages, role or "document"
        case Queries():
            _check(what.texts)
            return what.ids, what.texts, role or "query"
        case Dataset():
            raise DataError("a data set has two kinds of text: embed its .corpus or its .queries")
        case str():
            return _inputs((what,), role)
        case Iterable() if not isinstance(what, (bytes, dict)):
            texts = tuple(what)
            _check(texts)
            return _inputs(Queries.of(texts), role)
    raise DataError(f"embed takes a Corpus, Queries or a list of strings; got {type(what).__name__}")


def _check(texts: Sequence[object]) -> None:
    if not texts:
        raise DataError("there is nothing to embed: no texts")
    for i, text in enumerate(texts):
        if not isinstance(text, str):
            raise DataError(f"text {i} (counting from 0) is {type(text).__name__}, not a string: {text!r:.60}")
