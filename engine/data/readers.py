"""Data sets: the built-in demos, folders in BEIR layout, single tables and bare vectors, all as one `Dataset`."""

import os
import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from hashlib import blake2b
from pathlib import Path

from engine.data import tables, vectors
from engine.data.files import HeldFile, present, readable
from engine.data.line_texts import LineTexts
from engine.data.tables import Columns, Documents, TableFile, named_columns, read_documents
from engine.data.textfiles import SHORT, STOPPED, lines
from engine.errors import DataError
from engine.progress import Progress, Stop, with_cancellation
from engine.values import Corpus, Dataset, Embeddings, Notice, PassageSource, Qrels, Queries, UsableSplits
from engine.wording import percent

BUILT_IN = ("numpy-api", "python-api")
Table = Callable[[TableFile, Columns | None], Documents]
"""`read_documents`, as a data set is read."""
Grades = dict[tuple[str, ...], dict[str, int]]
"""grades[(query,)][document], or grades[(query, aspect)][document]."""
MOST_LACKING = 0.5
"""Share of what a file of judgements calls relevant, or a run lists, that the corpus may lack: Recall counts each as
not found, and beyond it a measure says more of two files that hardly belong together than of any method."""

_SPLITS = ("train", "dev", "test")  # the order in which splits are listed; others follow alphabetically
_GRADE_NAMES = ("score", "grade", "relevance", "rel", "label", "judgement", "judgment")
_GRADE = re.compile(r"([+-]?[0-9]{1,18})(\.0*)?")
_LAYOUT = "corpus.jsonl (_id, text, perhaps title a line), perhaps queries.jsonl, qrels/*.tsv, aspects.tsv, vectors.npy"


@readable("the data set")
def load_dataset(
    source: str | Path | HeldFile,
    *,
    qrels: str = "qrels",
    columns: Columns | Mapping[str, str] | None = None,
    metadata: Sequence[str] = (),
    where: Mapping[str, Collection[str]] | None = None,
    separator: str | None = None,
    repeated: str = "refuse",
    progress: Progress | None = None,
    stop: Stop | None = None,
) -> Dataset:
    """A corpus with its queries, judgements, aspects and vectors, as far as the source has them.

    source: "numpy-api" or "python-api"; a folder in BEIR layout; a .csv, .tsv, .jsonl, .ndjson or .parquet table; a
    .npy or .npz file of vectors; a table as a HeldFile. qrels: which of a folder's judgements to take; or the path of a
    folder with queries.jsonl and qrels/*.tsv, whose queries and judgements take the place of the source's own. columns:
    what a table's columns mean, as {"text": name, "id": name, "title": name}, None guesses. metadata: columns to keep
    beside documents and queries. where: column → values, to read only the documents that have one of them, and
    judgements of no others. separator: of a .csv file, None guesses. repeated: rows with an id that an earlier row has:
    "refuse", keep the "first", or "number" the others. progress(done, total, label) is called now and then. What is odd
    but usable becomes a notice. Raises DataError naming file, place and fix; Cancelled once `stop` is set.
    """
    if not isinstance(source, (str, Path, HeldFile)):
        raise DataError(f"source must be the name of a demo or a path; got {source!r}")
    path = source.path if isinstance(source, HeldFile) else Path(os.path.expanduser(source))
    try:
        folder = source not in BUILT_IN and path.is_dir()
    except (OSError, ValueError) as error:
        raise DataError(f"no path is like {str(source)[:80]!r}: {error}") from None
    if columns is not None and (folder or source in BUILT_IN or path.suffix.lower() in vectors.SUFFIXES):
        raise DataError(f"columns= is for tables; {source} has fixed ones")
    if qrels != "qrels" and not folder and _elsewhere(path, qrels) is None:
        raise DataError(
            f"qrels={qrels!r} must be a folder of judgements inside a data set, which {source} is not, or the path of "
            "one with queries.jsonl and qrels/*.tsv"
        )
    if separator is not None and path.suffix.lower() != ".csv":
        raise DataError(f"separator= is for .csv files; {source} is none")
    columns = named_columns(columns) if isinstance(columns, Mapping) else columns
    watch = with_cancellation(progress, stop, STOPPED)
    metadata = tuple(dict.fromkeys((*metadata, *(where or ()))))
    table = partial(read_documents, watch=watch, metadata=metadata, repeated=repeated)
    if (elsewhere := _elsewhere(path, qrels)) is not None:
        unjudged = load_dataset(
            source, columns=columns, metadata=metadata, where=where, separator=separator, repeated=repeated,
            progress=progress, stop=stop,
        )  # fmt: skip
        queries, judged, more = _judged(elsewhere, "qrels", unjudged.corpus, table, watch)
        return replace(unjudged, queries=queries, qrels=judged, notices=unjudged.notices + more)
    if source in BUILT_IN:
        dataset = _built_in(str(source), watch, progress, stop)
    elif folder:
        dataset = _folder(path, qrels, table, watch)
    else:
        table, file = partial(table, separator=separator), source if isinstance(source, HeldFile) else path
        dataset = _file(file, columns, table, watch)
    if lacking := [n for n in metadata if n not in dataset.corpus.metadata and n not in dataset.queries.metadata]:
        raise DataError(f"neither documents nor queries have a column {lacking[0]!r} (metadata=)")
    return _selected(dataset, where) if where else dataset


