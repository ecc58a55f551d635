"""Process of `dashboard.show`: the pages of a data set that it reads from its standard input, until that is closed."""

import os
import sys
from functools import partial

from dashboard import server, workers
from dashboard.services import corpora, transfer
from dashboard.services.roots import Rules


def main() -> None:
    """Read a data set and serve it, after writing the port that it got, until the sender has gone."""
    # The standard output is the sender's: what libraries print goes where errors go.
    answer = os.dup(1)
    os.dup2(2, 1)
    try:
        dataset, settings = transfer.receive_dataset(sys.stdin.buffer)
    except EOFError:
        # The sender has been closed, or killed, meanwhile.
        return
    workers.end_with_parent()
    corpora.set_start_sources(transfer.register_dataset(dataset))
    listening = server.Listening(settings["base"], workers.WORKER_HOST, (), (), False, is_private=True)
    report = partial(_write_port, answer)
    server.run_server(0, listening, Rules(), browser=False, is_worker=True, report_port=report)


def _write_port(answer: int, port: int) -> None:
    """Write the port that is bound to a handle, and close it."""
    with os.fdopen(answer, "w") as stream:
        stream.write(f"{port}\n")


if __name__ == "__main__":
    main()
