"""Loading of data sets: demos, BEIR folders, single tables and bare vectors, all as one `Dataset`."""

import os
import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence, Set
from dataclasses import replace
from functools import partial
from hashlib import blake2b
from itertools import chain, filterfalse
from operator import itemgetter
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
Notices = tuple[Notice, ...]
JudgementTable = dict[tuple[str, ...], dict[str, int]]
"""grades[(query,)][document], or grades[(query, aspect)][document]."""
MAX_MISSING_SHARE = 0.5
"""Largest share of the relevant documents of a judgement file, or of a run's documents, that the corpus may lack.

Recall counts each missing document as not retrieved, so beyond this share a figure would describe two files that hardly
belong together rather than a method."""

# Splits are listed in this order; those with other names follow alphabetically.
_SPLIT_RANKS = {"train": 0, "dev": 1, "test": 2}
_GRADE_NAMES = ("score", "grade", "relevance", "rel", "label", "judgement", "judgment")
_GRADE_PATTERN = re.compile(r"([+-]?[0-9]{1,18})(\.0*)?")
_LAYOUT = "corpus.jsonl (_id, text, perhaps title a line), perhaps queries.jsonl, qrels/*.tsv, aspects.tsv, vectors.npy"


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
    is_demo, file_suffix = source in DEMO_NAMES, source_path.suffix.lower()
    try:
        is_folder = not is_demo and source_path.is_dir()
    except (OSError, ValueError) as path_error:
        raise DataError(f"no path is like {str(source)[:80]!r}: {path_error}") from None
    if columns is not None and (is_folder or is_demo or file_suffix in vectors.VECTOR_SUFFIXES):
        raise DataError(f"columns= is for tables; {source} has fixed ones")
    if qrels != "qrels" and not is_folder and _find_judged_folder(source_path, qrels) is None:
        raise DataError(
            f"qrels={qrels!r} must be a folder of judgements inside a data set, which {source} is not, or the path of "
            "one with queries.jsonl and qrels/*.tsv"
        )
    if separator is not None and file_suffix != ".csv":
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
        return _add_judged_queries(unjudged, judged_folder, "qrels", read_table, report_progress)
    if is_demo:
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
    """Return the folder outside a data set that `qrels` names; None if there is no such folder.

    `qrels` may also be the name of a folder inside the data set, source_path. A folder outside counts only if it has a
    queries.jsonl of its own.
    """
    judged_folder = Path(os.path.expanduser(qrels))
    is_inside = not judged_folder.is_absolute() and (source_path / qrels).is_dir()
    return judged_folder if not is_inside and is_present(judged_folder / "queries.jsonl") else None


def _filter_documents(dataset: Dataset, allowed_values: Mapping[str, Collection[str]]) -> Dataset:
    """Select the documents that have an allowed value in every column, with their judgements and aspects.

    allowed_values: column to its allowed values. Raises DataError for an unknown column, or if no document remains.
    """
    corpus = dataset.corpus
    row_ids = list(range(len(corpus)))
    for column, values in allowed_values.items():
        if column not in corpus.metadata or isinstance(values, str):
            raise DataError(f"where= must be columns of the documents with lists of values; got {column!r}: {values!r}")
        stored_values = corpus.metadata[column]
        row_ids = [row_id for row_id in row_ids if stored_values[row_id] in values]
        if not row_ids:
            common = ", ".join(repr(value) for value, _ in Counter(stored_values).most_common(5))
            raise DataError(f"where= leaves no document: {column!r} is {common} …, and {list(values)!r} was asked for")
    ids, texts, titles = (_take_rows(values, row_ids) for values in (corpus.ids, corpus.texts, corpus.titles))
    metadata = {column_name: tuple(_take_rows(values, row_ids)) for column_name, values in corpus.metadata.items()}
    filtered_corpus = Corpus(tuple(ids), texts, titles, corpus.name, metadata)
    omitted_ids = corpus.position.keys() - filtered_corpus.position.keys()
    notices = Notice.for_ids(f"documents were left out by {', '.join(allowed_values)}", sorted(omitted_ids))
    return Dataset(
        filtered_corpus,
        dataset.queries,
        qrels=_omit_judgements(dataset.qrels, omitted_ids),
        aspects=_omit_aspects(dataset.aspects, omitted_ids),
        vectors=dataset.vectors and dataset.vectors.take(row_ids),
        notices=dataset.notices + notices,
    )


