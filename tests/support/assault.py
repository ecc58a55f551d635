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
"""So that pyarrow starts no thread of its own."""


@dataclass
class Child:
    """A forked process and what it says, line by line."""

    pid: int
    pipe: int
    buffer: bytes = b""

    def lines(self) -> Iterator[str]:
        """What it says, until it ends."""
        while chunk := os.read(self.pipe, 65_536):
            *whole, self.buffer = (self.buffer + chunk).split(b"\n")
            yield from (line.decode() for line in whole)

    def bury(self) -> None:
        os.close(self.pipe)
        os.waitpid(self.pid, 0)


@dataclass
class Account:
    """What the children of one life said."""

    begun: set[str] = field(default_factory=set)
    kept: set[str] = field(default_factory=set)
    together: list[set[str]] = field(default_factory=list)  # the pieces that the last child began
    redone: int = 0  # pieces that were begun before
    again: int = 0  # names that were begun again though they had been said to be kept
    result: tuple[str, ...] = ()
    unkept: str = ""  # what was said of what could not be kept

    def hear(self, line: str) -> str:
        """Take a line in; returns its first word."""
        kind, *names = json.loads(line)
        if kind == "begun":
            self.redone += not self.begun.isdisjoint(names)
            self.again += len(self.kept.intersection(names))
            self.begun.update(names)
            self.together.append(set(names))
        elif kind == "kept":
            self.kept.update(names)
        elif kind == UNKEPT:
            self.unkept = names[0]
        else:
            self.result = (kind, *names)
        return kind

    def is_wide(self, there: set[str]) -> bool:
        """Whether a child that was killed has left more open than the piece that it had begun last."""
        return any(piece - there for piece in self.together[:-1])


class Notes(logging.Handler):
    """What is logged, and so said on the terminal."""

    def __init__(self) -> None:
        super().__init__()
        self.said: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.said.append(record.getMessage())


def fork(work: Callable[[Callable[..., None]], str], limit: int | None = None) -> Child:
    """A child that works, and says how that ended; limit: bytes beyond which no file of it grows."""
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
        say(UNKEPT, [" ".join(notes.said)])
        say(ENDED, [result])
    except FrontierError as error:
        say(REFUSED, [type(error).__name__, str(error)])
    except BaseException:
        say(DEFECT, [traceback.format_exc()])
    finally:
        os._exit(0)


def lived(name: str, folder: Path, limit: int | None = None, account: Account | None = None) -> Account:
    """An operation in a folder, to its end."""
    account = account or Account()
    child = fork(functools.partial(_work, name, folder), limit)
    for line in child.lines():
        account.hear(line)
    child.bury()
    return account


def _work(name: str, folder: Path, say: Callable[..., None]) -> str:
    from support.durable import OPERATIONS, home_in

    folder.mkdir(parents=True, exist_ok=True)
    home_in(folder)
    return OPERATIONS[name].work(folder, say)


def _kept(name: str, folder: Path) -> set[str]:
    """What a reader finds, in a process of its own."""
    from support.durable import OPERATIONS

    child = fork(lambda say: json.dumps(sorted(OPERATIONS[name].kept(folder))))
    kind, *found = json.loads([*child.lines()][-1])
    child.bury()
    if kind != ENDED:
        raise RuntimeError(f"{name} cannot be read: {found}")
    return set(json.loads(found[0]))


def kill(name: str, folder: str, kills: int, seed: int) -> dict:
    """Kill an operation so often, life after life; what was lost and done again, and the ends that were others.

    lost: names that were said to be kept and are not; again: those of them that were computed again; redone: pieces
    that were begun again, in part or whole; wide: kills that left more than one piece to be done again
    """
    place, chance = Path(folder), random.Random(seed)
    began = time.monotonic()
    whole = lived(name, place / "whole")
    if whole.result[0] != ENDED:
        raise RuntimeError(str(whole.result))
    pause = (time.monotonic() - began) / len(whole.begun)
    told: dict = {"kills": 0, "lives": 0, "lost": 0, "redone": 0, "again": 0, "wide": 0, "other": []}
    while told["kills"] < kills:
        told["lives"] += 1
        life, account = place / f"life{told['lives']}", Account()
        while told["kills"] < kills and _killed(name, life, account, chance, pause):
            there = _kept(name, life)
            told["kills"] += 1
            told["lost"] += len(account.kept - there)
            told["wide"] += account.is_wide(there)
        if not account.result:
            lived(name, life, account=account)
        told["redone"], told["again"] = told["redone"] + account.redone, told["again"] + account.again
        if account.result != whole.result:
            told["other"].append(account.result)
    return told


