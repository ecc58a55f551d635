"""Encoder models: prompts and token limit of one on disk, loading it, and encoding a batch.

Only `load` and the `Encoder` it returns import transformers, so that a start with every vector cached stays fast.
"""

import json
import logging
import math
import re
import sys
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import Any, Literal, TypeVar

import torch
from torch import Tensor

from engine.data.models import hub, model_folder
from engine.errors import DataError, FrontierError
from engine.progress import counted
from engine.values import replace_surrogates

Role = Literal["document", "query"]
Dtype = Literal["float32", "bfloat16"]
Key = TypeVar("Key")
Model = TypeVar("Model")
Text = TypeVar("Text")
Loaded = TypeVar("Loaded", bound="OnDevice")

OFFLINE_SETTINGS: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}
"""Settings of a loader that neither asks the hub nor runs a model's own code."""
SAFE_WEIGHTS: dict[str, Any] = {"dtype": torch.float32, "use_safetensors": True, "weights_only": True}
"""Settings of a loader that reads weights and unpickles nothing.

Always float32, because transformers makes the dtype that it builds a model in torch's default for the whole process:
with bfloat16, whatever other threads compute at that moment would be in bfloat16 too.
"""
_MAX_LAYERS, _PARAMETER_SLACK = 2048, 1 << 24
_MAX_LOADED_MODELS = 2  # models in memory: one for the current corpus and one to compare it with
_PROMPT_NAMES = {"query": ("query",), "document": ("document", "passage", "corpus")}

_lock = threading.RLock()
_encoders: "OrderedDict[tuple[str, str, str], Encoder]" = OrderedDict()


@dataclass(frozen=True)
class ModelSource:
    """A model on disk: its files and settings, read without loading it."""

    name: str  # as the user wrote it
    folder: Path  # its files
    digest: str  # of the files, see `hub.fingerprint`

    def prompt(self, role: Role) -> str:
        """Return the prefix that the model's authors put before every query or document; "" for most models."""
        # sentence-transformers 6.2 lets its own empty "document" prompt shadow a model's "passage" prompt.
        prompts = self._setting("config_sentence_transformers.json").get("prompts") or {}
        return next((prompts[prompt_name] for prompt_name in _PROMPT_NAMES[role] if prompts.get(prompt_name)), "")

    @cached_property
    def limit(self) -> int | None:
        """Maximum number of tokens per text, special tokens included; None if the model does not say."""
        max_tokens = self._setting("sentence_bert_config.json").get("max_seq_length")
        max_tokens = max_tokens or self._setting("tokenizer_config.json").get("model_max_length")
        # tokenizers without a limit say 1e30
        return int(max_tokens) if max_tokens and max_tokens < 1e9 else None

    def over_limit(self, texts: Iterable[str]) -> int | None:
        """Count the texts that are longer than the model's limit of tokens; None if the limit is unknown.

        They are read as a stream, so that a corpus may stay on the disk.
        """
        tokenizer_path, tokens = self.folder / "tokenizer.json", self.limit
        if tokens is None or not tokenizer_path.is_file():
            return None
        from tokenizers import Tokenizer

        tokenizer = Tokenizer.from_file(str(tokenizer_path))
        tokenizer.no_truncation()
        tokenizer.no_padding()
        # A token has at least one byte, so shorter texts need no counting; two tokens are special ones, at the ends.
        long_texts = (replace_surrogates(text) for text in texts if len(text.encode("utf-8", "replace")) > tokens - 2)
        n_longer = 0
        while block := list(islice(long_texts, 1024)):
            n_longer += sum(len(encoding.ids) > tokens for encoding in tokenizer.encode_batch_fast(block))
        return n_longer

    def _setting(self, file_name: str) -> dict[str, Any]:
        """Read a JSON settings file of the model; {} if it is missing or no object. Raises FrontierError."""
        path = self.folder / file_name
        if not path.is_file():
            return {}
        try:
            content = json.loads(path.read_text("utf-8"))
        except ValueError as error:
            raise FrontierError(f"the encoder {self.name!r} cannot be used: {path} is not JSON ({error})") from None
        return content if isinstance(content, dict) else {}


