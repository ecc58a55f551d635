"""The command group, commands whose work is imported when they run, the progress meter, threads, and Ctrl-C."""

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import wraps
from importlib import import_module
from io import TextIOWrapper
from typing import Any

import click

from engine.cli.output import echo, one_line
from engine.errors import Cancelled, FrontierError
from engine.progress import Eta, format_duration
from engine.wording import visible

Decorator = Callable[[Any], Any]
MAX_LINE_CHARACTERS = 300
"""Characters of a progress line."""
MAX_THREADS = 4096
_HELP_ERRORS: type[click.ClickException] | tuple[()] = getattr(click.exceptions, "NoArgsIsHelpError", ())
"""Exception by which click since 8.2 shows the help of a group that is named alone; the words are our own."""


class CommandGroup(click.Group):
    """The command group; without a command's name the default command runs, and takes its flags directly."""

    default: str | None = None

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Insert the default command's name if the first argument is a flag or missing; make errors printable."""
        _escape_unprintable()
        group_flags = {"--help", "-h", "--version"}
        if self.default and (not args or (args[0].startswith("-") and args[0] not in group_flags)):
            args = [self.default, *args]
        # click formats its errors itself, so they are made printable before they leave.
        try:
            return super().parse_args(ctx, args)
        except click.ClickException as error:
            raise _printable_error(error) from None

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; translate the engine's errors, and Ctrl-C, into messages and exit codes."""
        try:
            return super().invoke(ctx)
        except click.ClickException as error:
            raise _printable_error(error) from None
        # Errors of the engine name their remedy; a traceback would hide it.
        except FrontierError as error:
            raise _printable_error(click.ClickException(str(error))) from None
        except (KeyboardInterrupt, Cancelled) as error:
            # A Ctrl-C has no text. Some texts begin with "stopped", which is printed once.
            reason = str(error).removeprefix("stopped ") or "what was finished is kept"
            echo(f"stopped; {reason}", err=True)
            ctx.exit(130)


def _escape_unprintable() -> None:
    """Have characters that the output's encoding lacks printed as escapes, which JSON reads back."""
    # A terminal or a pipe in latin-1 or ASCII has no λ: help and results would end in an error of Python.
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper) and stream.errors == "strict":
            stream.reconfigure(errors="backslashreplace")


def _printable_error(error: click.ClickException) -> click.ClickException:
    """Return an error of a command with the control characters of file names and ids made visible.

    Errors that print a help text stay as they are.
    """
    if isinstance(error, _HELP_ERRORS):
        return error
    words = visible(error.format_message())
    return click.UsageError(words, error.ctx) if isinstance(error, click.UsageError) else click.ClickException(words)


@click.group(cls=CommandGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="frontier-retrieval", prog_name="frontier")
def main() -> None:
    """Measure what relevance costs and what diversity buys, on your own corpus."""


def lazy(target_path: str) -> Callable[..., Any]:
    """Return a function that imports and calls `module:name`, so that --help need not wait for torch."""
    module, _, function_name = target_path.partition(":")
    return lambda *args, **kwargs: getattr(import_module(module), function_name)(*args, **kwargs)


ALLOWANCE_KEY = "engine.cli.sending"
"""Key in click's context of what --yes and --max-tokens allow the command to send."""


def runs_in(module_name: str) -> Decorator:
    """Return a decorator that replaces a command's empty body by the function of its name in a module."""

    def decorate(declared: Any) -> Any:
        """Return the command that runs the function, which may send what its options allow."""
        run = lazy(f"{module_name}:{declared.__name__}")

        @wraps(declared)
        def command(*arguments: Any, **options: Any) -> Any:
            """Run the function of the module."""
            # Only here, and not as the options are read: an option after them may be wrong, and nothing runs then.
            with click.get_current_context().meta.pop(ALLOWANCE_KEY, nullcontext()):
                return run(*arguments, **options)

        return command

    return decorate


class Meter:
    """A progress line on a terminal with the time left; silent if stderr is no terminal."""

    def __init__(self) -> None:
        """Start without a line; nothing is ever drawn unless stderr is a terminal."""
        self._live = sys.stderr.isatty()
        self._eta = Eta()
        self._label, self._drawn = "", 0.0

    def __enter__(self) -> "Meter":
        return self

    def __exit__(self, *_: object) -> None:
        self.clear()

    def __call__(self, done: int, total: int, label: str) -> None:
        """Redraw the progress line; `done` of `total` steps of `label` are finished."""
        if not self._live:
            return
        seconds_left = self._eta(done, total, label)
        current_time = time.monotonic()
        # A terminal is redrawn at most ten times a second, but always at the end of a step.
        if label == self._label and current_time - self._drawn < 0.1 and done < total:
            return
        self._label, self._drawn = label, current_time
        line_parts = [label]
        if total:
            line_parts.append(f"{done:,} of {total:,}")
        if seconds_left:
            line_parts.append(f"{format_duration(seconds_left)} left")
        # Back to the start of the line, and the terminal's code that erases it.
        click.echo("\r\x1b[2K" + one_line(" · ".join(line_parts), MAX_LINE_CHARACTERS), nl=False, err=True)

    def echo(self, line: str) -> None:
        """Print a line in place of the progress line."""
        self.clear()
        echo(line)

    def clear(self) -> None:
        """Erase the progress line."""
        if self._live and self._label:
            # Back to the start of the line, and the terminal's code that erases it.
            click.echo("\r\x1b[2K", nl=False, err=True)
            self._label = ""


def use_threads() -> None:
    """Give torch and NumPy half the cores: on a busy machine more threads are slower, not faster.

    FRONTIER_THREADS overrides the number. Raises ParamError for what is no number of threads.
    """
    # Imported here, because --help must not wait for torch.
    import torch
    from threadpoolctl import threadpool_limits

    from engine.params import Whole

    override = os.environ.get("FRONTIER_THREADS", "")
    # A wrong number is refused: who sets it counts on it.
    thread_count = Whole(1, "FRONTIER_THREADS", 1, MAX_THREADS, name="FRONTIER_THREADS")
    n_threads = thread_count.parse(override) if override else max(1, (os.cpu_count() or 2) // 2)
    torch.set_num_threads(n_threads)
    threadpool_limits(n_threads, user_api="blas")


@contextmanager
def stop_on_interrupt() -> Iterator[threading.Event]:
    """Yield an event that Ctrl-C sets, so that work ends between two steps.

    A second Ctrl-C ends it at once.
    """
    stop_event = threading.Event()
    # Python handles signals in the main thread alone; elsewhere the event is never set.
    if threading.current_thread() is not threading.main_thread():
        yield stop_event
        return

    def interrupt(*_: Any) -> None:
        """Set the event; raise KeyboardInterrupt at the second Ctrl-C."""
        if stop_event.is_set():
            raise KeyboardInterrupt
        stop_event.set()

    previous_handler = signal.signal(signal.SIGINT, interrupt)
    # The earlier handler is restored even if the work fails.
    try:
        yield stop_event
    finally:
        signal.signal(signal.SIGINT, previous_handler)
