"""Export of a decoder as Python, JSON, a command or a service, and for vector stores and frameworks.

A store's own search is used if it equals the decoder, with λ's direction converted; else the store's candidates go to
one of `engine.integrations`."""

import json
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from textwrap import fill
from typing import Any, Literal
from urllib.parse import quote

from engine.decoder import DEPTH, PER_SOURCE, SET_SIZE, Decoder, describe_scorer_use
from engine.display import OneLine
from engine.errors import DataError, FrontierError, ParamError
from engine.evaluation.studies.pool_depth import PoolDepth
from engine.evaluation.sweep.cell import PLAIN_FIELDS, decoder_from_json, decoder_to_json
from engine.params import Param
from engine.progress import counted
from engine.stages import RELEVANCE_SCALE, Selector, Stage
from engine.values import replace_surrogates
from engine.wording import command_line, in_json

STAGE_FLAG_PREFIXES = (("select", ""), ("retrieve", "retrieve-"), ("rerank", "rerank-"))
"""The stages of a decoder, and the prefix of their parameters' flags on the command line."""
DEFAULT_STORE_POOL = 1000
"""Documents that a store's MMR looks at if the decoder looks at all and their number is unknown."""
DEFAULT_N_FETCHED = 200
"""Candidates that an integration gets if the number it needs was not measured."""
READING_ARGUMENTS = {
    *("columns", "where", "separator", "header", "repeated", "qrels", "conflicting_grades", "judgements"),
    *("document_vectors", "query_vectors", "normalize"),
}
"""Arguments of `load_dataset` that select documents and judgements."""
DUPLICATE_FIELDS = ("drop_duplicates", "duplicate_threshold")
"""Fields of an ExportContext about the documents that are dropped from what was read."""
SERVE_HINT = "frontier answer --decoder setting.json serves it over the whole corpus"


@dataclass(frozen=True, kw_only=True)
class ExportContext:
    """The surroundings in which an exported decoder is used: corpus, encoder, query, k; all have defaults."""

    k: int = 10  # number of documents a query gets
    corpus: str = "numpy-api"  # as load_dataset takes it
    reading: Mapping[str, Any] | None = None  # its other arguments that are not the defaults
    corpus_note: str = ""  # files that must lie where for the corpus to be read, "" for none
    encoder: str | None = "bundled"  # as embed takes it, None where the corpus came with its vectors
    query: str = "your question"
    documents: int | None = None  # number of documents of the corpus
    collection: str = "documents"  # the store's name for the documents
    field: str = "embedding"  # its name for their vectors
    trained: str | None = None  # checkpoint whose embeddings are searched, None for the encoder's own
    dtype: str = "auto"  # the arithmetic that it was trained over
    pool: PoolDepth | None = None  # measured number of candidates that keep the answers
    relevant_from: int = 1  # grade from which a document counted as relevant when it was chosen
    drop_duplicates: str | None = None  # which documents are dropped of the corpus: copies or near
    duplicate_threshold: float | None = None  # cosine of near-duplicates, None for that of the corpus

    def __post_init__(self) -> None:
        """Check k, and make every text printable in a snippet."""
        # A frozen class sets its fields past its own __setattr__.
        object.__setattr__(self, "k", SET_SIZE.check(self.k))
        for field_name in ("corpus", "corpus_note", "encoder", "query", "collection", "field", "trained", "dtype"):
            value = getattr(self, field_name)
            if value is not None:
                # No snippet can hold a NUL or half a character.
                object.__setattr__(self, field_name, replace_surrogates(str(value)).replace("\0", " "))


@dataclass(frozen=True)
class Snippet(OneLine):
    """A decoder exported to one target."""

    target: str
    title: str  # the target for people
    language: str  # of the text, as code blocks name it
    text: str  # to paste, or the reason why it is not possible
    possible: bool = True


@dataclass(frozen=True)
class StoreSearch:
    """The built-in search of vector stores that returns a selector's answers."""

    search: Literal["similarity", "mmr"]  # the name of the search
    weight: str | None = None  # the parameter that weighs relevance, 1 being relevance alone


