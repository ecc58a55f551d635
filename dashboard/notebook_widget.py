"""The widget of `dashboard.notebook.explore`, by the anywidget protocol; only this module imports anywidget."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import anywidget
import traitlets

from dashboard.components.bundle import bundle_scripts
from dashboard.components.tile_data import PackedQuery, list_sliders, name_decoders, pack_query
from dashboard.live.page import MAX_LIVE_QUERIES, LiveContent, save_live_page
from engine.data.frames import load_qrels
from engine.decoder import SET_SIZE, Decoder, QueryLike, decode, query_batch
from engine.display import MAX_REPR_CHARS, list_briefly
from engine.errors import FrontierError, ParamError
from engine.params import values_of
from engine.progress import counted, shorten
from engine.space import Space
from engine.stages import make_selector
from engine.values import Embeddings, Qrels
from engine.wording import visible

SCRIPT_FILE = Path(__file__).parent / "components" / "notebook_widget.js"
MAX_LISTED_QUERIES = 5_000
"""Entries of the picker; `query` takes the id of any other."""
MAX_QUERY_CHARS = 200
VIEW_MODULES = "tiles.js", "lists.js"


def build_script() -> str:
    """Return the widget's module: the pages' scripts in a function, and what mounts them."""
    # Called for each view, so that two widgets of a notebook share no state and hear no events of each other.
    scripts = bundle_scripts(*VIEW_MODULES, hub="ownHub")
    opening = f"const openViews = (ownHub) => {{\n{scripts}\nreturn frontierModules;\n}};\n"
    return opening + SCRIPT_FILE.read_text(encoding="utf-8")


class Explorer(anywidget.AnyWidget):
    """Tiles and lists of decoders for one query at a time.

    `query` is the id of the query, `values` has the values of the sliders by decoder and parameter: both follow the
    browser, once a slider is released, and may be set and observed.
    """

    _esm = build_script()
    query = traitlets.Unicode(help="Id of the query.").tag(sync=True)
    values = traitlets.Dict(help="Values of the sliders: decoder → parameter → value.")
    _queries = traitlets.List().tag(sync=True)  # [id, text] of each listed one
    _view = traitlets.Dict().tag(sync=True)  # data of the tiles and the lists
    _answers = traitlets.Dict().tag(sync=True)  # key → sets along a slider
    _document = traitlets.Dict(allow_none=True, default_value=None).tag(sync=True)  # id, title and text of the open one
    _error = traitlets.Unicode().tag(sync=True)
    _committed = traitlets.Dict().tag(sync=True)  # from the browser: serial, and values that were released
    _opened = traitlets.Int(allow_none=True, default_value=None).tag(sync=True)  # row of the open document

    def __init__(
        self, space: Space, queries: Embeddings, decoders: Sequence[Decoder], k: int, qrels: Qrels | None
    ) -> None:
        """Draw the first query. Raises DataError or ParamError as `engine.decode` does."""
        self._space, self._embedded, self._k, self._qrels = space, queries, k, qrels
        self._decoders = dict(zip((key for key, _ in name_decoders(decoders)), decoders, strict=True))
        self._serial = 0
        texts = queries.texts or queries.ids
        listed = list(zip(queries.ids, texts, strict=True))[:MAX_LISTED_QUERIES]
        self._packed = self._pack(queries.ids[0])
        super().__init__(
            query=queries.ids[0],
            values=read_values(self._decoders),
            _queries=[[query_id, visible(text)[:MAX_QUERY_CHARS]] for query_id, text in listed],
            _view=self._build_view(),
            _answers=self._packed.answers,
        )

    def __repr__(self) -> str:
        facts = f"{counted(len(self._space), 'document')}, {counted(len(self._embedded), 'query', 'queries')}"
        labels = list_briefly(decoder.label for decoder in self.decoders)
        return shorten(visible(f"Explorer: {facts}, decoders {labels}"), MAX_REPR_CHARS)

    @property
    def decoders(self) -> tuple[Decoder, ...]:
        """The decoders at the values of their sliders, for `engine.decode` or `engine.sweep`."""
        return tuple(self._decoders.values())

    @property
    def sets(self) -> dict[str, list[str]]:
        """Ids of the documents of each decoder's set for the query, best first, as the engine answers."""
        query, ids = self._take_query(self.query), self._space.corpus.ids
        return {
            key: [ids[row] for row in decode(decoder, self._space, query, self._k).rows()]
            for key, decoder in self._decoders.items()
        }

    def save(self, file: str | Path, *, n_queries: int = MAX_LIVE_QUERIES) -> Path:
        """Write the first queries, the open one among them, as one HTML file that needs no kernel; return its path.

        λ is dragged in it as here, one slider of a decoder; with judgements it has the frontier over all queries. It
        begins at the present values. Raises ParamError for n_queries below 1, and DataError if it cannot be written.
        """
        if n_queries < 1:
            raise ParamError(f"n_queries must be at least 1; got {n_queries}")
        # The open query goes first, as a page opens its first one.
        rows = dict.fromkeys((self._embedded.position[self.query], *range(len(self._embedded))))
        content = LiveContent(
            space=self._space,
            queries=self._embedded.take(list(rows)[:n_queries]),
            decoders=self.decoders,
            qrels=self._qrels,
            judged=self._embedded,
            k=self._k,
        )
        save_live_page(file, content)
        return Path(file)

    def _take_query(self, query_id: str) -> Embeddings:
        """Return a query as embeddings of one row. Raises ParamError for another id."""
        if (row := self._embedded.position.get(query_id)) is None:
            first_ids = list_briefly(map(repr, self._embedded.ids))
            raise ParamError(f"query must be the id of one of the queries, {first_ids}; got {query_id!r}")
        return self._embedded.take([row])

    def _pack(self, query_id: str, known: Mapping[str, Any] | None = None) -> PackedQuery:
        """Compute what the views draw of a query. known: answers that need not be computed again."""
        relevant_ids = () if self._qrels is None else self._qrels.relevant(query_id)
        return pack_query(
            self._space,
            self._take_query(query_id),
            self.decoders,
            k=self._k,
            relevant_ids=relevant_ids,
            known_answers=known or {},
        )

    def _build_view(self) -> dict[str, Any]:
        """Return the data of the tiles and the lists."""
        return {"tiles": self._packed.tiles | {"serial": self._serial}, "opened": self._opened}

    def _redraw(self, query_id: str) -> None:
        """Compute a query's sets at the present values, and send the browser what has changed."""
        packed = self._pack(query_id, self._packed.answers)
        self._packed = packed
        with self.hold_sync():
            self._error = ""
            # The sets along a slider are the large part, and stay the same where its own value alone has changed.
            if packed.answers.keys() != self._answers.keys():
                self._answers = packed.answers
            self._view = self._build_view()

    @traitlets.validate("query")
    def _check_query(self, proposal: Any) -> str:
        """Return an id that is one of a query. Raises ParamError for another one."""
        query_id: str = proposal["value"]
        self._take_query(query_id)
        return query_id

    @traitlets.validate("values")
    def _complete_values(self, proposal: Any) -> dict[str, dict[str, Any]]:
        """Return values of all sliders; those that are not given stay. Raises ParamError as `set_values`."""
        return read_values(set_values(self._decoders, proposal["value"]))

    @traitlets.observe("query")
    def _follow_query(self, change: Any) -> None:
        """Draw another query, which the browser or Python has picked."""
        # Set by the constructor, it is drawn already.
        if change["new"] == self._packed.query_id:
            return
        self._opened, self._document = None, None
        self._redraw(change["new"])

    @traitlets.observe("values")
    def _follow_values(self, change: Any) -> None:
        """Move the sliders to values that Python has set, or the browser has released."""
        # Those that the constructor sets are drawn already.
        if change["new"] != read_values(self._decoders):
            self._decoders = set_values(self._decoders, change["new"])
            self._redraw(self.query)

    @traitlets.observe("_committed")
    def _follow_release(self, change: Any) -> None:
        """Take the values at which the browser's sliders were released, and answer with the engine's own sets."""
        self._serial = int(change["new"]["serial"])
        try:
            self.values = change["new"]["values"]
        except FrontierError as error:
            # An error of a message would stand in the log of the kernel, which few people open.
            self._error = str(error)

    @traitlets.observe("_opened")
    def _follow_opened(self, change: Any) -> None:
        """Show the text of the document that was clicked in a list."""
        row, corpus = change["new"], self._space.corpus
        if row is None or not 0 <= row < len(corpus):
            self._document = None
        else:
            texts = {"id": corpus.ids[row], "title": corpus.titles[row], "text": corpus.texts[row]}
            self._document = {name: visible(text) for name, text in texts.items()}
        self._view = self._build_view()


