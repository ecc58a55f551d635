"""A chosen decoder for use elsewhere: as Python, JSON, a command or a service, and for vector stores and frameworks.

A store's own search is used where it is the decoder's, with λ's direction converted; else its candidates go to one of
`engine.integrations`."""

import json
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from textwrap import fill
from typing import Any, Literal
from urllib.parse import quote

from engine.decoder import DEPTH, SET_SIZE, Decoder
from engine.errors import DataError, ParamError
from engine.evaluation.studies.pool_depth import PoolDepth
from engine.evaluation.sweep.cell import as_json, from_json
from engine.params import Param
from engine.progress import counted
from engine.stages import Selector, Stage
from engine.values import replace_surrogates
from engine.wording import command_line, in_json

STAGES = (("select", ""), ("retrieve", "retrieve-"), ("rerank", "rerank-"))
"""The stages of a decoder, and what the command line writes before the flags of their parameters."""
POOL = 1000
"""So many documents a store's MMR looks at, where the decoder looks at all and nobody says how many those are."""
FETCHED = 200
"""So many candidates an integration gets, where nobody has measured how many it needs."""
READING = {"columns", "where", "separator", "repeated", "qrels"}
"""Arguments of `load_dataset` that say which documents and judgements a corpus has."""
SERVE = "frontier answer --decoder setting.json serves it over the whole corpus"


@dataclass(frozen=True, kw_only=True)
class ExportContext:
    """Where a decoder is to be used; every field is a stand-in until somebody knows better."""

    k: int = 10  # how many documents a query gets
    corpus: str = "numpy-api"  # as load_dataset takes it
    reading: Mapping[str, Any] | None = None  # its other arguments, as far as they are not the defaults
    encoder: str | None = "bundled"  # as embed takes it, None where the corpus came with its vectors
    query: str = "your question"
    documents: int | None = None  # how many the corpus has
    collection: str = "documents"  # what the store calls the documents
    field: str = "embedding"  # what it calls their vectors
    trained: str | None = None  # checkpoint whose embeddings are searched, None for the encoder's own
    dtype: str = "auto"  # the arithmetic that it was trained over
    pool: PoolDepth | None = None  # how many candidates keep the answers, where that was measured

    def __post_init__(self) -> None:
        object.__setattr__(self, "k", SET_SIZE.check(self.k))
        for name in ("corpus", "encoder", "query", "collection", "field", "trained", "dtype"):
            value = getattr(self, name)
            if value is not None:
                # No snippet can hold a NUL or half a character.
                object.__setattr__(self, name, replace_surrogates(str(value)).replace("\0", " "))


@dataclass(frozen=True)
class Snippet:
    """A decoder for one target."""

    target: str
    title: str  # the target for people
    language: str  # of the text, as code blocks name it
    text: str  # to paste, or where it is not possible, why not
    possible: bool = True


@dataclass(frozen=True)
class StoreSearch:
    """How vector stores have a selector."""

    search: Literal["similarity", "mmr"]  # by which of their searches
    weight: str | None = None  # the parameter that says how much relevance counts, 1 being all that counts


FORMS = {"top_k": StoreSearch("similarity"), "mmr": StoreSearch("mmr", "relevance_weight")}
"""The one place that knows selectors by name. Stores offer two searches; that the one they call MMR maximises what our
selector of that name maximises is a fact about their code, which no declaration of ours can hold. A selector that is
not here cannot be expressed, and the snippet says so."""


@dataclass(frozen=True)
class Target:
    """write: the text for a decoder and its use, raises _Cannot; fetches: it has candidates, whose number matters."""

    title: str
    language: str
    write: Callable[[Decoder, ExportContext], str]
    fetches: bool = False


class _Cannot(Exception):
    """Why a target has no words for a decoder."""


