"""Consent on the command line before texts are sent to an endpoint: --yes, --max-tokens, or a question."""

import sys

import click

from engine.cli.group import ALLOWANCE_KEY
from engine.cli.output import confirm
from engine.data.endpoints.consent import ASKED_TOKENS, FREE_TOKENS, Estimate, allow_tokens

REMEDY = "allow it by --yes, or by --max-tokens {limit}"


def allow_sending(context: click.Context, _parameter: click.Parameter, is_allowed: bool) -> None:
    """Let the command send texts without a limit if --yes is given; else ask where somebody can answer."""
    # The callbacks of all commands come here, so that whatever imports this must be light.
    limit = (ASKED_TOKENS if _can_ask() else FREE_TOKENS) - 1
    context.meta[ALLOWANCE_KEY] = allow_tokens(None if is_allowed else limit, ask=_ask, remedy=REMEDY)


def limit_sending(context: click.Context, _parameter: click.Parameter, max_tokens: int | None) -> None:
    """Let the command send as many tokens as --max-tokens says, and no more, without asking."""
    if max_tokens is not None:
        context.meta[ALLOWANCE_KEY] = allow_tokens(max_tokens, remedy=REMEDY)


def _can_ask() -> bool:
    """Return True if a person sits at a terminal, and can answer."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def _ask(estimate: Estimate) -> bool:
    """Ask on a terminal whether texts may be sent; elsewhere return False."""
    if not _can_ask():
        return False
    return confirm(f"{estimate}: go on?")