def _elsewhere(source: Path, qrels: str) -> Path | None:
    """The folder of queries and judgements that is not inside the source, None where none is named."""
    folder = Path(os.path.expanduser(qrels))
    inside = not folder.is_absolute() and (source / qrels).is_dir()
    return folder if not inside and present(folder / "queries.jsonl") else None


def _selected(dataset: Dataset, where: Mapping[str, Collection[str]]) -> Dataset:
    """The documents that have one of the values in every column, and what is judged of them."""
    corpus = dataset.corpus
    rows = list(range(len(corpus)))
    for column, values in where.items():
        if column not in corpus.metadata or isinstance(values, str):
            raise DataError(f"where= must be columns of the documents with lists of values; got {column!r}: {values!r}")
        rows = [row for row in rows if corpus.metadata[column][row] in values]
        if not rows:
            common = ", ".join(f"{value!r}" for value, _ in Counter(corpus.metadata[column]).most_common(5))
            raise DataError(f"where= leaves no document: {column!r} is {common} …, and {list(values)!r} was asked for")
    texts, titles = (
        values.take(rows) if isinstance(values, LineTexts) else tuple(values[row] for row in rows)
        for values in (corpus.texts, corpus.titles)
    )
    metadata = {column: tuple(values[row] for row in rows) for column, values in corpus.metadata.items()}
    kept = Corpus(tuple(corpus.ids[row] for row in rows), texts, titles, corpus.name, metadata)
    gone = corpus.position.keys() - kept.position.keys()
    left = {split: {q: {d: g for d, g in docs.items() if d not in gone} for q, docs in qrels.grades.items()}
            for split, qrels in dataset.qrels.items()}  # fmt: skip
    judged = {split: Qrels({query: docs for query, docs in grades.items() if docs}) for split, grades in left.items()}
    refused = dataset.qrels.refusals if isinstance(dataset.qrels, UsableSplits) else {}
    none = {split: f"where= leaves no judgement of split {split!r}" for split, qrels in judged.items() if not qrels}
    aspects = dataset.aspects and {
        query: covered
        for query, of_query in dataset.aspects.items()
        if (covered := {aspect: docs - gone for aspect, docs in of_query.items() if docs - gone})
    }
    return Dataset(
        kept,
        dataset.queries,
        UsableSplits({split: qrels for split, qrels in judged.items() if qrels}, {**refused, **none}),
        aspects,
        dataset.vectors and dataset.vectors.take(rows),
        (*dataset.notices, *Notice.for_ids(f"documents were left out by {', '.join(where)}", sorted(gone))),
    )


