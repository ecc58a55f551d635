"""A search over HTTP as a function of a query: an endpoint that answers as `frontier answer` does."""

import json
from collections.abc import Mapping
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from engine.errors import DataError, ParamError

TIMEOUT_SECONDS = 60.0
MAX_RESPONSE_BYTES = 32 << 20
MAX_SHOWN_CHARACTERS = 200
"""Characters of a refusal that are quoted."""


class _NoRedirects(HTTPRedirectHandler):
    """Refuses redirects: the queries, and perhaps a key, would go to an address that nobody named."""

    def redirect_request(self, req: Request, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> None:
        """Return None, by which a redirect becomes an error."""
        return None


class Endpoint:
    """Search over HTTP: POST {"queries": [text], "k": k} returns {"answers": [{"ids": […]}]}."""

    def __init__(self, url: str, headers: Mapping[str, str] | None = None) -> None:
        """Take the address and further headers, such as Authorization. Raises ParamError for another kind of address.

        Parameters
        ----------
        url : str
            The address, such as http://127.0.0.1:8600/answer.
        headers : mapping of str to str, or None
            Headers of every request.
        """
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ParamError(
                f"url must be an address of http or https, such as http://127.0.0.1:8600/answer; got {url!r}"
            )
        self.url, self.host = url, parts.hostname
        self._headers = {"Content-Type": "application/json", **(headers or {})}
        self._opener = build_opener(_NoRedirects)

    def __call__(self, query: str, k: int) -> list[str]:
        """Return the ids of the documents for a query, best first. Raises DataError if there is no such answer."""
        body = json.dumps({"queries": [query], "k": k}).encode("utf-8")
        try:
            request = Request(self.url, data=body, headers=self._headers, method="POST")
            with self._opener.open(request, timeout=TIMEOUT_SECONDS) as response:
                content = response.read(MAX_RESPONSE_BYTES + 1)
        except HTTPError as error:
            reason = error.read(MAX_SHOWN_CHARACTERS).decode("utf-8", "replace")
            raise DataError(f"{self.url} answered with status {error.code}: {reason}") from None
        # A ValueError is a header that HTTP cannot carry.
        except (OSError, HTTPException, ValueError) as error:
            raise DataError(f"{self.url} did not answer: {error}; is the service running?") from None
        if len(content) > MAX_RESPONSE_BYTES:
            raise DataError(f"{self.url} answered one query with more than {MAX_RESPONSE_BYTES >> 20} MiB")
        return self._read_ids(content)

    def _read_ids(self, content: bytes) -> list[str]:
        """Return the ids of the one answer in a response. Raises DataError if it has another form."""
        try:
            (answer,) = json.loads(content)["answers"]
            ids = answer["ids"]
        except (ValueError, LookupError, TypeError, RecursionError):
            ids = None
        if not isinstance(ids, list) or not all(isinstance(doc_id, str | int) for doc_id in ids):
            shown = content[:MAX_SHOWN_CHARACTERS].decode("utf-8", "replace")
            raise DataError(f'{self.url} must answer one query with {{"answers": [{{"ids": ["…"]}}]}}; got {shown}')
        return list(map(str, ids))
