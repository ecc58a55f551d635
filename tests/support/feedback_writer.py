"""A process that writes feedback to a log, and prints each event that is on the disk.

python -m support.feedback_writer LOG NAME COUNT
"""

import subprocess
import sys

from engine import orag
from support.feedback import queries_near, random_space
from support.fork_server import Child, fork_python


def write_to(log: orag.Log, name: str, count: int, say=lambda person: None) -> None:
    """Feed `count` thumbs of as many people, but for those that the log has."""
    query = log.session.resolve_query(queries_near(log.session.space)[0][0])
    n_written = sum((event.person or "").startswith(f"{name} ") for event in log.refresh().events)
    for index in range(n_written, count):
        event = orag.thumb(log.session, query, index % len(log.session), index % 3 > 0, person=f"{name} {index}")
        log.feed(event)
        say(event.person)


def start_writer(path, name: str, count: int) -> Child | subprocess.Popen[str]:
    """Start a process that has opened the log and begins to write."""
    child = fork_python("-m", "support.feedback_writer", str(path), name, str(count))
    assert child.stdout.readline() == "ready\n"
    return child


if __name__ == "__main__":
    log = orag.log(sys.argv[1], random_space(), temperature=0.2)
    print("ready", flush=True)
    write_to(log, sys.argv[2], int(sys.argv[3]), lambda person: print(person, flush=True))