def _file(path: TableFile, columns: Columns | None, table: Table, watch: Progress) -> Dataset:
    """A table, or vectors alone."""
    suffix = path.suffix.lower()
    if isinstance(path, Path) and not path.exists():
        raise DataError(f"{path} does not exist; expected {_expected()}")
    if isinstance(path, Path) and suffix in vectors.SUFFIXES:
        embeddings, notices = vectors.read_vectors(path, watch=watch)
        corpus = Corpus(embeddings.ids, ("",) * len(embeddings), name=path.stem)
        return Dataset(corpus, Queries((), ()), vectors=embeddings, notices=notices + _lengths(embeddings))
    if suffix not in tables.SUFFIXES:
        raise DataError(f"{path.name}: cannot read {suffix or 'a file without a suffix'}; expected {_expected()}")
    corpus, notices = _corpus(path, path.stem, columns, table)
    if columns is not None and columns.title is not None and not any(corpus.titles):
        notices += (Notice(f"rows have nothing in the title column {columns.title!r}", len(corpus)),)
    return Dataset(corpus, Queries((), ()), notices=notices)


def _expected() -> str:
    return f"{' or '.join(map(repr, BUILT_IN))}, a folder with {_LAYOUT}, {tables.KINDS}, or .npy or .npz vectors"


def _folder(path: Path, qrels: str, table: Table, watch: Progress) -> Dataset:
    if not present(path / "corpus.jsonl"):
        raise DataError(f"{path} has no corpus.jsonl; expected a folder with {_LAYOUT}")
    # BEIR's columns are fixed; what else a line holds (its metadata may give answers away) is kept only where named.
    columns = Columns(id="_id", text="text", title="title")
    corpus, notices = _corpus(path / "corpus.jsonl", path.resolve().name, columns, table)
    queries, judged, more = _judged(path, qrels, corpus, table, watch)
    aspects, remarks = _aspects(path / "aspects.tsv", corpus, queries, watch)
    embeddings, last = _vectors_of(path, corpus, watch)
    return Dataset(corpus, queries, judged, aspects, embeddings, notices + more + remarks + last)


def _built_in(name: str, watch: Progress, progress: Progress | None, stop: Stop | None) -> Dataset:
    from engine.data import demo

    rows = demo.numpy_api_documents() if name == "numpy-api" else demo.python_api_documents(progress, stop)
    ids, titles, texts = zip(*rows, strict=True)
    corpus = Corpus(ids, texts, titles, name)
    if name != "numpy-api":
        return Dataset(corpus, Queries((), ()), notices=_texts(corpus))
    table = partial(read_documents, watch=watch)
    queries, judged, notices = _judged(demo.folder() / name, "qrels", corpus, table, watch, demo.canonical)
    return Dataset(corpus, queries, judged, notices=_texts(corpus) + notices)


def _judged(
    folder: Path,
    name: str,
    corpus: Corpus,
    table: Table,
    watch: Progress,
    canonical: Callable[[str], str] | None = None,
) -> tuple[Queries, UsableSplits, tuple[Notice, ...]]:
    """Queries and judgements by split; canonical: a function's document by any name, KeyError where there is none."""
    queries, notices = _queries(folder / "queries.jsonl", table)
    splits, more = _splits(folder, name, watch)
    notices += more
    usable, refused = {}, {}
    for split, grades in splits.items():
        file = f"{name}/{split}.tsv"
        if canonical is not None:
            grades, gone = _canonical(grades, canonical)
            notices += Notice.for_ids(f"functions judged in {file} are not in the installed NumPy and left out", gone)
        notices += _unknown(file, grades, corpus, queries)
        if why := _unusable(file, grades, corpus, queries):
            refused[split] = why
            notices += (Notice(f"judgements are left out: {why}", sum(map(len, grades.values()))),)
        else:
            usable[split] = Qrels({query: docs for (query,), docs in grades.items()})
    return queries, UsableSplits(usable, refused), notices


def _canonical(grades: Grades, canonical: Callable[[str], str]) -> tuple[Grades, list[str]]:
    """Judgements by document id: names of one function count once, those of no function are listed apart."""
    known: Grades = {}
    gone: dict[str, None] = {}
    for query, documents in grades.items():
        merged = known.setdefault(query, {})
        for name, grade in documents.items():
            try:
                doc = canonical(name)
            except KeyError:
                gone[name] = None
                continue
            merged[doc] = max(grade, merged.get(doc, grade))
    return {query: documents for query, documents in known.items() if documents}, list(gone)


def _corpus(
    path: Path | HeldFile, name: str, columns: Columns | None, table: Table
) -> tuple[Corpus, tuple[Notice, ...]]:
    documents = table(path, columns)
    if not documents.ids:
        raise DataError(f"{path.name} holds no documents; at least one is needed")
    corpus = Corpus(documents.ids, documents.texts, documents.titles, name, documents.metadata)
    return corpus, documents.notices + _texts(corpus)


