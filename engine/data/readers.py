"""Loading of data sets: demos, BEIR folders, single tables and bare vectors, all as one `Dataset`."""

import os
import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence, Set
from dataclasses import replace
from functools import partial
from hashlib import blake2b
from pathlib import Path

from engine.data import tables, vectors
from engine.data.files import HeldFile, is_present, translate_read_errors
from engine.data.line_texts import LineTexts
from engine.data.tables import Columns, Documents, TableFile, parse_columns, read_documents
from engine.data.textfiles import MAX_SHORT_LINE_BYTES, STOPPED_MESSAGE, read_lines
from engine.errors import DataError
from engine.progress import Progress, Stop, with_cancellation
from engine.values import Corpus, Dataset, Embeddings, Notice, PassageSource, Qrels, Queries, UsableSplits
from engine.wording import percent

DEMO_NAMES = ("numpy-api", "python-api")
TableReader = Callable[[TableFile, Columns | None], Documents]
"""`read_documents` with its options bound: path and columns → documents."""
JudgementTable = dict[tuple[str, ...], dict[str, int]]
"""grades[(query,)][document], or grades[(query, aspect)][document]."""
MAX_MISSING_SHARE = 0.5
"""Largest share of the relevant documents of a judgement file, or of a run's documents, that the corpus may lack.

Recall counts each missing document as not retrieved, so beyond this share a figure would describe two files that hardly
belong together rather than a method."""

# Splits are listed in this order; those with other names follow alphabetically.
_SPLIT_ORDER = ("train", "dev", "test")
_GRADE_NAMES = ("score", "grade", "relevance", "rel", "label", "judgement", "judgment")
_GRADE_PATTERN = re.compile(r"([+-]?[0-9]{1,18})(\.0*)?")
_FOLDER_LAYOUT = (
    "corpus.jsonl (_id, text, perhaps title a line), perhaps queries.jsonl, qrels/*.tsv, aspects.tsv, vectors.npy"
)