def export(decoder: Decoder, target: str, use: ExportContext | None = None) -> Snippet:
    """The decoder for one of TARGETS. Raises ParamError."""
    if target not in TARGETS:
        raise ParamError(f"target must be one of {', '.join(TARGETS)}; got {target!r}")
    if not isinstance(decoder, Decoder):
        raise ParamError(f"decoder must be an engine.Decoder; got {decoder!r}")
    of = TARGETS[target]
    try:
        return Snippet(target, of.title, of.language, of.write(decoder, use or ExportContext()))
    except _Cannot as why:
        return Snippet(target, of.title, "text", f"{of.title} cannot express this decoder: {why}.\n", possible=False)


def exports(decoder: Decoder, use: ExportContext | None = None) -> tuple[Snippet, ...]:
    """The decoder for every target, in their order."""
    return tuple(export(decoder, target, use) for target in TARGETS)


def read_setting(setting: Decoder | Mapping[str, Any] | str | Path) -> tuple[Decoder, ExportContext | None]:
    """A decoder and its use, None of a decoder alone, from the JSON export: its file, or its content.

    Raises ParamError, or DataError where it is no such file.
    """
    if isinstance(setting, Decoder):
        return setting, None
    name = "setting" if isinstance(setting, Mapping) else str(setting)
    try:
        content = setting if isinstance(setting, Mapping) else json.loads(Path(setting).read_text("utf-8"))
        decoder = from_json(content["decoder"])
        known = {f: content[f] for f in ("k", "corpus", "reading", "encoder", "trained", "dtype") if f in content}
        if unknown := known.get("reading", {}).keys() - READING:
            raise KeyError(min(unknown))
        return decoder, ExportContext(**{"encoder": None, **known})
    except OSError as error:
        raise DataError(f"{name} cannot be read: {error.strerror or error}") from None
    except (KeyError, TypeError, AttributeError, UnicodeError, json.JSONDecodeError) as error:
        raise DataError(
            f"{name} holds no decoder as the JSON export writes it ({error}): frontier tune … --export json, or "
            "Export on the page"
        ) from None


def _shown(stage: Stage) -> list[tuple[Param, Any]]:
    """Parameters with their values, without what few look for where it is at its default."""
    values = [(p, getattr(stage, p.name)) for p in stage.spec.params]
    return [(p, value) for p, value in values if not p.advanced or value != p.default]


def short_code(decoder: Decoder, use: ExportContext | None = None) -> tuple[str, ...]:
    """The decoder in a few lines of Python, which decode all queries of the corpus; after `import engine`."""
    use = use or ExportContext()
    made = _arguments(decoder)
    if decoder.retrieve == Decoder(decoder.select).retrieve:
        made = [part for part in made if not part.startswith("retrieve=")]
    own = use.encoder is None
    return (
        *_space_made(use),
        f"decoder = engine.Decoder({', '.join(made)})",
        *(_queries_made(use)[1:] if own else ()),
        f"ranking = engine.decode(decoder, space, {'queries' if own else 'dataset.queries'}, k={use.k})",
    )


def _arguments(decoder: Decoder) -> list[str]:
    """The arguments of a Decoder as Python writes them."""
    made = []
    for name, _ in STAGES:
        stage = getattr(decoder, name)
        if stage is not None:
            params = "".join(f", {p.name}={_literal(value)}" for p, value in _shown(stage))
            made.append(f"{name}=engine.make({_literal(stage.spec.name)}{params})")
    return made + ([f"depth={decoder.depth!r}"] if decoder.depth is not None else [])


def _space_made(use: ExportContext) -> list[str]:
    """The lines that load and embed the corpus."""
    how = "" if use.encoder in (None, ExportContext().encoder) else f", encoder={_literal(use.encoder)}"
    how += "" if use.dtype == ExportContext().dtype else f", dtype={_literal(use.dtype)}"
    vectors = "dataset.vectors" if use.encoder is None else f"engine.embed(dataset.corpus{how})"
    return [
        f"dataset = engine.load_dataset({', '.join([_literal(use.corpus), *_keywords(use.reading)])})",
        f"space = engine.Space(dataset.corpus, {vectors})",
        *([] if use.trained is None else [f"space = engine.load_trained({_literal(use.trained)}, space).space"]),
    ]


