"""Options that say how a command embeds texts, and the space and queries it then searches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from engine.cli.options import CORPUS, READING, ReadOptions, grouped, option, options
from engine.cli.output import echo

if TYPE_CHECKING:
    from engine.decoder import Decoder
    from engine.space import Space
    from engine.values import Dataset, Embeddings, Queries


@dataclass(frozen=True, kw_only=True)
class Encoding:
    """How texts become vectors."""

    encoder: str  # the encoder's name or path
    dtype: str  # its arithmetic
    device: str | None  # where it runs, None for a GPU if there is one
    trained: str | None = None  # a checkpoint on top of it


@dataclass(frozen=True, kw_only=True)
class CorpusOptions(Encoding, ReadOptions):
    """What a command reads."""

    corpus: str  # a demo's name, a folder or a file

    def load(self, meter: Any) -> Dataset:
        """The data set."""
        return self.read(self.corpus, progress=meter)

    def load_space(self, meter: Any) -> tuple[Dataset, Space]:
        """The data set and its space."""
        dataset = self.load(meter)
        return dataset, embed_corpus(dataset, self, progress=meter)

    def load_judged(self, split: str, meter: Any) -> tuple[Dataset, Space, Embeddings]:
        """The data set, its space, and the judged queries of a split as vectors."""
        dataset = self.load(meter)
        queries = dataset.judged(split)
        space = embed_corpus(dataset, self, progress=meter)
        return dataset, space, embed_queries(space, queries, progress=meter)


ENCODER = options(
    option("--encoder", default="bundled", metavar="NAME|PATH", help="bundled, or a sentence-transformers model."),
    option(
        "--dtype",
        type=click.Choice(["auto", "float32", "bfloat16"]),
        default="auto",
        help="Arithmetic of the encoder; auto takes bfloat16 where it is fast and proves faithful.",
    ),
    option("--device", metavar="DEVICE", help="cpu, cuda, cuda:1 …; default: a GPU if there is one."),
)
_TRAINED = "A checkpoint of `frontier train`: search its embeddings; decode as it was trained for, but for flags given."
SOURCE = grouped("source", CorpusOptions, CORPUS, READING, ENCODER, option("--trained", metavar="FILE", help=_TRAINED))


def embed_corpus(dataset: Dataset, encoding: Encoding, **report: Any) -> Space:
    """The corpus with its embeddings, its own where it has some, or with trained ones."""
    return space_and_decoder(dataset, encoding, **report)[0]


def space_and_decoder(dataset: Dataset, encoding: Encoding, **report: Any) -> tuple[Space, Decoder | None]:
    """The corpus with its embeddings, and the decoder that trained ones are for, None for others."""
    import engine

    embeddings = dataset.vectors or engine.embed(
        dataset.corpus, encoding.encoder, dtype=encoding.dtype, device=encoding.device, **report
    )
    space = engine.Space(dataset.corpus, embeddings, encoding.device)
    if encoding.trained is None:
        return space, None
    trained = engine.load_trained(encoding.trained, space)
    return trained.space, trained.decoder


def embed_queries(space: Space, queries: Queries, **report: Any) -> Embeddings:
    """The queries as vectors; says on stderr how many of them the space was trained on."""
    import engine

    if space.encoder is None:
        raise click.UsageError("the corpus came with its own vectors, so its queries cannot be embedded")
    vectors: Embeddings = engine.embed_queries(space, queries, **report)
    warn_of_leakage(space, queries, report.get("progress"))
    return vectors


def warn_of_leakage(space: Space, queries: Queries, meter: Any = None) -> None:
    """Say on stderr how many of the queries trained embeddings were learnt from, where there are any."""
    if space.adapt is None:
        return
    from engine.training.leakage import learnt_from

    if count := len(learnt_from(space, queries)):
        if meter is not None:
            meter.clear()
        were = "was" if count == 1 else "were"
        echo(
            f"{count:,} of these {len(queries):,} queries {were} learnt from: these figures flatter the training",
            err=True,
        )
