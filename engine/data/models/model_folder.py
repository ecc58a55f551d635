"""A model's folder: which of its files count, whether all are there, and what is refused before a library sees it.

Nothing of a model is run, unpickled, or looked for outside its folder, where its fingerprint would not cover it.
"""

import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath

MAX_DEPTH = 3
"""Largest depth of the folders of a model."""
CONFIG_BYTES, FILE_BYTES = 2 << 20, 256 << 20
"""Largest sizes of a settings file and of any other file but weights, because libraries read all of them."""

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
_ALLOWED_CLASS = re.compile(
    r"sentence_transformers\.(\w+\.)*(modules|models)\.(\w+\.)*[A-Z]\w*|torch\.nn\.(\w+\.)*[A-Z]\w*", re.ASCII
)
# Loaders take these from a model's own files, some of them even where the caller says otherwise. A device_map puts
# weights on a disk, into whatever folder offload_folder names; mismatched sizes would be filled with random numbers.
_LOADER_SETTINGS = {
    "adapter_kwargs", "base_model_name_or_path", "code_revision", "device_map", "gguf_file", "ignore_mismatched_sizes",
    "offload_folder", "processor_name", "tokenizer_name_or_path", "transformers_weights", "trust_remote_code",
    "use_kernels", "use_safetensors", "weights_only",
}  # fmt: skip
_LENGTH_KEYS = {"max_seq_length", "model_max_length"}


def walk_files(folder: Path, max_depth: int = MAX_DEPTH) -> Iterator[Path]:
    """Yield all files in a folder and its subfolders up to a depth; links to folders are not followed."""
    for path in folder.iterdir():
        if not path.is_dir():
            yield path
        elif max_depth and not path.is_symlink():
            yield from walk_files(path, max_depth - 1)


def files(folder: Path) -> list[str]:
    """List the files of a folder that a model is made of, as paths inside it."""
    return relevant(path.relative_to(folder).as_posix() for path in walk_files(folder) if path.is_file())


def relevant(file_names: Iterable[str]) -> list[str]:
    """Return the files of a model that the torch backend may read, sorted."""
    return [str(path) for path in _list_visible(file_names) if path.suffix not in _OTHER_SUFFIXES | _PICKLES]


def find_pickles(file_names: Iterable[str]) -> list[str]:
    """List the pickled weights that a loader would take because no safetensors lie beside them."""
    paths = _list_visible(file_names)
    safe_folders = {path.parent for path in paths if path.name in _SAFE_WEIGHTS}
    return [str(path) for path in paths if path.suffix in _PICKLES and path.parent not in safe_folders]


def has_pickles(folder: Path) -> bool:
    """Return True if a folder is a model whose weights are pickles."""
    names = (path.relative_to(folder).as_posix() for path in walk_files(folder))
    return declares_model(folder) and bool(find_pickles(names))


def explain_pickle(pickle: str, model_name: str) -> str:
    """Return the reason why a model with pickled weights is refused, and the command that converts them.

    pickle: the file of these weights.
    """
    convert_code = (
        "from sentence_transformers import SentenceTransformer; "
        f"SentenceTransformer({model_name!r}).save_pretrained({PurePosixPath(model_name).name + '-safe'!r})"
    )
    return (
        f"it holds weights that would have to be unpickled ({pickle}), which can run code. If you trust it, convert it "
        f"once and name the new folder: python -c {json.dumps(convert_code)}"
    )


def declares_model(folder: Path) -> bool:
    """Return True if a folder declares a model; any folder may be requested, even a disk's root."""
    return any((folder / file_name).is_file() for file_name in ("config.json", "modules.json"))


def is_complete(folder: Path) -> bool:
    """Return True if a folder has all files of a model, unlike an interrupted download."""
    if not declares_model(folder):
        return False
    file_names = set(files(folder))
    try:
        # An index names the shards of the weights; an interrupted download may have the index and not all of them.
        for index_path in (PurePosixPath(name) for name in file_names if name.endswith(".index.json")):
            shard_names = json.loads((folder / index_path).read_text("utf-8"))["weight_map"].values()
            if not file_names.issuperset(str(index_path.parent / shard_name) for shard_name in shard_names):
                return False
    except (ValueError, KeyError, AttributeError, RecursionError):
        return False
    return any(name.endswith(".safetensors") for name in file_names)


def find_refusals(folder: Path) -> Iterator[str]:
    """Yield the reasons why a model's folder must not be loaded, as clauses; none for a harmless one.

    Refused are huge files, pickled weights, which can run code, and settings that name code or files elsewhere.
    """
    path_by_name = {path.relative_to(folder).as_posix(): path for path in walk_files(folder) if path.exists()}
    for name, path in path_by_name.items():
        if not path.is_file():
            yield f"{name} is no regular file"
        elif path.suffix not in {".safetensors"} | _OTHER_SUFFIXES | _PICKLES and path.stat().st_size > FILE_BYTES:
            yield f"{name} has more than {FILE_BYTES >> 20} MiB"
    for pickled_file in find_pickles(path_by_name):
        yield explain_pickle(pickled_file, str(folder))
    for name in relevant(path_by_name):
        file_path = PurePosixPath(name)
        if file_path.suffix == ".json" and file_path.name not in _VOCABULARIES and not name.endswith(".index.json"):
            yield from _find_setting_refusals(folder, file_path)