@translate_read_errors("the data set")
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
    """Load a corpus with the queries, judgements, aspects and vectors that its source has.

    Anything odd but usable becomes a notice of the data set.

    Parameters
    ----------
    source : str, Path or HeldFile
        "numpy-api" or "python-api"; a folder in BEIR layout; a .csv, .tsv, .jsonl, .ndjson or .parquet table; a .npy or
        .npz file of vectors; or a table as a HeldFile.
    qrels : str, default "qrels"
        Name of the judgement folder inside a data set; or the path of a folder with queries.jsonl and qrels/*.tsv,
        whose queries and judgements replace those of the source.
    columns : Columns or mapping, optional
        Meaning of a table's columns, as {"text": name, "id": name, "title": name}; None guesses.
    metadata : sequence of str, optional
        Further columns of documents and queries to load.
    where : mapping of str to collection of str, optional
        Column → allowed values: load only documents that have one of the values in every column, and their judgements.
    separator : str, optional
        Column separator of a .csv file; None guesses.
    repeated : {"refuse", "first", "number"}, default "refuse"
        Treatment of rows whose id an earlier row has: raise an error, keep the first row alone, or number the others.
    progress : callable, optional
        Called repeatedly as progress(done, total, label).
    stop : Stop, optional
        Loading is cancelled once it is set.

    Returns
    -------
    Dataset
        The corpus with what belongs to it; its notices list what was odd.

    Raises
    ------
    DataError
        If the source cannot be read; the message names the file, the place and the fix.
    Cancelled
        If `stop` was set.

    Examples
    --------
    >>> import engine
    >>> dataset = engine.load_dataset("numpy-api")
    >>> "numpy.sort" in dataset.corpus.ids
    True
    """
    if not isinstance(source, (str, Path, HeldFile)):
        raise DataError(f"source must be the name of a demo or a path; got {source!r}")
    source_path = source.path if isinstance(source, HeldFile) else Path(os.path.expanduser(source))
    try:
        is_folder = source not in DEMO_NAMES and source_path.is_dir()
    except (OSError, ValueError) as path_error:
        raise DataError(f"no path is like {str(source)[:80]!r}: {path_error}") from None
    if columns is not None and (
        is_folder or source in DEMO_NAMES or source_path.suffix.lower() in vectors.VECTOR_SUFFIXES
    ):
        raise DataError(f"columns= is for tables; {source} has fixed ones")
    if qrels != "qrels" and not is_folder and _find_judged_folder(source_path, qrels) is None:
        raise DataError(
            f"qrels={qrels!r} must be a folder of judgements inside a data set, which {source} is not, or the path of "
            "one with queries.jsonl and qrels/*.tsv"
        )
    if separator is not None and source_path.suffix.lower() != ".csv":
        raise DataError(f"separator= is for .csv files; {source} is none")
    columns = parse_columns(columns) if isinstance(columns, Mapping) else columns
    report_progress = with_cancellation(progress, stop, STOPPED_MESSAGE)
    metadata = tuple(dict.fromkeys((*metadata, *(where or ()))))
    read_table = partial(read_documents, progress=report_progress, metadata=metadata, repeated_rule=repeated)
    if (judged_folder := _find_judged_folder(source_path, qrels)) is not None:
        unjudged = load_dataset(
            source, columns=columns, metadata=metadata, where=where, separator=separator, repeated=repeated,
            progress=progress, stop=stop,
        )  # fmt: skip
        queries, qrels_by_split, notices = _load_judged_queries(
            judged_folder, "qrels", corpus=unjudged.corpus, read_table=read_table, progress=report_progress
        )
        return replace(unjudged, queries=queries, qrels=qrels_by_split, notices=unjudged.notices + notices)
    if source in DEMO_NAMES:
        dataset = _load_demo(str(source), report_progress, progress, stop)
    elif is_folder:
        dataset = _load_folder(source_path, qrels, read_table, report_progress)
    else:
        table_file = source if isinstance(source, HeldFile) else source_path
        dataset = _load_file(table_file, columns, partial(read_table, separator=separator), report_progress)
    for column_name in metadata:
        if column_name not in dataset.corpus.metadata and column_name not in dataset.queries.metadata:
            raise DataError(f"neither documents nor queries have a column {column_name!r} (metadata=)")
    return _filter_documents(dataset, where) if where else dataset


def _find_judged_folder(source_path: Path, qrels: str) -> Path | None:
    """Return the folder that `qrels` names outside the source, None if there is none."""
    judged_folder = Path(os.path.expanduser(qrels))
    is_inside = not judged_folder.is_absolute() and (source_path / qrels).is_dir()
    return judged_folder if not is_inside and is_present(judged_folder / "queries.jsonl") else None


def _filter_documents(dataset: Dataset, allowed_values: Mapping[str, Collection[str]]) -> Dataset:
    """Select the documents that have an allowed value in every column, with their judgements and aspects."""
    corpus = dataset.corpus
    row_ids = list(range(len(corpus)))
    for column_name, column_values in allowed_values.items():
        if column_name not in corpus.metadata or isinstance(column_values, str):
            raise DataError(
                f"where= must be columns of the documents with lists of values; got {column_name!r}: {column_values!r}"
            )
        stored_values = corpus.metadata[column_name]
        row_ids = [row_id for row_id in row_ids if stored_values[row_id] in column_values]
        if not row_ids:
            common_values = ", ".join(repr(value) for value, _ in Counter(stored_values).most_common(5))
            raise DataError(
                f"where= leaves no document: {column_name!r} is {common_values} …, and {list(column_values)!r} was "
                "asked for"
            )
    ids, texts, titles = (_take_rows(values, row_ids) for values in (corpus.ids, corpus.texts, corpus.titles))
    metadata = {column_name: tuple(_take_rows(values, row_ids)) for column_name, values in corpus.metadata.items()}
    filtered_corpus = Corpus(tuple(ids), texts, titles, corpus.name, metadata)
    omitted_ids = corpus.position.keys() - filtered_corpus.position.keys()
    return Dataset(
        filtered_corpus,
        dataset.queries,
        _omit_judgements(dataset.qrels, omitted_ids),
        _omit_aspects(dataset.aspects, omitted_ids),
        dataset.vectors and dataset.vectors.take(row_ids),
        (
            *dataset.notices,
            *Notice.for_ids(f"documents were left out by {', '.join(allowed_values)}", sorted(omitted_ids)),
        ),
    )