def read_values(decoders: Mapping[str, Decoder]) -> dict[str, dict[str, Any]]:
    """Return the values of all sliders by decoder and parameter."""
    values = {}
    for key, decoder in decoders.items():
        if names := [param.name for param, _ in list_sliders(decoder.select)]:
            values[key] = {name: getattr(decoder.select, name) for name in names}
    return values


def set_values(decoders: Mapping[str, Decoder], values: Mapping[str, Mapping[str, Any]]) -> dict[str, Decoder]:
    """Return decoders by key with other parameters. Raises ParamError for unknown ones or values out of range."""
    moved = dict(decoders)
    for key, changed in values.items():
        if (decoder := moved.get(key)) is None:
            raise ParamError(f"values must be of the decoders {', '.join(moved)}; got {key!r}")
        stage = decoder.select
        moved[key] = replace(decoder, select=make_selector(stage.spec.name, **{**values_of(stage), **changed}))
    return moved


def build_explorer(space: Space, queries: QueryLike, decoders: Sequence[Decoder | str], k: int, qrels: Any) -> Explorer:
    """Return the widget of `explore`, whose arguments these are, once they are checked."""
    SET_SIZE.check(k)
    batch = query_batch(space, queries)
    texts = batch.texts or tuple(f"query {query_id}" for query_id in batch.ids)
    embedded = Embeddings(batch.ids, batch.vectors, space.embeddings.encoder, texts)
    chosen = [Decoder(make_selector(each)) if isinstance(each, str) else each for each in decoders]
    if not chosen or not all(isinstance(each, Decoder) for each in chosen):
        raise ParamError("decoders must be engine.Decoder or names of selectors, one at least")
    judged = qrels if qrels is None or isinstance(qrels, Qrels) else load_qrels(qrels)
    return Explorer(space, embedded, chosen, k, judged)
