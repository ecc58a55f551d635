"""Decoders over the candidates of other people's stores and frameworks.

The adapters are modules of their own, each of which needs its framework and is imported when first asked for:
`engine.integrations.langchain`, `llama_index`, `haystack` and `sklearn`. `answer` is the same as a plain function.
`record` asks another system's retriever, and keeps its lists as a run.
"""

import importlib as _importlib
from typing import Any as _Any

from engine.integrations.candidates import Answerer, Selection, answer
from engine.integrations.record import record

FRAMEWORKS = ("langchain", "llama_index", "haystack", "sklearn")
"""The adapters' modules."""

__all__ = ["FRAMEWORKS", "Answerer", "Selection", "answer", "record"]


def __getattr__(name: str) -> _Any:
    """Import the integration with a framework, such as `langchain`, when it is first used."""
    if name not in FRAMEWORKS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return _importlib.import_module(f"{__name__}.{name}")