STORE_SEARCHES = {"top_k": StoreSearch("similarity"), "mmr": StoreSearch("mmr", "relevance_weight")}
"""Selectors that stores can express, the one place that knows selectors by name: that a store's MMR maximises the same
as ours is a fact about its code, which no declaration of ours can hold. For others the snippet gives the reason."""


@dataclass(frozen=True)
class ExportTarget:
    """A target of exports.

    write: returns the text for a decoder and its use, or raises _NotExpressible; fetches: it gets candidates, whose
    number matters
    """

    title: str
    language: str
    write: Callable[[Decoder, ExportContext], str]
    fetches: bool = False


class _NotExpressible(Exception):
    """Raised where a target cannot express a decoder; the message is the reason."""


def export(decoder: Decoder, target: str, use: ExportContext | None = None) -> Snippet:
    """Export a decoder to one target.

    Parameters
    ----------
    decoder : Decoder
        The decoder.
    target : str
        A key of EXPORT_TARGETS, as "python", "json", "command" or the name of a store or framework.
    use : ExportContext or None
        The place where it will be used, by default placeholders.

    Returns
    -------
    Snippet
        The text to paste, or the reason why the target cannot express the decoder.

    Raises
    ------
    ParamError
        If the target is unknown or `decoder` is no Decoder.

    Examples
    --------
    >>> import engine
    >>> engine.export(engine.Decoder(engine.make("mmr")), "command").language
    'bash'
    """
    if target not in EXPORT_TARGETS:
        raise ParamError(f"target must be one of {', '.join(EXPORT_TARGETS)}; got {target!r}")
    if not isinstance(decoder, Decoder):
        raise ParamError(f"decoder must be an engine.Decoder; got {decoder!r}")
    export_target = EXPORT_TARGETS[target]
    try:
        text = export_target.write(decoder, use or ExportContext())
    except _NotExpressible as reason:
        text = f"{export_target.title} cannot express this decoder: {reason}.\n"
        return Snippet(target, export_target.title, "text", text, possible=False)
    return Snippet(target, export_target.title, export_target.language, text)


def export_all(decoder: Decoder, use: ExportContext | None = None) -> tuple[Snippet, ...]:
    """Export the decoder to every target, in their order."""
    return tuple(export(decoder, target_name, use) for target_name in EXPORT_TARGETS)


def read_setting(setting: Decoder | Mapping[str, Any] | str | Path) -> tuple[Decoder, ExportContext | None]:
    """Read a decoder, and the context that it was exported with, from the JSON export.

    setting: a file, its content, or a Decoder, whose context is None. Raises ParamError, or DataError if it is no such
    file.
    """
    if isinstance(setting, Decoder):
        return setting, None
    setting_name = "setting" if isinstance(setting, Mapping) else str(setting)
    try:
        content = setting if isinstance(setting, Mapping) else json.loads(Path(setting).read_text("utf-8"))
        decoder = decoder_from_json(content["decoder"])
        field_names = ("k", "corpus", "reading", "encoder", "trained", "dtype", "relevant_from", *DUPLICATE_FIELDS)
        context_fields = {name: content[name] for name in field_names if name in content}
        if unknown_arguments := context_fields.get("reading", {}).keys() - READING_ARGUMENTS:
            raise KeyError(min(unknown_arguments))
        # A file without an encoder is of a corpus with its own vectors; the class would default to an encoder.
        return decoder, ExportContext(**{"encoder": None, **context_fields})
    except OSError as error:
        raise DataError(f"{setting_name} cannot be read: {error.strerror or error}") from None
    # Our own errors, which are ValueErrors too, name what is wrong.
    except FrontierError:
        raise
    except (KeyError, TypeError, AttributeError, ValueError, RecursionError) as error:
        raise DataError(
            f"{setting_name} holds no decoder as the JSON export writes it ({str(error)[:200]}): frontier tune … "
            "--export json, or Export on the page"
        ) from None


def _select_params(stage: Stage, with_defaults: bool = False) -> list[tuple[Param, Any]]:
    """List a selector's or scorer's parameters to write out, with values.

    Advanced parameters at their default are left out, unless `with_defaults`.
    """
    param_values = []
    for param in stage.spec.params:
        value = getattr(stage, param.name)
        if with_defaults or not param.advanced or value != param.default:
            param_values.append((param, value))
    return param_values