def _take_rows(values: Sequence[str], row_ids: Sequence[int]) -> Sequence[str]:
    # Texts on the disk stay there; a tuple would read them all.
    return values.take(row_ids) if isinstance(values, LineTexts) else tuple(map(values.__getitem__, row_ids))


def _omit_judgements(qrels_by_split: Mapping[str, Qrels], omitted_ids: Collection[str]) -> UsableSplits:
    """Return the splits without judgements of some documents; a split without any other is listed as refused."""
    usable_splits: dict[str, Qrels] = {}
    refused_splits = dict(qrels_by_split.refusals) if isinstance(qrels_by_split, UsableSplits) else {}
    for split, qrels in qrels_by_split.items():
        judgements: dict[str, dict[str, int]] = {}
        for query_id, document_grades in qrels.grades.items():
            for doc_id, grade in document_grades.items():
                if doc_id not in omitted_ids:
                    judgements.setdefault(query_id, {})[doc_id] = grade
        if judgements:
            usable_splits[split] = Qrels(judgements)
        else:
            refused_splits[split] = f"where= leaves no judgement of split {split!r}"
    return UsableSplits(usable_splits, refused_splits)


def _omit_aspects(
    aspects: Mapping[str, Mapping[str, frozenset[str]]] | None, omitted_ids: Set[str]
) -> Mapping[str, Mapping[str, frozenset[str]]] | None:
    """Return the aspects without some documents; those that no other document covers are dropped."""
    if aspects is None:
        return None
    remaining_aspects: dict[str, dict[str, frozenset[str]]] = {}
    for query_id, documents_by_aspect in aspects.items():
        for aspect, doc_ids in documents_by_aspect.items():
            if covering_ids := doc_ids - omitted_ids:
                remaining_aspects.setdefault(query_id, {})[aspect] = covering_ids
    return remaining_aspects


def _load_file(source_path: TableFile, columns: Columns | None, read_table: TableReader, progress: Progress) -> Dataset:
    """Load a table, or vectors alone, as a data set without queries."""
    file_suffix = source_path.suffix.lower()
    if isinstance(source_path, Path) and not source_path.exists():
        raise DataError(f"{source_path} does not exist; expected {_describe_sources()}")
    if isinstance(source_path, Path) and file_suffix in vectors.VECTOR_SUFFIXES:
        embeddings, notices = vectors.read_vectors(source_path, progress=progress)
        corpus = Corpus(embeddings.ids, ("",) * len(embeddings), name=source_path.stem)
        return Dataset(corpus, Queries((), ()), vectors=embeddings, notices=notices + _check_lengths(embeddings))
    if file_suffix not in tables.TABLE_SUFFIXES:
        refused_kind = file_suffix or "a file without a suffix"
        raise DataError(f"{source_path.name}: cannot read {refused_kind}; expected {_describe_sources()}")
    corpus, notices = _load_corpus(source_path, source_path.stem, columns, read_table)
    if columns is not None and columns.title is not None and not any(corpus.titles):
        notices += (Notice(f"rows have nothing in the title column {columns.title!r}", len(corpus)),)
    return Dataset(corpus, Queries((), ()), notices=notices)


def _describe_sources() -> str:
    demo_names = " or ".join(map(repr, DEMO_NAMES))
    return f"{demo_names}, a folder with {_FOLDER_LAYOUT}, {tables.TABLE_KINDS}, or .npy or .npz vectors"


