"""The whole dashboard on values in memory, for notebooks and scripts: `dashboard.show`.

A process of its own serves the pages. It gets the values through a pipe and ends when that is closed, by
`RunningDashboard.close` or because this process has ended, by whatever. Nothing is written to a disk for it.
"""

from __future__ import annotations

import http.client
import os
import secrets
import socket
import subprocess
import sys
import tempfile
import threading
import time
import webbrowser
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from types import TracebackType
from typing import IO, Any

from torch import Tensor

from dashboard import workers
from dashboard.services import transfer
from engine.cli.output import echo_lines
from engine.data.endpoints.config import is_endpoint
from engine.data.frames import load_qrels
from engine.decoder import QueryLike, as_queries, convert_queries, query_batch
from engine.display import OneLine
from engine.errors import DataError, FrontierError
from engine.progress import counted
from engine.space import Elsewhere, Space
from engine.values import Dataset, Embeddings, Qrels, Queries

MAX_START_SECONDS = 120.0
"""Seconds in which the process must answer, of which imports take a few and the transfer of a large corpus some."""
START_POLL_SECONDS = 0.05
FRAME_HEIGHT = 900
"""Pixels of the frame in a notebook."""
CLOSED_TEXT = "The dashboard is closed."
SPLIT_NAME = "test"
"""Split of judgements that are given without one."""
MAX_QUOTED_CHARS = 2_000
REMOTE_VARIABLES = {
    "JUPYTERHUB_SERVICE_PREFIX": "JupyterHub",
    "JUPYTERHUB_USER": "JupyterHub",
    "COLAB_RELEASE_TAG": "Colab",
    "KAGGLE_KERNEL_RUN_TYPE": "Kaggle",
    "DATABRICKS_RUNTIME_VERSION": "Databricks",
    "CODESPACES": "Codespaces",
    "SSH_CONNECTION": "SSH",
    "SSH_CLIENT": "SSH",
}
"""Variables of the environment that a process on another machine than the browser has, and what sets them."""
_OPEN: set[RunningDashboard] = set()
"""Dashboards that run: one that nobody holds must not end with its value."""