def write_short_code(decoder: Decoder, use: ExportContext | None = None) -> tuple[str, ...]:
    """Write a few lines of Python that decode all queries of the corpus, to follow `import engine`."""
    use = use or ExportContext()
    arguments = _format_arguments(decoder)
    # The default scorer needs no words in a short snippet.
    if decoder.retrieve == Decoder(decoder.select).retrieve:
        arguments = [argument for argument in arguments if not argument.startswith("retrieve=")]
    has_own_vectors = use.encoder is None
    return (
        *_write_space_lines(use, decoder),
        f"decoder = engine.Decoder({', '.join(arguments)})",
        # The first of the query lines is a comment, which a short snippet does without.
        *(_write_query_lines(use)[1:] if has_own_vectors else ()),
        f"ranking = engine.decode(decoder, space, {'queries' if has_own_vectors else 'dataset.queries'}, k={use.k})",
    )


def _format_arguments(decoder: Decoder) -> list[str]:
    """Format the arguments of `engine.Decoder` as Python source."""
    arguments = []
    for name, _ in STAGE_FLAG_PREFIXES:
        stage = getattr(decoder, name)
        if stage is not None:
            param_text = "".join(f", {param.name}={_format_literal(value)}" for param, value in _select_params(stage))
            arguments.append(f"{name}=engine.make({_format_literal(stage.spec.name)}{param_text})")
    for name in PLAIN_FIELDS:
        value = getattr(decoder, name)
        if value is not None:
            arguments.append(f"{name}={_format_literal(value)}")
    return arguments


def _write_space_lines(use: ExportContext, decoder: Decoder) -> list[str]:
    """Write the Python lines that load the corpus and make its space: from an encoder, or its own vectors."""
    # The column of sources is loaded beside the documents.
    reading = dict(use.reading or {}) | ({} if decoder.source is None else {"metadata": [decoder.source]})
    # Only what differs from the defaults of `engine.embed` is written.
    embed_options = ""
    if use.encoder not in (None, ExportContext().encoder):
        embed_options += f", encoder={_format_literal(use.encoder)}"
    if use.dtype != ExportContext().dtype:
        embed_options += f", dtype={_format_literal(use.dtype)}"
    vectors = "dataset.vectors" if use.encoder is None else f"engine.embed(dataset.corpus{embed_options})"
    filter_lines = []
    if use.drop_duplicates is not None:
        threshold = {} if use.duplicate_threshold is None else {"threshold": use.duplicate_threshold}
        arguments = [_format_literal(use.drop_duplicates), vectors, *_format_keywords(threshold)]
        filter_lines.append(f"dataset = engine.drop_duplicates(dataset, {', '.join(arguments)})")
        vectors = "dataset.vectors"
    return [
        *_write_corpus_note(use),
        f"dataset = engine.load_dataset({', '.join([_format_literal(use.corpus), *_format_keywords(reading)])})",
        *filter_lines,
        f"space = engine.Space(dataset.corpus, {vectors})",
        *([] if use.trained is None else [f"space = engine.load_trained({_format_literal(use.trained)}, space).space"]),
    ]


def _write_corpus_note(use: ExportContext) -> list[str]:
    """Write the comment, in Python or a shell, that says which files must lie where; [] without one."""
    # A file's name may have line breaks, behind which code would stand.
    return [f"# {' '.join(use.corpus_note.split())}"] if use.corpus_note else []


def _format_keywords(arguments: Mapping[str, Any] | None) -> list[str]:
    return [f"{name}={_format_literal(value)}" for name, value in (arguments or {}).items()]


