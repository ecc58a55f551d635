"""Attacks on operations: kills at random moments, and disks that are full.

Run as a script it is a process of one thread that has imported everything once. It reads requests as lines of JSON and
answers each; whatever it tries, a child does that it forks, so an attack costs no start.

python -m support.assault [MOUNTED]: with a folder, that is a disk of 20 MB, in this process's own view of the files
"""

import functools
import json
import logging
import os
import random
import resource
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from engine.errors import FrontierError
from support.processes import environment

ENDED, REFUSED, DEFECT, UNKEPT = "ended", "refused", "defect", "unkept"
MEGABYTES = 20
LONELY = {"JE_ARROW_MALLOC_CONF": "background_thread:false", "ARROW_DEFAULT_MEMORY_POOL": "system"}
"""Variables with which pyarrow starts no thread of its own."""


@dataclass
class Child:
    """A forked process and the lines that it writes."""

    pid: int
    pipe: int
    buffer: bytes = b""

    def lines(self) -> Iterator[str]:
        """Yield the lines that it writes, until it ends."""
        while chunk := os.read(self.pipe, 65_536):
            *complete_lines, self.buffer = (self.buffer + chunk).split(b"\n")
            yield from (line.decode() for line in complete_lines)

    def reap(self) -> None:
        os.close(self.pipe)
        os.waitpid(self.pid, 0)


@dataclass
class Account:
    """The messages of the children of one life."""

    begun_names: set[str] = field(default_factory=set)
    kept_names: set[str] = field(default_factory=set)
    together: list[set[str]] = field(default_factory=list)  # the pieces that the last child began
    redone: int = 0  # pieces that were begun before
    again: int = 0  # names that were begun again after they had been acknowledged
    result: tuple[str, ...] = ()
    unkept: str = ""  # the warning about what could not be kept

    def hear(self, line: str) -> str:
        """Record a line and return its first word."""
        kind, *names = json.loads(line)
        if kind == "begun":
            self.redone += not self.begun_names.isdisjoint(names)
            self.again += len(self.kept_names.intersection(names))
            self.begun_names.update(names)
            self.together.append(set(names))
        elif kind == "kept":
            self.kept_names.update(names)
        elif kind == UNKEPT:
            self.unkept = names[0]
        else:
            self.result = (kind, *names)
        return kind

    def is_wide(self, present_names: set[str]) -> bool:
        """Return True if a killed child left more unfinished than the piece that it began last."""
        return any(piece - present_names for piece in self.together[:-1])


class Notes(logging.Handler):
    """Handler that collects the log messages, as the terminal shows them."""

    def __init__(self) -> None:
        super().__init__()
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append(record.getMessage())


def fork(work: Callable[[Callable[..., None]], str], limit: int | None = None) -> Child:
    """Fork a child that works and reports how that ended; limit: bytes beyond which no file of it grows."""
    if (threads := len(os.listdir("/proc/self/task"))) != 1:
        raise RuntimeError(f"{threads} threads: a fork would leave {threads - 1} behind")
    reading, writing = os.pipe()
    if pid := os.fork():
        os.close(writing)
        return Child(pid, reading)
    os.close(reading)

    def say(kind: str, names) -> None:
        os.write(writing, json.dumps([kind, *names]).encode() + b"\n")

    try:
        if limit is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
        logging.getLogger("frontier").addHandler(notes := Notes())
        result = work(say)
        say(UNKEPT, [" ".join(notes.messages)])
        say(ENDED, [result])
    except FrontierError as error:
        say(REFUSED, [type(error).__name__, str(error)])
    except BaseException:
        say(DEFECT, [traceback.format_exc()])
    finally:
        os._exit(0)


def run_to_end(name: str, folder: Path, limit: int | None = None, account: Account | None = None) -> Account:
    """Run an operation in a folder to its end."""
    account = account or Account()
    child = fork(functools.partial(_work, name, folder), limit)
    for line in child.lines():
        account.hear(line)
    child.reap()
    return account


def _work(name: str, folder: Path, say: Callable[..., None]) -> str:
    from support.durable import OPERATIONS, home_in

    folder.mkdir(parents=True, exist_ok=True)
    home_in(folder)
    return OPERATIONS[name].work(folder, say)