def _take_rows(values: Sequence[str], row_ids: Sequence[int]) -> Sequence[str]:
    """Select rows of a sequence of texts."""
    # Texts on the disk stay there; a tuple would read them all.
    return values.take(row_ids) if isinstance(values, LineTexts) else tuple(map(values.__getitem__, row_ids))


def _omit_judgements(qrels_by_split: Mapping[str, Qrels], omitted_ids: Collection[str]) -> UsableSplits:
    """Return the judgements by split, without those of some documents.

    A split that has no others is listed as refused: `UsableSplits` holds the reason beside the splits that remain.
    """
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
    """Return the aspects of each query, without some documents.

    An aspect, one of the meanings of a query, maps to the documents that cover it; one that no remaining document
    covers is dropped.
    """
    if aspects is None:
        return None
    remaining_aspects: dict[str, dict[str, frozenset[str]]] = {}
    for query_id, documents_by_aspect in aspects.items():
        for aspect, doc_ids in documents_by_aspect.items():
            if covering_ids := doc_ids - omitted_ids:
                remaining_aspects.setdefault(query_id, {})[aspect] = covering_ids
    return remaining_aspects


def _load_file(source: TableFile, columns: Columns | None, read_table: TableReader, progress: Progress) -> Dataset:
    """Load a table, or vectors alone, as a data set without queries.

    columns: of the table, None to guess them; read_table: `read_documents` with its options bound.
    """
    suffix = source.suffix.lower()
    if isinstance(source, Path) and not source.exists():
        raise DataError(f"{source} does not exist; expected {_describe_sources()}")
    if isinstance(source, Path) and suffix in vectors.VECTOR_SUFFIXES:
        embeddings, notices = vectors.read_vectors(source, progress=progress)
        corpus = Corpus(embeddings.ids, ("",) * len(embeddings), name=source.stem)
        return Dataset(corpus, Queries((), ()), vectors=embeddings, notices=notices + _check_lengths(embeddings))
    if suffix not in tables.TABLE_SUFFIXES:
        raise DataError(
            f"{source.name}: cannot read {suffix or 'a file without a suffix'}; expected {_describe_sources()}"
        )
    dataset = _load_corpus(source, source.stem, columns, read_table)
    if columns is None or columns.title is None or any(dataset.corpus.titles):
        return dataset
    # A title column that the caller named, but that is empty throughout, is most likely a mistake.
    title_notice = Notice(f"rows have nothing in the title column {columns.title!r}", len(dataset.corpus))
    return replace(dataset, notices=(*dataset.notices, title_notice))


def _describe_sources() -> str:
    """List what can be loaded, for an error message."""
    demo_names = " or ".join(map(repr, DEMO_NAMES))
    return f"{demo_names}, a folder with {_LAYOUT}, {tables.TABLE_KINDS}, or .npy or .npz vectors"


def _load_folder(folder_path: Path, qrels: str, read_table: TableReader, progress: Progress) -> Dataset:
    """Load a folder in BEIR layout, with all that belongs to its corpus.

    That is corpus.jsonl, and if they exist queries.jsonl, judgements, aspects.tsv and vectors. qrels: name of its
    judgement folder; read_table: `read_documents` with its options bound.
    """
    if not is_present(folder_path / "corpus.jsonl"):
        raise DataError(f"{folder_path} has no corpus.jsonl; expected a folder with {_LAYOUT}")
    # BEIR's columns are fixed. Other fields are loaded only if requested: a line's metadata may give answers away.
    columns = Columns(id="_id", text="text", title="title")
    dataset = _load_corpus(folder_path / "corpus.jsonl", folder_path.resolve().name, columns, read_table)
    dataset = _add_judged_queries(dataset, folder_path, qrels, read_table, progress)
    dataset = _add_aspects(dataset, folder_path / "aspects.tsv", progress)
    return _add_vectors(dataset, folder_path, progress)