def format_source_flags(use: ExportContext) -> list[str]:
    """Return the command-line words that select corpus, level of relevance, encoder and trained weights.

    use.reading: the options by which the corpus was read. Of these "columns" is a dict from a column's role, such as id
    or text, to its name, and "where" a dict from a column's name to the values whose rows are read.
    """
    words = ["--corpus", use.corpus]
    for name, value in (use.reading or {}).items():
        match name:
            case "columns":
                for column_role, column in value.items():
                    words += ["--column", f"{column_role}={column}"]
            case "where":
                for column, column_values in value.items():
                    for chosen in column_values:
                        words += ["--where", f"{column}={chosen}"]
            case "normalize":
                words.append("--normalize")
            case _:
                words += [f"--{name.replace('_', '-')}", "tab" if value == "\t" else value]
    # Defaults need no words.
    if use.relevant_from != 1:
        words += ["--relevant-from", str(use.relevant_from)]
    if use.drop_duplicates is not None:
        words += ["--drop-duplicates", use.drop_duplicates]
    if use.duplicate_threshold is not None:
        words += ["--duplicate-threshold", repr(use.duplicate_threshold)]
    if use.encoder not in (None, ExportContext().encoder):
        words += ["--encoder", use.encoder]
    if use.dtype != ExportContext().dtype:
        words += ["--dtype", use.dtype]
    if use.trained is not None:
        words += ["--trained", use.trained]
    return words


def _write_query_lines(use: ExportContext) -> list[str]:
    """Write the Python lines that make the queries; vectors from a file where the corpus has no encoder."""
    if use.encoder is not None:
        return [f"queries = [{_format_literal(use.query)}]"]
    return ["# Vectors of the encoder that made those of the corpus.", 'queries = engine.load_vectors("queries.npy")']


def _write_scorer_uses(decoder: Decoder) -> list[str]:
    """Write a comment on each scorer that decides a part of the set alone, as the vectors decide the rest."""
    uses = describe_scorer_use(decoder.select, decoder.retrieve, decoder.rerank, decoder.depth)
    return [f"# {getattr(decoder, role).spec.name}: {use}" for role, use in uses.items()]


def _write_python(decoder: Decoder, use: ExportContext) -> str:
    """Write a Python script that decodes the queries and prints the documents' ids."""
    return _join_lines(
        "import engine",
        "",
        *_write_space_lines(use, decoder),
        *_write_scorer_uses(decoder),
        "decoder = engine.Decoder(",
        *(f"    {argument}," for argument in _format_arguments(decoder)),
        ")",
        *_write_query_lines(use),
        f"ranking = engine.decode(decoder, space, queries, k={use.k})",
        "for rows in ranking.index.tolist():",
        "    print([dataset.corpus.ids[row] for row in rows if row >= 0])",
    )


def _write_json(decoder: Decoder, use: ExportContext) -> str:
    """Write a decoder and its context, such as corpus and encoder, as the JSON that `read_setting` reads."""
    content = {"decoder": decoder_to_json(decoder), "k": use.k, "corpus": use.corpus, "encoder": use.encoder}
    content |= {"reading": dict(use.reading)} if use.reading else {}
    content |= {} if use.trained is None else {"trained": use.trained}
    content |= {} if use.dtype == ExportContext().dtype else {"dtype": use.dtype}
    content |= {} if use.relevant_from == 1 else {"relevant_from": use.relevant_from}
    content |= {name: getattr(use, name) for name in DUPLICATE_FIELDS if getattr(use, name) is not None}
    return in_json(json.dumps(content, ensure_ascii=False, indent=2, allow_nan=False)) + "\n"


def _write_command(decoder: Decoder, use: ExportContext) -> str:
    """Write a shell command that answers one query. Raises _NotExpressible without an encoder."""
    if use.encoder is None:
        raise _NotExpressible("the corpus came with its own vectors, and a command can only ask in words")
    words = ["frontier", "decode", *format_source_flags(use), "--query", use.query, "-k", SET_SIZE.text(use.k)]
    for name, flag_prefix in STAGE_FLAG_PREFIXES:
        if (stage := getattr(decoder, name)) is not None:
            words += [f"--{name}", stage.spec.name]
            # A checkpoint brings defaults of its own, so all values are written.
            for param, value in _select_params(stage, with_defaults=use.trained is not None):
                words += [f"--{flag_prefix}{param.flag.removeprefix('--')}", param.text(value)]
    if decoder.depth is not None:
        words += [DEPTH.flag, DEPTH.text(decoder.depth)]
    if decoder.per_source is not None:
        words += [PER_SOURCE.flag, f"{decoder.source}={decoder.per_source}"]
    if decoder.without_self is not None:
        words.append("--without-self" if decoder.without_self else "--with-self")
    return _join_lines(*_write_corpus_note(use), command_line(words))