def _texts(corpus: Corpus) -> tuple[Notice, ...]:
    """Remarks on documents without words, and on those with the words of an earlier one."""
    seen: set[bytes] = set()
    empty, copies = [], []
    # Made one by one and known by a digest: the passages of a large corpus would be its texts in memory once more.
    for doc, passage in zip(corpus.ids, PassageSource(corpus.titles, corpus.texts), strict=True):
        if not passage:
            empty.append(doc)
            continue
        known = blake2b(passage.encode("utf-8", "surrogatepass"), digest_size=16).digest()
        if known in seen:
            copies.append(doc)
        seen.add(known)
    copied = Notice.for_ids("documents are copies: an earlier one has the same title and text", copies)
    return Notice.for_ids("documents have neither title nor text", empty) + copied


def _queries(path: Path, table: Table) -> tuple[Queries, tuple[Notice, ...]]:
    if not present(path):
        return Queries((), ()), ()
    rows = table(path, Columns(id="_id", text="text"))
    queries = Queries(rows.ids, tuple(rows.texts), rows.metadata)
    empty = [query for query, text in zip(queries.ids, queries.texts, strict=True) if not text.strip()]
    return queries, rows.notices + Notice.for_ids("queries have no text", empty)


def _splits(folder: Path, name: str, watch: Progress) -> tuple[dict[str, Grades], tuple[Notice, ...]]:
    """The judgements of one folder by split; a data set without the usual folder has none."""
    folders = sorted({file.parent.name for file in folder.glob("*/*.tsv")})
    if name not in folders and name != "qrels":
        raise DataError(f"{folder} has no judgements {name!r}; it has {', '.join(folders) or 'none'}")
    own = folder / name
    # Not by a pattern, which finds nothing in a folder that cannot be read.
    files = sorted(file for file in own.iterdir() if file.suffix == ".tsv") if present(own) else []
    files.sort(key=lambda file: _SPLITS.index(file.stem) if file.stem in _SPLITS else len(_SPLITS))
    splits: dict[str, Grades] = {}
    notices: tuple[Notice, ...] = ()
    for file in files:
        splits[file.stem], remarks = _grades(file, ("query-id",), watch)
        notices += remarks
    return splits, notices


def _grades(path: Path, key: tuple[str, ...], watch: Progress) -> tuple[Grades, tuple[Notice, ...]]:
    """Judgements of a file with the columns `key`, corpus-id, score; or TREC's query, 0, document, grade.

    The header may be missing. Quotes are characters like any other.
    """
    grades: Grades = {}
    repeated: list[str] = []
    names: tuple[str, ...] = ()
    place = path.name if len(key) > 1 else f"{path.parent.name}/{path.name}"
    for number, line in lines(path, watch, longest=SHORT):
        line = line.removesuffix("\n").removesuffix("\r")
        if not line.strip():
            continue
        # Files in TREC's own format are separated by any number of spaces.
        fields = line.split("\t") if "\t" in line else [field for field in line.split(" ") if field]
        if not names:
            trec = len(key) == 1 and len(fields) == 4
            names = ("query", "0", "document", "grade") if trec else (*key, "corpus-id", "score")
            if fields[-1].strip().lower() in _GRADE_NAMES:
                continue
        if len(fields) != len(names):
            raise DataError(
                f"{place} line {number}: expected {len(names)} fields ({', '.join(names)}) separated by "
                f"tabs, found {len(fields)}"
            )
        score = _GRADE.fullmatch(fields[-1].strip())
        if score is None:
            raise DataError(f"{place} line {number}: the score must be a whole number; found {fields[-1]!r}")
        grade, doc = int(score[1]), fields[-2]
        documents = grades.setdefault(tuple(fields[: len(key)]), {})
        if doc in documents:
            pair = " ".join([*fields[: len(key)], doc])
            if documents[doc] != grade:
                raise DataError(
                    f"{place} line {number}: {pair!r} is judged {grade} here and {documents[doc]} before; "
                    "keep one of them"
                )
            repeated.append(pair)
        documents[doc] = grade
    return grades, Notice.for_ids(f"judgements in {place} are repeated", repeated)


