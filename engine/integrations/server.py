"""One decoder over HTTP: POST /answer takes queries, GET /health says what is served."""

from __future__ import annotations

import json
import threading
import time
from asyncio import timeout
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import torch

from engine.data.encoders import TextEncoder
from engine.data.endpoints.consent import allow_request
from engine.data.json_files import decode_json
from engine.decoder import SET_SIZE, Decoder, decode
from engine.errors import DataError, FrontierError
from engine.integrations.candidates import build_selections
from engine.params import Whole
from engine.progress import counted
from engine.space import Space
from engine.values import Embeddings, real_tensor, replace_surrogates

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response
    from torch import Tensor

LOOPBACK_HOSTS = ("127.0.0.1", "localhost", "::1")
REQUEST_FIELDS = {"queries", "vectors"}
QUERY_LIMIT = Whole(1, "B", 1, 1000, name="queries", help="Queries of one request.")
MAX_REQUEST_BYTES = 32 << 20
"""Largest request: a thousand vectors of 1,536 numbers as text."""
MAX_BRACKETS = 1 << 19
"""Brackets in a request: each of two bytes may become an object of thirty times its size."""
MAX_OPEN_BYTES = 4 * MAX_REQUEST_BYTES
"""Bodies of all requests that are being read or answered."""
BODY_TIMEOUT_S = 30
MAX_TEXT_CHARACTERS = 100_000
"""Longer texts are cut before they are split into tokens, which takes a hundred times their size."""
PIECE_SIZE, PAUSE_S = 32, 0.001
"""Texts that are embedded in one turn, and seconds after it in which a waiting request takes its own."""
JSON_TYPE = "application/json"


class Service:
    """A decoder over a space; k: how many documents a query gets that does not say. Requests take turns."""

    def __init__(self, decoder: Decoder, space: Space, k: int = 10) -> None:
        """Take what is served, and load the encoder of its queries, if there is one."""
        self.decoder, self.space, self.k = decoder, space, SET_SIZE.check(k)
        self._turn = threading.Lock()
        ref, device = space.encoder, str(space.device)
        self._encode = None if ref is None else TextEncoder(ref.name, dtype=ref.dtype, device=device)

    def is_at_work(self) -> bool:
        """Return True while a request is embedded or decoded."""
        return self._turn.locked()

    def wait_for_end(self, timeout_seconds: float) -> bool:
        """Wait for the request at work, for so long at most; return True if none is left."""
        has_turn = self._turn.acquire(timeout=timeout_seconds)
        if has_turn:
            self._turn.release()
        return has_turn

    def health(self) -> dict[str, Any]:
        """Return what is served, as JSON values."""
        corpus = self.space.corpus
        encoder_name = None if self.space.encoder is None else self.space.encoder.name
        decoder_fields = {"decoder": self.decoder.label, "k": self.k, "documents": len(corpus)}
        return {"status": "ok", **decoder_fields, "corpus": replace_surrogates(corpus.name), "encoder": encoder_name}

    def answer(self, request: Any) -> dict[str, Any]:
        """Answer {"queries": [texts], "vectors": [[numbers]], "k": k}: one of the first two, or both.

        Raises ParamError or DataError.
        """
        names = set(request) if isinstance(request, Mapping) else set()
        if not names & REQUEST_FIELDS or not names <= REQUEST_FIELDS | {"k"}:
            raise DataError('send {"queries": ["…"]} or {"vectors": [[…]]}, and "k" if it is not the default')
        # A corpus smaller than k is answered whole.
        k = min(SET_SIZE.check(request.get("k", self.k)), len(self.space))
        query_texts, n_cut = _cut_texts(request.get("queries"))
        with allow_request():
            queries = self._read_queries(query_texts, request.get("vectors"))
            # Models share one device, so requests take turns.
            with self._turn:
                ranking = decode(self.decoder, self.space, queries, k)
        selections = build_selections(ranking, self.space.corpus.ids)
        fields = ("ids", "scores", "certificate")
        answers = [{field: getattr(selection, field) for field in fields} for selection in selections]
        if not n_cut:
            return {"k": k, "answers": answers}
        notice = f"{counted(n_cut, 'query', 'queries')} cut to {MAX_TEXT_CHARACTERS:,} characters"
        return {"k": k, "answers": answers, "notices": [notice]}

    def _read_queries(self, query_texts: Any, vectors: Any) -> Embeddings:
        """Build query embeddings from a request's texts, its vectors, or both; they are never written to disk.

        Vectors are used as they are; texts alone are embedded by the corpus's encoder. Raises DataError for invalid
        input, or for texts if there is no encoder.
        """
        for argument_name, argument in (("queries", query_texts), ("vectors", vectors)):
            if argument is not None and not isinstance(argument, list):
                raise DataError(f"{argument_name} must be a list; got {type(argument).__name__}")
        if query_texts is None and vectors is None:
            raise DataError("neither queries nor vectors were sent; both are null")
        n_queries = QUERY_LIMIT.check(len(vectors if query_texts is None else query_texts))
        if query_texts is not None and not all(isinstance(text, str) for text in query_texts):
            raise DataError("queries must be texts; for vectors send them as vectors")
        if query_texts is not None and vectors is not None and len(query_texts) != len(vectors):
            raise DataError(f"queries and vectors must be of one length; got {len(query_texts)} and {len(vectors)}")
        query_ids = tuple(map(str, range(n_queries)))
        if vectors is not None:
            return Embeddings(query_ids, real_tensor(vectors, "vectors"), self.space.encoder, query_texts)
        if self._encode is None:
            raise DataError("the corpus came with its own vectors, and no encoder: send vectors")
        return Embeddings(query_ids, self._embed(self._encode, query_texts), self._encode.reference, query_texts)

    def _embed(self, encode: TextEncoder, query_texts: list[str]) -> Tensor:
        """Embed a request's texts, (n, d), in pieces: a thousand long ones take minutes, and others' come between."""
        pieces = []
        for start in range(0, len(query_texts), PIECE_SIZE):
            if start:
                time.sleep(PAUSE_S)
            with self._turn:
                pieces.append(encode(query_texts[start : start + PIECE_SIZE], "query"))
        return torch.cat(pieces)


