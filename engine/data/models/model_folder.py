"""A model's folder: which of its files count, whether all are there, and what is refused before a library sees it.

Nothing of a model is run, unpickled, or looked for outside its folder, where its fingerprint would not cover it.
"""

import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath

DEEPEST = 3
"""Models keep their files so many folders deep at most."""
CONFIG_BYTES, OTHER_BYTES = 2 << 20, 256 << 20
"""What a settings file, and any other file but weights, may have at most: the libraries read them whole."""

# What the torch backend never reads: other backends' weights, and prose.
_OTHER_FOLDERS = {"onnx", "openvino", "coreml"}
_OTHER_SUFFIXES = {".md", ".h5", ".ot", ".msgpack", ".onnx", ".tflite", ".gguf"}
_PICKLES = {".bin", ".pt", ".pth", ".pkl", ".pickle", ".ckpt"}
_SAFE_WEIGHTS = {"model.safetensors", "model.safetensors.index.json"}
_VOCABULARIES = {
    "tokenizer.json", "vocab.json", "added_tokens.json", "tekken.json", "whitespacetokenizer_config.json",
    "phrasetokenizer_config.json",
}  # fmt: skip

_CLASS_KEYS = {
    "type", "types", "tokenizer_class", "activation_fn", "activation_function", "sbert_ce_default_activation_function",
}  # fmt: skip
# Only classes of the folders of modules: the library's modules also hold whatever they import, such as torch itself.
_CLASS = re.compile(
    r"sentence_transformers\.(\w+\.)*(modules|models)\.(\w+\.)*[A-Z]\w*|torch\.nn\.(\w+\.)*[A-Z]\w*", re.ASCII
)
# Loaders take these from a model's own files, some of them even where the caller says otherwise. A device_map puts
# weights on a disk, into whatever folder offload_folder names; mismatched sizes would be filled with random numbers.
_LOADER_SETTINGS = {
    "adapter_kwargs", "base_model_name_or_path", "code_revision", "device_map", "gguf_file", "ignore_mismatched_sizes",
    "offload_folder", "processor_name", "tokenizer_name_or_path", "transformers_weights", "trust_remote_code",
    "use_kernels", "use_safetensors", "weights_only",
}  # fmt: skip
_LENGTHS = {"max_seq_length", "model_max_length"}


def walked(folder: Path, deep: int = DEEPEST) -> Iterator[Path]:
    """List a folder and its subfolders up to a depth; links to folders are not followed."""
    for path in folder.iterdir():
        if not path.is_dir():
            yield path
        elif deep and not path.is_symlink():
            yield from walked(path, deep - 1)


def files(folder: Path) -> list[str]:
    """The files that a model is made of, see `relevant`."""
    return relevant(path.relative_to(folder).as_posix() for path in walked(folder) if path.is_file())


def relevant(names: Iterable[str]) -> list[str]:
    """Return the files of a model that the torch backend may read, sorted."""
    return [str(path) for path in _visible(names) if path.suffix not in _OTHER_SUFFIXES | _PICKLES]


def pickles(names: Iterable[str]) -> list[str]:
    """The pickled weights that a loader would take, as no safetensors lie beside them."""
    paths = _visible(names)
    safe = {path.parent for path in paths if path.name in _SAFE_WEIGHTS}
    return [str(path) for path in paths if path.suffix in _PICKLES and path.parent not in safe]


def pickled(folder: Path) -> bool:
    """Return True if a folder is a model whose weights are pickles."""
    return described(folder) and bool(pickles(path.relative_to(folder).as_posix() for path in walked(folder)))


def pickles_refused(pickle: str, model: str) -> str:
    """Return the reason why these weights are refused, and how to convert them."""
    line = (
        "from sentence_transformers import SentenceTransformer; "
        f"SentenceTransformer({model!r}).save_pretrained({PurePosixPath(model).name + '-safe'!r})"
    )
    return (
        f"it holds weights that would have to be unpickled ({pickle}), which can run code. If you trust it, convert it "
        f"once and name the new folder: python -c {json.dumps(line)}"
    )


def described(folder: Path) -> bool:
    """Return True if a folder declares a model; any folder may be requested, even a disk's root."""
    return any((folder / name).is_file() for name in ("config.json", "modules.json"))