def _load_demo(demo_name: str, report_progress: Progress, progress: Progress | None, stop: Stop | None) -> Dataset:
    """Load a built-in corpus; only "numpy-api" has queries and judgements.

    report_progress: listener that also checks `stop`; progress, stop: as the caller gave them.
    """
    from engine.data import demo

    is_judged = demo_name == "numpy-api"
    demo_documents = demo.numpy_api_documents() if is_judged else demo.python_api_documents(progress, stop)
    ids, titles, texts = zip(*demo_documents, strict=True)
    corpus = Corpus(ids, texts, titles, demo_name)
    dataset = Dataset(corpus, Queries((), ()), notices=_check_texts(corpus))
    if not is_judged:
        return dataset
    demo_folder, read_table = demo.demo_folder() / demo_name, partial(read_documents, progress=report_progress)
    return _add_judged_queries(dataset, demo_folder, "qrels", read_table, report_progress, demo.find_canonical_id)


def _add_judged_queries(
    dataset: Dataset,
    folder_path: Path,
    qrels_name: str,
    read_table: TableReader,
    progress: Progress,
    canonical_id: Callable[[str], str] | None = None,
) -> Dataset:
    """Return a data set with the queries of a folder, and with their judgements by split.

    canonical_id: function from any name of a documented function to its document's id, KeyError for an unknown name;
    None if documents are judged by their ids.
    """
    queries, query_notices = _load_queries(folder_path / "queries.jsonl", read_table)
    graded_splits, split_notices = _load_splits(folder_path, qrels_name, progress)
    dataset, notices = replace(dataset, queries=queries), dataset.notices + query_notices + split_notices
    usable_splits: dict[str, Qrels] = {}
    refused_splits: dict[str, str] = {}
    for split, judgements in graded_splits.items():
        qrels_file = f"{qrels_name}/{split}.tsv"
        if canonical_id is not None:
            judgements, unknown_names = _merge_names(judgements, canonical_id)
            remark = f"functions judged in {qrels_file} are not in the installed NumPy and left out"
            notices += Notice.for_ids(remark, unknown_names)
        notices += _check_ids(qrels_file, judgements, dataset)
        if unusable_reason := _explain_unusable(qrels_file, judgements, dataset):
            refused_splits[split] = unusable_reason
            notices += (Notice(f"judgements are left out: {unusable_reason}", sum(map(len, judgements.values()))),)
        else:
            # Without aspects a key is the id of its query alone.
            usable_splits[split] = Qrels(dict(zip(chain.from_iterable(judgements), judgements.values(), strict=True)))
    return replace(dataset, qrels=UsableSplits(usable_splits, refused_splits), notices=notices)


def _merge_names(judgements: JudgementTable, canonical_id: Callable[[str], str]) -> tuple[JudgementTable, list[str]]:
    """Replace names of functions by document ids in judgements; return them, and the unknown names.

    Several names of one function count once, with their largest grade.
    """
    merged_judgements: JudgementTable = {}
    unknown_names: dict[str, None] = {}
    for query_key, document_grades in judgements.items():
        for function_name, grade in document_grades.items():
            try:
                doc_id = canonical_id(function_name)
            except KeyError:
                unknown_names[function_name] = None
                continue
            merged_grades = merged_judgements.setdefault(query_key, {})
            merged_grades[doc_id] = max(grade, merged_grades.get(doc_id, grade))
    return merged_judgements, list(unknown_names)


def _load_corpus(table_file: TableFile, corpus_name: str, columns: Columns | None, read_table: TableReader) -> Dataset:
    """Load the documents of a table as a data set without queries.

    columns: roles of its columns, None to guess them; read_table: `read_documents` with its options bound. Raises
    DataError for a table without documents.
    """
    ids, texts, titles, notices, metadata = read_table(table_file, columns)
    if not ids:
        raise DataError(f"{table_file.name} holds no documents; at least one is needed")
    corpus = Corpus(ids, texts, titles, corpus_name, metadata)
    return Dataset(corpus, Queries((), ()), notices=notices + _check_texts(corpus))


def _check_texts(corpus: Corpus) -> Notices:
    """Return notices of documents without text, and of copies of earlier documents."""
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


def _load_queries(queries_path: Path, read_table: TableReader) -> tuple[Queries, Notices]:
    """Load the queries of a queries.jsonl, with notices of odd ones; none if there is no file.

    read_table: `read_documents` with its options bound.
    """
    if not is_present(queries_path):
        return Queries((), ()), ()
    query_table = read_table(queries_path, Columns(id="_id", text="text"))
    queries = Queries(query_table.ids, tuple(query_table.texts), query_table.metadata)
    empty_ids = [queries.ids[row] for row, query_text in enumerate(queries.texts) if not query_text.strip()]
    return queries, query_table.notices + Notice.for_ids("queries have no text", empty_ids)