def _write_langchain(decoder: Decoder, use: ExportContext) -> str:
    """Write Python code that answers a query as the decoder does, from a LangChain vector store.

    The store's own search is used if it returns the decoder's documents; else more documents are fetched, and a
    compressor, which is LangChain's word for a filter of results, chooses among them. use: corpus, encoder, query and k
    of the decoder. Raises _NotExpressible.
    """
    embedding_notes = []
    if use.encoder is not None and use.trained is None:
        keywords = {} if use.dtype == "auto" else {"dtype": use.dtype}
        arguments = ", ".join([_format_literal(use.encoder), *_format_keywords(keywords)])
        adapter = f"engine.integrations.langchain.FrontierEmbeddings({arguments})"
        embedding_notes = [f"A new store gets such vectors by {adapter}."]
    if not _has_store_search(decoder):
        n_fetched, notes = _resolve_n_fetched(decoder, use)
        store_note = "store: your vector store; a document with its vector in metadata is not embedded."
        return _join_lines(
            *_write_imports("engine.integrations.langchain", "FrontierCompressor"),
            *_wrap_comments(store_note, *notes, *embedding_notes),
            *_write_constructor("compressor", "FrontierCompressor", decoder, use, "encoder=store.embeddings"),
            f"query = {_format_literal(use.query)}",
            f"documents = compressor.compress_documents(store.similarity_search(query, k={n_fetched}), query)",
        )
    search, weight, notes = _resolve_store_search(decoder, use)
    search_kwargs: dict[str, Any] = {"k": _resolve_set_size(decoder, use)}
    if search == "mmr":
        search_kwargs["fetch_k"], remarks = _resolve_store_pool(decoder, use)
        search_kwargs["lambda_mult"] = weight
        notes += ["lambda_mult: 1 is pure relevance, as here.", *remarks]
    return _join_lines(
        *_wrap_comments("store: your vector store.", *notes, *embedding_notes),
        "retriever = store.as_retriever(",
        f"    search_type={_format_literal(search)},",
        f"    search_kwargs={_format_literal(search_kwargs)},",
        ")",
        f"documents = retriever.invoke({_format_literal(use.query)})",
    )


def _write_llama_index(decoder: Decoder, use: ExportContext) -> str:
    """Write LlamaIndex code that fetches candidates from an index and lets the decoder choose among them."""
    n_fetched, notes = _resolve_n_fetched(decoder, use)
    return _join_lines(
        *_write_imports("engine.integrations.llama_index", "FrontierPostprocessor"),
        *_wrap_comments("index: your VectorStoreIndex; embed_model: what embedded it.", *notes),
        *_write_constructor("postprocessor", "FrontierPostprocessor", decoder, use, "encoder=embed_model"),
        f"query = {_format_literal(use.query)}",
        f"fetched = index.as_retriever(similarity_top_k={n_fetched}, embed_model=embed_model).retrieve(query)",
        "nodes = postprocessor.postprocess_nodes(fetched, query_str=query)",
    )


def _write_haystack(decoder: Decoder, use: ExportContext) -> str:
    """Write Haystack code that retrieves candidates and lets the decoder choose and rank among them."""
    n_fetched, notes = _resolve_n_fetched(decoder, use)
    note = "retriever: your store's embedding retriever, with return_embedding=True; vector: the query's embedding."
    return _join_lines(
        *_write_imports("engine.integrations.haystack", "FrontierRanker"),
        *_wrap_comments(note, *notes),
        *_write_constructor("ranker", "FrontierRanker", decoder, use),
        f"query = {_format_literal(use.query)}",
        f'fetched = retriever.run(query_embedding=vector, top_k={n_fetched})["documents"]',
        'documents = ranker.run(query=query, documents=fetched, query_embedding=vector)["documents"]',
    )


def _write_service(decoder: Decoder, use: ExportContext) -> str:
    """Write the shell commands that serve the decoder over HTTP and ask it once."""
    body = {"vectors": [[0.12, 0.54, 0.91]]} if use.encoder is None else {"queries": [use.query]}
    quoted_body = shlex.quote(in_json(json.dumps(body, ensure_ascii=False)))
    return _join_lines(
        "# setting.json: the JSON export.",
        "frontier answer --decoder setting.json",
        "# From another shell:",
        f"curl -H 'content-type: application/json' -d {quoted_body} http://127.0.0.1:8600/answer",
    )


