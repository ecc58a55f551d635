"""Embeddings by an endpoint: POST /embeddings, checked, with long texts cut, and the model probed for changes."""

import base64
import binascii
import math
import re
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from engine.data import cache
from engine.data.endpoints.client import POLL_SECONDS, ModelEndpoint, RefusalError, check_stop
from engine.data.endpoints.config import ENDPOINT_PREFIX, EndpointSettings, config_path, read_endpoint
from engine.data.endpoints.consent import Estimate, estimate_texts
from engine.data.models.precision import PROBE_TEXTS
from engine.errors import FrontierError
from engine.progress import Stop, counted
from engine.values import digest_of, replace_surrogates

PROBE_SECTION = "endpoints"
N_PROBES = 10
MIN_PROBE_COSINE = 0.999
"""Least cosine of a probe's vectors, then and now, at which the model counts as the same."""
PROBE_SECONDS = 3600.0
"""Time after which a process asks for the probes again."""
CUT_SHARE = 0.9
"""Share of the limit of tokens to which a text is cut: tokens are not evenly long."""
MAX_CUTS = 24
_TOO_LONG = re.compile(
    r"too (long|large|many tokens)|context.{0,20}length|(maximum|max).{0,30}(token|length|context|input)|exceed|longer",
    re.IGNORECASE,
)
_TOKEN_COUNT = re.compile(r"\d{1,9}(?=\s*tokens?\b)|(?<=given: )\d{1,9}", re.IGNORECASE)
_probes: dict[str, tuple[float, int]] = {}
"""Time of the last probe of a model, and the width of its vectors, by its digest."""
_probe_locks: dict[str, threading.Lock] = {}
"""One lock a model, by the key of its probes: whoever asks a fast server does not wait for a slow one."""


@dataclass(frozen=True)
class EndpointSource:
    """The model of an endpoint as an encoder, known without asking the server."""

    name: str  # as the user wrote it, endpoint:NAME
    settings: EndpointSettings

    @cached_property
    def digest(self) -> str:
        """Digest of all that decides which vector a text gets."""
        settings = self.settings
        parts = (settings.url.rstrip("/"), settings.model_of("embeddings"), str(settings.dimensions))
        prompts = (settings.query_prompt, settings.document_prompt)
        return digest_of(["endpoint", *parts, *prompts, str(settings.max_characters), settings.version])

    def prompt(self, role: Literal["document", "query"]) -> str:
        """Return the text that is put before every query or document."""
        return self.settings.query_prompt if role == "query" else self.settings.document_prompt

    @cached_property
    def probe_key(self) -> str:
        """Key of the probe texts' vectors by this model."""
        return digest_of(["probes", self.digest, *PROBE_TEXTS[:N_PROBES]])

    @property
    def are_probes_due(self) -> bool:
        """True if the probe texts are sent before the next texts."""
        probed_at, _ = _probes.get(self.probe_key, (-math.inf, 0))
        return time.monotonic() - probed_at >= PROBE_SECONDS

    def add_probes(self, estimate: Estimate) -> Estimate:
        """Return an estimate with the probe texts that are sent before, if they are due."""
        if not self.are_probes_due:
            return estimate
        n_tokens = self.estimate(PROBE_TEXTS[:N_PROBES], self.prompt("document")).n_tokens
        return replace(estimate, n_tokens=estimate.n_tokens + n_tokens, n_probes=N_PROBES)

    def estimate(self, texts: Iterable[str], prompt: str) -> Estimate:
        """Estimate what embedding texts sends: each with its prompt, cut at the limit of characters."""
        limit = self.settings.max_characters
        return estimate_texts(((prompt + text)[:limit] for text in texts), self.settings.host)


def find_endpoint(name: str) -> EndpointSource:
    """Return the model of endpoint:NAME. Raises DataError if endpoints.toml has none for embeddings."""
    settings = read_endpoint(name.removeprefix(ENDPOINT_PREFIX))
    settings.model_of("embeddings")
    return EndpointSource(name, settings)