def _load_folder(folder_path: Path, qrels: str, read_table: TableReader, progress: Progress) -> Dataset:
    """Load a folder in BEIR layout."""
    if not is_present(folder_path / "corpus.jsonl"):
        raise DataError(f"{folder_path} has no corpus.jsonl; expected a folder with {_FOLDER_LAYOUT}")
    # BEIR's columns are fixed. Other fields are loaded only if requested: a line's metadata may give answers away.
    columns = Columns(id="_id", text="text", title="title")
    corpus, notices = _load_corpus(folder_path / "corpus.jsonl", folder_path.resolve().name, columns, read_table)
    queries, judged_splits, query_notices = _load_judged_queries(
        folder_path, qrels, corpus=corpus, read_table=read_table, progress=progress
    )
    aspects, aspect_notices = _load_aspects(folder_path / "aspects.tsv", corpus, queries, progress)
    embeddings, vector_notices = _load_folder_vectors(folder_path, corpus, progress)
    notices = notices + query_notices + aspect_notices + vector_notices
    return Dataset(corpus, queries, judged_splits, aspects, embeddings, notices)


def _load_demo(demo_name: str, report_progress: Progress, progress: Progress | None, stop: Stop | None) -> Dataset:
    """Load a built-in corpus; only "numpy-api" has queries and judgements."""
    from engine.data import demo

    is_judged = demo_name == "numpy-api"
    demo_documents = demo.numpy_api_documents() if is_judged else demo.python_api_documents(progress, stop)
    ids, titles, texts = zip(*demo_documents, strict=True)
    corpus = Corpus(ids, texts, titles, demo_name)
    if not is_judged:
        return Dataset(corpus, Queries((), ()), notices=_check_texts(corpus))
    queries, judged_splits, notices = _load_judged_queries(
        demo.demo_folder() / demo_name,
        "qrels",
        corpus=corpus,
        read_table=partial(read_documents, progress=report_progress),
        progress=report_progress,
        canonical_id=demo.find_canonical_id,
    )
    return Dataset(corpus, queries, judged_splits, notices=_check_texts(corpus) + notices)


def _load_judged_queries(
    folder_path: Path,
    qrels_name: str,
    corpus: Corpus,
    read_table: TableReader,
    progress: Progress,
    canonical_id: Callable[[str], str] | None = None,
) -> tuple[Queries, UsableSplits, tuple[Notice, ...]]:
    """Load queries and their judgements by split.

    canonical_id: the id of a function's document by any of its names; KeyError for an unknown name.
    """
    queries, notices = _load_queries(folder_path / "queries.jsonl", read_table)
    graded_splits, split_notices = _load_splits(folder_path, qrels_name, progress)
    notices += split_notices
    usable_splits: dict[str, Qrels] = {}
    refused_splits: dict[str, str] = {}
    for split, judgements in graded_splits.items():
        qrels_file = f"{qrels_name}/{split}.tsv"
        if canonical_id is not None:
            judgements, unknown_names = _merge_canonical_names(judgements, canonical_id)
            remark = f"functions judged in {qrels_file} are not in the installed NumPy and left out"
            notices += Notice.for_ids(remark, unknown_names)
        notices += _check_ids(qrels_file, judgements, corpus, queries)
        if unusable_reason := _explain_unusable(qrels_file, judgements, corpus, queries):
            refused_splits[split] = unusable_reason
            notices += (Notice(f"judgements are left out: {unusable_reason}", sum(map(len, judgements.values()))),)
        else:
            queries_of_keys = (query_id for (query_id,) in judgements)
            usable_splits[split] = Qrels(dict(zip(queries_of_keys, judgements.values(), strict=True)))
    return queries, UsableSplits(usable_splits, refused_splits), notices