def _write_imports(module: str, imported_name: str) -> list[str]:
    """Return Python lines that import the engine and one name of an integration, and an empty line."""
    return ["import engine", f"from {module} import {imported_name}", ""]


def _write_constructor(variable_name: str, adapter: str, decoder: Decoder, use: ExportContext, *more: str) -> list[str]:
    """Write Python lines that call an adapter of an integration with a decoder, and name the result.

    adapter: name of the class or function; more: its further arguments as source
    """
    decoder_argument = f"decoder=engine.Decoder({', '.join(_format_arguments(decoder))})"
    arguments = [f"    {argument}," for argument in (decoder_argument, f"k={use.k}", *more)]
    return [f"{variable_name} = {adapter}(", *arguments, ")"]


def _has_store_search(decoder: Decoder) -> bool:
    """Return True if vector stores have a built-in search that returns the decoder's answers."""
    # The resolver raises where no store search equals the decoder; its result is not needed here.
    try:
        return bool(_resolve_store_search(decoder, ExportContext()))
    except _NotExpressible:
        return False


def _resolve_n_fetched(decoder: Decoder, use: ExportContext) -> tuple[int, list[str]]:
    """Return the number of candidates that an integration fetches, and notes for the snippet.

    It is the decoder's own depth, else a measured number, else a default. Raises _NotExpressible if no store can give
    the candidates.
    """
    reranker = decoder.rerank
    if not decoder.retrieve.inner_product:
        raise _NotExpressible(f"a store ranks by vectors, not by {decoder.retrieve.label}; {SERVE_HINT}")
    if reranker is not None and reranker.corpus_wide:
        reason = f"{reranker.label} reranks by the whole corpus, and a store gives candidates"
        raise _NotExpressible(f"{reason}; {SERVE_HINT}")
    notes = _describe_vectors(use)
    if decoder.depth is not None:
        return decoder.depth, notes
    if use.pool is not None:
        return use.pool.depth, [*notes, _describe_pool(use.pool)]
    # An integration needs at least k candidates, and a corpus has no more than its documents.
    n_fetched = max(use.k, min(DEFAULT_N_FETCHED, use.documents or DEFAULT_N_FETCHED))
    if n_fetched == use.documents:
        return n_fetched, [*notes, f"All {n_fetched:,} documents are candidates, as here."]
    unmeasured_note = f"{n_fetched:,} candidates: not measured; engine.pool_depth says how many keep the answers."
    return n_fetched, [*notes, unmeasured_note]


def _describe_pool(pool: PoolDepth) -> str:
    """Describe in a sentence on what share of queries this number of candidates was measured to suffice."""
    return (
        f"{pool.depth:,} candidates: measured on {counted(pool.queries, 'query', 'queries')}, of which "
        f"{100 * pool.share:.3g}% get the same documents as from all."
    )


def _describe_vectors(use: ExportContext) -> list[str]:
    """Return notes for a snippet on the vectors that the store must hold to give the same answers."""
    notes = ["The same answers need the same vectors, of length 1."]
    if use.trained is not None:
        notes.append(
            "They are the trained ones: trained = engine.load_trained(checkpoint, space) has the documents' in "
            "trained.space.embeddings, and trained.queries(texts) gives the queries'."
        )
    return notes


MAX_QDRANT_POOL = 16_384


