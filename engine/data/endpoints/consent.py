"""Consent before texts leave this machine: an estimate of their tokens, and how many may be sent."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import wraps
from typing import TypeVar

from engine.display import OneLine
from engine.errors import FrontierError
from engine.progress import counted

Function = TypeVar("Function", bound=Callable[..., object])

FREE_TOKENS = 100_000
"""Fewer tokens are sent without a word of consent."""
ASKED_TOKENS = 1000
"""Fewer tokens, a few typed queries, are sent without asking a person who can be asked."""


@dataclass(frozen=True)
class Estimate:
    """Texts that would be sent to a host, and about how many tokens they have."""

    n_texts: int
    n_tokens: int  # of the probe texts too
    host: str
    n_probes: int = 0  # texts of Frontier's own, which are sent before to see that the model is that of before

    def __str__(self) -> str:
        probes = f" and {counted(self.n_probes, 'probe text')}" if self.n_probes else ""
        return f"{counted(self.n_texts, 'text')}{probes}, about {format_tokens(self.n_tokens)}, to {self.host}"


class ConsentNeededError(FrontierError):
    """Texts that may not be sent without consent; estimate: which."""

    # Defaults, as an error that comes from another process is built anew from its message.
    def __init__(self, message: str, finding: str = "", estimate: Estimate | None = None) -> None:
        super().__init__(message, finding)
        self.estimate = estimate


@dataclass
class Allowance(OneLine):
    """Tokens that may be sent inside an `allow_tokens` block, and those that were."""

    max_tokens: int | None  # in all, None for no limit
    ask: Callable[[Estimate], bool] | None  # asks a person beyond the limit; its consent holds for the block
    remedy: str  # what consents in its stead, for the error
    n_tokens: int = 0
    is_agreed: bool = False  # True once a person lifted the limit

    @property
    def n_remaining(self) -> int | None:
        """Number of tokens that may still be sent; None for no limit."""
        return None if self.max_tokens is None or self.is_agreed else self.max_tokens - self.n_tokens

    def spend(self, estimate: Estimate) -> None:
        """Count texts that are about to be sent. Raises ConsentNeededError if they may not be."""
        n_tokens = self.n_tokens + estimate.n_tokens
        if self.n_remaining is not None and estimate.n_tokens > self.n_remaining:
            if self.ask is None or not self.ask(estimate):
                raise _refuse(estimate, self.remedy, n_tokens)
            # Who agreed once is not asked in the middle of the same work again.
            self.is_agreed = True
        self.n_tokens = n_tokens

    def divide(self, n_processes: int) -> "Allowance":
        """Spend all that may still be sent, and return each process's part of it."""
        part = None if self.n_remaining is None else self.n_remaining // n_processes
        self.n_tokens += (part or 0) * n_processes
        # Nobody can be asked by another process.
        return Allowance(part, None, self.remedy)

    def take_back(self, part: "Allowance", n_processes: int, n_sent: int) -> None:
        """Count what processes sent in place of what was divided among them."""
        self.n_tokens += n_sent - (part.max_tokens or 0) * n_processes


_ALLOWANCE: ContextVar[Allowance | None] = ContextVar("allowance", default=None)


@contextmanager
def allow_tokens(
    max_tokens: int | None = None, *, ask: Callable[[Estimate], bool] | None = None, remedy: str = ""
) -> Iterator[Allowance]:
    """Allow the work inside the block to send texts to the endpoints of endpoints.toml.

    Without such a block a call sends fewer than 100,000 tokens in all, or nothing.

    Parameters
    ----------
    max_tokens : int, optional
        Tokens that may be sent in all, by estimate; None for no limit.
    ask : callable, optional
        Called with an Estimate beyond that; returns True to lift the limit.
    remedy : str, optional
        What to do instead, for the error; by default a larger `max_tokens`.

    Yields
    ------
    Allowance
        Its `n_tokens` is the estimate of what was sent so far.

    Examples
    --------
    >>> import engine
    >>> with engine.allow_tokens(3_000_000) as allowance:
    ...     allowance.n_tokens
    0
    """
    with _use_allowance(Allowance(max_tokens, ask, remedy)) as allowance:
        yield allowance


