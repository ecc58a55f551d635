"""The widget of `dashboard.notebook.explore`, by the anywidget protocol; only this module imports anywidget."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
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
from engine.params import check_values, values_of
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
BROWSER_TRAITS = "query", "_committed", "_opened"
"""Traits that the browser may set; the others are what it draws."""


def build_script() -> str:
    """Return the widget's module: the pages' scripts in a function, and what mounts them."""
    # Called for each view, so that two widgets of a notebook share no state and hear no events of each other.
    scripts = bundle_scripts(*VIEW_MODULES, hub="ownHub")
    opening = f"const openViews = (ownHub) => {{\n{scripts}\nreturn frontierModules;\n}};\n"
    return opening + SCRIPT_FILE.read_text(encoding="utf-8")


@dataclass(frozen=True, kw_only=True)
class ExploredContent:
    """Content of a widget: the corpus, the queries, and the decoders that it begins with."""

    space: Space
    queries: Embeddings
    decoders: Sequence[Decoder]
    k: int
    qrels: Qrels | None

    def list_queries(self) -> list[list[str]]:
        """Return id and text of the queries that can be picked."""
        texts = self.queries.texts or self.queries.ids
        listed = list(zip(self.queries.ids, texts, strict=True))[:MAX_LISTED_QUERIES]
        return [[query_id, visible(text)[:MAX_QUERY_CHARS]] for query_id, text in listed]

    def take_query(self, query_id: str) -> Embeddings:
        """Return a query as embeddings of one row. Raises ParamError for another id."""
        row = self.queries.position.get(query_id) if isinstance(query_id, str) else None
        if row is None:
            first_ids = list_briefly(map(repr, self.queries.ids))
            raise ParamError(f"query must be the id of one of the queries, {first_ids}; got {query_id!r}")
        return self.queries.take([row])

    def pack(
        self, query_id: str, decoders: Sequence[Decoder], known: Mapping[str, Any] = MappingProxyType({})
    ) -> PackedQuery:
        """Compute what the views draw of a query. known: sets along sliders that need not be computed again."""
        relevant_ids = () if self.qrels is None else self.qrels.relevant(query_id)
        options: dict[str, Any] = {"k": self.k, "relevant_ids": relevant_ids, "known_answers": known}
        return pack_query(self.space, self.take_query(query_id), decoders, **options)

    def decode(self, query_id: str, decoder: Decoder) -> list[str]:
        """Return the ids of a decoder's set for a query, best first."""
        rows = decode(decoder, self.space, self.take_query(query_id), self.k).rows()
        return [self.space.corpus.ids[row] for row in rows]

    def read_document(self, row: int | None) -> dict[str, str] | None:
        """Return id, title and text of a document, None for none."""
        corpus = self.space.corpus
        if row is None or not 0 <= row < len(corpus):
            return None
        texts = {"id": corpus.ids[row], "title": corpus.titles[row], "text": corpus.texts[row]}
        return {name: visible(text) for name, text in texts.items()}


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

    def __init__(self, content: ExploredContent) -> None:
        """Draw the first query. Raises DataError or ParamError as `engine.decode` does."""
        self._content = content
        self._decoders = dict(zip((key for key, _ in name_decoders(content.decoders)), content.decoders, strict=True))
        self._serial = 0
        first_id = content.queries.ids[0]
        self._packed = content.pack(first_id, self.decoders)
        super().__init__(
            query=first_id,
            values=read_values(self._decoders),
            _queries=content.list_queries(),
            _view=self._build_view(),
            _answers=self._packed.answers,
        )

    def __repr__(self) -> str:
        n_documents, n_queries = len(self._content.space), len(self._content.queries)
        labels = list_briefly(decoder.label for decoder in self.decoders)
        facts = f"{counted(n_documents, 'document')}, {counted(n_queries, 'query', 'queries')}, decoders {labels}"
        return shorten(visible(f"Explorer: {facts}"), MAX_REPR_CHARS)

    @property
    def decoders(self) -> tuple[Decoder, ...]:
        """The decoders at the values of their sliders, for `engine.decode` or `engine.sweep`."""
        return tuple(self._decoders.values())

    @property
    def sets(self) -> dict[str, list[str]]:
        """Ids of the documents of each decoder's set for the query, best first, as the engine answers."""
        return {key: self._content.decode(self.query, decoder) for key, decoder in self._decoders.items()}

    def save(self, file: str | Path, *, n_queries: int = MAX_LIVE_QUERIES) -> Path:
        """Write the open query and the first others as one HTML file that needs no kernel; return its path.

        λ is dragged in it as here, one slider of a decoder; with judgements it has the frontier over all queries. It
        begins at the present values. Raises ParamError for n_queries below 1, and DataError if it cannot be written.
        """
        if n_queries < 1:
            raise ParamError(f"n_queries must be at least 1; got {n_queries}")
        queries = self._content.queries
        # A page opens its first query.
        rows = list(dict.fromkeys((queries.position[self.query], *range(len(queries)))))[:n_queries]
        page = LiveContent(
            space=self._content.space,
            queries=queries.take(rows),
            decoders=self.decoders,
            qrels=self._content.qrels,
            judged=queries,
            k=self._content.k,
        )
        save_live_page(file, page)
        return Path(file)

    def set_state(self, sync_data: Mapping[str, Any]) -> None:
        """Take what the browser reports; what cannot be used is said there and changes nothing.

        An error would go to the log of the kernel alone, and anything can stand in a message of a notebook's page.
        """
        reported = {name: sync_data[name] for name in BROWSER_TRAITS if name in sync_data}
        try:
            # Traits that are set together are validated once all have changed: too late for this one.
            if "query" in reported:
                self._content.take_query(reported["query"])
                # The query that is open already changes no trait, so that nothing else would take back an error.
                if reported["query"] == self.query:
                    self._redraw()
            super().set_state(reported)
        except (FrontierError, traitlets.TraitError) as error:
            self._error = str(error)

    def _build_view(self) -> dict[str, Any]:
        """Return the data of the tiles and the lists."""
        return {"tiles": self._packed.tiles | {"serial": self._serial}, "opened": self._opened}

    def _redraw(self) -> None:
        """Compute the query's sets at the present values, and send the browser what has changed."""
        self._packed = self._content.pack(self.query, self.decoders, self._packed.answers)
        # One message for all traits: the browser must not draw new tiles from old sets.
        with self.hold_sync():
            self._error = ""
            # The sets along a slider are the large part, and stay the same where its own value alone has changed.
            if self._packed.answers.keys() != self._answers.keys():
                self._answers = self._packed.answers
            self._view = self._build_view()

    @traitlets.validate("query", "values")
    def _check(self, proposal: Any) -> Any:
        """Return the id of a query, or values of all sliders, of which those that are not given stay.

        Raises ParamError for another id, as `set_values` for values.
        """
        value = proposal["value"]
        if proposal["trait"].name == "query":
            self._content.take_query(value)
            return value
        return read_values(set_values(self._decoders, value))

    @traitlets.observe("query", "values")
    def _follow(self, change: Any) -> None:
        """Draw another query, or other values, which the browser or Python has set."""
        # What the constructor sets is drawn already, and so is a query that comes back after one that failed.
        is_drawn = self.query == self._packed.query_id and self.values == read_values(self._decoders)
        if is_drawn and not self._error:
            return
        if change["name"] == "query":
            self._opened = None
        self._decoders = set_values(self._decoders, self.values)
        try:
            self._redraw()
        except FrontierError as error:
            # What the browser has set raises into the log of the kernel, which few people open.
            self._error = str(error)
            raise

    @traitlets.observe("_committed")
    def _follow_release(self, change: Any) -> None:
        """Take the values at which the browser's sliders were released, and answer with the engine's own sets."""
        try:
            self._serial, values = read_release(change["new"])
            self.values = values
            # Values that are in force already change no trait, but the browser waits for its serial.
            if self._view["tiles"]["serial"] != self._serial or self._error:
                self._redraw()
        except FrontierError as error:
            self._error = str(error)
            # The sliders go back to the values that are in force.
            self._view = self._build_view()

    @traitlets.observe("_opened")
    def _follow_opened(self, change: Any) -> None:
        """Show the text of the document that was clicked in a list."""
        self._document = self._content.read_document(change["new"])
        self._view = self._build_view()


