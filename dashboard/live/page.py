"""One HTML file in which λ and the budget are dragged: no server, no network, nothing but what it was made of."""

import base64
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatch
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from dashboard.charts.html import escape_html
from dashboard.components.bundle import MODULES_NAME, bundle_scripts, encode_json
from dashboard.components.tile_data import PackedQuery, pack_query
from dashboard.components.vendor import MODULE_FOLDER
from dashboard.live.frontier_data import FindConfirming, build_frontier_data, measure_settings
from engine.cli.output import write_text
from engine.decoder import Decoder
from engine.errors import DataError
from engine.progress import Progress, Stop, counted, raise_if_stopped, report_to
from engine.space import Space
from engine.values import Embeddings, Qrels
from engine.wording import visible

MAX_LIVE_QUERIES = 20
"""Queries of a page where nobody names some."""
MAX_LIVE_SLIDERS = 1
"""Sliders of a decoder: a second one would need the sets at every pair of values."""
LIVE_SCRIPT = "live_page.js"
TYPEFACE_PATTERN = "SourceSansVF-Upright*.woff2"
"""Streamlit's file of the pages' typeface, whose name has a digest in it."""
LIVE_TEMPLATE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; script-src 'sha256-{digest}'; \
style-src 'unsafe-inline'; font-src data:; base-uri 'none'; form-action 'none'">
<title>{title}</title><style>{styles}</style></head><body>
<header><h1>{title}</h1><p class="note">{subtitle}</p><p class="brand">Frontier</p></header>
<main id="frontier"><noscript>This page needs JavaScript, which stands in the file itself.</noscript></main>
<script type="application/json" id="frontier-data">{data}</script>
<script type="module">{script}</script>
</body></html>
"""


@dataclass(frozen=True, kw_only=True)
class LiveContent:
    """Content of a live page: the corpus, the chosen queries, and the judged ones that are measured."""

    space: Space
    queries: Embeddings  # those that can be opened
    decoders: Sequence[Decoder]
    document: Embeddings | None = None  # one that is opened first, to find others like it, by a query of its id
    qrels: Qrels | None = None  # None for a page without relevant documents and without a frontier
    judged: Embeddings | None = None  # of the frontier, None for the chosen queries
    split: str = ""  # of the judged queries
    k: int = 10
    find_confirming: FindConfirming | None = None  # finds what another split says of the verdict's choices
    title: str = ""  # "" for the name of the corpus

    @property
    def n_opened(self) -> int:
        """Count the queries that can be opened, the document among them."""
        return len(self.queries) + (self.document is not None)


def save_live_page(
    file: str | Path, content: LiveContent, *, progress: Progress | None = None, stop: Stop | None = None
) -> int:
    """Write a live page to a file; return its size in bytes. Raises DataError, ParamError or Cancelled."""
    page = build_live_page(content, progress=progress, stop=stop)
    write_text(file, page)
    return len(page.encode())


def build_live_page(content: LiveContent, *, progress: Progress | None = None, stop: Stop | None = None) -> str:
    """Build a page of chosen queries × decoders as HTML, which needs no server and asks for nothing.

    It has the documents' names and figures that its sets show, the texts of the chosen queries, and means over the
    judged queries; no other query, no path and no name of a user. progress: called as progress(done, total, label);
    stop: the work is cancelled once it is set. Raises DataError without a query, or as `engine.decode` and a sweep do.
    """
    if not content.n_opened:
        raise DataError("queries must hold at least one query; got none")
    # The sets along a slider ask the block around them if they should stop.
    with report_to(None, stop):
        packed = _pack_queries(content, progress)
    keys = [tile["key"] for tile in packed[0].tiles["decoders"]]
    tiles = dict(zip(keys, content.decoders, strict=True))
    data = pack_page(packed) | {"frontier": _build_frontier(content, tiles, progress, stop)}
    start = f'{MODULES_NAME}["{LIVE_SCRIPT}"].start'
    elements = "document.getElementById('frontier'), JSON.parse(document.getElementById('frontier-data').textContent)"
    script = f"{bundle_scripts(LIVE_SCRIPT)}\n{start}({elements});"
    # The policy admits this script alone, by its digest: no other one runs, wherever it may come from.
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return LIVE_TEMPLATE.format(
        digest=digest,
        title=escape_html(content.title or content.space.corpus.name or "Frontier"),
        styles=embed_typeface() + (MODULE_FOLDER / "live_page.css").read_text(encoding="utf-8"),
        subtitle=_describe_page(content, has_frontier=data["frontier"] is not None),
        data=encode_json(data),
        script=script,
    )


@cache
def embed_typeface() -> str:
    """Return the style that brings the pages' typeface along; "" where this version of Streamlit has it elsewhere."""
    # Without a network a page has the fonts of its reader's machine alone, and few have this one.
    folder = files("streamlit") / "static" / "static" / "media"
    fonts = [file for file in folder.iterdir() if fnmatch(file.name, TYPEFACE_PATTERN)] if folder.is_dir() else []
    if not fonts:
        return ""
    content = base64.b64encode(fonts[0].read_bytes()).decode()
    source = f'url("data:font/woff2;base64,{content}") format("woff2")'
    return f'@font-face {{ font-family: "Source Sans"; font-weight: 200 900; src: {source}; }}\n'


