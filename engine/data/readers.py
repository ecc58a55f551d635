"""Loading of data sets: demos, BEIR folders, single tables and bare vectors, all as one `Dataset`."""

import os
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence, Set
from dataclasses import replace
from functools import partial
from hashlib import blake2b
from itertools import chain, filterfalse
from operator import itemgetter
from pathlib import Path
from typing import Any

from engine.data import tables
from engine.data.columns import NO_COLUMN, Columns, check_column_choice
from engine.data.files import (
    MEMORY_PREFIX,
    HeldFile,
    find_table,
    is_present,
    list_table_paths,
    split_suffix,
    translate_read_errors,
)
from engine.data.frames import is_frame, load_frame
from engine.data.judgement_files import (
    QRELS_NAME,
    JudgementFiles,
    JudgementPlace,
    find_aspects_file,
    list_files,
    locate_judgements,
    order_splits,
)
from engine.data.judgements import (
    CONFLICT_RULES,
    JudgementTable,
    Notices,
    list_json_splits,
    read_judgement_files,
)
from engine.data.line_texts import LineTexts
from engine.data.own_vectors import (
    add_document_vectors,
    add_query_vectors,
    embed_table,
    find_document_vectors,
    find_vectors_file,
    finish_document_vectors,
    finish_query_vectors,
    note_unused_vectors,
)
from engine.data.table_kinds import find_corpus_table
from engine.data.tables import Documents, TableFile, has_shards, list_parquet_shards, preview_table, read_documents
from engine.data.textfiles import STOPPED_MESSAGE
from engine.data.vectors import VECTOR_SUFFIXES, read_vectors
from engine.errors import DataError
from engine.progress import Progress, Stop, with_cancellation
from engine.values import (
    JUDGEMENT_KINDS,
    Corpus,
    Dataset,
    Notice,
    PassageSource,
    Qrels,
    Queries,
    TextSource,
    UsableSplits,
)
from engine.wording import percent

JUDGED_DEMO = "numpy-api"
DEMO_NAMES = (JUDGED_DEMO, "python-api")
ColumnRoles = Columns | Mapping[str, str | None] | None
"""Roles of a table's columns, or some of them, the others to be guessed; None guesses all."""
TableReader = Callable[[TableFile, ColumnRoles], Documents]
"""`read_documents` with its options bound: path and columns → documents."""
JudgementReader = Callable[..., tuple[JudgementTable, Notices]]
"""`_read_judgements` with its options bound: files, label and data set → grades and notices."""
AspectSets = dict[str, dict[str, frozenset[str]]]
"""Query → aspect → documents that cover it, as `Dataset.aspects` holds them."""
_PART_NAMES = {
    *("aspects.tsv", "answers.tsv"),
    *("vectors.npy", "vectors.npz", "vectors.ids.txt"),
    *("query_vectors.npy", "query_vectors.npz", "query_vectors.ids.txt"),
}
COPIES_REMARK = "documents are copies: an earlier one has the same title and text"
COPY_REMARK = "document is a copy: an earlier one has the same title and text"
MAX_MISSING_SHARE = 0.5
"""Largest share of the relevant documents of a judgement file, or of a run's documents, that the corpus may lack.

Recall counts each missing document as not retrieved, so beyond this share a figure would describe two files that hardly
belong together rather than a method."""

JUDGEMENT_OPTIONS = "--column id=NAME or columns=; --qrels or qrels="
"""The options that choose another column of ids and other judgements."""
_QUERY_TEXT_NAMES = ("text", "query", "question")
_LAYOUT = "corpus.jsonl (_id, text, perhaps title a line), perhaps queries.jsonl, qrels/, aspects.tsv, vectors.npy"
_DATA_SET_PARTS = (
    "corpus.jsonl, queries.jsonl, qrels/, aspects.tsv, answers.tsv, vectors.npy and query_vectors.npy, or .npz, with "
    ".ids.txt"
)


