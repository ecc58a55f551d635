"""One decoder over HTTP: POST /answer takes queries, GET /health says what is served."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from engine.data.encoders import TextEncoder
from engine.decoder import SET_SIZE, Decoder, decode
from engine.errors import DataError, FrontierError
from engine.integrations.candidates import answers_of
from engine.params import Whole
from engine.space import Space
from engine.values import Embeddings, real_tensor, replace_surrogates

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response

LOOPBACK = ("127.0.0.1", "localhost", "::1")
FIELDS = {"queries", "vectors"}
QUERIES = Whole(1, "B", 1, 1000, name="queries", help="Queries of one request.")
MOST_BYTES = 32 << 20
"""Of a request: a thousand vectors of 1,536 numbers as text."""
MOST_PARTS = 1 << 19
"""Brackets in a request: each of two bytes may become an object of thirty times its size."""


class Service:
    """A decoder over a space; k: how many documents a query gets that does not say. Requests take turns."""

    def __init__(self, decoder: Decoder, space: Space, k: int = 10) -> None:
        self.decoder, self.space, self.k = decoder, space, SET_SIZE.check(k)
        self._turn = threading.Lock()
        ref, device = space.encoder, str(space.device)
        self._encode = None if ref is None else TextEncoder(ref.name, dtype=ref.dtype, device=device)

    def health(self) -> dict[str, Any]:
        """What is served, as JSON has it."""
        corpus = self.space.corpus
        encoder = None if self.space.encoder is None else self.space.encoder.name
        served = {"decoder": self.decoder.label, "k": self.k, "documents": len(corpus)}
        return {"status": "ok", **served, "corpus": replace_surrogates(corpus.name), "encoder": encoder}

    def answer(self, asked: Any) -> dict[str, Any]:
        """The answers to {"queries": [texts], "vectors": [[numbers]], "k": k}: one of the first two, or both.

        Raises ParamError or DataError.
        """
        if not isinstance(asked, Mapping) or not set(asked) & FIELDS or not set(asked) <= FIELDS | {"k"}:
            raise DataError('send {"queries": ["…"]} or {"vectors": [[…]]}, and "k" if it is not the default')
        k = min(SET_SIZE.check(asked.get("k", self.k)), len(self.space))
        with self._turn:
            ranking = decode(self.decoder, self.space, self._queries(asked.get("queries"), asked.get("vectors")), k)
        found = answers_of(ranking, self.space.corpus.ids)
        return {"k": k, "answers": [{n: getattr(one, n) for n in ("ids", "scores", "certificate")} for one in found]}

    def _queries(self, texts: Any, vectors: Any) -> Embeddings:
        """The queries as vectors, never kept on the disk."""
        for name, given in (("queries", texts), ("vectors", vectors)):
            if given is not None and not isinstance(given, list):
                raise DataError(f"{name} must be a list; got {type(given).__name__}")
        if texts is vectors is None:
            raise DataError("neither queries nor vectors were sent; both are null")
        count = QUERIES.check(len(vectors if texts is None else texts))
        if texts is not None and not all(isinstance(text, str) for text in texts):
            raise DataError("queries must be texts; for vectors send them as vectors")
        if texts is not None and vectors is not None and len(texts) != len(vectors):
            raise DataError(f"queries and vectors must be of one length; got {len(texts)} and {len(vectors)}")
        ids = tuple(map(str, range(count)))
        if vectors is not None:
            return Embeddings(ids, real_tensor(vectors, "vectors"), self.space.encoder, texts)
        if self._encode is None:
            raise DataError("the corpus came with its own vectors, and no encoder: send vectors")
        return Embeddings(ids, self._encode(texts, "query"), self._encode.reference, texts)


def app(service: Service, host: str = LOOPBACK[0]) -> Starlette:
    """The service as an ASGI application; on a loopback host it answers to loopback names only, so that no page of
    another site reaches it through a name of its own."""
    from starlette.applications import Starlette
    from starlette.concurrency import run_in_threadpool
    from starlette.middleware import Middleware
    from starlette.middleware.trustedhost import TrustedHostMiddleware
    from starlette.responses import Response
    from starlette.routing import Route

    def reply(content: Mapping[str, Any], status: int = 200) -> Response:
        text = json.dumps(content, ensure_ascii=False, allow_nan=False)
        return Response(replace_surrogates(text), status, media_type="application/json")

    async def health(_: Request) -> Response:
        return reply(service.health())

    async def answer(request: Request) -> Response:
        body = bytearray()
        async for part in request.stream():
            body += part
            if len(body) > MOST_BYTES:
                return reply({"error": f"a request has at most {MOST_BYTES >> 20} MiB; send fewer queries"}, 413)
        if (parts := body.count(b"[") + body.count(b"{")) > MOST_PARTS:
            return reply({"error": f"a request has at most {MOST_PARTS:,} brackets; this one has {parts:,}"}, 413)
        try:
            return reply(await run_in_threadpool(lambda: service.answer(json.loads(body))))
        except (FrontierError, ValueError, RecursionError) as error:  # ValueError: no JSON, or thousands of digits
            return reply({"error": str(error)}, 400)

    routes = [Route("/health", health), Route("/answer", answer, methods=["POST"])]
    guard = Middleware(TrustedHostMiddleware, allowed_hosts=[*LOOPBACK, "[::1]"])
    return Starlette(routes=routes, middleware=[guard] if host in LOOPBACK else [])