def _keywords(arguments: Mapping[str, Any] | None) -> list[str]:
    return [f"{name}={_literal(value)}" for name, value in (arguments or {}).items()]


def source_flags(use: ExportContext) -> list[str]:
    """The words that name corpus, judgements and encoder to a command."""
    words = ["--corpus", use.corpus]
    for name, value in (use.reading or {}).items():
        match name:
            case "columns":
                words += [word for role, column in value.items() for word in ("--column", f"{role}={column}")]
            case "where":
                pairs = [f"{column}={one}" for column, several in value.items() for one in several]
                words += [word for pair in pairs for word in ("--where", pair)]
            case _:
                words += [f"--{name}", "tab" if value == "\t" else value]
    words += [] if use.encoder in (None, ExportContext().encoder) else ["--encoder", use.encoder]
    words += [] if use.dtype == ExportContext().dtype else ["--dtype", use.dtype]
    return words + ([] if use.trained is None else ["--trained", use.trained])


def _queries_made(use: ExportContext) -> list[str]:
    """The lines that make the queries."""
    if use.encoder is not None:
        return [f"queries = [{_literal(use.query)}]"]
    return ["# Vectors of the encoder that made those of the corpus.", 'queries = engine.load_vectors("queries.npy")']


def _python(decoder: Decoder, use: ExportContext) -> str:
    return _lines(
        "import engine",
        "",
        *_space_made(use),
        "decoder = engine.Decoder(",
        *(f"    {part}," for part in _arguments(decoder)),
        ")",
        *_queries_made(use),
        f"ranking = engine.decode(decoder, space, queries, k={use.k})",
        "for rows in ranking.index.tolist():",
        "    print([dataset.corpus.ids[row] for row in rows if row >= 0])",
    )


def _json(decoder: Decoder, use: ExportContext) -> str:
    """What `read_setting` reads."""
    content = {"decoder": as_json(decoder), "k": use.k, "corpus": use.corpus, "encoder": use.encoder}
    content |= {"reading": dict(use.reading)} if use.reading else {}
    content |= {} if use.trained is None else {"trained": use.trained}
    content |= {} if use.dtype == ExportContext().dtype else {"dtype": use.dtype}
    return in_json(json.dumps(content, ensure_ascii=False, indent=2, allow_nan=False)) + "\n"


def _command(decoder: Decoder, use: ExportContext) -> str:
    if use.encoder is None:
        raise _Cannot("the corpus came with its own vectors, and a command can only ask in words")
    words = ["frontier", "decode", *source_flags(use), "--query", use.query, "-k", SET_SIZE.text(use.k)]
    for name, prefix in STAGES:
        if (stage := getattr(decoder, name)) is not None:
            words += [f"--{name}", stage.spec.name]
            # A checkpoint has a say in what is left out.
            every = [(p, getattr(stage, p.name)) for p in stage.spec.params]
            for param, value in _shown(stage) if use.trained is None else every:
                words += [f"--{prefix}{param.flag[2:]}", param.text(value)]
    if decoder.depth is not None:
        words += [DEPTH.flag, DEPTH.text(decoder.depth)]
    return command_line(words) + "\n"