def _aspects(
    path: Path, corpus: Corpus, queries: Queries, watch: Progress
) -> tuple[Mapping[str, Mapping[str, frozenset[str]]] | None, tuple[Notice, ...]]:
    if not present(path):
        return None, ()
    grades, notices = _grades(path, ("query-id", "aspect-id"), watch)
    aspects: dict[str, dict[str, frozenset[str]]] = {}
    for (query, aspect), documents in grades.items():
        if covering := frozenset(doc for doc, grade in documents.items() if grade > 0):
            aspects.setdefault(query, {})[aspect] = covering
    notices += _unknown(path.name, grades, corpus, queries)
    if why := _unusable(path.name, grades, corpus, queries):
        return None, (*notices, Notice(f"aspects are left out: {why}", len(grades)))
    return aspects, notices


def _lengths(embeddings: Embeddings) -> tuple[Notice, ...]:
    """A remark where rows are not of unit length, because λ then weighs products and not cosines."""
    odd = ((embeddings.vectors.norm(dim=1) - 1).abs() > 0.01).nonzero().flatten().tolist()
    what = "vectors are not of unit length: relevance is their inner product with the query, not the cosine"
    return Notice.for_ids(what, [embeddings.ids[i] for i in odd])


def _vectors_of(folder: Path, corpus: Corpus, watch: Progress) -> tuple[Embeddings | None, tuple[Notice, ...]]:
    """The vectors that stand in a data set's folder, in the order of its corpus."""
    path = next((file for suffix in vectors.SUFFIXES if present(file := folder / f"vectors{suffix}")), None)
    if path is None:
        return None, ()
    embeddings, without_ids = vectors.read_vectors(path, watch=watch)
    if not without_ids:
        return vectors.aligned(embeddings, corpus.ids, path), _lengths(embeddings)
    if len(embeddings) != len(corpus):
        raise DataError(
            f"{path.name} has {len(embeddings)} rows and no ids, the corpus {len(corpus)} documents; "
            f"put the ids of the rows into {path.stem}.ids.txt, one a line"
        )
    what = f"rows of {path.name} have no ids and are taken to stand in the order of the corpus"
    named = Embeddings(corpus.ids, embeddings.vectors).with_file(embeddings.file)
    return named, (Notice(what, len(embeddings)), *_lengths(embeddings))


def _unknown(file: str, grades: Grades, corpus: Corpus, queries: Queries) -> tuple[Notice, ...]:
    """Notices for documents and queries that a file judges and the data set does not have; they stay judged."""
    documents = dict.fromkeys(doc for judged in grades.values() for doc in judged if doc not in corpus.position)
    unknown = dict.fromkeys(key[0] for key in grades if key[0] not in queries.position)
    notices = Notice.for_ids(f"documents judged in {file} are not in the corpus", documents)
    return notices + Notice.for_ids(f"queries judged in {file} are not in queries.jsonl", unknown)


def _unusable(file: str, grades: Grades, corpus: Corpus, queries: Queries) -> str | None:
    """Why nothing can be measured over the judgements of a file, None where something can."""
    judged = {key: documents for key, documents in grades.items() if key[0] in queries.position}
    if not grades:
        return f"{file} judges nothing"
    if not judged:
        first = ", ".join(repr(query) for query, *_ in list(grades)[:3])
        return f"{file}: none of its queries (first: {first}) is in queries.jsonl; both must have the same ids"
    relevant = [doc for documents in judged.values() for doc, grade in documents.items() if grade > 0]
    lacking = [doc for doc in relevant if doc not in corpus.position]
    if len(lacking) <= MOST_LACKING * len(relevant):
        return None
    first = ", ".join(map(repr, list(dict.fromkeys(lacking))[:3]))
    return (
        f"{file}: {percent(len(lacking) / len(relevant))} of what it calls relevant ({len(lacking):,} of "
        f"{len(relevant):,}; first: {first}) is not in the corpus, whose ids are like {corpus.ids[0]!r}. Take the "
        "corpus that was judged, the column of its ids (--column id=NAME, columns=), or other judgements (--qrels, "
        "qrels=)"
    )
