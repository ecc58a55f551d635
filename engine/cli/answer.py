"""Command `answer`: one decoder over HTTP."""

from __future__ import annotations

from dataclasses import replace

import click
from click.core import ParameterSource

from engine.cli.encoding import SOURCE, CorpusOptions, embed_corpus
from engine.cli.group import Meter, main, use_threads
from engine.cli.options import option
from engine.cli.output import echo
from engine.errors import FrontierError


@main.command()
@option("--decoder", "setting", required=True, metavar="FILE", help="A decoder exported as JSON.")
@SOURCE
@click.option("-k", "k", help="How many documents a query gets. Default: as exported.")
@option("--host", default="127.0.0.1", help="Where it listens; others than this machine need 0.0.0.0, say.")
@option("--port", type=click.IntRange(0, 65535), default=8600, help="0 takes a free one.")
def answer(setting: str, source: CorpusOptions, k: str | None, host: str, port: int) -> None:
    """Serve one decoder: POST /answer takes {"queries": ["…"]} or {"vectors": [[…]]}, GET /health says what is served.

    Corpus, encoder and checkpoint are those of the file, unless a flag names others.
    """
    from engine.decoder import SET_SIZE
    from engine.evaluation.export import read_setting
    from engine.evaluation.sweep.compute import make_ready
    from engine.integrations.server import Service, app

    try:
        import uvicorn
    except ImportError:
        raise FrontierError("frontier answer needs Starlette and uvicorn: pip install starlette uvicorn") from None
    use_threads()
    decoder, use = read_setting(setting)
    origin = click.get_current_context().get_parameter_source
    if use is not None:
        named = {name: getattr(use, name) for name in ("corpus", "encoder", "trained", "dtype")}
        if origin("corpus") is ParameterSource.DEFAULT:
            named |= use.reading or {}
        left = {n: value for n, value in named.items() if value is not None and origin(n) is ParameterSource.DEFAULT}
        source = replace(source, **left)
    size = SET_SIZE.parse(k) if k is not None else 10 if use is None else use.k
    with Meter() as meter:
        dataset = source.load(meter)
        space = embed_corpus(dataset, source, progress=meter)
        make_ready(decoder, space)
        service = Service(decoder, space, size)
    echo(f"{decoder.label}: {len(space):,} documents, k = {size}", err=True)
    uvicorn.run(app(service, host), host=host, port=port, log_level="info", access_log=False)
