"""Encoder models: prompts and token limit of one on disk, loading it, and encoding a batch.

Only `load` and the `Encoder` it returns import transformers, so that a start with every vector cached stays fast.
"""

import json
import logging
import math
import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Any, Literal, TypeVar

import torch
from torch import Tensor

from engine.data.models import hub, model_folder
from engine.errors import DataError, FrontierError
from engine.values import replace_surrogates

Role = Literal["document", "query"]
Dtype = Literal["float32", "bfloat16"]
K = TypeVar("K")
M = TypeVar("M")
T = TypeVar("T")
D = TypeVar("D", bound="OnDevice")

HARMLESS: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}
"""Settings of a loader that neither asks the hub nor runs a model's own code."""
SAFE_WEIGHTS: dict[str, Any] = {"dtype": torch.float32, "use_safetensors": True, "weights_only": True}
"""Settings of a loader that reads weights and unpickles nothing.

Always float32, because transformers makes the dtype that it builds a model in torch's default for the whole process:
with bfloat16, whatever other threads compute at that moment would be in bfloat16 too.
"""
_MOST_LAYERS, _SLACK = 2048, 1 << 24
_MOST_LOADED = 2  # models in memory: one for the current corpus and one to compare it with
_PROMPT_NAMES = {"query": ("query",), "document": ("document", "passage", "corpus")}

_lock = threading.RLock()
_loaded: "OrderedDict[tuple[str, str, str], Encoder]" = OrderedDict()