def _killed(name: str, folder: Path, account: Account, chance: random.Random, pause: float) -> bool:
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
    """Run an operation so often where there is too little room, and again once there is; how each ended.

    by: "disk", which is full, or "file", whose size is limited. silent: how many ended and did not say that what they
    made is not kept; other: results that are not as undisturbed
    """
    place, chance = Path(folder), random.Random(seed)
    whole = lived(name, place / "whole")
    used = [path.stat().st_size for path in (place / "whole").rglob("*") if path.is_file()]
    _empty(place / "whole")
    most = sum(used) if by == "disk" else max(used)
    told: dict = {"refused": 0, "ended": 0, "silent": 0, "lost": 0, "messages": [], "defects": [], "other": []}
    for turn in range(rooms):
        life, room = place / f"life{turn}", int(most * chance.uniform(0, 0.95) ** 2) * (turn > 0)
        if by == "disk":
            with _ballast(place, room):
                tried = lived(name, life)
        else:
            tried = lived(name, life, limit=room)
        kind, *words = tried.result
        if kind == DEFECT:
            told["defects"].append(words[0])
            continue
        told[kind] += 1
        told["lost"] += len(tried.kept - _kept(name, life))
        if kind == REFUSED:
            told["messages"].append(words[1])
        else:
            told["silent"] += not tried.unkept
            told["messages"].append(tried.unkept)
        again = lived(name, life)
        told["other"] += [
            end.result for end in (tried, again) if end.result[0] != REFUSED and end.result != whole.result
        ]
        told["other"] += [again.result] if again.result[0] == REFUSED else []
        _empty(life)
    told["messages"] = sorted(set(told["messages"]))
    return told


def pair(name: str, folder: str, clearing: int) -> dict:
    """An operation twice at once in one folder, while a third process deletes the cache if asked to; how they ended."""
    place = Path(folder)
    whole = lived(name, place / "whole")
    life, accounts = place / "life", [Account(), Account()]
    life.mkdir()
    children = [fork(functools.partial(_work, name, life)) for _ in accounts]
    clearer = fork(functools.partial(_clear_again, life)) if clearing else None
    for child, account in zip(children, accounts, strict=True):
        for line in child.lines():
            account.hear(line)
        child.bury()
    if clearer is not None:
        os.kill(clearer.pid, signal.SIGKILL)
        clearer.bury()
    kept, there = set.union(*(account.kept for account in accounts)), _kept(name, life)
    other = [account.result for account in accounts if account.result != whole.result]
    return {"other": other, "lost": len(kept - there), "there": len(there), "kept": len(_kept(name, place / "whole"))}


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
    """A disk with so many bytes free."""
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


def _set(variable: str, value: str) -> dict:
    os.environ[variable] = value
    return {}


class Assailant:
    """The process that attacks; each request is answered before the next."""

    def __init__(self, *arguments: str, before: tuple[str, ...] = (), **variables: str) -> None:
        one = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "FRONTIER_THREADS"), "1")
        self.process = subprocess.Popen(
            [*before, sys.executable, "-m", "support.assault", *arguments],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            env=environment(**one, TOKENIZERS_PARALLELISM="false", **LONELY, **variables),
        )  # fmt: skip

    def ask(self, attack: str, *arguments) -> dict:
        """The answer to one request."""
        self.process.stdin.write(json.dumps([attack, *arguments], default=str) + "\n")
        self.process.stdin.flush()
        answer = json.loads(self.process.stdout.readline())
        if "failed" in answer:
            raise AssertionError(answer["failed"])
        return answer

    def tell(self, variable: str, value: str) -> None:
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
            answer = {"kill": kill, "fill": fill, "pair": pair, "environ": _set}[attack](*arguments)
        except Exception:
            answer = {"failed": traceback.format_exc()}
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