def _read_kept_names(name: str, folder: Path) -> set[str]:
    """Return the names that a reader finds, in a process of its own."""
    from support.durable import OPERATIONS

    child = fork(lambda say: json.dumps(sorted(OPERATIONS[name].read_kept(folder))))
    kind, *payload = json.loads([*child.lines()][-1])
    child.reap()
    if kind != ENDED:
        raise RuntimeError(f"{name} cannot be read: {payload}")
    return set(json.loads(payload[0]))


def kill(name: str, folder: str, kills: int, seed: int) -> dict:
    """Kill an operation `kills` times, life after life; count what was lost, repeated, or ended differently.

    lost: acknowledged names that are missing; again: those of them that were computed again; redone: pieces
    that were begun again, in part or whole; wide: kills that left more than one piece to be done again
    """
    root, chance = Path(folder), random.Random(seed)
    began = time.monotonic()
    undisturbed = run_to_end(name, root / "whole")
    if undisturbed.result[0] != ENDED:
        raise RuntimeError(str(undisturbed.result))
    pause = (time.monotonic() - began) / len(undisturbed.begun_names)
    report: dict = {"kills": 0, "lives": 0, "lost": 0, "redone": 0, "again": 0, "wide": 0, "other": []}
    while report["kills"] < kills:
        report["lives"] += 1
        life, account = root / f"life{report['lives']}", Account()
        while report["kills"] < kills and _run_and_kill(name, life, account, chance, pause):
            present_names = _read_kept_names(name, life)
            report["kills"] += 1
            report["lost"] += len(account.kept_names - present_names)
            report["wide"] += account.is_wide(present_names)
        if not account.result:
            run_to_end(name, life, account=account)
        report["redone"], report["again"] = report["redone"] + account.redone, report["again"] + account.again
        if account.result != undisturbed.result:
            report["other"].append(account.result)
    return report


def _run_and_kill(name: str, folder: Path, account: Account, chance: random.Random, pause: float) -> bool:
    """Run an operation and kill it after some pieces and a moment; False where it had ended before."""
    after, moment = chance.randrange(4), chance.uniform(0, 1.5 * pause)
    account.together.clear()
    child = fork(functools.partial(_work, name, folder))
    for line in child.lines() if after else ():
        after -= account.hear(line) == "kept"
        if not after:
            break
    time.sleep(moment)
    os.kill(child.pid, signal.SIGKILL)
    for line in child.lines():
        account.hear(line)
    _, status = os.waitpid(child.pid, 0)
    os.close(child.pipe)
    return os.WIFSIGNALED(status) and not account.result


def fill(name: str, folder: str, rooms: int, seed: int, by: str) -> dict:
    """Run an operation `rooms` times with too little room, and again with enough; report how each ended.

    by: "disk", which is full, or "file", whose size is limited. silent: how many ended without a warning that their
    result is not kept; other: results that differ from the undisturbed one
    """
    root, chance = Path(folder), random.Random(seed)
    undisturbed = run_to_end(name, root / "whole")
    used = [path.stat().st_size for path in (root / "whole").rglob("*") if path.is_file()]
    _empty(root / "whole")
    max_bytes = sum(used) if by == "disk" else max(used)
    report: dict = {"refused": 0, "ended": 0, "silent": 0, "lost": 0, "messages": [], "defects": [], "other": []}
    for turn in range(rooms):
        life, room = root / f"life{turn}", int(max_bytes * chance.uniform(0, 0.95) ** 2) * (turn > 0)
        if by == "disk":
            with _ballast(root, room):
                attempt = run_to_end(name, life)
        else:
            attempt = run_to_end(name, life, limit=room)
        kind, *words = attempt.result
        if kind == DEFECT:
            report["defects"].append(words[0])
            continue
        report[kind] += 1
        report["lost"] += len(attempt.kept_names - _read_kept_names(name, life))
        if kind == REFUSED:
            report["messages"].append(words[1])
        else:
            report["silent"] += not attempt.unkept
            report["messages"].append(attempt.unkept)
        again = run_to_end(name, life)
        report["other"] += [
            end.result for end in (attempt, again) if end.result[0] != REFUSED and end.result != undisturbed.result
        ]
        report["other"] += [again.result] if again.result[0] == REFUSED else []
        _empty(life)
    report["messages"] = sorted(set(report["messages"]))
    return report