def _merge_canonical_names(
    judgements: JudgementTable, canonical_id: Callable[[str], str]
) -> tuple[JudgementTable, list[str]]:
    """Return judgements by document id, and the names of unknown functions.

    Several names of one function count once, with their largest grade.
    """
    merged_judgements: JudgementTable = {}
    unknown_names: dict[str, None] = {}
    for query_key, document_grades in judgements.items():
        merged_grades = merged_judgements.setdefault(query_key, {})
        for function_name, grade in document_grades.items():
            try:
                doc_id = canonical_id(function_name)
            except KeyError:
                unknown_names[function_name] = None
                continue
            merged_grades[doc_id] = max(grade, merged_grades.get(doc_id, grade))
    judged_only = {query_key: merged_grades for query_key, merged_grades in merged_judgements.items() if merged_grades}
    return judged_only, list(unknown_names)


def _load_corpus(
    corpus_path: Path | HeldFile, corpus_name: str, columns: Columns | None, read_table: TableReader
) -> tuple[Corpus, tuple[Notice, ...]]:
    table_documents = read_table(corpus_path, columns)
    if not table_documents.ids:
        raise DataError(f"{corpus_path.name} holds no documents; at least one is needed")
    ids, texts, titles, _, metadata = table_documents
    corpus = Corpus(ids, texts, titles, corpus_name, metadata)
    return corpus, table_documents.notices + _check_texts(corpus)


def _check_texts(corpus: Corpus) -> tuple[Notice, ...]:
    """Return notices for documents without words and for copies of earlier documents."""
    seen_digests: set[bytes] = set()
    empty_ids, copied_ids = [], []
    # One passage at a time, compared by digest: a set of passages would hold a large corpus in memory twice.
    for doc_id, passage in zip(corpus.ids, PassageSource(corpus.titles, corpus.texts), strict=True):
        if not passage:
            empty_ids.append(doc_id)
            continue
        text_digest = blake2b(passage.encode("utf-8", "surrogatepass"), digest_size=16).digest()
        if text_digest in seen_digests:
            copied_ids.append(doc_id)
        seen_digests.add(text_digest)
    copy_notices = Notice.for_ids("documents are copies: an earlier one has the same title and text", copied_ids)
    return Notice.for_ids("documents have neither title nor text", empty_ids) + copy_notices


def _load_queries(queries_path: Path, read_table: TableReader) -> tuple[Queries, tuple[Notice, ...]]:
    if not is_present(queries_path):
        return Queries((), ()), ()
    query_table = read_table(queries_path, Columns(id="_id", text="text"))
    queries = Queries(query_table.ids, tuple(query_table.texts), query_table.metadata)
    empty_ids = [queries.ids[row] for row, query_text in enumerate(queries.texts) if not query_text.strip()]
    return queries, query_table.notices + Notice.for_ids("queries have no text", empty_ids)


def _load_splits(
    folder_path: Path, qrels_name: str, progress: Progress
) -> tuple[dict[str, JudgementTable], tuple[Notice, ...]]:
    """Read the judgements of a folder by split; a data set without the default folder has none."""
    qrels_names = sorted({split_path.parent.name for split_path in folder_path.glob("*/*.tsv")})
    if qrels_name not in qrels_names and qrels_name != "qrels":
        raise DataError(f"{folder_path} has no judgements {qrels_name!r}; it has {', '.join(qrels_names) or 'none'}")
    qrels_folder = folder_path / qrels_name
    # Listed, not matched by a pattern: a glob silently returns nothing for a folder that cannot be read.
    split_paths = (
        sorted(split_path for split_path in qrels_folder.iterdir() if split_path.suffix == ".tsv")
        if is_present(qrels_folder)
        else []
    )
    split_paths.sort(
        key=lambda split_path: (
            _SPLIT_ORDER.index(split_path.stem) if split_path.stem in _SPLIT_ORDER else len(_SPLIT_ORDER)
        )
    )
    graded_splits: dict[str, JudgementTable] = {}
    notices: tuple[Notice, ...] = ()
    for split_path in split_paths:
        graded_splits[split_path.stem], repeat_notices = _read_judgements(split_path, ("query-id",), progress)
        notices += repeat_notices
    return graded_splits, notices