def _langchain(decoder: Decoder, use: ExportContext) -> str:
    own = []
    if use.encoder is not None and use.trained is None:
        made = ", ".join([_literal(use.encoder), *_keywords({"dtype": use.dtype} if use.dtype != "auto" else None)])
        own = [f"A new store gets such vectors by engine.integrations.langchain.FrontierEmbeddings({made})."]
    if not _has_own(decoder):
        count, notes = _fetched(decoder, use)
        return _lines(
            *_imports("engine.integrations.langchain", "FrontierCompressor"),
            *_comments(
                "store: your vector store; a document with its vector in metadata is not embedded.", *notes, *own
            ),
            *_constructed("compressor", "FrontierCompressor", decoder, use, "encoder=store.embeddings"),
            f"query = {_literal(use.query)}",
            f"documents = compressor.compress_documents(store.similarity_search(query, k={count}), query)",
        )
    search, weight, notes = _in_a_store(decoder, use)
    kwargs: dict[str, Any] = {"k": _size(decoder, use)}
    if search == "mmr":
        kwargs["fetch_k"], remarks = _pool(decoder, use)
        kwargs["lambda_mult"] = weight
        notes += ["lambda_mult: 1 is pure relevance, as here.", *remarks]
    return _lines(
        *_comments("store: your vector store.", *notes, *own),
        "retriever = store.as_retriever(",
        f"    search_type={_literal(search)},",
        f"    search_kwargs={_literal(kwargs)},",
        ")",
        f"documents = retriever.invoke({_literal(use.query)})",
    )


def _llama_index(decoder: Decoder, use: ExportContext) -> str:
    count, notes = _fetched(decoder, use)
    return _lines(
        *_imports("engine.integrations.llama_index", "FrontierPostprocessor"),
        *_comments("index: your VectorStoreIndex; embed_model: what embedded it.", *notes),
        *_constructed("postprocessor", "FrontierPostprocessor", decoder, use, "encoder=embed_model"),
        f"query = {_literal(use.query)}",
        f"fetched = index.as_retriever(similarity_top_k={count}, embed_model=embed_model).retrieve(query)",
        "nodes = postprocessor.postprocess_nodes(fetched, query_str=query)",
    )


def _haystack(decoder: Decoder, use: ExportContext) -> str:
    count, notes = _fetched(decoder, use)
    first = "retriever: your store's embedding retriever, with return_embedding=True; vector: the query's embedding."
    return _lines(
        *_imports("engine.integrations.haystack", "FrontierRanker"),
        *_comments(first, *notes),
        *_constructed("ranker", "FrontierRanker", decoder, use),
        f"query = {_literal(use.query)}",
        f'fetched = retriever.run(query_embedding=vector, top_k={count})["documents"]',
        'documents = ranker.run(query=query, documents=fetched, query_embedding=vector)["documents"]',
    )


def _service(decoder: Decoder, use: ExportContext) -> str:
    body = {"vectors": [[0.12, 0.54, 0.91]]} if use.encoder is None else {"queries": [use.query]}
    sent = shlex.quote(in_json(json.dumps(body, ensure_ascii=False)))
    return _lines(
        "# setting.json: the JSON export.",
        "frontier answer --decoder setting.json",
        "# From another shell:",
        f"curl -H 'content-type: application/json' -d {sent} http://127.0.0.1:8600/answer",
    )


def _imports(module: str, name: str) -> list[str]:
    return ["import engine", f"from {module} import {name}", ""]


def _constructed(name: str, adapter: str, decoder: Decoder, use: ExportContext, *more: str) -> list[str]:
    """The lines that make an adapter, or call a function, with a decoder."""
    made = f"decoder=engine.Decoder({', '.join(_arguments(decoder))})"
    return [f"{name} = {adapter}(", *(f"    {part}," for part in (made, f"k={use.k}", *more)), ")"]


def _has_own(decoder: Decoder) -> bool:
    """Whether vector stores have the decoder themselves."""
    try:
        return bool(_in_a_store(decoder, ExportContext()))
    except _Cannot:
        return False


def _fetched(decoder: Decoder, use: ExportContext) -> tuple[int, list[str]]:
    """How many candidates an integration is to get, and what to note. Raises _Cannot."""
    rerank = decoder.rerank
    if not decoder.retrieve.inner_product:
        raise _Cannot(f"a store ranks by vectors, not by {decoder.retrieve.label}; {SERVE}")
    if rerank is not None and rerank.corpus_wide:
        raise _Cannot(f"{rerank.label} reranks by the whole corpus, and a store gives candidates; {SERVE}")
    notes = _about_vectors(use)
    if decoder.depth is not None:
        return decoder.depth, notes
    if use.pool is not None:
        return use.pool.depth, [*notes, _measured(use.pool)]
    count = max(use.k, min(FETCHED, use.documents or FETCHED))
    if count == use.documents:
        return count, [*notes, f"All {count:,} documents are candidates, as here."]
    return count, [*notes, f"{count:,} candidates: not measured; engine.pool_depth says how many keep the answers."]