@translate_read_errors("the data set")
def load_dataset(
    source: str | Path | HeldFile | Any,
    *,
    qrels: str = "qrels",
    columns: Columns | Mapping[str, str | None] | None = None,
    metadata: Sequence[str] = (),
    where: Mapping[str, Collection[str]] | None = None,
    separator: str | None = None,
    repeated: str = "refuse",
    conflicting_grades: str = "refuse",
    progress: Progress | None = None,
    stop: Stop | None = None,
    header: str = "auto",
    document_vectors: str | Path | None = None,
    query_vectors: str | Path | None = None,
    normalize: bool = False,
    judgements: str = "auto",
) -> Dataset:
    """Load a corpus with the queries, judgements, aspects and vectors that its source has.

    Anything odd but usable becomes a notice of the data set.

    Parameters
    ----------
    source : str, Path, HeldFile or frame
        "numpy-api" or "python-api"; a folder in BEIR layout, or of .parquet files; a .csv, .tsv, .jsonl, .ndjson,
        .json, .parquet or .xlsx table, a text file also with .gz behind it; a .npy or .npz file of vectors; a table
        as a HeldFile; or a data frame of pandas, polars or pyarrow, with which columns, metadata, where and normalize
        go, and whose column of vectors may hold arrays.
    qrels : str, default "qrels"
        Name of the judgement folder inside a data set, or of a single file of judgements; what is not there is a path
        elsewhere: of judgements, or of a folder with queries.jsonl and qrels/, whose queries replace those of the
        source too. A source without queries takes those beside the judgements.
    columns : Columns or mapping, optional
        Meaning of a table's columns, as {"text": name, "id": name, "title": name, "vectors": name}. Roles that are not
        named are guessed, vectors excepted; None or "none" as a name refuses one. In a folder, the column of vectors
        of its documents, and of its queries if they have it.
    metadata : sequence of str, optional
        Further columns of documents and queries to load.
    where : mapping of str to collection of str, optional
        Column → allowed values: load only documents that have one of the values in every column, and their judgements.
    separator : str, optional
        Column separator of a .csv file; None guesses.
    repeated : {"refuse", "first", "number"}, default "refuse"
        Treatment of rows whose id an earlier row has: raise an error, keep the first row alone, or number the others.
    conflicting_grades : {"refuse", "max", "last"}, default "refuse"
        Treatment of a document with different grades for one query: raise an error, take the highest, or the last.
    progress : callable, optional
        Called repeatedly as progress(done, total, label).
    stop : Stop, optional
        Loading is cancelled once it is set.
    header : {"auto", "first", "none"}, default "auto"
        Whether the first line of a .csv, .tsv or .xlsx table names its columns or is data; "auto" guesses.
    document_vectors : str or Path, optional
        The documents' own vectors: a .npy or .npz file, or a table with a column of them. None takes vectors.npy or
        .npz in a folder, and beside a table the file with .vectors.npy or .vectors.npz in place of its suffix.
    query_vectors : str or Path, optional
        The queries' own vectors, as for documents. None takes query_vectors.npy or .npz beside the queries.
    normalize : bool, default False
        Scale these vectors to length 1, so that relevance is their cosine.
    judgements : {"auto", "complete", "pooled"}, default "auto"
        Whether a document without a grade is known to be irrelevant ("complete") or was never looked at ("pooled");
        "auto" is pooled where some grades are 0 or less.

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
    if is_frame(source):
        file_options = {"qrels": qrels != "qrels", "separator": separator, "document_vectors": document_vectors}
        _refuse_file_options({**file_options, "query_vectors": query_vectors, "repeated": repeated != "refuse"})
        return _load_frame(source, columns, metadata, where, normalize)
    source_path, is_folder = _locate_source(source)
    is_demo = source in DEMO_NAMES
    _check_options(
        source_path, is_demo, columns=columns, separator=separator, conflicting_grades=conflicting_grades,
        judgements=judgements,
    )  # fmt: skip
    columns = check_column_choice(columns) if isinstance(columns, Mapping) else columns
    report_progress = with_cancellation(progress, stop, STOPPED_MESSAGE)
    metadata = tuple(dict.fromkeys((*metadata, *(where or ()))))
    read_table = partial(read_documents, progress=report_progress, metadata=metadata, repeated_rule=repeated)
    read_judgements = partial(_read_judgements, conflict_rule=conflicting_grades, progress=report_progress)
    judgement_place = locate_source_judgements(source, qrels)
    if is_demo:
        dataset = _load_demo(str(source), judgement_place, read_table, read_judgements, progress, stop)
    elif is_folder:
        named_files = [Path(os.path.expanduser(path)) for path in (document_vectors, query_vectors) if path is not None]
        dataset = _load_folder(source_path, judgement_place, columns, read_table, read_judgements, named_files)
    else:
        table_file = source if isinstance(source, HeldFile) else source_path
        read_file = partial(read_table, separator=separator, header=header)
        dataset = _load_file(table_file, columns, read_file, report_progress)
    # The name of a demo is no path, so that nothing lies beside it.
    beside = None if is_demo else source_path
    dataset = _complete_documents(dataset, beside, document_vectors, normalize, report_progress)
    # Queries of another folder replace those that the corpus came with.
    if judgement_place.queries_folder is not None:
        arguments = judgement_place.queries_folder, judgement_place.files, read_table, read_judgements
        dataset = _add_judged_queries(dataset, *arguments, columns=columns)
    queries_beside = judgement_place.queries_folder or beside
    dataset = _complete_queries(dataset, queries_beside, query_vectors, normalize, report_progress)
    for column_name in metadata:
        if column_name not in dataset.corpus.metadata and column_name not in dataset.queries.metadata:
            problem = f"neither documents nor queries have a column {column_name!r}"
            raise DataError(f"{problem} (metadata=)", f"{problem} to keep")
    dataset = _filter_documents(dataset, where) if where else dataset
    return dataset.with_judgements(judgements)


def _refuse_file_options(options: Mapping[str, Any]) -> None:
    """Raise DataError for options of files that came with a data frame. options: name → anything true if it did."""
    if names := [name for name, value in options.items() if value]:
        raise DataError(
            f"{names[0]}= is for files, and a frame holds documents alone. Judgements of a frame are read by "
            "engine.load_qrels; repeated ids are dropped from the frame itself"
        )


def _load_frame(
    frame: Any,
    columns: ColumnRoles,
    metadata: Sequence[str],
    where: Mapping[str, Collection[str]] | None,
    normalize: bool,
) -> Dataset:
    """Return the documents of a data frame, with their own vectors if a column of them is named."""
    names = tuple(dict.fromkeys((*metadata, *(where or ()))))
    dataset = finish_document_vectors(load_frame(frame, columns, names), normalize)
    return _filter_documents(dataset, where) if where else dataset


def locate_source_judgements(source: str | Path | HeldFile, qrels: str) -> JudgementPlace:
    """Locate the judgements that `load_dataset` reads for a source. Raises DataError if there are none of that name."""
    source_path, is_folder = _locate_source(source)
    own_folder = source_path if is_folder else None
    if source == JUDGED_DEMO:
        own_folder = _find_demo_folder()
    return locate_judgements(own_folder, qrels)


def _find_demo_folder() -> Path:
    """Return the folder with the queries and judgements of the demo that has them."""
    # Imported here: the demo imports NumPy's functions to document them.
    from engine.data import demo

    return demo.demo_folder() / JUDGED_DEMO


def _locate_source(source: str | Path | HeldFile) -> tuple[Path, bool]:
    """Return the path of a data set, and True if it is a folder; the name of a demo is no folder, whatever is there.

    Raises DataError for a value that is no path, or that no file can have as its name.
    """
    if not isinstance(source, (str, Path, HeldFile)):
        raise DataError(f"source must be the name of a demo or a path; got {source!r}")
    # Code that a page of a notebook's dashboard exports names its corpus so.
    if isinstance(source, str) and source.startswith(MEMORY_PREFIX):
        raise DataError(
            f"{source!r} lies in no file: dashboard.show was given it in memory. Take that Space or Dataset, in place "
            "of loading it"
        )
    source_path = source.path if isinstance(source, HeldFile) else Path(os.path.expanduser(source))
    try:
        return source_path, source not in DEMO_NAMES and source_path.is_dir()
    except (OSError, ValueError) as path_error:
        raise DataError(f"no path is like {str(source)[:80]!r}: {path_error}") from None


def _check_options(
    source_path: Path,
    is_demo: bool,
    *,
    columns: ColumnRoles,
    separator: str | None,
    conflicting_grades: str,
    judgements: str,
) -> None:
    """Raise DataError for options that a source of this kind does not have."""
    if columns is not None and (is_demo or source_path.suffix.lower() in VECTOR_SUFFIXES):
        raise DataError(f"columns= is for tables; {source_path} has fixed ones", f"{source_path} has fixed columns")
    if judgements not in JUDGEMENT_KINDS:
        raise DataError(f"judgements must be one of {', '.join(map(repr, JUDGEMENT_KINDS))}; got {judgements!r}")
    if conflicting_grades not in CONFLICT_RULES:
        listed_rules = ", ".join(map(repr, CONFLICT_RULES))
        raise DataError(f"conflicting_grades must be one of {listed_rules}; got {conflicting_grades!r}")
    if separator is not None and split_suffix(source_path)[1] != ".csv":
        demand = f"is for .csv files; {source_path} is none"
        raise DataError(f"separator= {demand}", f"a separator {demand}")


def _complete_documents(
    dataset: Dataset,
    source_path: Path | None,
    document_vectors: str | Path | None,
    normalize: bool,
    progress: Progress,
) -> Dataset:
    """Return a data set whose documents have their own vectors: of the requested file, else of the one beside them.

    source_path: the folder or the table of the documents, None to look for no file.
    """
    vectors_path = None if document_vectors is None else Path(os.path.expanduser(document_vectors))
    if vectors_path is None and source_path is not None:
        vectors_path = find_document_vectors(source_path)
    if vectors_path is not None:
        dataset = add_document_vectors(dataset, vectors_path, progress)
    return finish_document_vectors(dataset, normalize)


def _complete_queries(
    dataset: Dataset,
    folder_path: Path | None,
    query_vectors: str | Path | None,
    normalize: bool,
    progress: Progress,
) -> Dataset:
    """Return a data set whose queries have their own vectors: of the requested file, else of the one beside them.

    folder_path: the folder of the queries, None to look for no file.
    """
    # A file that was not asked for is no error where there are no queries that it could belong to.
    vectors_path = None if query_vectors is None else Path(os.path.expanduser(query_vectors))
    if vectors_path is None and folder_path is not None and len(dataset.queries):
        vectors_path = find_vectors_file(folder_path, "query_vectors")
    if vectors_path is not None:
        dataset = add_query_vectors(dataset, vectors_path, progress)
    return finish_query_vectors(dataset, normalize)


def _filter_documents(dataset: Dataset, allowed_values: Mapping[str, Collection[str]]) -> Dataset:
    """Select the documents that have an allowed value in every column, with their judgements and aspects.

    allowed_values: column to its allowed values. Raises DataError for an unknown column, or if no document remains.
    """
    corpus = dataset.corpus
    row_ids = list(range(len(corpus)))
    for column, values in allowed_values.items():
        if column not in corpus.metadata or isinstance(values, str):
            demand = f"must be columns of the documents with lists of values; got {column!r}: {values!r}"
            raise DataError(f"where= {demand}", f"filters {demand}")
        stored_values = corpus.metadata[column]
        row_ids = [row_id for row_id in row_ids if stored_values[row_id] in values]
        if not row_ids:
            common = ", ".join(repr(value) for value, _ in Counter(stored_values).most_common(5))
            problem = f"no document: {column!r} is {common} …, and {list(values)!r} was asked for"
            raise DataError(f"where= leaves {problem}", f"the filters leave {problem}")
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

    A split that loses all its judgements is listed as refused: `UsableSplits` holds the reason beside the splits that
    remain.
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


def _load_file(source: TableFile, columns: ColumnRoles, read_table: TableReader, progress: Progress) -> Dataset:
    """Load a table, or vectors alone, as a data set without queries.

    columns: of the table, None to guess them; read_table: `read_documents` with its options bound.
    """
    corpus_name, suffix = split_suffix(source)
    if isinstance(source, Path) and not source.exists():
        raise DataError(f"{source} does not exist; expected {_describe_sources()}")
    if isinstance(source, Path) and suffix in VECTOR_SUFFIXES:
        embeddings, notices = read_vectors(source, progress=progress)
        corpus = Corpus(embeddings.ids, ("",) * len(embeddings), name=source.stem)
        return Dataset(corpus, Queries((), ()), vectors=embeddings, notices=notices)
    if suffix not in tables.TABLE_SUFFIXES:
        raise DataError(
            f"{source.name}: cannot read {suffix or 'a file without a suffix'}; expected {_describe_sources()}"
        )
    dataset = _load_corpus(source, corpus_name, columns, read_table)
    title = columns.title if isinstance(columns, Columns) else (columns or {}).get("title")
    if title in (None, NO_COLUMN) or any(dataset.corpus.titles):
        return dataset
    # A title column that the caller named, but that is empty throughout, is most likely a mistake.
    title_notice = Notice(f"rows have nothing in the title column {title!r}", len(dataset.corpus))
    return replace(dataset, notices=(*dataset.notices, title_notice))


def _describe_sources() -> str:
    """List what can be loaded, for an error message."""
    demo_names = " or ".join(map(repr, DEMO_NAMES))
    return f"{demo_names}, a folder with {_LAYOUT}, {tables.TABLE_KINDS}, or .npy or .npz vectors"


def _load_folder(
    folder_path: Path,
    judgement_place: JudgementPlace,
    columns: ColumnRoles,
    read_table: TableReader,
    read_judgements: JudgementReader,
    named_files: Sequence[Path],
) -> Dataset:
    """Load a folder in BEIR layout, or of Parquet files, with all that belongs to its corpus but vectors in files.

    That is corpus.jsonl, and if they exist queries.jsonl, judgements and aspects.tsv. judgement_place: where the
    judgements are; if queries elsewhere replace the folder's own, its judgements are not read; columns: of Parquet
    files, and the column of vectors; read_table, read_judgements: readers with options bound; named_files: of vectors
    that the caller named, which may lie in the folder.
    """
    corpus_path = find_corpus_table(folder_path)
    if corpus_path is not None:
        if columns is not None and (isinstance(columns, Columns) or columns.keys() - {"vectors"}):
            fixed = f"{folder_path} has fixed ones, but for that of vectors"
            raise DataError(f"columns= is for tables; {fixed}", f"columns are chosen of tables; {fixed}")
        corpus_columns = _fix_columns(corpus_path, _get_vectors_column(columns), title="title")
    else:
        # Data set libraries write the files of one table into a folder, or into its "data".
        corpus_path = next(filter(has_shards, (folder_path, folder_path / "data")), None)
        corpus_columns = columns
    if corpus_path is None:
        raise DataError(f"{folder_path} has no corpus.jsonl; expected a folder with {_LAYOUT}, or of .parquet files")
    dataset = _load_corpus(corpus_path, folder_path.resolve().name, corpus_columns, read_table)
    # Where columns are guessed, the reader of the table offers them itself.
    if isinstance(corpus_columns, Columns) and not named_files and find_document_vectors(folder_path) is None:
        dataset = replace(dataset, notices=dataset.notices + note_unused_vectors(corpus_path, corpus_columns, dataset))
    judgement_files = judgement_place.files
    # Queries that lie elsewhere have other judgements than the folder's.
    if judgement_place.queries_folder is not None:
        judgement_files = _list_replaced(folder_path, judgement_place.queries_folder)
    # The corpus's own folder holds no judgements.
    other_folders = tuple(name for name in judgement_files.other_folders if folder_path / name != corpus_path)
    judgement_files = replace(judgement_files, other_folders=other_folders)
    aspects_path = find_aspects_file(folder_path)
    # Of queries that are replaced only those texts count for which the folder has aspects.
    if judgement_place.queries_folder is None or aspects_path is not None:
        arguments = folder_path, judgement_files, read_table, read_judgements
        dataset = _add_judged_queries(dataset, *arguments, columns=columns)
    else:
        dataset = replace(dataset, notices=dataset.notices + _note_judgement_files(judgement_files))
    # Subtopics of judgements are aspects as well; a file of aspects stands above them.
    dataset = dataset if aspects_path is None else _add_aspects(dataset, aspects_path, read_judgements)
    read_files = [*named_files, *judgement_files.paths, aspects_path or folder_path]
    unread_notices = _note_unread_files(folder_path, corpus_path, judgement_files, read_files)
    return replace(dataset, notices=dataset.notices + unread_notices)


def _list_replaced(folder_path: Path, queries_folder: Path) -> JudgementFiles:
    """Return no judgements of a folder: all files of them are listed as replaced by those of another folder."""
    own_files = locate_judgements(folder_path, QRELS_NAME).files
    names = [_label_judgements(path, folder_path) for path in own_files.paths]
    names += chain.from_iterable(own_files.unread.values())
    return JudgementFiles(by_split={}, unread={f"queries and judgements are those of {queries_folder}": names})


def _note_unread_files(
    folder_path: Path, corpus_path: Path, judgement_files: JudgementFiles, read_files: Sequence[Path]
) -> Notices:
    """Return notices of the files of a folder that are not read and that no other notice names.

    corpus_path: the corpus's table, or the folder of its Parquet files; read_files: all others that are read
    """
    corpus_files = list_parquet_shards(corpus_path) if corpus_path.is_dir() else [corpus_path]
    reported_names = {Path(name).name for name in chain.from_iterable(judgement_files.unread.values())} | _PART_NAMES
    # The ids of vectors lie beside them, under their name.
    for path in (*corpus_files, *read_files):
        reported_names |= {path.name, f"{path.stem}.ids.txt"}
    notices: Notices = ()
    # Of several tables of one name only the first is read.
    for stem in ("corpus", "queries"):
        table_paths = list(filter(is_present, list_table_paths(folder_path, stem)))
        reported_names |= {path.name for path in table_paths}
        for table_path in table_paths[:1]:
            remark = f"files are not read: {table_path.name} is read in their place"
            notices += Notice.for_ids(remark, [path.name for path in table_paths[1:]])
    unread_names = [path.name for path in list_files(folder_path) if path.name not in reported_names]
    remark = f"files are not read: not among {_DATA_SET_PARTS}"
    return notices + Notice.for_ids(remark, unread_names)


def _get_vectors_column(columns: ColumnRoles) -> str | None:
    """Return the name of the column of vectors; None if none was named."""
    if isinstance(columns, Columns):
        return columns.vectors
    vectors = columns.get("vectors") if columns is not None else None
    return None if vectors == NO_COLUMN else vectors


def _fix_columns(
    table_path: Path, vectors: str | None, title: str | None, requested_vectors: bool = True
) -> ColumnRoles:
    """Return the roles of a table's columns in a BEIR folder, whose names are fixed; guessed where those are missing.

    vectors, title: names of these columns, None for none; requested_vectors: False to take the vectors only if the
    table has that column.
    """
    # A file that cannot be read is an error of the reader that follows, which says more.
    try:
        column_names = preview_table(table_path).columns
    except DataError:
        column_names = ("_id", "text")
    if not requested_vectors and vectors not in column_names:
        vectors = None
    # Other fields are loaded only if requested: a line's metadata may give answers away.
    if {"_id", "text"} <= set(column_names):
        # Only later lines of a JSON file may have titles; any other table names its columns once.
        has_title = title in column_names or split_suffix(table_path)[1] in tables.JSON_SUFFIXES
        return Columns(id="_id", text="text", title=title if has_title else None, vectors=vectors)
    choice: dict[str, str | None] = {"vectors": vectors}
    if title is None:
        choice["title"] = None
        usual_names = filter(column_names.__contains__, _QUERY_TEXT_NAMES)
        if (text := next(usual_names, None)) is not None:
            choice["text"] = text
    return choice


def _load_demo(
    demo_name: str,
    judgement_place: JudgementPlace,
    read_table: TableReader,
    read_judgements: JudgementReader,
    progress: Progress | None,
    stop: Stop | None,
) -> Dataset:
    """Load a built-in corpus; only "numpy-api" has queries and judgements.

    judgement_place: where the judgements are; if queries elsewhere replace the demo's own, none are read here;
    read_table, read_judgements: the readers with their options bound; progress, stop: as the caller gave them.
    """
    from engine.data import demo

    is_judged = demo_name == JUDGED_DEMO
    demo_documents = demo.numpy_api_documents() if is_judged else demo.python_api_documents(progress, stop)
    ids, titles, texts = zip(*demo_documents, strict=True)
    corpus = Corpus(ids, texts, titles, demo_name)
    dataset = Dataset(corpus, Queries((), ()), notices=_check_texts(corpus))
    if not is_judged or judgement_place.queries_folder is not None:
        return dataset
    arguments = _find_demo_folder(), judgement_place.files, read_table, read_judgements
    return _add_judged_queries(dataset, *arguments, demo.find_canonical_id)


def _add_judged_queries(
    dataset: Dataset,
    folder_path: Path,
    judgement_files: JudgementFiles,
    read_table: TableReader,
    read_judgements: JudgementReader,
    canonical_id: Callable[[str], str] | None = None,
    columns: ColumnRoles = None,
) -> Dataset:
    """Return a data set with the queries of a folder, and with their judgements by split.

    Judgements of subtopics give aspects too. canonical_id: function from any name of a documented function to its
    document's id, KeyError for an unknown name; None if documents are judged by their ids; columns: may name the
    queries' column of vectors.
    """
    queries, query_notices = _load_queries(folder_path, read_table, _get_vectors_column(columns))
    earlier_aspects, aspect_notices = _select_aspects(dataset, queries)
    dataset = replace(dataset, queries=queries)
    notices = dataset.notices + query_notices + aspect_notices + _note_judgement_files(judgement_files)
    usable_splits: dict[str, Qrels] = {}
    refused_splits: dict[str, str] = {}
    aspects: AspectSets = {}
    for split, paths, inner_split in _divide_into_splits(judgement_files, queries):
        qrels_file = _label_judgements(paths[0], folder_path)
        qrels_file += "" if inner_split is None else f" ({inner_split})"
        judgements, file_notices = read_judgements(paths, qrels_file, dataset, split=inner_split)
        notices += file_notices
        if canonical_id is not None:
            judgements, unknown_names = _merge_names(judgements, canonical_id)
            remark = f"functions judged in {qrels_file} are not in the installed NumPy and left out"
            notices += Notice.for_ids(remark, unknown_names)
        notices += _check_ids(qrels_file, judgements, dataset)
        if (refusal := _explain_unusable(qrels_file, judgements, dataset)) is not None:
            refused_splits[split], hint = refusal
            n_pairs = sum(map(len, judgements.values()))
            notices += (Notice(f"judgements are left out: {refused_splits[split]}", n_pairs, hint=hint),)
        else:
            usable_splits[split] = Qrels(_merge_aspects(judgements))
            for query_id, query_aspects in _collect_aspects(judgements).items():
                covered = aspects.setdefault(query_id, {})
                for aspect, doc_ids in query_aspects.items():
                    covered[aspect] = covered.get(aspect, frozenset()) | doc_ids
    qrels = UsableSplits(usable_splits, refused_splits)
    return replace(dataset, qrels=qrels, aspects=aspects or earlier_aspects, notices=notices)


def _divide_into_splits(
    judgement_files: JudgementFiles, queries: Queries
) -> Iterator[tuple[str, list[Path], str | None]]:
    """Yield each split with its files, and with its name inside of a file that holds several; None for the whole file.

    Raises DataError for a split of two files.
    """
    first_files: dict[str, Path] = {}
    for split, paths in judgement_files.by_split.items():
        inner_splits = list_json_splits(paths[0], queries.position) if len(paths) == 1 else []
        for name in order_splits(inner_splits) or [split]:
            if name in first_files:
                raise DataError(
                    f"the split {name!r} is in {first_files[name].name} and in {paths[0].name}: leave one of them out"
                )
            first_files[name] = paths[0]
            yield name, paths, name if inner_splits else None


def _note_judgement_files(judgement_files: JudgementFiles) -> Notices:
    """Return notices of the files and folders of judgements that are not read, with the reasons."""
    notices: Notices = ()
    for reason, unread_names in judgement_files.unread.items():
        notices += Notice.for_ids(f"files are not read: {reason}", unread_names)
    folder_remark = "folders may hold judgements and are not read, as their name is not qrels"
    return notices + Notice.for_ids(folder_remark, judgement_files.other_folders)


def _select_aspects(
    dataset: Dataset, queries: Queries
) -> tuple[Mapping[str, Mapping[str, frozenset[str]]] | None, Notices]:
    """Return a data set's aspects without those of queries that have another text among `queries`, and a notice.

    Ids such as "1" name another query in another set. The aspects are None if nothing remains.
    """
    known_texts = dict(zip(dataset.queries.ids, dataset.queries.texts, strict=True))
    aspects = dict(dataset.aspects or {})
    unlike_ids: list[str] = []
    for query_id, text in zip(queries.ids, queries.texts, strict=True):
        if query_id in aspects and known_texts.get(query_id, text) != text:
            del aspects[query_id]
            unlike_ids.append(query_id)
    remark = "queries have another text than the corpus's queries of these ids, whose aspects are left out"
    return aspects or None, Notice.for_ids(remark, unlike_ids)


def _label_judgements(path: Path, folder_path: Path) -> str:
    """Return the name of a file of judgements in messages: with its folder, unless it lies beside the corpus."""
    return path.name if path.parent == folder_path else f"{path.parent.name}/{path.name}"


def _read_judgements(
    paths: Sequence[Path],
    label: str,
    dataset: Dataset,
    *,
    with_aspects: bool = False,
    split: str | None = None,
    conflict_rule: str,
    progress: Progress,
) -> tuple[JudgementTable, Notices]:
    """Read the judgements of a split, with ids as the data set writes them; return them with notices.

    paths: its file, or the parts of one; label: its name in messages; with_aspects: whether it is a file of aspects;
    split: its name inside of a file of several; conflict_rule: "refuse", "max" or "last", for a pair with different
    grades.
    """
    judgement_rows = read_judgement_files(paths, label, progress, with_aspects, split)
    judgement_rows = judgement_rows.match_known(dataset.queries.position, dataset.corpus.position)
    judgements, notices = judgement_rows.resolve(conflict_rule)
    return judgements, judgement_rows.notices + notices


def _merge_aspects(judgements: JudgementTable) -> dict[str, dict[str, int]]:
    """Return query → document → grade: the highest that the document has for any aspect of the query."""
    query_grades: dict[str, dict[str, int]] = {}
    for (query_id, *_aspect), document_grades in judgements.items():
        merged_grades = query_grades.setdefault(query_id, {})
        for doc_id, grade in document_grades.items():
            merged_grades[doc_id] = max(grade, merged_grades.get(doc_id, grade))
    return query_grades


def _collect_aspects(judgements: JudgementTable) -> AspectSets:
    """Return query → aspect → documents that cover it; nothing for judgements without aspects.

    An aspect is one of the meanings of a query, or a part of its answer.
    """
    aspects: AspectSets = {}
    for (query_id, *query_aspects), document_grades in judgements.items():
        covering_ids = frozenset(doc_id for doc_id, grade in document_grades.items() if grade > 0)
        for aspect in query_aspects if covering_ids else ():
            aspects.setdefault(query_id, {})[aspect] = covering_ids
    return aspects


def _merge_names(judgements: JudgementTable, canonical_id: Callable[[str], str]) -> tuple[JudgementTable, list[str]]:
    """Replace names of functions by document ids in judgements; return them, and the unknown names.

    A function can be imported under several names, of which one is the id of its document. Several names of one
    function count once, with their largest grade.
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


