"""What commands read: corpora and their vectors, judged queries, and methods that options name."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal

import click

import engine
from engine.cli.group import Meter
from engine.cli.output import echo, echo_notices
from engine.decoder import SET_SIZE, Decoder
from engine.params import parse_values
from engine.space import Space
from engine.stages import make, spec_of
from engine.training.leakage import learnt_from
from engine.values import Dataset, Embeddings, Qrels, Queries, explain_missing_split

STAGES: tuple[tuple[str, Literal["selector", "scorer"], str], ...] = (
    ("select", "selector", ""),
    ("retrieve", "scorer", "retrieve-"),
    ("rerank", "scorer", "rerank-"),
)
"""A decoder's stages: the option, its kind of method, the prefix of that method's flags."""


@dataclass(frozen=True, kw_only=True)
class ReadOptions:
    """How a corpus is read."""

    qrels: str = "qrels"  # the folder of judgements
    separator: str | None = None  # of a .csv file, None guesses
    repeated: str = "refuse"  # what is done about ids that occur twice
    where: Mapping[str, Sequence[str]] | None = None  # column → values, of the documents that are read
    columns: Mapping[str, str] | None = None  # of a table: text, id or title → column, None guesses

    def read(self, source: str, **more: Any) -> Dataset:
        """The data set of a demo, a folder or a file; says on stderr what is odd about it."""
        dataset: Dataset = engine.load_dataset(source, **self.reading, **more)
        if isinstance(meter := more.get("progress"), Meter):
            meter.clear()
        echo_notices(dataset.notices)
        return dataset

    @property
    def reading(self) -> dict[str, Any]:
        """The arguments of `engine.load_dataset` that are not its defaults."""
        given = {field.name: (getattr(self, field.name), field.default) for field in fields(ReadOptions)}
        return {name: value for name, (value, default) in given.items() if value and value != default}


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


@dataclass(frozen=True, kw_only=True)
class JudgedOptions(CorpusOptions):
    """What a command on the judged queries of a split reads."""

    split: str
    count: int | None = None  # how many of the queries, at random; None for all
    seed: int = 0  # of the choice of queries

    def load_judged(self, meter: Any) -> tuple[Dataset, Space, Embeddings, Qrels]:
        """The data set, its space, the judged queries as vectors, and their judgements."""
        dataset = self.load(meter)
        queries = dataset.judged(self.split)
        if self.count is not None:
            queries = queries.sample(self.count, self.seed)
        space = embed_corpus(dataset, self, progress=meter)
        return dataset, space, embed_queries(space, queries, progress=meter), dataset.qrels[self.split]


def embed_corpus(dataset: Dataset, encoding: Encoding, **report: Any) -> Space:
    """The corpus with its embeddings, its own where it has some, or with trained ones."""
    return space_and_decoder(dataset, encoding, **report)[0]


def space_and_decoder(dataset: Dataset, encoding: Encoding, **report: Any) -> tuple[Space, Decoder | None]:
    """The corpus with its embeddings, and the decoder that trained ones are for, None for others."""
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
    if space.encoder is None:
        raise click.UsageError("the corpus came with its own vectors, so its queries cannot be embedded")
    vectors: Embeddings = engine.embed_queries(space, queries, **report)
    warn_of_leakage(space, queries, report.get("progress"))
    return vectors


def warn_of_leakage(space: Space, queries: Queries, meter: Any = None) -> None:
    """Say on stderr how many of the queries trained embeddings were learnt from, where there are any."""
    if count := len(learnt_from(space, queries)):
        if meter is not None:
            meter.clear()
        were = "was" if count == 1 else "were"
        echo(
            f"{count:,} of these {len(queries):,} queries {were} learnt from: these figures flatter the training",
            err=True,
        )


def parse_sizes(_ctx: click.Context, _parameter: click.Parameter, text: str | tuple[str, ...]) -> Any:
    """The value of -k, or its values: set sizes. Raises ParamError."""
    return SET_SIZE.parse(text) if isinstance(text, str) else sorted({SET_SIZE.parse(one) for one in text})


def parse_stage(text: str, stage: str = "select") -> tuple[str, dict[str, Any]]:
    """A method's name and parameters from an option's text like `mmr` or `nnn:l2=0.1,fill=strict`."""
    name, texts = parse_name(text, stage)
    kind = next(kind for option, kind, _ in STAGES if option == stage)
    return name, parse_values(spec_of(name, kind).params, texts, name)


def parse_name(text: str, option: str) -> tuple[str, dict[str, str]]:
    """The name and the texts of its parameters from an option's text like `nnn:l2=0.1,fill=strict`."""
    name, _, rest = text.partition(":")
    pairs = [pair.partition("=") for pair in rest.split(",") if pair]
    if any(not sign for _, sign, _ in pairs):
        raise click.UsageError(f"--{option} takes NAME or NAME:PARAMETER=VALUE,…; got {text!r}")
    return name, {key.replace("-", "_"): value for key, _, value in pairs}


def make_stages(texts: Sequence[str], stage: str) -> list[Any]:
    """The scorers or selectors that an option's texts name."""
    return [make(name, **params) for name, params in (parse_stage(text, stage) for text in texts)]


def check_splits(qrels: Mapping[str, Any], names: Sequence[str | None], hint: str = "") -> None:
    """Raise a UsageError where a split is not there; hint: what would make it."""
    if missing := [name for name in names if name is not None and name not in qrels]:
        raise click.UsageError(f"{explain_missing_split(qrels, missing[0])}{hint}")