def _load_splits(folder_path: Path, qrels_name: str, progress: Progress) -> tuple[dict[str, JudgementTable], Notices]:
    """Read the judgements of a folder, by split, with notices of repeated ones.

    qrels_name: the subfolder that holds a file for each split. If it is missing there are no judgements, or a DataError
    if it is not the default one.
    """
    qrels_names = sorted({split_path.parent.name for split_path in folder_path.glob("*/*.tsv")})
    if qrels_name not in qrels_names and qrels_name != "qrels":
        raise DataError(f"{folder_path} has no judgements {qrels_name!r}; it has {', '.join(qrels_names) or 'none'}")
    graded_splits: dict[str, JudgementTable] = {}
    notices: Notices = ()
    qrels_folder = folder_path / qrels_name
    if not is_present(qrels_folder):
        return graded_splits, notices
    # Listed, not matched by a pattern: a glob silently returns nothing for a folder that cannot be read.
    split_paths = [split_path for split_path in qrels_folder.iterdir() if split_path.suffix == ".tsv"]
    for split_path in sorted(split_paths, key=lambda path: (_SPLIT_RANKS.get(path.stem, len(_SPLIT_RANKS)), path)):
        graded_splits[split_path.stem], repeat_notices = _read_judgements(split_path, ("query-id",), progress)
        notices += repeat_notices
    return graded_splits, notices


def _read_judgements(path: Path, key_columns: tuple[str, ...], progress: Progress) -> tuple[JudgementTable, Notices]:
    """Read a file of judgements: fields `key_columns`, corpus-id and score; return them with notices.

    With one key column, TREC's own format of four fields, query, 0, document and grade, is recognised too. The header
    may be missing. Quotes are ordinary characters.
    """
    judgements: JudgementTable = {}
    repeated_pairs: list[str] = []
    column_names: tuple[str, ...] = ()
    file_label = path.name if len(key_columns) > 1 else f"{path.parent.name}/{path.name}"
    for line_number, line_text in read_lines(path, progress, max_bytes=MAX_SHORT_LINE_BYTES):
        line_text = line_text.removesuffix("\n").removesuffix("\r")
        if not line_text.strip():
            continue
        # Files in TREC's own format are separated by any number of spaces.
        # Tabs separate the fields of BEIR's format, which may hold spaces.
        fields = line_text.split("\t") if "\t" in line_text else list(filter(None, line_text.split(" ")))
        if not column_names:
            is_trec = len(key_columns) == 1 and len(fields) == 4
            column_names = ("query", "0", "document", "grade") if is_trec else (*key_columns, "corpus-id", "score")
            # A first line whose last field is the name of a grade is a header, which a file need not have.
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
        # In both formats the document is the last field but one.
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


def _add_aspects(dataset: Dataset, aspects_path: Path, progress: Progress) -> Dataset:
    """Give a data set the documents that cover each aspect of a query.

    Aspects are the meanings of a query, or the parts of its answer. If the file is absent there are none; if it is
    unusable a notice says so.
    """
    if not is_present(aspects_path):
        return dataset
    judgements, repeat_notices = _read_judgements(aspects_path, ("query-id", "aspect-id"), progress)
    notices = dataset.notices + repeat_notices + _check_ids(aspects_path.name, judgements, dataset)
    if unusable_reason := _explain_unusable(aspects_path.name, judgements, dataset):
        omission_notice = Notice(f"aspects are left out: {unusable_reason}", len(judgements))
        return replace(dataset, notices=(*notices, omission_notice))
    aspects: dict[str, dict[str, frozenset[str]]] = {}
    for (query_id, aspect), document_grades in judgements.items():
        if covering_ids := frozenset(doc_id for doc_id, grade in document_grades.items() if grade > 0):
            aspects.setdefault(query_id, {})[aspect] = covering_ids
    return replace(dataset, aspects=aspects, notices=notices)


