"""The Streamlit dashboard.

For notebooks and scripts, `show` opens it on values in memory, `notebook.explore` is a widget, `plots` has the charts.
"""

from typing import Any as _Any

_PUBLIC_MODULES = ("notebook", "plots")

__all__ = ["show", *_PUBLIC_MODULES]


def __getattr__(name: str) -> _Any:
    """Import a public name when it is first used, so that `import dashboard` is quick."""
    import importlib

    if name == "show":
        return importlib.import_module("dashboard.kernel_dashboard").show
    if name in _PUBLIC_MODULES:
        return importlib.import_module(f"dashboard.{name}")
    raise AttributeError(f"module 'dashboard' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*globals(), *__all__]
