"""The options that say how a command embeds texts, and what it then searches."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import wraps
from typing import Any

import click


@dataclass(frozen=True)
class Encoding:
    """How texts become vectors: by which encoder, in which arithmetic, where; trained: a checkpoint on top of it."""

    encoder: str
    dtype: str
    device: str | None
    trained: str | None = None


def _encoding(*options: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A decorator that gives a command the options, and their values as one Encoding."""

    def decorate(command: Any) -> Any:
        @wraps(command)
        def run(**given: Any) -> Any:
            names = [f.name for f in fields(Encoding) if f.name in given]
            return command(encoding=Encoding(**{name: given.pop(name) for name in names}), **given)

        for option in reversed(options):
            run = option(run)
        return run

    return decorate


_ENCODER = click.option(
    "--encoder",
    default="bundled",
    show_default=True,
    metavar="NAME|PATH",
    help="bundled, or a sentence-transformers model.",
)
_DTYPE = click.option(
    "--dtype",
    type=click.Choice(["auto", "float32", "bfloat16"]),
    default="auto",
    show_default=True,
    help="Arithmetic of the encoder; auto takes bfloat16 where it is fast and proves faithful.",
)
_DEVICE = click.option(
    "--device", default=None, metavar="DEVICE", help="cpu, cuda, cuda:1 …; default: a GPU if there is one."
)
_TRAINED = click.option(
    "--trained",
    default=None,
    metavar="FILE",
    help="A checkpoint of `frontier train`: search its embeddings; decode as it was trained for, but for flags given.",
)
ENCODER = _encoding(_ENCODER, _DTYPE, _DEVICE)
ENCODING = _encoding(_ENCODER, _DTYPE, _DEVICE, _TRAINED)


def embedded(dataset: Any, encoding: Encoding, **report: Any) -> Any:
    """The corpus with its embeddings, its own where it has some, or with trained ones."""
    return searched(dataset, encoding, **report)[0]


def searched(dataset: Any, encoding: Encoding, **report: Any) -> tuple[Any, Any]:
    """The same, and the decoder that trained embeddings are for, None for others."""
    import engine

    e = encoding
    own = dataset.vectors or engine.embed(dataset.corpus, e.encoder, dtype=e.dtype, device=e.device, **report)
    space = engine.Space(dataset.corpus, own, e.device)
    if e.trained is None:
        return space, None
    trained = engine.load_trained(e.trained, space)
    return trained.space, trained.decoder


def asked_of(space: Any, queries: Any, **report: Any) -> Any:
    """The queries as vectors; says on stderr how many of them the space was trained on."""
    import engine

    if space.encoder is None:
        raise click.UsageError("the corpus came with its own vectors, so its queries cannot be embedded")
    asked = engine.embed_queries(space, queries, **report)
    say_learnt(space, queries, report.get("progress"))
    return asked


def say_learnt(space: Any, queries: Any, meter: Any = None) -> None:
    """Say on stderr how many of the queries trained embeddings were learnt from, where there are any."""
    if space.adapt is None:
        return
    from engine.learning.training.learnt import learnt_from

    if count := len(learnt_from(space, queries)):
        if meter is not None:
            meter.clear()
        were = "was" if count == 1 else "were"
        click.echo(
            f"{count:,} of these {len(queries):,} queries {were} learnt from: these figures flatter the training",
            err=True,
        )