def _write_qdrant(decoder: Decoder, use: ExportContext) -> str:
    """Write Python code that answers a query as the decoder does, from documents in a Qdrant collection.

    Qdrant's own search is used if it returns the decoder's documents; else more points are fetched, and the decoder
    chooses among them. use: corpus, collection, query and k of the decoder. Raises _NotExpressible.
    """
    if not _has_store_search(decoder):
        n_fetched, notes = _resolve_n_fetched(decoder, use)
        if decoder.rerank is not None and decoder.rerank.words:
            raise _NotExpressible(f"{decoder.rerank.label} reads texts; give them to engine.integrations.answer")
        answer_arguments = ["query=None", "vectors=[point.vector for point in fetched]", "query_vector=vector"]
        if decoder.source is not None:
            column = _format_literal(decoder.source)
            answer_arguments.append(f"sources=[point.payload.get({column}) for point in fetched]")
        return _join_lines(
            *_write_imports("engine.integrations", "answer"),
            *_wrap_comments("client: your QdrantClient; vector: the query's embedding.", *notes),
            "fetched = client.query_points(",
            f"    collection_name={_format_literal(use.collection)},",
            "    query=vector,",
            f"    limit={n_fetched},",
            "    with_vectors=True,",
            ").points",
            *_write_constructor("found", "answer", decoder, use, *answer_arguments),
            "points = [fetched[row] for row in found.rows]",
        )
    search, weight, notes = _resolve_store_search(decoder, use)
    query_code = "vector"
    if search == "mmr":
        pool_size, remarks = _resolve_store_pool(decoder, use, MAX_QDRANT_POOL)
        notes += [f"diversity: 1 is pure diversity, so it is 1 − {weight!r}.", *remarks]
        mmr_code = f"models.Mmr(diversity={_compute_diversity(weight)!r}, candidates_limit={pool_size})"
        query_code = f"models.NearestQuery(nearest=vector, mmr={mmr_code})"
    return _join_lines(
        "from qdrant_client import models",
        "",
        *_wrap_comments("client: your QdrantClient; vector: the query's embedding.", *notes),
        "found = client.query_points(",
        f"    collection_name={_format_literal(use.collection)},",
        f"    query={query_code},",
        f"    limit={_resolve_set_size(decoder, use)},",
        ")",
    )


MAX_OPENSEARCH_POOL = 10_000
OPENSEARCH_FACTORIES = ("mmr_over_sample_factory", "mmr_rerank_factory")


def _write_opensearch(decoder: Decoder, use: ExportContext) -> str:
    """Write an HTTP request to OpenSearch whose answer is the decoder's.

    Raises _NotExpressible if no search of OpenSearch's own equals the decoder: there is no integration to fall back on.
    """
    # https://docs.opensearch.org/latest/vector-search/specialized-operations/vector-search-mmr
    search, weight, notes = _resolve_store_search(decoder, use)
    set_size = _resolve_set_size(decoder, use)
    knn_query = {"vector": [0.12, 0.54, 0.91], "k": set_size}
    body: dict[str, Any] = {"size": set_size, "query": {"knn": {use.field: knn_query}}}
    setup_notes = ["vector: the query's embedding; the field's space_type: cosinesimil (others score on other scales)."]
    if search == "mmr":
        pool_size, remarks = _resolve_store_pool(decoder, use, MAX_OPENSEARCH_POOL)
        knn_query["k"] = pool_size
        # OpenSearch weighs diversity, our selector relevance.
        body["ext"] = {"mmr": {"diversity": _compute_diversity(weight), "candidates": pool_size}}
        factories = json.dumps(list(OPENSEARCH_FACTORIES))
        setup_notes += [f"diversity: 1 is pure diversity, so it is 1 − {weight!r}.", *remarks]
        cluster_setting = f"cluster.search.enabled_system_generated_factories set to {factories}"
        setup_notes += [f"OpenSearch 3.3 or newer, with {cluster_setting}."]
    return _join_lines(
        *_wrap_comments(*setup_notes, *notes),
        f"POST /{quote(use.collection, safe='')}/_search",
        json.dumps(body, ensure_ascii=False, indent=2, allow_nan=False),
    )


def _resolve_store_search(decoder: Decoder, use: ExportContext) -> tuple[str, float, list[str]]:
    """Find the stores' built-in search that equals a decoder: its name, weight of relevance, notes.

    Raises _NotExpressible, with the reason, if none does.
    """
    selector: Selector = decoder.select
    store_search = STORE_SEARCHES.get(selector.spec.name)
    if store_search is None:
        reason = f"its searches are by similarity or MMR, and nothing like {selector.spec.title}"
        raise _NotExpressible(f"{reason}; {SERVE_HINT}")
    for param in selector.spec.params:
        value = getattr(selector, param.name)
        # Behind inner products, which stores rank by, raw relevance is what "auto" stands for.
        is_default = value == param.default or (param.name == RELEVANCE_SCALE.name and value == "raw")
        if param.name != store_search.weight and not is_default:
            raise _NotExpressible(f"it has no {param.label} ({param.symbol}), which is {param.text(value)} here")
    if not decoder.retrieve.inner_product:
        raise _NotExpressible(f"it ranks by vectors, not by {decoder.retrieve.label}")
    if decoder.rerank is not None:
        raise _NotExpressible(f"it does not rerank by {decoder.rerank.label}")
    if decoder.per_source is not None:
        raise _NotExpressible(f"it has no limit of {decoder.per_source} per {decoder.source}; {SERVE_HINT}")
    if decoder.without_self:
        raise _NotExpressible(f"it does not leave out the document with a query's id; {SERVE_HINT}")
    weight = 1.0 if store_search.weight is None else float(getattr(selector, store_search.weight))
    return store_search.search, weight, _describe_vectors(use)


