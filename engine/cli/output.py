"""Output of commands: JSON, aligned tables, one-line texts; nothing in it steers the terminal."""

import json
from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter
from pathlib import Path
from typing import Any

import click
import tabulate

from engine.progress import shorten
from engine.wording import in_json, visible

tabulate.PRESERVE_WHITESPACE = True  # arrows that stand behind some numbers leave their place behind the others


def echo(text: str = "", *, err: bool = False, bold: bool = False) -> None:
    """Print a text, by default on stdout; every text to the terminal passes through here."""
    visible_text = visible(text)
    click.echo(click.style(visible_text, bold=True) if bold else visible_text, err=err)


def confirm(question: str) -> bool:
    """Ask a person at the terminal, in place of a progress line; return True for yes."""
    # Back to the start of the line, and the terminal's code that erases it.
    click.echo("\r\x1b[2K", nl=False, err=True)
    return click.confirm(visible(question), err=True)


def echo_json(*values: Any, indent: int | None = None, allow_nan: bool = True) -> None:
    """Print each value as JSON exactly: characters that `echo` would replace are escaped.

    Raises ValueError for NaN unless it is allowed.
    """
    # The escapes leave the parsed value as it is.
    for value in values:
        click.echo(in_json(json.dumps(value, ensure_ascii=False, indent=indent, allow_nan=allow_nan)))


def echo_lines(lines: Iterable[str]) -> None:
    """Print every line."""
    for line in lines:
        echo(line)


def echo_notices(notices: Iterable[Any]) -> None:
    """Print notices on stderr, so that stdout holds results only.

    A notice tells what was odd in the data but could be used all the same.
    """
    for notice in notices:
        echo(f"note: {notice}", err=True)


def write_text(file_path: str | Path, text: str) -> None:
    """Write a text file atomically, as UTF-8; a symbolic link stays, and its target is written.

    Raises FrontierError.
    """
    # Imported here: the cache module imports what commands without files do not need.
    from engine.data.cache import write

    write(Path(file_path).resolve(), text.encode("utf-8"))


def one_line(text: str, width: int) -> str:
    """Return the text as one printable line of at most `width` characters."""
    # Control characters become visible first, then all other unprintable ones and line breaks become spaces.
    return shorten(" ".join("".join(c if c.isprintable() else " " for c in visible(text)).split()), width)


def group_rows(table_rows: Iterable[Any], field_name: str) -> dict[Any, list[Any]]:
    """Group rows by the value of a field; values and rows keep their order."""
    groups: dict[Any, list[Any]] = {}
    for table_row in table_rows:
        groups.setdefault(getattr(table_row, field_name), []).append(table_row)
    return groups


def read_column(table_rows: Iterable[Any], field_name: str) -> list[Any]:
    """Return a field of every row; `a.b` means the field b of the field a."""
    return list(map(attrgetter(field_name), table_rows))


def pick_fields(record: Any, *field_names: str) -> dict[str, Any]:
    """Return the named fields of an object."""
    return {field_name: getattr(record, field_name) for field_name in field_names}


def or_dash(value: float | None, decimals: int = 4) -> str:
    """Format a number with its decimals; None and NaN give a dash."""
    # Only NaN differs from itself.
    return f"{value:.{decimals}f}" if value is not None and value == value else "–"


def nan_to_none(means: Mapping[str, float]) -> dict[str, float | None]:
    """Return the means with null in place of NaN, as JSON needs."""
    # Only NaN differs from itself.
    return {metric_name: mean_value if mean_value == mean_value else None for metric_name, mean_value in means.items()}


def format_columns(table_rows: Iterable[Sequence[str]], column_sides: str = "l") -> str:
    """Format rows of texts as one text with aligned columns; the first row is usually the head.

    column_sides: l or r for each column; further columns are aligned to the right
    """
    table_cells = list(map(list, table_rows))
    align = ["left" if column_side == "l" else "right" for column_side in column_sides.ljust(len(table_cells[0]), "r")]
    # Numbers arrive formatted; tabulate must not parse and reformat them.
    return str(tabulate.tabulate(table_cells, tablefmt="plain", disable_numparse=True, colalign=align))