def _check_lengths(embeddings: Embeddings) -> Notices:
    """Return a notice of rows that are not of unit length.

    For them relevance is an inner product and not a cosine, which changes the meaning of its weight.
    """
    unscaled_rows = ((embeddings.vectors.norm(dim=1) - 1).abs() > 0.01).nonzero().flatten().tolist()
    length_remark = "vectors are not of unit length: relevance is their inner product with the query, not the cosine"
    return Notice.for_ids(length_remark, map(embeddings.ids.__getitem__, unscaled_rows))


def _add_vectors(dataset: Dataset, folder_path: Path, progress: Progress) -> Dataset:
    """Give a data set the vectors in its folder, in the order of its corpus, if there are any.

    Raises DataError if they do not fit the documents.
    """
    candidates = (folder_path / f"vectors{suffix}" for suffix in vectors.VECTOR_SUFFIXES)
    vectors_path = next(filter(is_present, candidates), None)
    if vectors_path is None:
        return dataset
    embeddings, without_ids = vectors.read_vectors(vectors_path, progress=progress)
    corpus, notices = dataset.corpus, dataset.notices
    if not without_ids:
        ordered_vectors = vectors.align_vectors(embeddings, corpus.ids, vectors_path)
    elif len(embeddings) == len(corpus):
        ordered_vectors = Embeddings(corpus.ids, embeddings.vectors).with_file(embeddings.file)
        order_remark = f"rows of {vectors_path.name} have no ids and are taken to stand in the order of the corpus"
        notices += (Notice(order_remark, len(embeddings)),)
    else:
        raise DataError(
            f"{vectors_path.name} has {len(embeddings)} rows and no ids, the corpus {len(corpus)} documents; "
            f"put the ids of the rows into {vectors_path.stem}.ids.txt, one a line"
        )
    return replace(dataset, vectors=ordered_vectors, notices=notices + _check_lengths(embeddings))


def _check_ids(file_label: str, judgements: JudgementTable, dataset: Dataset) -> Notices:
    """Return notices of judged documents and queries that a data set lacks; their judgements stay."""
    judged_documents = dict.fromkeys(chain.from_iterable(judgements.values()))
    judged_queries = dict.fromkeys(map(itemgetter(0), judgements))
    unknown_documents = filterfalse(dataset.corpus.position.__contains__, judged_documents)
    unknown_queries = filterfalse(dataset.queries.position.__contains__, judged_queries)
    notices = Notice.for_ids(f"documents judged in {file_label} are not in the corpus", unknown_documents)
    return notices + Notice.for_ids(f"queries judged in {file_label} are not in queries.jsonl", unknown_queries)


def _explain_unusable(label: str, judgements: JudgementTable, dataset: Dataset) -> str | None:
    """Return the reason why a file of judgements cannot be measured with, None if it can.

    label: name of the file. Too many relevant documents missing from the corpus show that the two do not belong
    together.
    """
    # Judgements of queries that the data set lacks do not count here.
    known_queries, corpus = dataset.queries.position, dataset.corpus
    # A key is a query's id, or that id and an aspect.
    query_grades = [grades for (query_id, *_aspect), grades in judgements.items() if query_id in known_queries]
    if not judgements:
        return f"{label} judges nothing"
    if not query_grades:
        first_ids = ", ".join(repr(query_id) for query_id, *_aspect in list(judgements)[:3])
        return f"{label}: none of its queries (first: {first_ids}) is in queries.jsonl; both must have the same ids"
    relevant_ids = [doc_id for grades in query_grades for doc_id, grade in grades.items() if grade > 0]
    missing_ids = list(filterfalse(corpus.position.__contains__, relevant_ids))
    if len(missing_ids) <= MAX_MISSING_SHARE * len(relevant_ids):
        return None
    first_ids = ", ".join(map(repr, list(dict.fromkeys(missing_ids))[:3]))
    # Files that hardly match would give figures that describe the mismatch.
    return (
        f"{label}: {percent(len(missing_ids) / len(relevant_ids))} of what it calls relevant "
        f"({len(missing_ids):,} of {len(relevant_ids):,}; first: {first_ids}) is not in the corpus, whose ids are like "
        f"{corpus.ids[0]!r}. Take the corpus that was judged, the column of its ids (--column id=NAME, columns=), or "
        "other judgements (--qrels, qrels=)"
    )