class NoRoomError(FrontierError):
    """A model that does not fit on its device."""


class OnDevice:
    """A loaded model, which several threads may share: batches take turns.

    If the device has no room for a batch it is halved, down to a single text, and then the CPU takes over; `retreat`
    says so, as words to follow what the model does.
    """

    def __init__(self, model: Any, device: str, label: str) -> None:
        """Take a model that is on its device; label: its name in messages."""
        self.model, self.device, self.label = model, device, label
        self.retreat = ""  # words for smaller batches or the CPU, once the device had no room
        self._turn = threading.Lock()  # fast tokenizers refuse a second thread, "Already borrowed"
        # None as long as the device has had room for every batch.
        self._max_batch: int | None = None

    def in_batches(self, texts: Sequence[Text], encode_batch: Callable[[Sequence[Text]], Tensor]) -> Tensor:
        """Encode all texts in batches that fit on the device; return the rows of all, on the CPU.

        encode_batch: function from a batch of texts to its rows. Raises FrontierError if even the CPU has too little
        memory.
        """
        results: list[Tensor] = []
        with self._turn:
            # The encoder is called even for no texts: it gives a matrix without rows, but of the right width.
            while len(texts) or not results:
                # None as the limit takes all texts.
                batch = texts[: self._max_batch]
                try:
                    results.append(encode_batch(batch).to("cpu"))
                    texts = texts[len(batch) :]
                    continue
                except IndexError as error:
                    raise FrontierError(
                        f"the {self.label} cannot be used: its tokenizer knows words that its weights do not ({error})"
                    ) from None
                except torch.OutOfMemoryError:
                    batch_size = len(batch)
                self._shrink_or_retreat(batch_size)  # not while the error holds what filled the device
        return torch.cat(results)

    def _shrink_or_retreat(self, batch_size: int) -> None:
        """Halve the batches after one did not fit; at a single text move the model to the CPU.

        batch_size: number of texts that did not fit. Raises NoRoomError on the CPU.
        """
        if batch_size > 1:
            self._max_batch = batch_size // 2
            self.retreat = f"in batches of {self._max_batch}, as {self.device} has no room for more"
        elif self.device == "cpu":
            raise NoRoomError(f"the {self.label} has no room for a single text: end other programs, or take another")
        else:
            self.model.to("cpu")
            self.retreat = on_cpu(self.device)
            self.device, self._max_batch = "cpu", None
        torch.cuda.empty_cache()
        say_retreat(self.label, self.retreat)


def on_cpu(device: str) -> str:
    """Return the words that say that a model runs on the CPU, because `device` has no room."""
    return f"on the CPU, as {device} has no room"


def say_retreat(label: str, retreat: str) -> None:
    """Log that a model runs in smaller batches or on the CPU; retreat: words that say so."""
    logging.getLogger("frontier").warning("note: the %s works %s", label, retreat)


class Encoder(OnDevice):
    """An encoder of texts in memory; threads that share it take turns."""

    def __init__(self, model: Any, source: ModelSource, device: str, dtype: Dtype) -> None:
        super().__init__(model, device, f"encoder {source.name!r}")
        self.source, self.dtype = source, dtype

    def encode(self, texts: Sequence[str], role: Role = "query", prompt: str | None = None) -> Tensor:
        """Encode one batch of texts as (n, d) float32 unit rows on the CPU; an all-zero row stays zero.

        prompt: text before each text, None for the model's own for that role. Raises FrontierError if even the CPU has
        no room, DataError if a vector is not finite.
        """
        encode_texts = self.model.encode_query if role == "query" else self.model.encode_document
        prompt = self.source.prompt(role) if prompt is None else prompt
        clean_texts = [replace_surrogates(text) for text in texts]

        def run(batch: Sequence[str]) -> Tensor:
            """Encode one batch that fits on the device."""
            embeddings: Tensor = encode_texts(
                list(batch), prompt=prompt, batch_size=max(1, len(batch)), convert_to_tensor=True,
                show_progress_bar=False,
            )  # fmt: skip
            return embeddings

        vectors = self.in_batches(clean_texts, run).to(torch.float32)
        if not torch.isfinite(vectors).all():
            bad_row = int((~torch.isfinite(vectors)).any(1).nonzero()[0])
            problem = (
                f"the encoder {self.source.name!r} in {self.dtype} gives numbers that are not finite for the text "
                f"{clean_texts[bad_row][:60]!r}"
            )
            raise DataError(
                f"{problem}; use dtype='float32' or another encoder",
                f"{problem}; choose the precision float32 or another encoder",
            )
        # A model that normalises does so in its own arithmetic: bfloat16 rows have norms of .996 to 1.004.
        return torch.nn.functional.normalize(vectors, dim=1, eps=1e-30)

    def warm_up(self) -> "Encoder":
        """Encode a text, as the first encoding is several times slower than the next; return the encoder."""
        self.encode(["a first query"])
        return self


