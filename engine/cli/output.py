"""What commands print: JSON, aligned tables, one-line texts."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import click

from engine.progress import shorten


def echo_json(value: Any, indent: int | None = None, allow_nan: bool = True) -> None:
    """Print a value as JSON. Raises ValueError for NaN where that is not allowed."""
    from engine.values import replace_surrogates

    click.echo(replace_surrogates(json.dumps(value, ensure_ascii=False, indent=indent, allow_nan=allow_nan)))


def echo_lines(lines: Iterable[str]) -> None:
    """Print every line."""
    for line in lines:
        click.echo(line)


def echo_notices(notices: Iterable[Any]) -> None:
    """Print notices on stderr."""
    for notice in notices:
        click.echo(f"note: {notice}", err=True)


def echo_written(files: Iterable[Any]) -> None:
    """Print which files were written."""
    for file in files:
        click.echo(f"written: {file}")


def one_line(text: str, width: int) -> str:
    """The text as one line a terminal can show: no control characters, at most `width` long."""
    from engine.values import replace_surrogates

    return shorten(" ".join("".join(c if c.isprintable() else " " for c in replace_surrogates(text)).split()), width)


def or_dash(value: float | None, width: int) -> str:
    """A number with four decimals, a dash for None and NaN."""
    return f"{value:>{width}.4f}" if value is not None and value == value else f"{'–':>{width}}"


def nan_to_none(means: Mapping[str, float]) -> dict[str, float | None]:
    """Means as JSON has them: null where there is none."""
    return {name: value if value == value else None for name, value in means.items()}


def aligned(lines: Sequence[Sequence[str]]) -> str:
    """Rows of cells as columns: the first to the left, the others to the right."""
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    return "\n".join(
        "  ".join([line[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(line[1:], widths[1:], strict=True))])
        for line in lines
    )
