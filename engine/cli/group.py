"""The command group, commands whose work is imported when they run, the progress meter, threads, and Ctrl-C."""

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from importlib import import_module
from typing import Any

import click

from engine.cli.output import echo, one_line
from engine.errors import Cancelled, FrontierError
from engine.progress import Eta, format_duration
from engine.wording import visible

Decorator = Callable[[Any], Any]
LONGEST = 300
"""Characters of a progress line."""
_HELP: type[click.ClickException] | tuple[()] = getattr(click.exceptions, "NoArgsIsHelpError", ())
"""What click since 8.2 raises to show the help of a group that is named alone: its words are our own."""


class CommandGroup(click.Group):
    """The commands; without one, the default command runs, and takes its flags directly."""

    default: str | None = None

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        group_flags = {"--help", "-h", "--version"}
        if self.default and (not args or (args[0].startswith("-") and args[0] not in group_flags)):
            args = [self.default, *args]
        try:
            return super().parse_args(ctx, args)
        except click.ClickException as error:
            raise _plain(error) from None

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except click.ClickException as error:
            raise _plain(error) from None
        except FrontierError as error:
            raise _plain(click.ClickException(str(error))) from None
        except (KeyboardInterrupt, Cancelled) as error:
            # A Ctrl-C has no text of its own, and some texts begin with the word.
            reason = str(error).removeprefix("stopped ") or "what was finished is kept"
            echo(f"stopped; {reason}", err=True)
            ctx.exit(130)


def _plain(error: click.ClickException) -> click.ClickException:
    """The error with words that do not steer the terminal: names of files and ids stand in them."""
    if isinstance(error, _HELP):
        return error
    words = visible(error.format_message())
    return click.UsageError(words, error.ctx) if isinstance(error, click.UsageError) else click.ClickException(words)


@click.group(cls=CommandGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="frontier-retrieval", prog_name="frontier")
def main() -> None:
    """What relevance costs and what diversity buys, on your own corpus."""


def lazy(target: str) -> Callable[..., Any]:
    """Return a stand-in for `module:name` that imports it when it is called: no --help waits for torch."""
    module, _, name = target.partition(":")
    return lambda *args, **kwargs: getattr(import_module(module), name)(*args, **kwargs)


def runs_in(module: str) -> Decorator:
    """Have a command, declared by a function without a body, call the function of the same name in `module`."""
    return lambda declared: wraps(declared)(lazy(f"{module}:{declared.__name__}"))


class Meter:
    """A progress line on a terminal: done of total, and the time left. Silent where stderr is no terminal."""

    def __init__(self) -> None:
        self._live = sys.stderr.isatty()
        self._eta = Eta()
        self._label, self._drawn = "", 0.0

    def __enter__(self) -> "Meter":
        return self

    def __exit__(self, *_: object) -> None:
        self.clear()

    def __call__(self, done: int, total: int, label: str) -> None:
        if not self._live:
            return
        left = self._eta(done, total, label)
        now = time.monotonic()
        if label == self._label and now - self._drawn < 0.1 and done < total:
            return
        self._label, self._drawn = label, now
        parts = [
            label,
            *([f"{done:,} of {total:,}"] if total else []),
            *([f"{format_duration(left)} left"] if left else []),
        ]
        click.echo("\r\x1b[2K" + one_line(" · ".join(parts), LONGEST), nl=False, err=True)

    def echo(self, line: str) -> None:
        """Print a line in place of the progress."""
        self.clear()
        echo(line)

    def clear(self) -> None:
        """Wipe the line."""
        if self._live and self._label:
            click.echo("\r\x1b[2K", nl=False, err=True)
            self._label = ""


def use_threads() -> None:
    """Half the cores for torch and NumPy, once for the process: on a busy machine more threads are slower, not faster.

    FRONTIER_THREADS overrides.
    """
    import torch
    from threadpoolctl import threadpool_limits

    override = os.environ.get("FRONTIER_THREADS", "")
    count = int(override) if override.isdigit() and int(override) else max(1, (os.cpu_count() or 2) // 2)
    torch.set_num_threads(count)
    threadpool_limits(count, user_api="blas")


@contextmanager
def stop_on_interrupt() -> Iterator[threading.Event]:
    """An event that Ctrl-C sets, so that work ends between two steps; a second Ctrl-C ends it at once."""
    stop = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return

    def interrupt(*_: Any) -> None:
        if stop.is_set():
            raise KeyboardInterrupt
        stop.set()

    before = signal.signal(signal.SIGINT, interrupt)
    try:
        yield stop
    finally:
        signal.signal(signal.SIGINT, before)