def _find_setting_refusals(folder: Path, file: PurePosixPath) -> Iterator[str]:
    """Yield the reasons to refuse a settings file of a model; none for a harmless one.

    Refused are code of its own, settings that choose how or from where a model is loaded, wrong lengths, and folders
    outside the model's. file: path inside the folder.
    """
    settings_path = folder / file
    if settings_path.stat().st_size > CONFIG_BYTES:
        yield f"{file} has more than {CONFIG_BYTES >> 20} MiB, which no settings have"
        return
    try:
        content = json.loads(settings_path.read_text("utf-8"))
        for key_path, value in iterate_leaves(content):
            text = value if isinstance(value, str) else ""
            # A model names its own Python classes under this key.
            if "auto_map" in key_path:
                yield f"{file} names code of its own ({value!r:.80}, in auto_map), and it must need none"
            elif _CLASS_KEYS.intersection(key_path) and ("." in text or file.name == "modules.json"):
                if not _ALLOWED_CLASS.fullmatch(text):
                    yield (
                        f"{file} names {value!r:.80}, and only sentence-transformers' own modules and activations of "
                        "torch.nn are loaded: it must need no code of its own"
                    )
            elif value not in (None, "") and (loader_keys := _LOADER_SETTINGS.intersection(key_path)):
                yield f"{file} sets {loader_keys.pop()}: how a model is loaded is not its own to choose"
            # A document that is a bare value has no keys.
            elif value is not None and key_path[-1:] and key_path[-1] in _LENGTH_KEYS and not _is_length(value):
                yield f"{file} sets {key_path[-1]} to {value!r:.80}; it must be a number of tokens, at least 1"
            elif "/" in text and any(key.endswith("_implementation") for key in key_path):
                yield f"{file} names {text!r:.80} as an implementation: it must need no code of its own"
    except ValueError as error:
        yield f"{file} is not JSON ({error})"
        return
    except RecursionError:
        yield f"{file} is nested too deeply"
        return
    for module_place in _module_places(file, content):
        if not _is_inside(folder, module_place):
            yield f"{file} names {module_place!r:.80}, which is no folder of the model's own"


def _is_length(value: object) -> bool:
    """Return True for a number of at least 1."""
    return isinstance(value, int | float) and not isinstance(value, bool) and value >= 1


def iterate_leaves(value: object, key_path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], object]]:
    """Yield the plain values inside a JSON document, each with the keys of the objects that lead to it.

    Positions in lists are no keys: all values of a list have the keys of the list.
    """
    if isinstance(value, dict):
        for key, child in value.items():
            yield from iterate_leaves(child, (*key_path, key))
    elif isinstance(value, list):
        for child in value:
            yield from iterate_leaves(child, key_path)
    else:
        yield key_path, value


def _module_places(file_path: PurePosixPath, content: object) -> list[object]:
    """List the folders that a settings file of a model names for its parts; content: the parsed file.

    The folders stand in modules.json. Those of a Router, which chooses a part of the model by the role of a text, are
    the types in its settings. An entry of another kind than expected is returned as it is, for the caller to refuse.
    """
    if file_path.name == "modules.json" and isinstance(content, list):
        return [entry.get("path") if isinstance(entry, dict) else entry for entry in content]
    module_types = content.get("types") if isinstance(content, dict) else None
    if not isinstance(module_types, dict):
        return []
    return [f"{file_path.parent}/{type_name}" for type_name in module_types]


def _is_inside(folder: Path, module_place: object) -> bool:
    """Return True if a part of a model is inside the model's folder, and not behind a link.

    module_place: the folder that the settings name for it.
    """
    # A backslash, a colon or a NUL could lead elsewhere on some systems.
    if not isinstance(module_place, str) or re.search(r"[\\:\0]", module_place):
        return False
    path = PurePosixPath(module_place)
    # A file in the folder, "x" say, must be one that counts as the model's, or its fingerprint would not cover it.
    if path.is_absolute() or ".." in path.parts or len(path.parts) > MAX_DEPTH or not relevant([str(path / "x")]):
        return False
    # Comparing resolved paths also refuses a link on the way.
    return (folder / path).resolve() == folder.resolve() / path


def _list_visible(file_names: Iterable[str]) -> list[PurePosixPath]:
    """List a model's files that loaders of torch look at, sorted: no hidden ones or other backends'."""
    return [
        path
        for path in sorted(map(PurePosixPath, file_names))
        if not any(path_part.startswith((".", "__pycache__")) for path_part in path.parts)
        and not _OTHER_FOLDERS.intersection(path.parts)
    ]