def complete(folder: Path) -> bool:
    """Return True if a folder has all files of a model, unlike an interrupted download."""
    if not described(folder):
        return False
    names = set(files(folder))
    try:
        for index in (PurePosixPath(name) for name in names if name.endswith(".index.json")):
            shards = json.loads((folder / index).read_text("utf-8"))["weight_map"].values()
            if not names.issuperset(str(index.parent / shard) for shard in shards):
                return False
    except (ValueError, KeyError, AttributeError, RecursionError):
        return False
    return any(name.endswith(".safetensors") for name in names)


def refusals(folder: Path) -> Iterator[str]:
    """Return the reasons why a folder is not loaded, as clauses; empty for a harmless one."""
    paths = {path.relative_to(folder).as_posix(): path for path in walked(folder) if path.exists()}
    for name, path in paths.items():
        if not path.is_file():
            yield f"{name} is no regular file"
        elif path.suffix not in {".safetensors"} | _OTHER_SUFFIXES | _PICKLES and path.stat().st_size > OTHER_BYTES:
            yield f"{name} has more than {OTHER_BYTES >> 20} MiB"
    for pickle in pickles(paths):
        yield pickles_refused(pickle, str(folder))
    for name in relevant(paths):
        file = PurePosixPath(name)
        if file.suffix == ".json" and file.name not in _VOCABULARIES and not name.endswith(".index.json"):
            yield from _of_settings(folder, file)


def _of_settings(folder: Path, file: PurePosixPath) -> Iterator[str]:
    path = folder / file
    if path.stat().st_size > CONFIG_BYTES:
        yield f"{file} has more than {CONFIG_BYTES >> 20} MiB, which no settings have"
        return
    try:
        content = json.loads(path.read_text("utf-8"))
        for keys, value in leaves(content):
            text = value if isinstance(value, str) else ""
            if "auto_map" in keys:
                yield f"{file} names code of its own ({value!r:.80}, in auto_map), and it must need none"
            elif _CLASS_KEYS.intersection(keys) and ("." in text or file.name == "modules.json"):
                if not _CLASS.fullmatch(text):
                    yield (
                        f"{file} names {value!r:.80}, and only sentence-transformers' own modules and activations of "
                        "torch.nn are loaded: it must need no code of its own"
                    )
            elif value not in (None, "") and (chosen := _LOADER_SETTINGS.intersection(keys)):
                yield f"{file} sets {chosen.pop()}: how a model is loaded is not its own to choose"
            elif value is not None and keys[-1:] and keys[-1] in _LENGTHS and not _is_length(value):
                yield f"{file} sets {keys[-1]} to {value!r:.80}; it must be a number of tokens, at least 1"
            elif "/" in text and any(key.endswith("_implementation") for key in keys):
                yield f"{file} names {text!r:.80} as an implementation: it must need no code of its own"
    except ValueError as error:
        yield f"{file} is not JSON ({error})"
        return
    except RecursionError:
        yield f"{file} is nested too deeply"
        return
    for place in _module_places(file, content):
        if not _inside(folder, place):
            yield f"{file} names {place!r:.80}, which is no folder of the model's own"


def _is_length(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value >= 1


def leaves(value: object, keys: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], object]]:
    """The values of a JSON document, each with the keys that lead to it."""
    if isinstance(value, dict):
        for key, below in value.items():
            yield from leaves(below, (*keys, key))
    elif isinstance(value, list):
        for below in value:
            yield from leaves(below, keys)
    else:
        yield keys, value


def _module_places(file: PurePosixPath, content: object) -> list[object]:
    """The folders that a list of modules names, or the types of a Router."""
    if file.name == "modules.json" and isinstance(content, list):
        return [entry.get("path") if isinstance(entry, dict) else entry for entry in content]
    types = content.get("types") if isinstance(content, dict) else None
    return [f"{file.parent}/{name}" for name in types] if isinstance(types, dict) else []


def _inside(folder: Path, place: object) -> bool:
    """Return True if a module's folder is inside the model's folder and not behind a link."""
    if not isinstance(place, str) or re.search(r"[\\:\0]", place):
        return False
    path = PurePosixPath(place)
    if path.is_absolute() or ".." in path.parts or len(path.parts) > DEEPEST or not relevant([str(path / "x")]):
        return False
    return (folder / path).resolve() == folder.resolve() / path


def _visible(names: Iterable[str]) -> list[PurePosixPath]:
    """The files that loaders look at, sorted: none that is hidden, and none of another backend."""
    return [
        path
        for path in sorted(map(PurePosixPath, names))
        if not any(part.startswith((".", "__pycache__")) for part in path.parts)
        and not _OTHER_FOLDERS.intersection(path.parts)
    ]
