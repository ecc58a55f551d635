"""Inputs of commands: corpora and their vectors, judged queries, and methods that options name."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from itertools import chain
from typing import Any, Literal

import click

import engine
from engine.cli.group import Meter
from engine.cli.output import echo, echo_notices
from engine.data.encoders import TRUNCATED_REMARK, count_truncated
from engine.decoder import PER_SOURCE, SET_SIZE, Decoder
from engine.evaluation.duplicate_threshold import DUPLICATE_THRESHOLD
from engine.params import parse_values
from engine.space import Space, describe_own_documents
from engine.stages import make, spec_of
from engine.training.leakage import learnt_from
from engine.values import Corpus, Dataset, Embeddings, Notice, Qrels, Queries, explain_missing_split

STAGES: tuple[tuple[str, Literal["selector", "scorer"], str], ...] = (
    ("select", "selector", ""),
    ("retrieve", "scorer", "retrieve-"),
    ("rerank", "scorer", "rerank-"),
)
"""A decoder's stages: the option, its kind of method, the prefix of that method's flags."""


ADDING_JUDGEMENTS = (
    "--qrels takes a folder with queries.jsonl (_id, text) and qrels/test.tsv (query-id, corpus-id, score); or grade "
    "documents on the page Data → Judge of `frontier serve`, and name the folder that it exports"
)
"""The ways to judgements of a corpus that has none."""
DatasetCheck = Callable[[Dataset], object]
"""A function that raises an error for a data set that lacks what a command needs."""
KEEP_SELF = "--with-self keeps it"
"""The way to a query's own document among its answers, of commands that have this flag."""


@dataclass(frozen=True, kw_only=True)
class Encoding:
    """Options for embedding texts."""

    encoder: str  # the encoder's name or path
    dtype: str  # its arithmetic
    device: str | None  # where it runs, None for a GPU if there is one
    trained: str | None = None  # a checkpoint on top of it


@dataclass(frozen=True, kw_only=True)
class ReadOptions:
    """Options for reading a corpus."""

    qrels: str = "qrels"  # the folder or the file of judgements
    separator: str | None = None  # of a .csv file, None guesses
    repeated: str = "refuse"  # what is done about ids that occur twice
    conflicting_grades: str = "refuse"  # what is done about a document with different grades for one query
    where: Mapping[str, Sequence[str]] | None = None  # column → values, of the documents that are read
    columns: Mapping[str, str] | None = None  # of a table: text, id, title or vectors → column, None guesses
    header: str = "auto"  # what the first line of a table is
    document_vectors: str | None = None  # file of the documents' own vectors
    query_vectors: str | None = None  # file of those of the queries
    normalize: bool = False  # True to scale them to length 1
    judgements: str = "auto"  # whether documents without a grade are known to be irrelevant
    relevant_from: int = 1  # grade from which a document counts as relevant
    drop_duplicates: str | None = None  # which documents are dropped after reading: copies or near
    duplicate_threshold: float | None = None  # cosine of near-duplicates, None for that of the corpus

    def read(
        self, source: str, check: DatasetCheck | None = None, encoding: Encoding | None = None, **more: Any
    ) -> Dataset:
        """Load the data set of a demo, a folder or a file, and print its notices on stderr.

        check: raises an error for a data set that lacks what the command needs, such as a split; encoding: of the
        documents, for dropping duplicates, by default that of these options; more: further arguments of
        `engine.load_dataset`.
        """
        dataset: Dataset = engine.load_dataset(source, **self.reading, **more)
        meter = more.get("progress")
        # Checked before the corpus is embedded, which dropping duplicates may need.
        if check is not None:
            check(dataset)
        if self.drop_duplicates is not None:
            dataset = self._drop_duplicates(dataset, encoding, meter)
        # The progress line is erased first, or the notices would be appended to it.
        if isinstance(meter, Meter):
            meter.clear()
        echo_notices(dataset.notices)
        return dataset.with_relevant_from(self.relevant_from)

    @property
    def reading(self) -> dict[str, Any]:
        """Arguments of `engine.load_dataset` that differ from its defaults."""
        # Fields of this class alone: a subclass has further options, which are not about reading.
        values = {field.name: (getattr(self, field.name), field.default) for field in fields(ReadOptions)}
        # The grade from which documents are relevant belongs to the judgements, not to how they are read; duplicates
        # are dropped from what was read.
        for option_name in ("relevant_from", "drop_duplicates", "duplicate_threshold"):
            del values[option_name]
        # Only what differs from the defaults is passed on: exported settings stay short.
        return {field_name: value for field_name, (value, default) in values.items() if value and value != default}

    def _drop_duplicates(self, dataset: Dataset, encoding: Encoding | None, meter: Any) -> Dataset:
        """Return the data set without the duplicates that the options drop, with vectors where there is an encoder."""
        embeddings = dataset.vectors
        if encoding is None and isinstance(self, Encoding):
            encoding = self
        # A command without an encoder drops copies by their texts alone.
        if encoding is None and self.drop_duplicates == "near":
            encoding = Encoding(encoder="bundled", dtype="auto", device=None)
        if embeddings is None and encoding is not None:
            # The whole corpus is embedded, so that vectors are those that it has without the option.
            embeddings = embed_documents(dataset.corpus, encoding, progress=meter)
        smaller: Dataset = engine.drop_duplicates(
            dataset, self.drop_duplicates, embeddings, self.duplicate_threshold, progress=meter
        )
        return smaller