def _describe_page(content: LiveContent, has_frontier: bool) -> str:
    """Describe in words what a page shows, and what can be done with it."""
    n_queries = counted(content.n_opened, "query", "queries")
    size = f"{n_queries} × {counted(len(content.decoders), 'decoder')}, k = {content.k:,}"
    handles = "λ or the budget" if has_frontier else "λ"
    return f"{size}. Drag {handles}; the keys j and k step through the queries."


def pack_page(packed: Sequence[PackedQuery]) -> dict[str, Any]:
    """Pack queries for the script: names of documents and positions of sliders once for all that use them."""
    names: dict[int, str] = {}
    tooltips: dict[int, str] = {}
    stops: list[Sequence[float]] = []
    positions: dict[tuple[float, ...], int] = {}

    def share(answers: dict[str, Any]) -> dict[str, Any]:
        """Return packed sets without their names and stops, which are stored once."""
        names.update(zip(answers["rows"], answers["names"], strict=True))
        tooltips.update(answers["tooltips"])
        shared = {name: value for name, value in answers.items() if name not in ("names", "tooltips")}
        return shared | ({"stops": number(answers["stops"])} if "stops" in answers else {})

    def number(values: Sequence[float]) -> int:
        """Return the number of a slider's positions among those that differ."""
        if tuple(values) not in positions:
            positions[tuple(values)] = len(stops)
            stops.append(list(values))
        return positions[tuple(values)]

    queries, answers = [], dict[str, Any]()
    for query in packed:
        decoders = []
        for tile in query.tiles["decoders"]:
            sliders = [slider | {"stops": number(slider["stops"])} for slider in tile["sliders"]]
            decoders.append(tile | {"now": share(tile["now"]), "sliders": sliders})
        base = query.tiles["base"]
        tiles = query.tiles | {"decoders": decoders, "base": base and share(base)}
        # A text of several lines is one heading.
        queries.append({"text": visible(" ".join(query.text.split())), "tiles": tiles})
        answers |= {key: share(values) for key, values in query.answers.items()}
    return {"queries": queries, "answers": answers, "names": names, "tooltips": tooltips, "stops": stops}


def _pack_queries(content: LiveContent, progress: Progress | None) -> list[PackedQuery]:
    """Compute the sets of all chosen queries along all sliders."""
    packed = []
    options: dict[str, Any] = {"k": content.k, "max_sliders": MAX_LIVE_SLIDERS}
    document = [] if content.document is None else [content.document]
    labelled = [content.queries.take([row]) for row in range(len(content.queries))]
    for position, query in enumerate([*document, *labelled]):
        raise_if_stopped("the live page was stopped")
        query = replace(query, encoder=content.space.embeddings.encoder)
        is_document = position < len(document)
        # The judgements of an id are those of the labelled query that has it, not of the document.
        qrels = None if is_document else content.qrels
        options |= {"relevant_ids": () if qrels is None else qrels.relevant(query.ids[0]), "is_document": is_document}
        packed.append(pack_query(content.space, query, content.decoders, **options))
        if progress is not None:
            progress(position + 1, content.n_opened, "queries at every λ")
    return packed


def _build_frontier(
    content: LiveContent, decoders: Mapping[str, Decoder], progress: Progress | None, stop: Stop | None
) -> dict[str, Any] | None:
    """Measure and build the frontier over the judged queries; None without a query that has relevant documents."""
    queries = content.queries if content.judged is None else content.judged
    if content.qrels is None or not any(content.qrels.relevant(query_id) for query_id in queries.ids):
        return None
    # One document alone has no diversity.
    if content.k < 2:
        return None
    measured = measure_settings(
        content.space,
        queries,
        content.qrels,
        content.decoders,
        k=content.k,
        split=content.split,
        progress=progress,
        stop=stop,
    )
    return build_frontier_data(measured, decoders, content.find_confirming)
