"""What this server reads and takes of what its visitors name and send: the roots of typed paths, and uploads.

A path is resolved before it is compared, and so is every file that a reader would open in a folder. What is replaced
between that look and the reading (by somebody who can write on this machine) is not noticed.
"""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from engine.errors import DataError
from engine.paths import cache_folders
from engine.wording import visible

OURS = ("uploads", "judgements")
"""Folders in Frontier's own whose files pages open again, whatever a visitor may type."""
READ = ("corpus.jsonl", "queries.jsonl", "aspects.tsv", "vectors.npy", "vectors.npz", "vectors.ids.txt", "ids.txt")
MODEL = ("config.json", "modules.json")
DEEPEST = 3
"""Models keep their files so many folders deep at most."""
_ON_A_HUB = re.compile(r"\w[\w.-]*(/\w[\w.-]*)?", re.ASCII)
#: Of one file that a visitor sends.
MAX_UPLOAD_BYTES = 2 << 30
UPLOADS_OFF = "Uploads are off, as others can reach this server: frontier serve --allow-uploads turns them on."
PATHS_OFF = "Typed paths are off, as others can reach this server: frontier serve --root FOLDER opens a folder."


@dataclass(frozen=True, kw_only=True)
class Rules:
    """What the command line allows."""

    roots: tuple[Path, ...] = ()  # folders in which typed paths may lie
    corpora: tuple[Path, ...] = ()  # files and folders that it names, links in them included
    shared: bool = False  # whether others can reach the server: the user's home is no root then
    uploads: bool = True  # whether files may be sent


_RULES = [Rules()]


def set_rules(rules: Rules) -> None:
    """Set what holds for all visitors of this server."""
    _RULES[:] = [rules]


def rules() -> Rules:
    """What holds for all visitors of this server."""
    return _RULES[0]


def typed_paths() -> bool:
    """Whether pages take typed paths at all."""
    return not rules().shared or bool(rules().roots)


def check(typed: str | Path) -> Path:
    """The path that somebody typed. Raises DataError where it leads out of the roots, whether it is there or not."""
    try:
        path = Path(typed).expanduser()
        if ".." in path.parts:  # else what a folder before it is called would tell whether that is there
            path = Path(os.path.abspath(path))
        real = path.resolve()
    except (OSError, RuntimeError, ValueError):  # no such user's home, links in a circle, a zero byte
        raise DataError(_refusal(typed)) from None
    if not any(real.is_relative_to(root) for root in _roots()):
        raise DataError(_refusal(typed))
    return path


def check_corpus(typed: str | Path) -> Path:
    """As `check`, for a corpus or judgements, whose files must not lead out either."""
    path = check(typed)
    if path.absolute() in rules().corpora:
        return path
    if os.path.isdir(path):  # False for a name that no file can have, which the reader refuses by name
        files = [*(path / name for name in READ), *path.glob("qrels*"), *path.glob("*/*.tsv")]
    else:
        files = [path.with_name(f"{path.stem}.ids.txt"), path.with_name("ids.txt")]
    for file in files:
        check(file)
    return path


def check_model(name: str) -> None:
    """Raise DataError where a model's name is a folder that leads out of the roots, or holds what does."""
    if not is_path(name):
        return
    folder = check(name)
    if any(os.path.exists(folder / file) for file in MODEL):
        for file in _inside(folder, DEEPEST):
            check(file)


def is_path(name: str) -> bool:
    """Whether a model's name is that of a folder, there or not, and not one on a hub."""
    # What looks like a name on a hub may lie in the folder that the server was started in.
    return not _ON_A_HUB.fullmatch(name) or os.path.exists(name)


def refusal_of(typed: str) -> str | None:
    """The error of `check_corpus`, None for a path that may be read."""
    try:
        check_corpus(typed)
    except DataError as error:
        return str(error)
    return None


def _roots() -> Iterator[Path]:
    known = rules()
    own = (
        [folder / name for folder in cache_folders() for name in OURS]
        if known.shared
        else [Path.home(), *cache_folders()]
    )
    for root in (*known.roots, *known.corpora, *own):
        yield root.resolve()


def _inside(folder: Path, deep: int) -> Iterator[Path]:
    """What lies in a folder and in those in it, linked ones too, each before what is in it."""
    for path in folder.iterdir():
        yield path
        if deep and path.is_dir():
            yield from _inside(path, deep - 1)


def _refusal(typed: str | Path) -> str:
    return (
        f"{visible(str(typed))[:300]!r} lies outside the folders that this server reads: start it with "
        "--root FOLDER, a folder that holds it, to have it read"
    )