@dataclass(frozen=True)
class ModelSource:
    """A model on disk."""

    name: str  # as the user wrote it
    folder: Path  # its files
    digest: str  # of the files, see `hub.fingerprint`

    def prompt(self, role: Role) -> str:
        """The prefix that the model's authors put before every query or document; "" for most models."""
        # sentence-transformers 6.2 lets its own empty "document" prompt shadow a model's "passage" prompt.
        prompts = self._setting("config_sentence_transformers.json").get("prompts") or {}
        return next((prompts[name] for name in _PROMPT_NAMES[role] if prompts.get(name)), "")

    @cached_property
    def limit(self) -> int | None:
        """The most tokens per text, special tokens included; None if the model does not say."""
        limit = self._setting("sentence_bert_config.json").get("max_seq_length")
        limit = limit or self._setting("tokenizer_config.json").get("model_max_length")
        # tokenizers without a limit say 1e30
        return int(limit) if limit and limit < 1e9 else None

    def over_limit(self, texts: Sequence[str]) -> int | None:
        """The number of texts that the model truncates; None if unknown."""
        path, limit = self.folder / "tokenizer.json", self.limit
        if limit is None or not path.is_file():
            return None
        from tokenizers import Tokenizer

        tokenizer = Tokenizer.from_file(str(path))
        tokenizer.no_truncation()
        tokenizer.no_padding()
        # A token has at least one byte, so shorter texts need no counting.
        long = [replace_surrogates(text) for text in texts if len(text.encode("utf-8", "replace")) > limit - 2]
        blocks = (long[i : i + 1024] for i in range(0, len(long), 1024))
        return sum(len(e.ids) > limit for block in blocks for e in tokenizer.encode_batch_fast(block))

    def _setting(self, file: str) -> dict[str, Any]:
        path = self.folder / file
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

    Where the device has no room for a batch it is halved, down to a single text, and then the CPU takes over; `retreat`
    says so, as words to follow what the model does.
    """

    def __init__(self, model: Any, device: str, what: str) -> None:
        self.model, self.device, self.what, self.retreat = model, device, what, ""
        self._turn = threading.Lock()  # fast tokenizers refuse a second thread, "Already borrowed"
        self._most: int | None = None  # the longest batch that the device has room for, None while none was too long

    def in_batches(self, texts: Sequence[T], run: Callable[[Sequence[T]], Tensor]) -> Tensor:
        """Return the rows of `run` for all texts, on the CPU. Raises FrontierError if memory is too small."""
        done: list[Tensor] = []
        with self._turn:
            while len(texts) or not done:
                batch = texts[: self._most]
                try:
                    done.append(run(batch).to("cpu"))
                    texts = texts[len(batch) :]
                    continue
                except IndexError as error:
                    raise FrontierError(
                        f"the {self.what} cannot be used: its tokenizer knows words that its weights do not ({error})"
                    ) from None
                except torch.OutOfMemoryError:
                    size = len(batch)
                self._give_way(size)  # not while the error holds what filled the device
        return torch.cat(done)

    def _give_way(self, size: int) -> None:
        if size > 1:
            self._most = size // 2
            self.retreat = f"in batches of {self._most}, as {self.device} has no room for more"
        elif self.device == "cpu":
            raise NoRoomError(f"the {self.what} has no room for a single text: end other programs, or take another")
        else:
            self.model.to("cpu")
            self.retreat = on_cpu(self.device)
            self.device, self._most = "cpu", None
        torch.cuda.empty_cache()
        say_retreat(self.what, self.retreat)


def on_cpu(device: str) -> str:
    """Describe the fallback from a device to the CPU."""
    return f"on the CPU, as {device} has no room"


def say_retreat(what: str, retreat: str) -> None:
    """Log that a model runs with other settings than requested."""
    logging.getLogger("frontier").warning("note: the %s works %s", what, retreat)


class Encoder(OnDevice):
    """An encoder in memory."""

    def __init__(self, model: Any, source: ModelSource, device: str, dtype: Dtype) -> None:
        super().__init__(model, device, f"encoder {source.name!r}")
        self.source, self.dtype = source, dtype

    def encode(self, texts: Sequence[str], role: Role = "query", prompt: str | None = None) -> Tensor:
        """One batch of texts as (n, d) float32 unit rows on the CPU; an all-zero row stays zero.

        prompt: None for the model's prompt for that role. Raises FrontierError when there is no room on the CPU either,
        DataError when a vector is not finite.
        """
        encode = self.model.encode_query if role == "query" else self.model.encode_document
        prompt = self.source.prompt(role) if prompt is None else prompt
        clean = [replace_surrogates(text) for text in texts]

        def run(batch: Sequence[str]) -> Tensor:
            rows: Tensor = encode(
                list(batch), prompt=prompt, batch_size=max(1, len(batch)), convert_to_tensor=True,
                show_progress_bar=False,
            )  # fmt: skip
            return rows

        vectors = self.in_batches(clean, run).to(torch.float32)
        if not torch.isfinite(vectors).all():
            bad = int((~torch.isfinite(vectors)).any(1).nonzero()[0])
            raise DataError(
                f"the encoder {self.source.name!r} in {self.dtype} gives numbers that are not finite for the text "
                f"{clean[bad][:60]!r}; use dtype='float32' or another encoder"
            )
        # A model that normalises does so in its own arithmetic: bfloat16 rows have norms of .996 to 1.004.
        return torch.nn.functional.normalize(vectors, dim=1, eps=1e-30)

    def warm(self) -> "Encoder":
        """Encode a text: the first encoding takes several times as long as the next ones."""
        self.encode(["a first query"])
        return self


def find(name: str, memo: bool = True, on_download: Callable[[], None] = lambda: None) -> ModelSource:
    """A model by name; memo: keep the digest on disk; the rest, and the errors, as of `hub.folder_of`."""
    folder = hub.folder_of(name, on_download)
    return ModelSource(name, folder, hub.fingerprint(folder, memo))


def load(source: ModelSource, device: str, dtype: Dtype) -> Encoder:
    """The model in memory, as `shared`: on the CPU where the device has no room for it.

    Nothing is printed. Raises FrontierError when the files make no model.
    """

    def make(where: str) -> Encoder:
        from sentence_transformers import SentenceTransformer

        with loading(f"encoder {source.name!r}", source.folder, "model that"):
            model = SentenceTransformer(str(source.folder), device="cpu", model_kwargs=SAFE_WEIGHTS, **HARMLESS)
            check_weights(model, source.folder)
            # One parameter at a time, so that the device never holds more than the model in this precision.
            model = model.to(device=where, dtype=getattr(torch, dtype)).eval()
        return Encoder(model, source, where, dtype)

    return shared(_loaded, _lock, (source.digest, device, dtype), lambda: placed(make, device))


def placed(make: Callable[[str], D], device: str) -> D:
    """Build a model on a device, or on the CPU with a warning if the device has no room."""
    try:
        return make(device)
    except NoRoomError:
        if device == "cpu":
            raise
    torch.cuda.empty_cache()
    model = make("cpu")
    model.retreat = on_cpu(device)
    say_retreat(model.what, model.retreat)
    return model


def shared(loaded: OrderedDict[K, M], lock: threading.RLock, key: K, make: Callable[[], M]) -> M:
    """Return a model that all callers share; the last few stay in memory."""
    with lock:
        if key not in loaded:
            loaded[key] = make()
            while len(loaded) > _MOST_LOADED:
                loaded.popitem(last=False)
        loaded.move_to_end(key)
        return loaded[key]


def unload(source: ModelSource, device: str, dtype: Dtype) -> None:
    """Drop a model from memory, unless another caller uses it."""
    with _lock:
        _loaded.pop((source.digest, device, dtype), None)


def device_of(device: str | None) -> str:
    """Return the device to encode on: the requested one, else a GPU, else the CPU.

    Raises FrontierError if it is unavailable.
    """
    if device is None:
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        kind = torch.device(device).type
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError, TypeError, NotImplementedError) as error:
        reason = hub.first_line(error)
        raise FrontierError(f"device {device!r} cannot be used here: {reason}; use 'cpu' or leave it out") from None
    return kind if kind == "cpu" else str(torch.device(device))


@contextmanager
def loading(what: str, folder: Path, kind: str) -> Iterator[None]:
    """Load a model without a word; a FrontierError says which could not be loaded, and which kind it must be of."""
    try:
        with quiet():
            _check_settings(folder)
            yield
    except torch.OutOfMemoryError:
        raise NoRoomError(f"the device has no room for the {what}; use device='cpu'") from None
    except Exception as error:  # a foreign folder can make the loader raise anything
        raise FrontierError(
            f"the {what} cannot be loaded from {folder}: {hub.first_line(error)}. It must be a sentence-transformers "
            f"{kind} needs no code of its own"
        ) from error


def _check_settings(folder: Path) -> None:
    """Raise a FrontierError where the settings tell of a model much larger than its weights: memory for all of it."""
    from transformers import AutoConfig, AutoModel

    for file in model_folder.files(folder):
        part = (folder / file).parent
        size = sum(weights.stat().st_size for weights in part.glob("*.safetensors"))
        if PurePosixPath(file).name != "config.json" or not size:
            continue
        settings = json.loads((folder / file).read_text("utf-8"))
        if "model_type" not in settings:
            continue
        for keys, value in model_folder.leaves(settings):
            if isinstance(value, int) and value > _MOST_LAYERS and re.search("layers?$|blocks?$|depths?$", keys[-1]):
                raise FrontierError(f"{file} declares {value:,} {keys[-1]}; {_MOST_LAYERS:,} are the most")
        with torch.device("meta"):
            empty = AutoModel.from_config(AutoConfig.from_pretrained(part, **HARMLESS), dtype=torch.float32)
        if (declared := empty.num_parameters()) > _SLACK + 4 * size:
            raise FrontierError(f"{file} declares {declared:,} numbers, and its weights have {size:,} bytes")


def check_weights(model: Any, folder: Path) -> None:
    """Raise a FrontierError where a good part of a model's numbers is in no file: the library draws them at random."""
    from safetensors import safe_open

    body = model.transformers_model
    if body is None or getattr(body.config, "quantization_config", None) is not None:
        return
    there = 0
    for file in model_folder.files(folder):
        if file.endswith(".safetensors"):
            with safe_open(folder / file, "pt") as weights:
                names = weights.keys()  # it is no mapping
                there += sum(math.prod(weights.get_slice(name).get_shape()) for name in names)
    if (declared := body.num_parameters()) > 1.25 * there:
        raise FrontierError(f"config.json declares {declared:,} numbers, and the weights hold {there:,} of them")


@contextmanager
def quiet() -> Iterator[None]:
    """Silence the libraries' progress bars and load reports inside; restore the user's settings afterwards."""
    from huggingface_hub.utils.tqdm import are_progress_bars_disabled
    from transformers.utils import logging as transformers_logging

    bars = transformers_logging.is_progress_bar_enabled() and not are_progress_bars_disabled()
    loggers = [logging.getLogger(name) for name in ("transformers", "sentence_transformers")]
    levels = [logger.level for logger in loggers]
    transformers_logging.disable_progress_bar()
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
        if bars:
            transformers_logging.enable_progress_bar()