def _load_corpus(table_file: TableFile, corpus_name: str, columns: ColumnRoles, read_table: TableReader) -> Dataset:
    """Load the documents of a table as a data set without queries.

    columns: roles of its columns, None to guess them; read_table: `read_documents` with its options bound. Raises
    DataError for a table without documents.
    """
    table = read_table(table_file, columns)
    if not table.ids:
        raise DataError(f"{table_file.name} holds no documents; at least one is needed")
    corpus = Corpus(table.ids, table.texts, table.titles, corpus_name, table.metadata)
    # Documents that are vectors alone have no texts to check.
    has_texts = table.vectors is None or isinstance(table.texts, TextSource) or any(table.texts) or any(table.titles)
    notices = table.notices + (_check_texts(corpus) if has_texts else ())
    return Dataset(corpus, Queries((), ()), vectors=embed_table(table.ids, table.vectors), notices=notices)


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
    copy_notices = Notice.for_ids(COPIES_REMARK, copied_ids, singular=COPY_REMARK)
    remark, singular = "documents have neither title nor text", "document has neither title nor text"
    return Notice.for_ids(remark, empty_ids, singular=singular) + copy_notices


def _load_queries(folder_path: Path, read_table: TableReader, vectors: str | None) -> tuple[Queries, Notices]:
    """Load the queries of a folder's queries.jsonl, with notices of odd ones; none if there is no file.

    read_table: `read_documents` with its options bound; vectors: the column of vectors, which queries need not have.
    """
    queries_path = find_table(folder_path, "queries")
    if queries_path is None:
        return Queries((), ()), ()
    columns = _fix_columns(queries_path, vectors, title=None, requested_vectors=False)
    table = read_table(queries_path, columns)
    queries = Queries(table.ids, tuple(table.texts), table.metadata, embed_table(table.ids, table.vectors))
    empty_ids = [queries.ids[row] for row, query_text in enumerate(queries.texts) if not query_text.strip()]
    return queries, table.notices + Notice.for_ids("queries have no text", empty_ids)