def find_source(name: str, use_cache: bool = True, on_download: Callable[[], None] = lambda: None) -> ModelSource:
    """Find a model on disk, or download it.

    name: "bundled", a folder, or a name on the Hugging Face hub; use_cache: remember the digest of its files on disk;
    on_download: called before a download. Raises FrontierError if there is none, or it is refused.
    """
    folder = hub.folder_of(name, on_download)
    return ModelSource(name, folder, hub.fingerprint(folder, use_cache))


def load(source: ModelSource, device: str, dtype: Dtype) -> Encoder:
    """Load an encoder into memory, shared by all callers; on the CPU if the device has no room for it.

    The libraries print nothing. Raises FrontierError if the files make no model.
    """

    def make(actual_device: str) -> Encoder:
        """Build the encoder on a device."""
        from sentence_transformers import SentenceTransformer

        with loading(f"encoder {source.name!r}", source.folder, "model that"):
            model = SentenceTransformer(str(source.folder), device="cpu", model_kwargs=SAFE_WEIGHTS, **OFFLINE_SETTINGS)
            check_weights(model, source.folder)
            # One parameter at a time, so that the device never holds more than the model in this precision.
            model = model.to(device=actual_device, dtype=getattr(torch, dtype)).eval()
        return Encoder(model, source, actual_device, dtype)

    return get_shared(_encoders, _lock, (source.digest, device, dtype), lambda: place_model(make, device))


def place_model(build_model: Callable[[str], Loaded], device: str) -> Loaded:
    """Build a model on a device, or on the CPU with a warning if the device has no room.

    build_model: function from a device to the model on it.
    """
    try:
        return build_model(device)
    except NoRoomError:
        if device == "cpu":
            raise
    torch.cuda.empty_cache()
    model = build_model("cpu")
    model.retreat = on_cpu(device)
    say_retreat(model.label, model.retreat)
    return model


def get_shared(loaded: OrderedDict[Key, Model], lock: threading.RLock, key: Key, make: Callable[[], Model]) -> Model:
    """Return the model of a key, built by `make` on first use and shared by all callers.

    loaded: models in memory, of which the few used last stay; lock: guards them.
    """
    with lock:
        if key not in loaded:
            loaded[key] = make()
            while len(loaded) > _MAX_LOADED_MODELS:
                loaded.popitem(last=False)
        loaded.move_to_end(key)
        return loaded[key]


def unload(source: ModelSource, device: str, dtype: Dtype) -> None:
    """Remove an encoder from those that callers share; its memory is free once no caller uses it any more."""
    with _lock:
        _encoders.pop((source.digest, device, dtype), None)


def device_of(device: str | None) -> str:
    """Return the device to encode on: the requested one, else a GPU, else the CPU.

    Raises FrontierError if it is unavailable.
    """
    if device is None:
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device_type = torch.device(device).type
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError, TypeError, NotImplementedError) as error:
        reason = hub.first_line(error)
        raise FrontierError(f"device {device!r} cannot be used here: {reason}; use 'cpu' or leave it out") from None
    return device_type if device_type == "cpu" else str(torch.device(device))


