"""The command `record`: asks a search over HTTP the queries of a corpus, and keeps its lists as a run."""

from pathlib import Path

import engine
from engine.cli.group import Meter, stop_on_interrupt
from engine.cli.inputs import ReadOptions
from engine.cli.output import echo, echo_notices
from engine.errors import DataError, ParamError
from engine.evaluation.runs import RankedRun
from engine.integrations.endpoint import SearchEndpoint
from engine.progress import counted
from engine.values import Corpus


def record(
    corpus: str, reading: ReadOptions, url: str, headers: tuple[str, ...], split: str | None, k: int, out: str
) -> None:
    """Ask a search over HTTP every query, and write the run.

    Parameters
    ----------
    corpus, reading : str, ReadOptions
        The corpus, whose queries are asked.
    url : str
        The address of the search.
    headers : tuple of str
        Headers of every request, "Name: value".
    split : str or None
        The split whose judged queries are asked; None for all queries.
    k : int
        Documents per query.
    out : str
        The file to write.

    Raises
    ------
    FrontierError
        If there are no queries, the search does not answer, or most ids are not the corpus's.
    """
    endpoint = SearchEndpoint(url, dict(map(_split_header, headers)))
    if Path(out).suffix != ".json":
        raise ParamError(f"--out must be a .json file; got {out!r}")
    with Meter() as meter, stop_on_interrupt() as stop_event:
        dataset = reading.read(corpus, progress=meter)
        queries = dataset.queries if split is None else dataset.judged(split)
        if not len(queries):
            raise DataError("the corpus has no queries to ask; put queries.jsonl beside it")
        # People should know what leaves this machine, before it does.
        echo(f"asking {endpoint.host} {counted(len(queries), 'query', 'queries')} of {dataset.corpus.name}", err=True)
        run = engine.integrations.record(endpoint, queries, k, file=out, progress=meter, stop=stop_event)
    echo_notices((*dataset.notices, *run.notices))
    if _echo_result(run, dataset.corpus):
        echo(f"next: frontier identify --run {out} --corpus {corpus}")


def _split_header(text: str) -> tuple[str, str]:
    """Return name and value of a header. Raises ParamError for another text, without showing it: it may be a key."""
    name, colon, value = text.partition(":")
    if not colon or not name.strip():
        raise ParamError('--request-header must be "Name: value", such as "Authorization: Bearer …"')
    return name.strip(), value.strip()


def _echo_result(run: RankedRun, corpus: Corpus) -> bool:
    """Print what was recorded, and how much of it the corpus knows; return True if it knows any of it."""
    doc_ids = [doc_id for ids in run.documents.values() for doc_id in ids]
    n_unknown = sum(doc_id not in corpus.position for doc_id in doc_ids)
    n_lists = sum(map(bool, run.documents.values()))
    echo(f"{run.name}: {counted(n_lists, 'list')} with {counted(len(doc_ids), 'document')}")
    if n_unknown:
        unknown_id = next(doc_id for doc_id in doc_ids if doc_id not in corpus.position)
        echo(f"{n_unknown:,} of these ids are not the corpus's, such as {unknown_id!r}: they must be those of --corpus")
    return n_unknown < len(doc_ids)