class RunningDashboard(OneLine):
    """A dashboard in a process of its own, which ends by `close` or with this process.

    `url` is its address; as a context manager it is closed at the end of the block.
    """

    def __init__(self, dataset: Dataset) -> None:
        """Start the process, send it a data set, and wait until it answers. Raises FrontierError if it does not."""
        # Whoever else works on this machine can reach the port, but not what lies below an unknown path.
        self._base, self._port = f"/{secrets.token_urlsafe(16)}", 0
        self._summary = f"{dataset.corpus.name}, {counted(len(dataset.corpus), 'document')}"
        # A file without a name: what the process prints is read if it ends, and gone with it.
        self._frame: Any = None  # handle of the frame in a notebook's output
        self._log: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115
        self._process = subprocess.Popen(
            [sys.executable, "-m", "dashboard.kernel_server"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            env={**os.environ, workers.HELD_VARIABLE: "1", "PYTHONSAFEPATH": "1"},
            # An interrupted cell must not end it.
            start_new_session=True,
        )
        try:
            self._begin(dataset)
        except BaseException:
            self.close()
            raise
        self.url = f"http://{workers.WORKER_HOST}:{self._port}{self._base}/"
        _OPEN.add(self)

    def _describe(self) -> str:
        return f"{self._summary}, {self.url}" if self.is_running else f"{self._summary}, closed"

    @property
    def is_running(self) -> bool:
        """True until it is closed, or has ended otherwise."""
        return self._process.poll() is None

    def draw_frame(self) -> bool:
        """Draw the pages into the output of a notebook's cell; return False outside of a notebook."""
        # Whatever has a notebook's kernel has imported this.
        shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
        if shell is None or not hasattr(shell, "kernel"):
            return False
        from IPython.display import IFrame, display

        self._frame = display(IFrame(self.url, "100%", FRAME_HEIGHT), display_id=True)
        return True

    def close(self) -> None:
        """End the process with its pages and its jobs; again, it does nothing."""
        _OPEN.discard(self)
        # A browser would draw the page of an error into the frame.
        if self._frame is not None:
            self._frame.update({"text/plain": CLOSED_TEXT}, raw=True)
            self._frame = None
        if self._process.stdin is not None:
            with suppress(OSError):
                self._process.stdin.close()
        try:
            self._process.wait(workers.END_GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()
        self._log.close()

    def __enter__(self) -> RunningDashboard:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _begin(self, dataset: Dataset) -> None:
        """Send the data set and wait for the first answer. Raises FrontierError if the process ends or is silent."""
        stream = self._process.stdin
        assert stream is not None
        with suppress(BrokenPipeError):
            transfer.send_dataset(dataset, {"base": self._base}, stream)
        # Another process that listens at a port must not be sent the path: it goes to the one that this process holds.
        self._port = self._read_port()
        deadline = time.monotonic() + MAX_START_SECONDS
        while not (self._port and self._answers() and self.is_running):
            if not self._port or not self.is_running or time.monotonic() > deadline:
                raise FrontierError(f"the dashboard did not start: {self._read_log() or 'it printed nothing'}")
            time.sleep(START_POLL_SECONDS)

    def _read_port(self) -> int:
        """Return the port that the process has bound; 0 if it ends, or is silent for too long."""
        stream = self._process.stdout
        assert stream is not None
        timer = threading.Timer(MAX_START_SECONDS, self._process.kill)
        timer.start()
        try:
            with stream:
                return int(stream.readline() or 0)
        finally:
            timer.cancel()

    def _answers(self) -> bool:
        """Return True if the pages can be opened."""
        # Not by urllib, which would ask the proxy that the environment may name.
        connection = http.client.HTTPConnection(workers.WORKER_HOST, self._port, timeout=5)
        try:
            connection.request("GET", f"{self._base}/_stcore/health")
            return connection.getresponse().status == 200
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()

    def _read_log(self) -> str:
        """Return the end of what the process has printed."""
        self._log.seek(0)
        return self._log.read().decode("utf-8", "replace").strip()[-MAX_QUOTED_CHARS:]


def show(space: Space | Dataset, queries: QueryLike | None = None, qrels: Any = None) -> RunningDashboard:
    """Open the dashboard on values in memory: in the output of a notebook's cell, else in a tab of the browser.

    Parameters
    ----------
    space : Space or Dataset
        What to search. Its vectors are those that the pages show; a data set without any is embedded by the default
        encoder. Adapters and several vectors of a document stay behind.
    queries : Queries, Embeddings, str, sequence of str or array, optional
        Labelled queries; None takes those of a data set. Text needs the encoder of the space.
    qrels : Qrels, mapping of split to Qrels, frame, mapping or rows, optional
        Their judgements, as `engine.load_qrels` takes them too; None takes those of a data set.

    Returns
    -------
    RunningDashboard
        Its address is `.url`; `.close()`, the end of a `with` block or that of this process end it.

    Raises
    ------
    DataError
        If queries and judgements do not fit, or the corpus lies in a vector engine.
    FrontierError
        If the process of the pages does not start.

    Notes
    -----
    The pages listen on this machine only, below a path that nobody can guess, and ask for no password. Where the
    browser is on another machine, the address to forward is printed. What pages keep, such as votes, goes where
    `frontier serve` keeps it. Outside of a notebook a browser is started with the address on its command line, which
    other users of this machine can read in the list of processes. Processes that fork from this one meanwhile hold the
    pages' pipe too: should this one end without closing them, they stay until the last of those has ended.

    Examples
    --------
    >>> space = Space.of(["one", "two"], [[1.0, 0.0], [0.0, 1.0]])
    >>> with show(space) as running:  # doctest: +SKIP
    ...     input(f"Open at {running.url}; Return ends it")
    """
    running = RunningDashboard(build_dataset(space, queries, qrels))
    if (place := find_remote_place(os.environ)) is not None:
        echo_lines(describe_forwarding(place, socket.gethostname(), running.url).splitlines())
    elif not running.draw_frame():
        webbrowser.open(running.url)
    return running


def build_dataset(space: Space | Dataset, queries: QueryLike | None = None, qrels: Any = None) -> Dataset:
    """Return what `show` opens as one data set, with its vectors; its arguments are those of `show`."""
    if isinstance(space, Elsewhere):
        raise DataError(
            f"space must be in memory; the documents of {space.name} are in a vector engine. Open them by: frontier "
            f"serve --store {space.name}"
        )
    if isinstance(space, Dataset):
        dataset = space
    elif isinstance(space, Space):
        # An adapter cannot be sent: the pages have the adapted vectors, and nothing to adapt typed queries by.
        encoder = None if space.adapt is not None else space.encoder
        vectors = Embeddings(space.corpus.ids, space.vectors.cpu(), encoder)
        dataset = Dataset(space.corpus, Queries((), ()), vectors=vectors)
    else:
        raise DataError(f"space must be an engine.Space or a Dataset; got {type(space).__name__}. Use engine.Space.of")
    if queries is not None:
        dataset = replace(dataset, queries=_convert_queries(space, dataset, queries))
    if qrels is not None:
        dataset = replace(dataset, qrels=_convert_qrels(qrels))
    if dataset.qrels and not any(len(dataset.queries.only(each.grades)) for each in dataset.qrels.values()):
        judged_ids = [query_id for each in dataset.qrels.values() for query_id in each.grades][:1]
        raise DataError(
            f"qrels must judge queries by their ids; theirs are like {list(dataset.queries.ids[:1])}, those of qrels "
            f"like {judged_ids}"
        )
    return dataset


def _convert_queries(space: Space | Dataset, dataset: Dataset, queries: QueryLike) -> Queries:
    """Return queries of any kind with ids and texts, and with vectors unless the pages embed their texts."""
    converted = convert_queries(queries)
    if not isinstance(converted, Embeddings | Tensor):
        converted = as_queries(converted)
    if dataset.vectors is None:
        if not isinstance(converted, Queries):
            raise DataError("queries are vectors and the documents have none; pass a Space, or the queries' texts")
        return converted
    encoder = dataset.vectors.encoder
    # The process of the pages embeds texts, but asks nobody before it sends any to a server of models.
    if isinstance(converted, Queries) and encoder is not None and not is_endpoint(encoder.name):
        return converted
    searched = space if isinstance(space, Space) else Space(dataset.corpus, dataset.vectors)
    batch = query_batch(searched, converted)
    vectors = Embeddings(batch.ids, batch.vectors.cpu())
    if isinstance(converted, Queries):
        return replace(converted, vectors=vectors)
    return Queries(batch.ids, batch.texts or tuple(f"query {query_id}" for query_id in batch.ids), vectors=vectors)


def _convert_qrels(qrels: Any) -> Mapping[str, Qrels]:
    """Return judgements of any kind by split."""
    if isinstance(qrels, Mapping) and qrels and all(isinstance(each, Qrels) for each in qrels.values()):
        return qrels
    return {SPLIT_NAME: qrels if isinstance(qrels, Qrels) else load_qrels(qrels)}


def find_remote_place(variables: Mapping[str, str]) -> str | None:
    """Return what runs this process on another machine than the browser; None if nothing says so."""
    return next((place for name, place in REMOTE_VARIABLES.items() if variables.get(name)), None)


def describe_forwarding(place: str, host: str, url: str) -> str:
    """Return how to open a dashboard of another machine. place: what runs this process; host: its name."""
    port = url.split(":")[2].split("/")[0]
    return (
        f"This kernel runs on {host} ({place}), and the dashboard listens there only, at port {port}. Forward the port "
        f"to your machine, as by: ssh -L {port}:127.0.0.1:{port} {host}\nThen open {url}"
    )