def _measured(pool: PoolDepth) -> str:
    """What was measured of a pool, in a sentence."""
    return (
        f"{pool.depth:,} candidates: measured on {counted(pool.queries, 'query', 'queries')}, of which "
        f"{100 * pool.share:.3g}% get the same documents as from all."
    )


def _about_vectors(use: ExportContext) -> list[str]:
    """What to note of the vectors that a store has."""
    notes = ["The same answers need the same vectors, of length 1."]
    if use.trained is not None:
        notes.append(
            "They are the trained ones: trained = engine.load_trained(checkpoint, space) has the documents' in "
            "trained.space.embeddings, and trained.queries(texts) gives the queries'."
        )
    return notes


QDRANT_MOST = 16_384


def _qdrant(decoder: Decoder, use: ExportContext) -> str:
    if not _has_own(decoder):
        count, notes = _fetched(decoder, use)
        if decoder.rerank is not None and decoder.rerank.words:
            raise _Cannot(f"{decoder.rerank.label} reads texts; give them to engine.integrations.answer")
        given = ("query=None", "vectors=[point.vector for point in fetched]", "query_vector=vector")
        return _lines(
            *_imports("engine.integrations", "answer"),
            *_comments("client: your QdrantClient; vector: the query's embedding.", *notes),
            "fetched = client.query_points(",
            f"    collection_name={_literal(use.collection)},",
            "    query=vector,",
            f"    limit={count},",
            "    with_vectors=True,",
            ").points",
            *_constructed("found", "answer", decoder, use, *given),
            "points = [fetched[row] for row in found.rows]",
        )
    search, weight, notes = _in_a_store(decoder, use)
    query = "vector"
    if search == "mmr":
        pool, remarks = _pool(decoder, use, QDRANT_MOST)
        notes += [f"diversity: 1 is pure diversity, so it is 1 − {weight!r}.", *remarks]
        mmr = f"models.Mmr(diversity={_flipped(weight)!r}, candidates_limit={pool})"
        query = f"models.NearestQuery(nearest=vector, mmr={mmr})"
    return _lines(
        "from qdrant_client import models",
        "",
        *_comments("client: your QdrantClient; vector: the query's embedding.", *notes),
        "found = client.query_points(",
        f"    collection_name={_literal(use.collection)},",
        f"    query={query},",
        f"    limit={_size(decoder, use)},",
        ")",
    )


OPENSEARCH_MOST = 10_000
OPENSEARCH_FACTORIES = ("mmr_over_sample_factory", "mmr_rerank_factory")


def _opensearch(decoder: Decoder, use: ExportContext) -> str:
    """https://docs.opensearch.org/latest/vector-search/specialized-operations/vector-search-mmr"""
    search, weight, notes = _in_a_store(decoder, use)
    size = _size(decoder, use)
    knn = {"vector": [0.12, 0.54, 0.91], "k": size}
    body: dict[str, Any] = {"size": size, "query": {"knn": {use.field: knn}}}
    first = ["vector: the query's embedding; the field's space_type: cosinesimil (others score on other scales)."]
    if search == "mmr":
        pool, remarks = _pool(decoder, use, OPENSEARCH_MOST)
        knn["k"] = pool
        body["ext"] = {"mmr": {"diversity": _flipped(weight), "candidates": pool}}
        enabled = json.dumps(list(OPENSEARCH_FACTORIES))
        first += [f"diversity: 1 is pure diversity, so it is 1 − {weight!r}.", *remarks]
        first += [f"OpenSearch 3.3 or newer, with cluster.search.enabled_system_generated_factories set to {enabled}."]
    return _lines(
        *_comments(*first, *notes),
        f"POST /{quote(use.collection, safe='')}/_search",
        json.dumps(body, ensure_ascii=False, indent=2, allow_nan=False),
    )