@contextmanager
def loading(label: str, folder: Path, required_kind: str) -> Iterator[None]:
    """Silence the libraries while a model is loaded inside, and translate their errors.

    label: name of the model, for the error; required_kind: the kind of model needed, in words that the error continues
    by "needs no code of its own", such as "model that". Raises FrontierError.
    """
    try:
        with silence_libraries():
            _check_settings(folder)
            yield
    except torch.OutOfMemoryError:
        raise NoRoomError(f"the device has no room for the {label}; use device='cpu'") from None
    except Exception as error:  # a foreign folder can make the loader raise anything
        # The library builds its classes' documentation from docstrings when it is imported.
        if sys.flags.optimize >= 2:
            raise FrontierError(
                f"the {label} cannot be loaded: its library needs docstrings, which python -OO strips; run without -OO"
            ) from error
        raise FrontierError(
            f"the {label} cannot be loaded from {folder}: {hub.first_line(error)}. It must be a sentence-transformers "
            f"{required_kind} needs no code of its own"
        ) from error


def _check_settings(folder: Path) -> None:
    """Raise a FrontierError if the settings declare a model far larger than its weights.

    A library would build the declared model in memory before it reads the weights.
    """
    from transformers import AutoConfig, AutoModel

    for file_name in model_folder.files(folder):
        part_folder = (folder / file_name).parent
        weight_bytes = sum(weight_file.stat().st_size for weight_file in part_folder.glob("*.safetensors"))
        if PurePosixPath(file_name).name != "config.json" or not weight_bytes:
            continue
        settings = json.loads((folder / file_name).read_text("utf-8"))
        # Parts such as a dense layer have a config.json too, but no model that could be large.
        if "model_type" not in settings:
            continue
        for keys, setting in model_folder.iterate_leaves(settings):
            if isinstance(setting, int) and setting > _MAX_LAYERS and re.search("layers?$|blocks?$|depths?$", keys[-1]):
                raise FrontierError(f"{file_name} declares {setting:,} {keys[-1]}; {_MAX_LAYERS:,} are the most")
        # On the device "meta" a model has shapes but no numbers, and so takes no memory.
        with torch.device("meta"):
            config = AutoConfig.from_pretrained(part_folder, **OFFLINE_SETTINGS)
            n_declared = AutoModel.from_config(config, dtype=torch.float32).num_parameters()
        # Four numbers a byte, as weights of two bits have, and a constant are allowed.
        if n_declared > _PARAMETER_SLACK + 4 * weight_bytes:
            weights_text = f"its weights have {weight_bytes:,} bytes"
            raise FrontierError(f"{file_name} declares {counted(n_declared, 'number')}, and {weights_text}")


def check_weights(model: Any, folder: Path) -> None:
    """Raise a FrontierError if many of a model's numbers are in no file: the library draws them at random."""
    from safetensors import safe_open

    transformer = model.transformers_model
    if transformer is None or getattr(transformer.config, "quantization_config", None) is not None:
        return
    n_stored = 0
    for file_name in model_folder.files(folder):
        if file_name.endswith(".safetensors"):
            with safe_open(folder / file_name, "pt") as weights:
                tensor_names = weights.keys()  # it is no mapping
                n_stored += sum(math.prod(weights.get_slice(tensor_name).get_shape()) for tensor_name in tensor_names)
    if (n_declared := transformer.num_parameters()) > 1.25 * n_stored:
        raise FrontierError(
            f"config.json declares {counted(n_declared, 'number')}, and the weights hold {n_stored:,} of them"
        )


@contextmanager
def silence_libraries() -> Iterator[None]:
    """Silence the libraries' progress bars and load reports inside; restore the settings afterwards."""
    from huggingface_hub.utils.tqdm import are_progress_bars_disabled
    from transformers.utils import logging as transformers_logging

    # Progress bars are enabled again only if neither library had them disabled before.
    had_progress_bars = transformers_logging.is_progress_bar_enabled() and not are_progress_bars_disabled()
    loggers = [logging.getLogger(name) for name in ("transformers", "sentence_transformers")]
    log_levels = [named_logger.level for named_logger in loggers]
    transformers_logging.disable_progress_bar()
    for named_logger in loggers:
        named_logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        for named_logger, log_level in zip(loggers, log_levels, strict=True):
            named_logger.setLevel(log_level)
        if had_progress_bars:
            transformers_logging.enable_progress_bar()