@dataclass(frozen=True, kw_only=True)
class CorpusOptions(Encoding, ReadOptions):
    """Options for reading and embedding a corpus."""

    corpus: str  # a demo's name, a folder or a file

    def load(self, meter: Any, metadata: Sequence[str] = (), check: DatasetCheck | None = None) -> Dataset:
        """Load the data set. metadata: columns to load beside the documents; check: as `read` takes it."""
        return self.read(self.corpus, check, progress=meter, metadata=metadata)


@dataclass(frozen=True, kw_only=True)
class JudgedOptions(CorpusOptions):
    """Options of a command on the judged queries of a split."""

    split: str
    count: int | None = None  # how many of the queries, at random; None for all
    seed: int = 0  # of the choice of queries

    def load_judged(self, meter: Any, metadata: Sequence[str] = ()) -> tuple[Dataset, Space, Embeddings, Qrels]:
        """Load the data set, its space, the judged queries as vectors, and their judgements.

        metadata: columns to load beside the documents
        """
        dataset = self.load(meter, metadata, lambda dataset: check_splits(dataset.qrels, [self.split]))
        queries = dataset.judged(self.split)
        # Queries are sampled before they are embedded.
        if self.count is not None:
            queries = queries.sample(self.count, self.seed)
        space = embed_corpus(dataset, self, progress=meter)
        return dataset, space, embed_and_warn(space, queries, progress=meter), dataset.qrels[self.split]


def embed_corpus(dataset: Dataset, encoding: Encoding, **report: Any) -> Space:
    """Return a data set's corpus with embeddings: its own, an encoder's, or a checkpoint's.

    report: progress and stop, for `engine.embed`.
    """
    return space_and_decoder(dataset, encoding, **report)[0]


def space_and_decoder(dataset: Dataset, encoding: Encoding, **report: Any) -> tuple[Space, Decoder | None]:
    """Return the corpus with its embeddings, and the decoder of a checkpoint; None without a checkpoint.

    report: progress and stop, for `engine.embed`.
    """
    embeddings = dataset.vectors
    if embeddings is None:
        embeddings = embed_documents(dataset.corpus, encoding, **report)
    space = engine.Space(dataset.corpus, embeddings, encoding.device)
    # A checkpoint moves the vectors of this corpus and brings the decoder that they were trained for.
    if encoding.trained is None:
        return space, None
    trained_space = engine.load_trained(encoding.trained, space)
    return trained_space.space, trained_space.decoder


def embed_documents(corpus: Corpus, encoding: Encoding, **report: Any) -> Embeddings:
    """Embed the documents, and print on stderr how many are longer than the encoder reads.

    report: progress and stop, for `engine.embed`.
    """
    embeddings: Embeddings = engine.embed(
        corpus, encoding.encoder, dtype=encoding.dtype, device=encoding.device, **report
    )
    echo_truncated(corpus, encoding.encoder, report.get("progress"))
    return embeddings


def echo_truncated(corpus: Corpus, encoder: str, meter: Any = None) -> None:
    """Print on stderr how many documents are longer than the encoder reads, if any.

    meter: the progress line, which is erased first.
    """
    if n_truncated := count_truncated(corpus, encoder):
        if meter is not None:
            meter.clear()
        echo_notices([Notice(TRUNCATED_REMARK, n_truncated)])


def embed_and_warn(space: Space, queries: Queries, **report: Any) -> Embeddings:
    """Embed queries as the corpus was; print on stderr how many of them it was trained on.

    Raises UsageError for a corpus whose vectors came without an encoder, if the queries came with none.
    """
    if space.encoder is None and queries.vectors is None:
        raise click.UsageError(
            "the corpus came with its own vectors, so its queries cannot be embedded: add theirs, as query_vectors.npy "
            "beside queries.jsonl or by --query-vectors FILE"
        )
    query_vectors: Embeddings = engine.embed_queries(space, queries, **report)
    warn_of_leakage(space, queries, report.get("progress"))
    return query_vectors


def warn_of_leakage(space: Space, queries: Queries, meter: Any = None) -> None:
    """Print on stderr how many of the queries the corpus's embeddings were trained on, if any.

    meter: the progress line, which is erased first.
    """
    if count := len(learnt_from(space, queries)):
        if meter is not None:
            meter.clear()
        learnt_text = "was learnt from" if count == 1 else "were learnt from"
        echo(f"{count:,} of these {len(queries):,} queries {learnt_text}: these figures flatter the training", err=True)


