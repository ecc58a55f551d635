"""What commands print: JSON, aligned tables, one-line texts; nothing in it steers the terminal."""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import click
import tabulate

from engine.progress import shorten
from engine.wording import in_json, visible

tabulate.PRESERVE_WHITESPACE = True  # arrows that stand behind some numbers leave their place behind the others


def echo(text: str = "", *, err: bool = False, bold: bool = False) -> None:
    """Print a text, on stderr if need be; the one way of texts to the terminal."""
    shown = visible(text)
    click.echo(click.style(shown, bold=True) if bold else shown, err=err)


def echo_json(*values: Any, indent: int | None = None, allow_nan: bool = True) -> None:
    """Print each value as JSON, exactly: what `echo` would write its own way, JSON can escape.

    Raises ValueError for NaN where that is not allowed.
    """
    for value in values:
        click.echo(in_json(json.dumps(value, ensure_ascii=False, indent=indent, allow_nan=allow_nan)))


def echo_lines(lines: Iterable[str]) -> None:
    """Print every line."""
    for line in lines:
        echo(line)


def echo_notices(notices: Iterable[Any]) -> None:
    """Print notices on stderr."""
    for notice in notices:
        echo(f"note: {notice}", err=True)


def echo_written(files: Iterable[Any]) -> None:
    """Print which files were written."""
    for file in files:
        echo(f"written: {file}")


def write_text(file: str | Path, text: str) -> None:
    """Write a file, whole or not at all; where it is a link, what that leads to. Raises FrontierError."""
    from engine.data.cache import write

    write(Path(file).resolve(), text.encode("utf-8"))


def one_line(text: str, width: int) -> str:
    """The text as one line a terminal can show, at most `width` long."""
    return shorten(" ".join("".join(c if c.isprintable() else " " for c in visible(text)).split()), width)


def or_dash(value: float | None, decimals: int = 4) -> str:
    """A number with its decimals, a dash for None and NaN."""
    return f"{value:.{decimals}f}" if value is not None and value == value else "–"


def nan_to_none(means: Mapping[str, float]) -> dict[str, float | None]:
    """Means as JSON has them: null where there is none."""
    return {name: value if value == value else None for name, value in means.items()}


def aligned(rows: Iterable[Sequence[str]], sides: str = "l") -> str:
    """Rows of cells as columns; sides: l or r for each, further ones stand to the right."""
    cells = [list(row) for row in rows]
    align = ["left" if side == "l" else "right" for side in sides.ljust(len(cells[0]), "r")]
    return str(tabulate.tabulate(cells, tablefmt="plain", disable_numparse=True, colalign=align))
