"""Tiles and lists of decoders in a notebook, with every value of their sliders under the thumb."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from engine.decoder import Decoder, QueryLike
from engine.errors import FrontierError
from engine.space import Space

if TYPE_CHECKING:
    from dashboard.notebook_widget import Explorer

__all__ = ["explore"]
WIDGET_PACKAGE = "anywidget"
INSTALL_COMMAND = "pip install 'frontier-retrieval[notebook]'"


def explore(
    space: Space,
    queries: QueryLike,
    decoders: Sequence[Decoder | str],
    *,
    k: int = 10,
    qrels: Any = None,
) -> Explorer:
    """Show decoders side by side in a notebook; their sliders move the lists without asking the kernel.

    Parameters
    ----------
    space : Space
        What to search.
    queries : Queries, Embeddings, str, sequence of str or array
        What to search for; one is picked in the widget.
    decoders : sequence of Decoder or str
        At least one; a name is a selector's, with its defaults.
    k : int, default 10
        Documents of a set.
    qrels : Qrels, frame, mapping or rows, optional
        Judgements, as `engine.load_qrels` takes them too: how many relevant documents a set has is shown.

    Returns
    -------
    Explorer
        A widget by the anywidget protocol, for JupyterLab, Visual Studio Code, Colab and marimo. `query` and `values`
        are traits, which follow a drag once it is released and can be set; `decoders` and `sets` are what they make.

    Raises
    ------
    FrontierError
        If anywidget is not installed; the message has the command.
    DataError, ParamError
        If queries or decoders do not fit, as of `engine.decode`.

    Examples
    --------
    >>> space = Space.of(["one", "two"], [[1.0, 0.0], [0.0, 1.0]])
    >>> explorer = explore(space, [[1.0, 0.2]], ["top_k", "mmr"], k=2)  # doctest: +SKIP
    >>> explorer.values  # doctest: +SKIP
    {'mmr': {'relevance_weight': 0.8}}
    """
    if find_spec(WIDGET_PACKAGE) is None:
        raise FrontierError(f"dashboard.notebook.explore needs {WIDGET_PACKAGE}: {INSTALL_COMMAND}")
    from dashboard.notebook_widget import build_explorer

    return build_explorer(space, queries, decoders, k, qrels)