class EndpointEncoder:
    """An encoder behind an endpoint; its methods are those of an Encoder, so far as they apply."""

    dtype: Literal["float32"] = "float32"
    device = "server"
    retreat = ""

    def __init__(self, source: EndpointSource, is_typed: bool = False) -> None:
        """Take the model; nothing is sent yet. is_typed: as `ModelEndpoint` takes it."""
        self.source, self.endpoint = source, ModelEndpoint(source.settings, is_typed)
        # The width of the first vectors that came, which all others must have.
        self._dimension = source.settings.dimensions

    def encode(self, texts: Sequence[str], role: Literal["document", "query"] = "query", prompt: str = "") -> Tensor:
        """Encode a few texts as (n, d) float32 unit rows; a blank text has zeros. role: shown by `prompt` alone."""
        self.check_probes()
        return self.encode_texts(texts, prompt)[0]

    def encode_texts(self, texts: Sequence[str], prompt: str, stop: Stop | None = None) -> tuple[Tensor, int]:
        """Encode texts in as many requests as needed; return (n, d) unit rows, and how many texts were cut.

        Blank texts are not sent, and have zeros. Raises DataError and Cancelled.
        """
        sent_indices = [index for index, text in enumerate(texts) if text.strip()]
        prompted = [replace_surrogates(prompt + texts[index]) for index in sent_indices]
        n_cut = 0
        if (max_characters := self.source.settings.max_characters) is not None:
            n_cut = sum(len(text) > max_characters for text in prompted)
            prompted = [text[:max_characters] for text in prompted]
        # Blank texts have the width of the others; where there are none, one probe tells it.
        blocks = [np.zeros((0, self._ask(PROBE_TEXTS[:1], stop).shape[1]), np.float32)] if not prompted else []
        batch = self.source.settings.batch
        for start in range(0, len(prompted), batch):
            block, n_block_cut = self._encode_batch(prompted[start : start + batch], stop)
            blocks.append(block)
            n_cut += n_block_cut
        rows = torch.zeros(len(texts), blocks[0].shape[1])
        rows[sent_indices] = torch.from_numpy(np.concatenate(blocks))
        return rows, n_cut

    def _encode_batch(self, texts: Sequence[str], stop: Stop | None) -> tuple[np.ndarray, int]:
        """Return the unit rows of one request's texts, and how many were cut as the server found them too long."""
        try:
            return self._ask(texts, stop), 0
        except RefusalError as error:
            if error.status != 413 and not (error.status in (400, 422) and _TOO_LONG.search(error.reason)):
                raise
            refusal = error
        # Which text it is, the server does not say: halves are asked until it stands alone.
        if len(texts) > 1:
            middle = len(texts) // 2
            halves = [self._encode_batch(half, stop) for half in (texts[:middle], texts[middle:])]
            return np.concatenate([rows for rows, _ in halves]), sum(n_cut for _, n_cut in halves)
        return self._encode_cut(texts[0], refusal, stop), 1

    def _encode_cut(self, text: str, refusal: RefusalError, stop: Stop | None) -> np.ndarray:
        """Return the (1, d) unit row of a text's beginning, as long as the server takes it; refusal: of the text."""
        for _ in range(MAX_CUTS):
            text = text[: _choose_length(text, refusal.reason)]
            if not text.strip():
                break
            try:
                return self._ask([text], stop)
            except RefusalError as error:
                if error.status != refusal.status:
                    raise
                refusal = error
        raise refusal

    def _ask(self, texts: Sequence[str], stop: Stop | None) -> np.ndarray:
        """Send one request; return its (n, d) unit rows."""
        settings = self.source.settings
        body: dict[str, Any] = {
            "model": settings.model_of("embeddings"),
            "input": list(texts),
            "encoding_format": settings.encoding_format,
        }
        if settings.dimensions is not None:
            body["dimensions"] = settings.dimensions
        return self._check_rows(self.endpoint.post("/embeddings", body, stop), len(texts))

    def _check_rows(self, answer: Any, n_texts: int) -> np.ndarray:
        """Return the vectors of an answer in the order of their texts, of length 1. Raises DataError."""
        wrong = self.endpoint.wrong_answer
        items = answer.get("data") if isinstance(answer, dict) else None
        if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
            raise wrong('must answer with {"data": [{"index": 0, "embedding": […]}]}, and does not')
        if len(items) != n_texts:
            raise wrong(f"answered {counted(n_texts, 'text')} with {counted(len(items), 'vector')}")
        # A missing number, or one twice, would give a text the vector of another one.
        positions = [item.get("index") for item in items]
        if any(type(position) is not int for position in positions) or sorted(positions) != list(range(n_texts)):
            raise wrong(f"must number its vectors by index, 0 to {n_texts - 1}, each once")
        vectors = [self._read_vector(item.get("embedding")) for item in items]
        dimension = self._dimension or len(vectors[0])
        if lengths := [len(vector) for vector in vectors if len(vector) != dimension]:
            raise wrong(f"answered with a vector of {counted(lengths[0], 'number')} where {dimension:,} were expected")
        rows: np.ndarray = np.empty((n_texts, dimension), np.float32)
        rows[positions] = vectors
        norms = np.linalg.norm(rows.astype(np.float64), axis=1)
        if not np.isfinite(norms).all() or not norms.all():
            raise wrong("answered with a vector that is zero, or has numbers that are not finite")
        self._dimension = dimension
        unit_rows: np.ndarray = (rows / norms[:, None]).astype(np.float32)
        return unit_rows

    def _read_vector(self, value: Any) -> np.ndarray:
        """Return one vector of an answer: a list of numbers, or their little-endian float32 bytes in base64."""
        try:
            if isinstance(value, str):
                return np.frombuffer(base64.b64decode(value, validate=True), "<f4")
            # Text and true would become numbers too.
            if isinstance(value, list) and value and all(type(number) in (int, float) for number in value):
                # What is too large becomes infinite, and is refused with the vector.
                with np.errstate(over="ignore"):
                    return np.array(value, np.float32)
        except (ValueError, OverflowError, binascii.Error):
            pass
        raise self.endpoint.wrong_answer("answered with an embedding that is neither a list of numbers nor base64")

    def check_probes(self, stop: Stop | None = None) -> None:
        """Ask for the vectors of ten probe texts, unless that was done within an hour, and compare them with before.

        Raises FrontierError if they are others, as vectors of two models must not be mixed.
        """
        key = self.source.probe_key
        with _hold_lock(_probe_locks.setdefault(key, threading.Lock()), stop):
            if not self.source.are_probes_due:
                _, self._dimension = _probes[key]
                return
            rows = self.encode_texts(PROBE_TEXTS[:N_PROBES], self.source.prompt("document"), stop)[0].numpy()
            earlier = cache.get_array(PROBE_SECTION, key)
            if earlier is None:
                cache.put_array(PROBE_SECTION, key, rows)
            elif (cosine := _compare_probes(earlier, rows)) < MIN_PROBE_COSINE:
                raise self._explain_change(cosine)
            _probes[key] = time.monotonic(), rows.shape[1]

    def _explain_change(self, cosine: float) -> FrontierError:
        """Return the error for a model that gives other vectors than before; cosine: of then and now."""
        name, model = self.source.settings.name, self.source.settings.model_of("embeddings")
        problem = (
            f"{self.endpoint.label} gives other vectors for {model!r} than before (cosine {cosine:.3f} for the same "
            "text): it has another model under that name, and vectors of two models must not be mixed"
        )
        return FrontierError(
            f'{problem}. To embed everything anew, write version = "2" (or any new text) under [{name}] in '
            f"{config_path()}",
            f"{problem}. To embed everything anew, a new version must be written under [{name}] in endpoints.toml",
        )


@contextmanager
def _hold_lock(lock: threading.Lock, stop: Stop | None) -> Iterator[None]:
    """Hold a lock inside a with-block; the wait for it ends with a cancellation. Raises Cancelled."""
    while not lock.acquire(timeout=POLL_SECONDS):
        check_stop(stop)
    try:
        yield
    finally:
        lock.release()


def _choose_length(text: str, reason: str) -> int:
    """Return the characters to which a text is cut that a server found too long; reason: what it says."""
    counts = [int(count) for count in _TOKEN_COUNT.findall(reason.replace(",", ""))]
    # With both counts, of the limit and of the text, one cut is enough; else the text is halved.
    if len(counts) > 1 and 0 < min(counts) < max(counts):
        return int(len(text) * CUT_SHARE * min(counts) / max(counts))
    return len(text) // 2


def _compare_probes(earlier: np.ndarray, rows: np.ndarray) -> float:
    """Return the least cosine of two vectors of a probe; −1 if their widths differ."""
    return float((earlier * rows).sum(1).min()) if earlier.shape == rows.shape else -1.0
