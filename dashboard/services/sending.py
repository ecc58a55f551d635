"""Consent of visitors before the texts of a corpus are sent to a server of models."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from dashboard.services.memo import Memo
from dashboard.services.source import Source

if TYPE_CHECKING:
    from engine.data.endpoints.consent import Estimate
    from engine.values import Corpus, Queries

MAX_REMEMBERED = 100
_ESTIMATES: Memo[tuple[str, str], Estimate] = Memo(MAX_REMEMBERED)
"""Texts that wait for consent, by the path of the corpus and the encoder."""
_AGREED_TOKENS: Memo[tuple[str, str], int] = Memo(MAX_REMEMBERED)
"""Tokens that a visitor agreed to, by the same."""


def find_estimate(source: Source) -> Estimate | None:
    """Return what would be sent to embed a corpus, if that waits for consent."""
    return _ESTIMATES.get(_get_key(source))


def agree_to_send(source: Source) -> None:
    """Agree to send what the estimate of a corpus says, and no more; for a callback."""
    if (estimate := _ESTIMATES.pop(_get_key(source), None)) is not None:
        _AGREED_TOKENS[_get_key(source)] = estimate.n_tokens


def require_agreement(source: Source, corpus: Corpus, queries: Queries | None) -> None:
    """Raise ConsentNeededError if embedding a corpus, and labelled queries, would send more than was agreed to."""
    from engine.data.encoders import estimate_sending
    from engine.data.endpoints.consent import ConsentNeededError

    estimate = estimate_sending([corpus, *([queries] if queries is not None else [])], source.encoder)
    # After an interruption the rest of what was agreed to is sent without another question.
    if estimate is not None and estimate.n_tokens > _AGREED_TOKENS.get(_get_key(source), 0):
        _ESTIMATES[_get_key(source)] = estimate
        raise ConsentNeededError(f"this would send {estimate}", f"This would send {estimate}.", estimate)


@contextmanager
def allow_agreed(source: Source) -> Iterator[None]:
    """Allow the work inside to send as many tokens as were agreed to for a corpus."""
    from engine.data.endpoints.consent import allow_tokens

    with allow_tokens(_AGREED_TOKENS.get(_get_key(source), 0)):
        yield


def _get_key(source: Source) -> tuple[str, str]:
    """Return the key of a corpus's consent: whatever else is chosen, the same texts go to the same server."""
    return source.path, source.encoder