def pair(name: str, folder: str, clearing: int) -> dict:
    """Run an operation twice at once in one folder; clearing: while a third process deletes the cache."""
    root = Path(folder)
    undisturbed = run_to_end(name, root / "whole")
    life, accounts = root / "life", [Account(), Account()]
    life.mkdir()
    children = [fork(functools.partial(_work, name, life)) for _ in accounts]
    clearer = fork(functools.partial(_clear_again, life)) if clearing else None
    for child, account in zip(children, accounts, strict=True):
        for line in child.lines():
            account.hear(line)
        child.reap()
    if clearer is not None:
        os.kill(clearer.pid, signal.SIGKILL)
        clearer.reap()
    kept_names, present_names = set.union(*(account.kept_names for account in accounts)), _read_kept_names(name, life)
    other_results = [account.result for account in accounts if account.result != undisturbed.result]
    return {
        "other": other_results,
        "lost": len(kept_names - present_names),
        "there": len(present_names),
        "kept": len(_read_kept_names(name, root / "whole")),
    }


def _clear_again(folder: Path, say: Callable[..., None]) -> str:
    from engine.data import cache, inventory
    from support.durable import home_in

    home_in(folder)
    while True:
        cache.clear()
        with suppress(FrontierError):  # a store is in use
            inventory.remove_items(inventory.list_items())
        time.sleep(0.02)


@contextmanager
def _ballast(disk: Path, room: int) -> Iterator[None]:
    """Fill a disk up to `room` free bytes."""
    file = disk / "ballast"
    stat = os.statvfs(disk)
    with file.open("wb") as out:
        os.posix_fallocate(out.fileno(), 0, max(1, stat.f_bavail * stat.f_frsize - room))
    try:
        yield
    finally:
        file.unlink()


def _empty(folder: Path) -> None:
    subprocess.run(["rm", "-rf", str(folder)], check=True)


def _set_variable(variable: str, value: str) -> dict:
    os.environ[variable] = value
    return {}


class Assailant:
    """The process that attacks; each request is answered before the next."""

    def __init__(self, *arguments: str, command_prefix: tuple[str, ...] = (), **variables: str) -> None:
        single_thread = dict.fromkeys(
            ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "FRONTIER_THREADS"), "1"
        )
        self.process = subprocess.Popen(
            [*command_prefix, sys.executable, "-m", "support.assault", *arguments],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            env=environment(**single_thread, TOKENIZERS_PARALLELISM="false", **LONELY, **variables),
        )  # fmt: skip

    def ask(self, attack: str, *arguments) -> dict:
        """Send one request and return its answer."""
        self.process.stdin.write(json.dumps([attack, *arguments], default=str) + "\n")
        self.process.stdin.flush()
        answer = json.loads(self.process.stdout.readline())
        if "failed" in answer:
            raise AssertionError(answer["failed"])
        return answer

    def set_variable(self, variable: str, value: str) -> None:
        """Set a variable of its process."""
        self.ask("environ", variable, value)

    def close(self) -> None:
        self.process.stdin.close()
        self.process.wait(60)
        self.process.stdout.close()


def main(mounted: str = "") -> None:
    if mounted:
        options = ["-t", "tmpfs", "-o", f"size={MEGABYTES}m", "tmpfs", mounted]
        subprocess.run(["mount", *options], check=True)
    import sentence_transformers  # noqa: F401, for the children
    import torch

    import engine
    from support import durable  # noqa: F401

    for public in ("embed", "sweep", "tune", "train"):
        getattr(engine, public)
    torch.set_num_threads(1)
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what children print is no answer
    for line in sys.stdin:
        attack, *arguments = json.loads(line)
        try:
            answer = {"kill": kill, "fill": fill, "pair": pair, "environ": _set_variable}[attack](*arguments)
        except Exception:
            answer = {"failed": traceback.format_exc()}
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