def parse_sizes(_context: click.Context, _parameter: click.Parameter, text: str | tuple[str, ...]) -> Any:
    """Parse the value or the values of -k as set sizes. Raises ParamError."""
    return SET_SIZE.parse(text) if isinstance(text, str) else sorted(set(map(SET_SIZE.parse, text)))


def parse_per_source(
    _context: click.Context, parameter: click.Parameter, text: str | None
) -> tuple[str, int | None] | None:
    """Parse a text COLUMN=NUMBER into the column and the number, None for any number. Raises UsageError, ParamError."""
    if text is None:
        return None
    column, _, number = text.rpartition("=")
    if not column:
        raise click.UsageError(f"{parameter.opts[0]} takes {parameter.metavar}, url=1 say; got {text!r}")
    return column, PER_SOURCE.parse(number)


def parse_duplicate_threshold(_context: click.Context, _parameter: click.Parameter, text: str | None) -> float | None:
    """Parse the cosine from which on documents are near-duplicates; None where it is not given. Raises ParamError."""
    return None if text is None else replace(DUPLICATE_THRESHOLD, name="duplicate_threshold").parse(text)


def limit_sources(decoder: Decoder, per_source: tuple[str, int | None] | None, without_self: bool | None) -> Decoder:
    """Return the decoder with a limit per source, given as (column, number), and with its rule on own documents."""
    if without_self is not None:
        decoder = replace(decoder, without_self=without_self)
    if per_source is None or per_source[1] is None:
        return decoder
    return replace(decoder, source=per_source[0], per_source=per_source[1])


def say_own_documents(
    space: Any, queries: Queries | Embeddings, meter: Any, without_self: bool | None = None, remedy: str = ""
) -> None:
    """Print on stderr how many of the queries are documents of the corpus, which are left out of their own answers.

    meter: the progress line, which is erased first; remedy: how the command keeps them, "" if it cannot
    """
    if (sentence := describe_own_documents(space, queries, without_self)) is None:
        return
    meter.clear()
    echo("; ".join(filter(None, [sentence, remedy])), err=True)


def parse_stage(stage_text: str, stage: str = "select") -> tuple[str, dict[str, Any]]:
    """Parse a method's name and parameters from a flag's text like `mmr` or `nnn:l2=0.1,fill=strict`.

    stage: the flag's name, select, retrieve or rerank, which tells the kind of method. Raises UsageError or ParamError.
    """
    method_name, param_texts = parse_name(stage_text, stage)
    stage_kind = next(stage_kind for stage_option, stage_kind, _ in STAGES if stage_option == stage)
    return method_name, parse_values(spec_of(method_name, stage_kind).params, param_texts, method_name)


def parse_name(stage_text: str, option_name: str) -> tuple[str, dict[str, str]]:
    """Split a text like `nnn:l2=0.1,fill=strict` into the name and the texts of its parameters.

    option_name: for errors. Raises UsageError.
    """
    method_name, _, param_list = stage_text.partition(":")
    param_texts = {}
    for param_pair in filter(None, param_list.split(",")):
        param_name, equals_sign, param_text = param_pair.partition("=")
        # A pair without a sign is most likely a mistyped value, not a parameter without one.
        if not equals_sign:
            raise click.UsageError(f"--{option_name} takes NAME or NAME:PARAMETER=VALUE,…; got {stage_text!r}")
        param_texts[param_name.replace("-", "_")] = param_text
    return method_name, param_texts


def make_stages(stage_texts: Sequence[str], stage: str) -> list[Any]:
    """Build the scorers or selectors that the texts of a repeatable flag name, as `mmr` or `nnn:l2=0.1`.

    stage: the flag's name, select, retrieve or rerank.
    """
    return [make(name, **params) for name, params in map(partial(parse_stage, stage=stage), stage_texts)]


def select_judged(queries: Queries, qrels: Mapping[str, Qrels], split_names: Iterable[str]) -> Queries:
    """Return the queries that at least one of the splits judges, in file order."""
    return queries.only(chain.from_iterable(qrels[split_name].grades for split_name in split_names))


def check_splits(qrels: Mapping[str, Any], split_names: Sequence[str | None], hint: str = "") -> None:
    """Raise a UsageError if a split is missing; hint: how to make it of another one."""
    for split_name in split_names:
        if split_name is not None and split_name not in qrels:
            # Of no judgements no split can be made. Those that were refused have their reason.
            if not qrels and not getattr(qrels, "refusals", {}):
                raise click.UsageError(f"no split {split_name!r}; there are no judgements. {ADDING_JUDGEMENTS}")
            raise click.UsageError(f"{explain_missing_split(qrels, split_name)}{hint}")
