"""Requests over HTTP to addresses that a person named: no redirects, bounded answers, errors without secrets."""

import json
import ssl
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping
from email.message import Message
from http.client import HTTPException, HTTPResponse
from ipaddress import ip_address
from typing import Any, NamedTuple
from urllib.error import HTTPError, URLError
from urllib.parse import quote, urlsplit
from urllib.request import HTTPRedirectHandler, ProxyHandler, Request, build_opener

from engine.errors import DataError
from engine.wording import visible

TIMEOUT_SECONDS = 60.0
MAX_RESPONSE_BYTES = 32 << 20
MAX_ERROR_BYTES = 64 << 10
"""Bytes that are read of an answer with an error."""
MAX_SHOWN_CHARACTERS = 200
"""Characters of an answer that are quoted."""
MAX_BRACKETS = 1 << 17
"""Brackets in an answer: each of two bytes may become an object of thirty times its size."""
SECRET_NOTE = "its message repeats the key, and is left out"
"""Words quoted in place of a text that repeats a secret."""
_SECRET_PART_CHARACTERS = 6
"""A text that repeats so many characters of a secret is not quoted."""


class Reply(NamedTuple):
    """Answer of a server: status, headers and the body, of an error its beginning."""

    status: int
    headers: Message
    content: bytes


class NoAnswerError(DataError):
    """A request without an answer; is_passing: True where the connection broke off, and may hold at the next try."""

    def __init__(self, message: str, is_passing: bool = False) -> None:
        super().__init__(message)
        self.is_passing = is_passing


class _NoRedirects(HTTPRedirectHandler):
    """Refuses redirects: the texts, and perhaps a key, would go to an address that nobody named."""

    def redirect_request(self, req: Request, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> None:
        """Return None, by which a redirect becomes an error."""
        return None


def send_post(url: str, body: Any, headers: Mapping[str, str], timeout: float = TIMEOUT_SECONDS) -> Reply:
    """Send values as JSON, and return the answer, whatever its status. Raises NoAnswerError if there is none.

    url: of http or https; timeout: in seconds, for each step of the connection.
    """
    headers = {"Content-Type": "application/json", "Accept": "application/json", **headers}
    # Nothing unencrypted goes through a proxy; of https a proxy sees the host alone.
    proxies = [ProxyHandler({})] if urlsplit(url).scheme == "http" else []
    try:
        request = Request(url, data=json.dumps(body).encode("utf-8"), headers=headers, method="POST")
        try:
            with build_opener(_NoRedirects, *proxies).open(request, timeout=timeout) as response:
                return Reply(response.status, response.headers, _read_content(response, url))
        except HTTPError as error:
            with error:
                return Reply(error.code, error.headers, error.read(MAX_ERROR_BYTES))
    except URLError as error:
        raise _explain_connection(url, error.reason) from None
    except NoAnswerError:
        raise
    except (OSError, HTTPException) as error:
        raise _explain_connection(url, error) from None
    except ValueError:
        # The library's message would quote the header, which may hold a key.
        raise NoAnswerError(f"{url} was not asked: a header has characters that HTTP cannot carry") from None


def _read_content(response: HTTPResponse, url: str) -> bytes:
    """Read the body of an answer. Raises NoAnswerError if it is too long or breaks off."""
    content = response.read(MAX_RESPONSE_BYTES + 1)
    if len(content) > MAX_RESPONSE_BYTES:
        raise NoAnswerError(f"{url} answered with more than {MAX_RESPONSE_BYTES >> 20} MiB")
    # A read with a limit does not notice by itself that the connection ended early.
    if response.length:
        raise NoAnswerError(f"{url} broke off within its answer", is_passing=True)
    return content


def _explain_connection(url: str, reason: object) -> NoAnswerError:
    """Return the error for a connection that failed; reason: the library's error or a text."""
    if isinstance(reason, ssl.SSLCertVerificationError):
        return NoAnswerError(f"{url} was refused: its certificate does not hold ({reason.verify_message})")
    if isinstance(reason, TimeoutError):
        return NoAnswerError(f"{url} did not answer in time")
    if isinstance(reason, ConnectionResetError | BrokenPipeError | HTTPException):
        return NoAnswerError(f"{url} broke off without an answer ({type(reason).__name__})", is_passing=True)
    reason_text = visible(str(reason))[:MAX_SHOWN_CHARACTERS]
    return NoAnswerError(f"{url} did not answer: {reason_text}; is the service running?")


def parse_json(content: bytes) -> Any:
    """Parse an answer. Raises ValueError for what is no JSON, or would take far more memory than the answer has."""
    if content.count(b"[") + content.count(b"{") > MAX_BRACKETS:
        raise ValueError("too many brackets")
    try:
        return json.loads(content)
    except RecursionError:
        raise ValueError("too many brackets inside each other") from None


def quote_reply(reply: Reply, secrets: Iterable[str] = ()) -> str:
    """Return what a server says in an answer, to be quoted in an error; a text that repeats a secret is left out."""
    return quote_message(_find_message(reply.content), secrets)


def repeats_secret(text: str, secrets: Iterable[str]) -> bool:
    """Return True if a text has a stretch of a secret, in any form that servers write it in."""
    return any(part in text.casefold() for secret in secrets for part in _list_parts(secret))


def quote_message(message: str, secrets: Iterable[str] = ()) -> str:
    """Return a server's text in one line, shortened; a note in its place if it repeats a secret."""
    if repeats_secret(message, secrets):
        return SECRET_NOTE
    # Outer white space and line breaks would tear an error apart.
    line = visible(" ".join(message.split()))
    return line if len(line) <= MAX_SHOWN_CHARACTERS else line[: MAX_SHOWN_CHARACTERS - 1] + "…"


def _find_message(content: bytes) -> str:
    """Return the message in an answer of the usual forms, else the answer as text."""
    try:
        value = parse_json(content)
    except ValueError:
        text = content.decode("utf-8", "replace")
        return "a web page" if text.lstrip()[:1] == "<" else text
    # {"error": {"message": …}}, {"error": …}, {"message": …} or {"detail": …}
    for name in ("error", "message", "detail"):
        if isinstance(value, dict) and name in value:
            value = value[name]
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _list_parts(secret: str) -> Iterator[str]:
    """Yield the stretches of a secret that no message may have, as it is and as addresses and base64 write it."""
    forms = (secret, quote(secret, safe=""), b64encode(secret.encode()).decode())
    # Servers show the beginning or the end of a key, so that any stretch of it counts.
    for form in map(str.casefold, forms if secret else ()):
        length = min(_SECRET_PART_CHARACTERS, len(form))
        yield from (form[start : start + length] for start in range(len(form) - length + 1))


def is_loopback(host: str) -> bool:
    """Return True if a host is this machine itself."""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False