def _in_a_store(decoder: Decoder, use: ExportContext) -> tuple[str, float, list[str]]:
    """The search, the weight of relevance in it, and what to note. Raises _Cannot."""
    selector: Selector = decoder.select
    form = FORMS.get(selector.spec.name)
    if form is None:
        raise _Cannot(f"its searches are by similarity or MMR, and nothing like {selector.spec.title}; {SERVE}")
    for param in selector.spec.params:
        value = getattr(selector, param.name)
        if param.name != form.weight and value != param.default:
            raise _Cannot(f"it has no {param.label} ({param.symbol}), which is {param.text(value)} here")
    if not decoder.retrieve.inner_product:
        raise _Cannot(f"it ranks by vectors, not by {decoder.retrieve.label}")
    if decoder.rerank is not None:
        raise _Cannot(f"it does not rerank by {decoder.rerank.label}")
    weight = 1.0 if form.weight is None else float(getattr(selector, form.weight))
    return form.search, weight, _about_vectors(use)


def _size(decoder: Decoder, use: ExportContext) -> int:
    """How many a query gets: no more than the pool holds."""
    return min(use.k, decoder.depth or use.k)


def _pool(decoder: Decoder, use: ExportContext, most: int | None = None) -> tuple[int, list[str]]:
    """How many documents a store's MMR is to look at, and what to note of it. Raises _Cannot."""
    if decoder.depth is not None:
        if most is not None and decoder.depth > most:
            raise _Cannot(f"its MMR looks at {most:,} documents at most, and the pool here is {decoder.depth:,}")
        return decoder.depth, []
    if use.pool is not None and (most is None or use.pool.depth <= most):
        return use.pool.depth, [_measured(use.pool)]
    pool = min(n for n in (max(use.documents or POOL, use.k), most) if n is not None)
    if use.documents is not None and pool >= use.documents:
        return pool, [f"MMR looks at all {pool:,} documents, as was measured here; fewer are faster."]
    return pool, [
        f"MMR looks at the {pool:,} nearest only; here all documents were looked at, so answers can differ. To measure "
        f"what will run: {DEPTH.flag} {pool}."
    ]


def _flipped(weight: float) -> float:
    """How much diversity counts, where relevance counts `weight`; without the noise of the subtraction."""
    return float(f"{1 - weight:.12g}")


def _comments(*notes: str) -> list[str]:
    return [
        line for note in notes for line in fill(note, 100, initial_indent="# ", subsequent_indent="#   ").split("\n")
    ]


def _literal(value: Any) -> str:
    """The value in Python, strings in double quotes: JSON's strings are Python's too."""
    match value:
        case str():
            return in_json(json.dumps(value, ensure_ascii=False))
        case dict():
            return "{" + ", ".join(f"{_literal(key)}: {_literal(item)}" for key, item in value.items()) + "}"
    return repr(value)


def _lines(*lines: str) -> str:
    return "\n".join(lines) + "\n"


TARGETS = {
    "python": Target("Python", "python", _python),
    "json": Target("JSON", "json", _json),
    "command": Target("Command line", "bash", _command),
    "service": Target("HTTP service", "bash", _service),
    "langchain": Target("LangChain", "python", _langchain, fetches=True),
    "llama_index": Target("LlamaIndex", "python", _llama_index, fetches=True),
    "haystack": Target("Haystack", "python", _haystack, fetches=True),
    "qdrant": Target("Qdrant", "python", _qdrant, fetches=True),
    "opensearch": Target("OpenSearch", "http", _opensearch, fetches=True),
}
"""What a decoder can be exported to."""