@contextmanager
def _use_allowance(allowance: Allowance) -> Iterator[Allowance]:
    """Have an allowance count what the work inside the block sends."""
    token = _ALLOWANCE.set(allowance)
    try:
        yield allowance
    finally:
        _ALLOWANCE.reset(token)


class _TokenLimit:
    """A block or a decorated function whose sent tokens are counted together; it costs every decoded query little."""

    def __init__(self, allowance: Allowance | None) -> None:
        self.allowance = allowance

    def __call__(self, function: Function) -> Function:
        @wraps(function)
        def call_within_limit(*args: object, **kwargs: object) -> object:
            # Each call, maybe in a thread of its own, restores the allowance that it began with.
            with _TokenLimit(self.allowance):
                return function(*args, **kwargs)

        return call_within_limit  # type: ignore[return-value]

    def __enter__(self) -> Allowance:
        used = _ALLOWANCE.get() or self.allowance or Allowance(FREE_TOKENS - 1, None, "")
        self.token = _ALLOWANCE.set(used)
        return used

    def __exit__(self, *error: object) -> None:
        _ALLOWANCE.reset(self.token)


def limit_tokens(allowance: Allowance | None = None) -> _TokenLimit:
    """Count all that the work inside sends as one call's: by the block around it, else as without consent.

    allowance: of the beginning of the same call, None at its beginning. Also a decorator.
    """
    return _TokenLimit(allowance)


@contextmanager
def allow_request() -> Iterator[None]:
    """Allow one request of a service as much as one call, whatever earlier ones sent.

    What was allowed or limited without a question holds for all requests together.
    """
    current = _ALLOWANCE.get()
    if current is not None and (current.max_tokens is None or current.ask is None):
        yield
        return
    # Nobody who sends a request can be asked by this process.
    with allow_tokens(FREE_TOKENS - 1, remedy="send fewer queries at a time, or serve with --yes"):
        yield


def find_allowance() -> Allowance | None:
    """Return the allowance of the current block; None outside of one."""
    return _ALLOWANCE.get()


def adopt_allowance(allowance: Allowance | None) -> None:
    """Allow this process what another one gave it, until it ends."""
    _ALLOWANCE.set(allowance)


def require_consent(estimate: Estimate) -> None:
    """Count texts that are about to be sent. Raises ConsentNeededError if nobody allowed as many."""
    allowance = _ALLOWANCE.get()
    # A block allows more than the usual number of tokens, or fewer.
    if allowance is not None:
        allowance.spend(estimate)
    elif estimate.n_tokens >= FREE_TOKENS:
        raise _refuse(estimate, "", estimate.n_tokens)


def estimate_texts(texts: Iterable[str], host: str) -> Estimate:
    """Estimate the tokens of texts that would be sent to a host."""
    n_texts = n_tokens = 0
    for text in texts:
        n_texts += 1
        n_tokens += estimate_tokens(text.encode("utf-8", "replace"))
    return Estimate(n_texts, n_tokens, host)


def estimate_tokens(raw_text: bytes) -> int:
    """Estimate the number of tokens of a text from its number of bytes."""
    # Three bytes a token: right for code and for Chinese, cautious for English prose.
    return len(raw_text) // 3 + 2


def format_tokens(n_tokens: int) -> str:
    """Format a number of tokens coarsely: "940 tokens", "31 k tokens", "3.1 M tokens"."""
    if n_tokens < 10_000:
        return counted(n_tokens, "token")
    return f"{n_tokens / 1000:.0f} k tokens" if n_tokens < 999_500 else f"{n_tokens / 1_000_000:.1f} M tokens"


def _refuse(estimate: Estimate, remedy: str, n_tokens: int) -> ConsentNeededError:
    """Return the error for texts that nobody allowed; n_tokens: limit that would allow them."""
    remedy = remedy or "allow it: with engine.allow_tokens({limit}): …"
    return ConsentNeededError(
        f"this would send {estimate}; {remedy.format(limit=n_tokens)}",
        f"This would send {estimate}. Have the command line do it first, which asks: what comes back is found here.",
        estimate,
    )
