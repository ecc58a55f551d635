"""Consent of visitors before the texts of a corpus are sent to a server of models."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dashboard.services.memo import Memo
from dashboard.services.source import Source

if TYPE_CHECKING:
    from engine.data.endpoints.consent import Estimate
    from engine.values import Corpus, Queries

MAX_REMEMBERED = 100


@dataclass(frozen=True)
class PendingSend:
    """Texts that wait for consent before they are sent."""

    key: str  # digest of the texts, and of the server and its model
    estimate: Estimate


_PENDING: Memo[tuple[str, str], PendingSend] = Memo(MAX_REMEMBERED)
"""Texts that wait for consent, by the path of the corpus and the encoder."""
_AGREED_TOKENS: Memo[str, int] = Memo(MAX_REMEMBERED)
"""Tokens that a visitor agreed to, by the key of what is sent, until that is loaded."""


def find_pending(source: Source) -> PendingSend | None:
    """Return what would be sent to embed a corpus, if that waits for consent."""
    return _PENDING.get((source.path, source.encoder))


def agree_to_send(pending: PendingSend) -> None:
    """Agree to send what was displayed: these texts, to this server, and no more; for a callback."""
    _AGREED_TOKENS[pending.key] = pending.estimate.n_tokens


def require_agreement(source: Source, corpus: Corpus, queries: Queries | None) -> None:
    """Raise ConsentNeededError if embedding a corpus, and labelled queries, would send more than was agreed to."""
    from engine.data.encoders import estimate_sending
    from engine.data.endpoints.consent import ConsentNeededError

    estimate = estimate_sending([corpus, *([queries] if queries is not None else [])], source.encoder)
    _PENDING.forget((source.path, source.encoder))
    if estimate is None:
        return
    key = _get_key(source, corpus, queries)
    # After an interruption the rest of what was agreed to is sent without another question.
    if estimate.n_tokens > _AGREED_TOKENS.get(key, 0):
        _PENDING[source.path, source.encoder] = PendingSend(key, estimate)
        raise ConsentNeededError(f"this would send {estimate}", f"This would send {estimate}.", estimate)


@contextmanager
def allow_agreed(source: Source, corpus: Corpus, queries: Queries | None) -> Iterator[None]:
    """Allow the work inside to send as many tokens as were agreed to; once it succeeds the agreement is spent."""
    from engine.data.endpoints.consent import allow_tokens

    key = _get_key(source, corpus, queries)
    with allow_tokens(_AGREED_TOKENS.get(key, 0)):
        yield
    _AGREED_TOKENS.forget(key)


@contextmanager
def allow_typed() -> Iterator[None]:
    """Allow the work inside to send a few typed queries, as no visitor was asked for more."""
    from engine.data.endpoints.consent import ASKED_TOKENS, allow_tokens

    with allow_tokens(ASKED_TOKENS - 1):
        yield


def _get_key(source: Source, corpus: Corpus, queries: Queries | None) -> str:
    """Return the key of what is sent: the texts, and the server with its model; "" where there is no server."""
    from engine.data.endpoints.config import is_endpoint
    from engine.data.endpoints.embeddings import find_endpoint
    from engine.values import digest_of

    if not is_endpoint(source.encoder):
        return ""
    queries_digest = "" if queries is None else queries.digest
    return digest_of([corpus.digest, queries_digest, find_endpoint(source.encoder).digest])
