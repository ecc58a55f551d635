"""Decoders over the candidates of other people's stores and frameworks.

The adapters are modules of their own, each of which needs its framework and is imported when first asked for:
`engine.integrations.langchain`, `llama_index`, `haystack` and `sklearn`. `answer` is the same as a plain function.
`record` asks another system's retriever, and keeps its lists as a run.
"""

import importlib as _importlib
from typing import TYPE_CHECKING
from typing import Any as _Any

if TYPE_CHECKING:
    from engine.integrations.candidates import Answerer, Selection, answer
    from engine.integrations.recording import record

FRAMEWORKS = ("langchain", "llama_index", "haystack", "sklearn")
"""The adapters' modules."""

__all__ = ["FRAMEWORKS", "Answerer", "Selection", "answer", "record"]

# These import torch, for which a server that only needs `connections` must not wait before its first page.
_MODULES = {"Answerer": "candidates", "Selection": "candidates", "answer": "candidates", "record": "recording"}


def __getattr__(name: str) -> _Any:
    """Import a name of a module, or the integration with a framework such as `langchain`, when it is first used."""
    if name in FRAMEWORKS:
        return _importlib.import_module(f"{__name__}.{name}")
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(_importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
    globals()[name] = value
    return value