def _resolve_set_size(decoder: Decoder, use: ExportContext) -> int:
    """Return the number of documents that a query gets: k, or the decoder's depth if that is smaller."""
    return min(use.k, decoder.depth or use.k)


def _resolve_store_pool(decoder: Decoder, use: ExportContext, max_pool: int | None = None) -> tuple[int, list[str]]:
    """Return the number of documents among which a store's MMR chooses, and notes for the snippet.

    It is the decoder's own depth, else a measured number, else a default. max_pool: the store's own limit. Raises
    _NotExpressible if the decoder's depth exceeds it.
    """
    if decoder.depth is not None:
        if max_pool is not None and decoder.depth > max_pool:
            reason = f"its MMR looks at {max_pool:,} documents at most"
            raise _NotExpressible(f"{reason}, and the pool here is {decoder.depth:,}")
        return decoder.depth, []
    if use.pool is not None and (max_pool is None or use.pool.depth <= max_pool):
        return use.pool.depth, [_describe_pool(use.pool)]
    # Stores limit the pool of their MMR; a larger one is an error there.
    pool_size = max(use.documents or DEFAULT_STORE_POOL, use.k)
    if max_pool is not None:
        pool_size = min(pool_size, max_pool)
    if use.documents is not None and pool_size >= use.documents:
        return pool_size, [f"MMR looks at all {pool_size:,} documents, as was measured here; fewer are faster."]
    return pool_size, [
        f"MMR looks at the {pool_size:,} nearest only; here all documents were looked at, so answers can differ. To "
        f"measure what will run: {DEPTH.flag} {pool_size}."
    ]


def _compute_diversity(weight: float) -> float:
    """Return 1 − the weight of relevance, for stores that weigh diversity."""
    # Twelve digits drop the noise of the subtraction.
    return float(f"{1 - weight:.12g}")


def _wrap_comments(*notes: str) -> list[str]:
    """Format notes as Python comments of at most 100 characters."""
    comments = [fill(note, 100, initial_indent="# ", subsequent_indent="#   ") for note in notes]
    return "\n".join(comments).split("\n")


def _format_literal(value: Any) -> str:
    """Format a value as Python source, with strings, also those in a dict, in double quotes."""
    match value:
        case str():
            return in_json(json.dumps(value, ensure_ascii=False))
        case dict():
            items = (f"{_format_literal(key)}: {_format_literal(item)}" for key, item in value.items())
            return "{" + ", ".join(items) + "}"
        case list():
            return "[" + ", ".join(map(_format_literal, value)) + "]"
    return repr(value)


def _join_lines(*lines: str) -> str:
    return "\n".join(lines) + "\n"


EXPORT_TARGETS = {
    "python": ExportTarget("Python", "python", _write_python),
    "json": ExportTarget("JSON", "json", _write_json),
    "command": ExportTarget("Command line", "bash", _write_command),
    "service": ExportTarget("HTTP service", "bash", _write_service),
    "langchain": ExportTarget("LangChain", "python", _write_langchain, fetches=True),
    "llama_index": ExportTarget("LlamaIndex", "python", _write_llama_index, fetches=True),
    "haystack": ExportTarget("Haystack", "python", _write_haystack, fetches=True),
    "qdrant": ExportTarget("Qdrant", "python", _write_qdrant, fetches=True),
    "opensearch": ExportTarget("OpenSearch", "http", _write_opensearch, fetches=True),
}
"""The targets that a decoder can be exported to."""