def _add_aspects(dataset: Dataset, aspects_path: Path, read_judgements: JudgementReader) -> Dataset:
    """Give a data set the documents that cover each aspect of a query, in place of those that judgements have.

    Aspects are the meanings of a query, or the parts of its answer. If the file is unusable a notice says so.
    """
    judgements, file_notices = read_judgements([aspects_path], aspects_path.name, dataset, with_aspects=True)
    notices = dataset.notices + file_notices + _check_ids(aspects_path.name, judgements, dataset)
    if dataset.aspects:
        remark = f"queries have aspects in their judgements, which are not used: {aspects_path.name} has aspects"
        notices += Notice.for_ids(remark, dataset.aspects)
    if (refusal := _explain_unusable(aspects_path.name, judgements, dataset)) is not None:
        reason, hint = refusal
        omission_notice = Notice(f"aspects are left out: {reason}", len(judgements), hint=hint)
        return replace(dataset, notices=(*notices, omission_notice))
    return replace(dataset, aspects=_collect_aspects(judgements), notices=notices)


def _check_ids(file_label: str, judgements: JudgementTable, dataset: Dataset) -> Notices:
    """Return notices of judged documents and queries that a data set lacks; their judgements stay."""
    judged_documents = dict.fromkeys(chain.from_iterable(judgements.values()))
    judged_queries = dict.fromkeys(map(itemgetter(0), judgements))
    unknown_documents = filterfalse(dataset.corpus.position.__contains__, judged_documents)
    unknown_queries = filterfalse(dataset.queries.position.__contains__, judged_queries)
    notices = Notice.for_ids(f"documents judged in {file_label} are not in the corpus", unknown_documents)
    return notices + Notice.for_ids(f"queries judged in {file_label} are not in queries.jsonl", unknown_queries)


