"""Values at a prompt and in a notebook: one-line representations, frames, and tables as HTML."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence, Sized
from dataclasses import fields, is_dataclass
from html import escape
from numbers import Number
from typing import TYPE_CHECKING, Any, NoReturn

from engine.progress import shorten
from engine.wording import visible

# pandas is imported when a frame is built; until then the name stands for anything, as annotations may be evaluated.
if TYPE_CHECKING:
    from pandas import DataFrame as DataFrame
else:
    DataFrame = Any

MAX_REPR_CHARS = 200
"""Length of the longest representation of a public value."""
MAX_TEXT_CHARS = 40
"""Characters of a text inside a representation."""
MAX_HTML_ROWS = 20
"""Rows of a table in a notebook; the rows in the middle of a longer one are left out."""


class OneLine:
    """Base of values whose representation is one line of at most MAX_REPR_CHARS characters.

    A subclass says in `_describe` what stands behind its name; by default these are its fields, long ones by their size
    alone.
    """

    __slots__ = ()

    def __init_subclass__(cls, **arguments: Any) -> None:
        """Give the subclass the representation, in place of that which @dataclass would write for it."""
        super().__init_subclass__(**arguments)
        # @dataclass leaves a __repr__ alone only if the class itself has it.
        if "__repr__" not in vars(cls):
            cls.__repr__ = OneLine.__repr__  # type: ignore[method-assign]

    def __repr__(self) -> str:
        # A line break of a name or a text would make it two lines.
        heading, description = (" ".join(text.split()) for text in (self._get_heading(), self._describe()))
        return shorten(visible(f"{heading}{description and ': '}{description}"), MAX_REPR_CHARS)

    def _get_heading(self) -> str:
        """Return the name of the class, and of the value if it has one."""
        return type(self).__name__

    def _describe(self) -> str:
        """Return what the representation says behind the name of the class."""
        return describe_fields(self)


class Tabular(OneLine, ABC):
    """Base of results that are tables: `to_frame` for pandas, the Arrow interface for others, HTML for notebooks."""

    __slots__ = ()

    @abstractmethod
    def to_frame(self) -> DataFrame:
        """Return the result as a pandas DataFrame; the subclass names the columns."""

    def __iter__(self) -> Any:
        """Raise TypeError: the constructor of pandas' DataFrame tries to iterate, and is told of `to_frame`."""
        raise_not_iterable(self)

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """Export the table by the Arrow interface, through which polars, pyarrow and DuckDB read it."""
        # pyarrow is imported here for the same reason as pandas: most programs never ask for a table.
        import pyarrow as pa

        return pa.Table.from_pandas(self.to_frame(), preserve_index=False).__arrow_c_stream__(requested_schema)

    def _repr_html_(self) -> str:
        """Return the line of the representation with the table below it, as notebooks show it; texts are escaped."""
        table = self.to_frame().to_html(index=False, border=0, escape=True, max_rows=MAX_HTML_ROWS, na_rep="")
        return f"<p>{escape(repr(self))}</p>\n{table}"


def raise_not_iterable(value: object) -> NoReturn:
    """Raise TypeError for a value that is no sequence but has a table."""
    name = type(value).__name__
    raise TypeError(f"{name} is not a sequence; its table is the pandas DataFrame that its method to_frame() returns")


def describe_fields(value: Any) -> str:
    """Return the fields of a value on one line: numbers and short texts, of collections and arrays the size alone."""
    names = [field.name for field in fields(value) if field.repr] if is_dataclass(value) else list(vars(value))
    descriptions = [_describe_field(name, getattr(value, name)) for name in names if not name.startswith("_")]
    return ", ".join(filter(None, descriptions))


def _describe_field(name: str, value: Any) -> str:
    """Return a field as text; "" for one that is absent or says nothing on one line."""
    if value is None:
        return ""
    if isinstance(value, str):
        return f"{name}={shorten(value, MAX_TEXT_CHARS)!r}"
    if isinstance(value, bool) or (not isinstance(value, Number | Sized) and not hasattr(value, "shape")):
        return f"{name}={value}" if isinstance(value, bool | OneLine) else ""
    if isinstance(value, Number):
        return f"{name}={format(value, '.4g') if isinstance(value, float) else value}"
    shape = getattr(value, "shape", None)
    return f"{name} ({len(value):,})" if shape is None else f"{name} {tuple(shape)}"


def describe_means(means: Mapping[str, float]) -> str:
    """Return means by metric as text, "recall 0.512, ilad 0.431"."""
    return ", ".join(f"{metric} {mean:.3f}" for metric, mean in means.items())


def list_briefly(names: Iterable[str], max_names: int = 5) -> str:
    """Return the first names as text, with the number of the others."""
    names = list(map(str, names))
    n_others = len(names) - max_names
    return ", ".join(names[:max_names]) + (f" and {n_others:,} more" if n_others > 0 else "")


def build_table(columns: Mapping[str, Sequence[Any]]) -> DataFrame:
    """Build a pandas DataFrame from its columns; pandas is imported here, so that `import engine` is quick."""
    import pandas as pd

    return pd.DataFrame(columns)


def build_rows_table(
    rows: Sequence[Any], columns: Sequence[str] | None = None, numbers: Collection[str] = ()
) -> DataFrame:
    """Build a pandas DataFrame from its rows, mappings or tuples.

    columns: their names, for a table that may have no row; numbers: columns of numbers, in which None becomes NaN
    """
    import pandas as pd

    frame = pd.DataFrame(list(rows), columns=None if columns is None else list(columns))
    # pandas would leave a column of None alone as one of objects.
    return frame.astype(dict.fromkeys(numbers, float))