def _cut_texts(texts: Any) -> tuple[Any, int]:
    """Cut long texts of a request; return them, and how many were cut. What is no list of texts stays as it is."""
    if not isinstance(texts, list):
        return texts, 0
    is_long = [isinstance(text, str) and len(text) > MAX_TEXT_CHARACTERS for text in texts]
    cut_texts = [text[:MAX_TEXT_CHARACTERS] if long else text for text, long in zip(texts, is_long, strict=True)]
    return cut_texts, sum(is_long)


def find_refusal(headers: Mapping[str, str]) -> tuple[int, str] | None:
    """Return the status and the reason for which a request is refused by its headers; None if it is not.

    A page of another site can make a browser send a request, but not with a type of JSON, unless it asks first.
    """
    media_type = headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type != JSON_TYPE:
        return 415, f"send Content-Type: {JSON_TYPE}; got {media_type or 'none'}"
    origin, fetch_site = headers.get("origin"), headers.get("sec-fetch-site", "none")
    # The origin's own pages name this server as the request does; a malformed one names nobody.
    is_foreign = origin is not None and origin.partition("://")[2] != headers.get("host", "")
    if is_foreign or fetch_site not in ("none", "same-origin"):
        return 403, "requests of other sites' pages are refused; ask from a program, or from a page of this address"
    return None


class BodyReader:
    """Reads the bodies of requests, within a limit for each one and one for all together."""

    def __init__(self) -> None:
        self.n_open_bytes = 0  # of requests that are being read or answered

    @asynccontextmanager
    async def read(self, request: Request) -> AsyncIterator[bytearray]:
        """Yield a request's body, which counts as open until the block ends. Raises RefusedRequest."""
        body = bytearray()
        try:
            try:
                async with timeout(BODY_TIMEOUT_S):
                    async for chunk in request.stream():
                        body += chunk
                        self._add(len(chunk), len(body))
            except TimeoutError:
                raise RefusedRequest(408, f"a request must arrive within {BODY_TIMEOUT_S} seconds") from None
            yield body
        finally:
            self.n_open_bytes -= len(body)

    def _add(self, n_new: int, n_taken: int) -> None:
        """Count new bytes of a request, which has `n_taken` by now. Raises RefusedRequest."""
        self.n_open_bytes += n_new
        if n_taken > MAX_REQUEST_BYTES:
            size_text = f"{MAX_REQUEST_BYTES >> 20} MiB"
            raise RefusedRequest(413, f"a request has at most {size_text}; send fewer queries")
        if self.n_open_bytes > MAX_OPEN_BYTES:
            raise RefusedRequest(503, "too many requests at a time; send this one again later")


class RefusedRequest(Exception):
    """Refusal of a request, with the status of the response."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


def build_app(service: Service, host: str = LOOPBACK_HOSTS[0], on_start: Callable[[], None] | None = None) -> Starlette:
    """Build the ASGI application of a service.

    On a loopback host it answers to loopback names only, so that no page of another site reaches it through a name of
    its own. on_start: called once the server has set its own signal handlers, before the first request
    """
    from starlette.applications import Starlette
    from starlette.concurrency import run_in_threadpool
    from starlette.middleware import Middleware
    from starlette.middleware.trustedhost import TrustedHostMiddleware
    from starlette.responses import Response
    from starlette.routing import Route

    bodies = BodyReader()

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        if on_start is not None:
            on_start()
        yield

    def reply(content: Mapping[str, Any], status: int = 200) -> Response:
        """Build a response of JSON."""
        reply_text = json.dumps(content, ensure_ascii=False, allow_nan=False)
        return Response(replace_surrogates(reply_text), status, media_type="application/json")

    async def health(_: Request) -> Response:
        return reply(service.health())

    async def answer(request: Request) -> Response:
        """Answer a request after checks of its headers and size; errors become responses."""
        refusal = find_refusal(request.headers)
        if refusal is not None:
            return reply({"error": refusal[1]}, refusal[0])
        try:
            async with bodies.read(request) as body:
                # Refused before parsing: nested brackets take far more memory as objects than as text.
                if (parts := body.count(b"[") + body.count(b"{")) > MAX_BRACKETS:
                    raise RefusedRequest(
                        413, f"a request has at most {MAX_BRACKETS:,} brackets; this one has {parts:,}"
                    )
                return reply(await run_in_threadpool(lambda: service.answer(decode_json(str(body, "utf-8-sig")))))
        except RefusedRequest as error:
            return reply({"error": str(error)}, error.status)
        # A ValueError is no JSON, a repeated key, or a number of thousands of digits.
        except (FrontierError, ValueError, RecursionError) as error:
            return reply({"error": str(error)}, 400)

    routes = [Route("/health", health), Route("/answer", answer, methods=["POST"])]
    # DNS rebinding would let a page of another site reach a service on this machine.
    guard = Middleware(TrustedHostMiddleware, allowed_hosts=[*LOOPBACK_HOSTS, "[::1]"])
    return Starlette(routes=routes, middleware=[guard] if host in LOOPBACK_HOSTS else [], lifespan=lifespan)
