"""Process of `dashboard.show`: the pages of a data set that it reads from its standard input, until that is closed."""

import sys

from dashboard import server, workers
from dashboard.services import corpora, transfer
from dashboard.services.roots import Rules


def main() -> None:
    """Read a data set, and serve it at the port and base path of its settings until the sender has gone."""
    try:
        dataset, settings = transfer.receive_dataset(sys.stdin.buffer)
    except EOFError:
        # The sender has been closed, or killed, meanwhile.
        return
    workers.end_with_parent()
    corpora.set_start_sources(transfer.register_dataset(dataset))
    listening = server.Listening(settings["base"], workers.WORKER_HOST, (), (), False, is_private=True)
    server.run_server(settings["port"], listening, Rules(), browser=False, is_worker=True)


if __name__ == "__main__":
    main()