def read_values(decoders: Mapping[str, Decoder]) -> dict[str, dict[str, Any]]:
    """Return the values of all sliders by decoder and parameter."""
    values = {}
    for key, decoder in decoders.items():
        if names := [param.name for param, _ in list_sliders(decoder.select)]:
            values[key] = {name: getattr(decoder.select, name) for name in names}
    return values


def read_release(committed: Mapping[str, Any]) -> tuple[int, dict[str, Any]]:
    """Return serial and values of the browser's report of a release. Raises ParamError for another form."""
    serial, values = committed.get("serial"), committed.get("values")
    if isinstance(serial, bool) or not isinstance(serial, int) or not isinstance(values, dict):
        raise ParamError(f"a release must have a whole number as serial, and values; got {committed!r:.80}")
    return serial, values


def set_values(decoders: Mapping[str, Decoder], values: Mapping[str, Mapping[str, Any]]) -> dict[str, Decoder]:
    """Return decoders by key with other parameters. Raises ParamError for unknown ones or values out of range."""
    moved = dict(decoders)
    for key, changed in values.items():
        if (decoder := moved.get(key)) is None:
            raise ParamError(f"values must be of the decoders {', '.join(moved)}; got {key!r}")
        if not isinstance(changed, Mapping):
            raise ParamError(f"values of {key} must be by the names of its parameters; got {changed!r:.80}")
        stage, spec = decoder.select, decoder.select.spec
        # Not as keywords: a name that is no parameter, nor even a text, is an error as the others are.
        named = {str(name): value for name, value in changed.items()}
        checked = check_values(spec.params, values_of(stage) | named, spec.name)
        moved[key] = replace(decoder, select=type(stage)(**checked))
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
    return Explorer(ExploredContent(space=space, queries=embedded, decoders=chosen, k=k, qrels=judged))