def _explain_unusable(label: str, judgements: JudgementTable, dataset: Dataset) -> tuple[str, str] | None:
    """Return the reason why a file of judgements cannot be measured with, and options that help; None if it can.

    label: name of the file. Too many relevant documents missing from the corpus show that the two do not belong
    together.
    """
    # Judgements of queries that the data set lacks do not count here.
    known_queries, corpus = dataset.queries.position, dataset.corpus
    # A key is a query's id, or that id and an aspect.
    query_grades = [grades for (query_id, *_aspect), grades in judgements.items() if query_id in known_queries]
    if not judgements:
        return f"{label} judges nothing", ""
    if not query_grades:
        first_ids = ", ".join(repr(query_id) for query_id, *_aspect in list(judgements)[:3])
        problem = f"{label}: none of its queries (first: {first_ids}) is in queries.jsonl"
        return f"{problem}{_compare_ids(judgements, dataset)}", ""
    relevant_ids = [doc_id for grades in query_grades for doc_id, grade in grades.items() if grade > 0]
    missing_ids = list(filterfalse(corpus.position.__contains__, relevant_ids))
    if len(missing_ids) <= MAX_MISSING_SHARE * len(relevant_ids):
        return None
    first_ids = ", ".join(map(repr, list(dict.fromkeys(missing_ids))[:3]))
    # Files that hardly match would give figures that describe the mismatch.
    reason = (
        f"{label}: {percent(len(missing_ids) / len(relevant_ids))} of what it calls relevant "
        f"({len(missing_ids):,} of {len(relevant_ids):,}; first: {first_ids}) is not in the corpus, whose ids are like "
        f"{corpus.ids[0]!r}. Take the corpus that was judged, the column of its ids, or other judgements"
    )
    return reason, JUDGEMENT_OPTIONS


def _compare_ids(judgements: JudgementTable, dataset: Dataset) -> str:
    """Return what the ids of a data set's queries are like, for judgements that have none of them, and the fix."""
    if not len(dataset.queries):
        return ", which is missing or empty; give the queries as lines with _id and text"
    judged_documents = dict.fromkeys(chain.from_iterable(judgements.values()))
    query_like = f", whose ids are like {dataset.queries.ids[0]!r}"
    if any(doc_id in dataset.queries.position for doc_id in judged_documents):
        return f"{query_like}. Its documents are queries there: name its columns in a first line (query-id, corpus-id)"
    return f"{query_like}; both must have the same ids"
