"""A search over HTTP as a function of a query: an endpoint that answers as `frontier answer` does."""

from collections.abc import Mapping
from urllib.parse import urlsplit

from engine.data.endpoints.transport import Reply, parse_json, quote_reply, send_post
from engine.errors import DataError, ParamError


class SearchEndpoint:
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
        self._headers = dict(headers or {})

    def __call__(self, query: str, k: int) -> list[str]:
        """Return the ids of the documents for a query, best first. Raises DataError if there is no such answer."""
        reply = send_post(self.url, {"queries": [query], "k": k}, self._headers)
        if reply.status != 200:
            raise DataError(f"{self.url} answered with status {reply.status}: {self._quote(reply)}")
        return self._read_ids(reply)

    def _read_ids(self, reply: Reply) -> list[str]:
        """Return the ids of the one answer in a response. Raises DataError if it has another form."""
        try:
            (answer,) = parse_json(reply.content)["answers"]
            ids = answer["ids"]
        except (ValueError, LookupError, TypeError):
            ids = None
        if not isinstance(ids, list) or not all(isinstance(doc_id, str | int) for doc_id in ids):
            raise DataError(
                f'{self.url} must answer one query with {{"answers": [{{"ids": ["…"]}}]}}; got {self._quote(reply)}'
            )
        return list(map(str, ids))

    def _quote(self, reply: Reply) -> str:
        """Return what the service said, unless it repeats a header, which may be a key."""
        # Of "Bearer …" the first word is no secret.
        secrets = [word for value in self._headers.values() for word in value.split()[-1:]]
        return quote_reply(reply, secrets)