def _read_judgements(
    file_path: Path, key_columns: tuple[str, ...], progress: Progress
) -> tuple[JudgementTable, tuple[Notice, ...]]:
    """Read judgements by `key_columns`, corpus-id and score; or TREC's query, 0, document, grade.

    The header may be missing. Quotes are ordinary characters.
    """
    judgements: JudgementTable = {}
    repeated_pairs: list[str] = []
    column_names: tuple[str, ...] = ()
    file_label = file_path.name if len(key_columns) > 1 else f"{file_path.parent.name}/{file_path.name}"
    for line_number, line_text in read_lines(file_path, progress, max_bytes=MAX_SHORT_LINE_BYTES):
        line_text = line_text.removesuffix("\n").removesuffix("\r")
        if not line_text.strip():
            continue
        # Files in TREC's own format are separated by any number of spaces.
        fields = (
            line_text.split("\t")
            if "\t" in line_text
            else [line_field for line_field in line_text.split(" ") if line_field]
        )
        if not column_names:
            is_trec = len(key_columns) == 1 and len(fields) == 4
            column_names = ("query", "0", "document", "grade") if is_trec else (*key_columns, "corpus-id", "score")
            if fields[-1].strip().lower() in _GRADE_NAMES:
                continue
        if len(fields) != len(column_names):
            raise DataError(
                f"{file_label} line {line_number}: expected {len(column_names)} fields ({', '.join(column_names)}) "
                f"separated by tabs, found {len(fields)}"
            )
        grade_match = _GRADE_PATTERN.fullmatch(fields[-1].strip())
        if grade_match is None:
            raise DataError(f"{file_label} line {line_number}: the score must be a whole number; found {fields[-1]!r}")
        grade, doc_id = int(grade_match[1]), fields[-2]
        document_grades = judgements.setdefault(tuple(fields[: len(key_columns)]), {})
        if doc_id in document_grades:
            repeated_pair = " ".join([*fields[: len(key_columns)], doc_id])
            if document_grades[doc_id] != grade:
                raise DataError(
                    f"{file_label} line {line_number}: {repeated_pair!r} is judged {grade} here and "
                    f"{document_grades[doc_id]} before; keep one of them"
                )
            repeated_pairs.append(repeated_pair)
        document_grades[doc_id] = grade
    return judgements, Notice.for_ids(f"judgements in {file_label} are repeated", repeated_pairs)


def _load_aspects(
    aspects_path: Path, corpus: Corpus, queries: Queries, progress: Progress
) -> tuple[Mapping[str, Mapping[str, frozenset[str]]] | None, tuple[Notice, ...]]:
    """Load the documents that cover each aspect of a query, None if the file is absent or unusable."""
    if not is_present(aspects_path):
        return None, ()
    judgements, notices = _read_judgements(aspects_path, ("query-id", "aspect-id"), progress)
    aspects: dict[str, dict[str, frozenset[str]]] = {}
    for (query_id, aspect), document_grades in judgements.items():
        if covering_ids := frozenset(doc_id for doc_id, grade in document_grades.items() if grade > 0):
            aspects.setdefault(query_id, {})[aspect] = covering_ids
    notices += _check_ids(aspects_path.name, judgements, corpus, queries)
    if unusable_reason := _explain_unusable(aspects_path.name, judgements, corpus, queries):
        return None, (*notices, Notice(f"aspects are left out: {unusable_reason}", len(judgements)))
    return aspects, notices


def _check_lengths(embeddings: Embeddings) -> tuple[Notice, ...]:
    """Return a notice if rows are not of unit length: λ then weighs inner products, not cosines."""
    unscaled_rows = ((embeddings.vectors.norm(dim=1) - 1).abs() > 0.01).nonzero().flatten().tolist()
    length_remark = "vectors are not of unit length: relevance is their inner product with the query, not the cosine"
    return Notice.for_ids(length_remark, [embeddings.ids[row_index] for row_index in unscaled_rows])


def _load_folder_vectors(
    folder_path: Path, corpus: Corpus, progress: Progress
) -> tuple[Embeddings | None, tuple[Notice, ...]]:
    """Load the vectors in a data set's folder, in the order of its corpus."""
    vectors_path = next(
        (
            vectors_file
            for suffix in vectors.VECTOR_SUFFIXES
            if is_present(vectors_file := folder_path / f"vectors{suffix}")
        ),
        None,
    )
    if vectors_path is None:
        return None, ()
    embeddings, without_ids = vectors.read_vectors(vectors_path, progress=progress)
    if not without_ids:
        return vectors.align_vectors(embeddings, corpus.ids, vectors_path), _check_lengths(embeddings)
    if len(embeddings) != len(corpus):
        raise DataError(
            f"{vectors_path.name} has {len(embeddings)} rows and no ids, the corpus {len(corpus)} documents; "
            f"put the ids of the rows into {vectors_path.stem}.ids.txt, one a line"
        )
    order_remark = f"rows of {vectors_path.name} have no ids and are taken to stand in the order of the corpus"
    ordered_vectors = Embeddings(corpus.ids, embeddings.vectors).with_file(embeddings.file)
    return ordered_vectors, (Notice(order_remark, len(embeddings)), *_check_lengths(embeddings))


def _check_ids(file_label: str, judgements: JudgementTable, corpus: Corpus, queries: Queries) -> tuple[Notice, ...]:
    """Return notices for judged documents and queries that the data set lacks; they stay judged."""
    unknown_documents = dict.fromkeys(
        doc_id for document_grades in judgements.values() for doc_id in document_grades if doc_id not in corpus.position
    )
    unknown_queries = dict.fromkeys(
        judgement_key[0] for judgement_key in judgements if judgement_key[0] not in queries.position
    )
    notices = Notice.for_ids(f"documents judged in {file_label} are not in the corpus", unknown_documents)
    return notices + Notice.for_ids(f"queries judged in {file_label} are not in queries.jsonl", unknown_queries)


def _explain_unusable(file_label: str, judgements: JudgementTable, corpus: Corpus, queries: Queries) -> str | None:
    """Return the reason why nothing can be measured over a judgement file, None if something can."""
    judged_queries = {
        judgement_key: document_grades
        for judgement_key, document_grades in judgements.items()
        if judgement_key[0] in queries.position
    }
    if not judgements:
        return f"{file_label} judges nothing"
    if not judged_queries:
        first_ids = ", ".join(repr(query_id) for query_id, *_aspect_id in list(judgements)[:3])
        return (
            f"{file_label}: none of its queries (first: {first_ids}) is in queries.jsonl; both must have the same ids"
        )
    relevant_ids = [
        doc_id for document_grades in judged_queries.values() for doc_id, grade in document_grades.items() if grade > 0
    ]
    missing_ids = [doc_id for doc_id in relevant_ids if doc_id not in corpus.position]
    if len(missing_ids) <= MAX_MISSING_SHARE * len(relevant_ids):
        return None
    first_ids = ", ".join(map(repr, list(dict.fromkeys(missing_ids))[:3]))
    # Files that hardly match would give figures that describe the mismatch.
    return (
        f"{file_label}: {percent(len(missing_ids) / len(relevant_ids))} of what it calls relevant "
        f"({len(missing_ids):,} of {len(relevant_ids):,}; first: {first_ids}) is not in the corpus, whose ids are like "
        f"{corpus.ids[0]!r}. Take the corpus that was judged, the column of its ids (--column id=NAME, columns=), or "
        "other judgements (--qrels, qrels=)"
    )
