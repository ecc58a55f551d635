"""Arithmetic to encode in: bfloat16 if the hardware has it and the vectors stay the same, else float32."""

from collections.abc import Callable
from contextlib import suppress

import torch

from engine.data import cache
from engine.data.models import encoder_model
from engine.data.models.encoder_model import Dtype, ModelSource
from engine.errors import DataError, FrontierError
from engine.values import digest_of

FIDELITY = 0.999
"""Least cosine to the float32 vector, over all probe texts, at which bfloat16 is used."""

_SECTION = "probes"
_HALF: Dtype = "bfloat16"
_FULL: Dtype = "float32"
_measured: dict[str, float] = {}

_WORDS = "".join(
    "The harbour opens at six, before the first ferry has left for the islands. "
    "Sort the records by date, then remove every row whose key was seen already. "
    "Too much salt hides the taste of the soup; too little leaves it flat. "
    "def area(width, height): return width * height  # both in metres "
    "In 1987 the river rose 4.2 m in one night, and 31 families lost their homes. "
    "A matrix is singular when one of its rows is a combination of the others. "
    "Patients who slept less than five hours reported pain twice as often. "
    "Das Museum zeigt Karten, Uhren und Fernrohre aus drei Jahrhunderten. "
).split()
# Each starts elsewhere and is longer than the one before: 1 to 156 words, since rounding errors grow with length.
PROBE = tuple(" ".join((_WORDS * 3)[start : start + 1 + 5 * i]) for i, start in enumerate(range(0, 96, 3)))


def choose(
    source: ModelSource, device: str, dtype: str, memo: bool = True, on_probe: Callable[[], None] = lambda: None
) -> Dtype:
    """The arithmetic for a model on a device: the requested one, or for "auto" the fastest that is faithful.

    "auto" probes a model once on some hardware; memo: remember the result on disk; on_probe: called before. Raises
    FrontierError for another dtype.
    """
    if dtype in (_FULL, _HALF):
        return _FULL if dtype == _FULL else _HALF
    if dtype != "auto":
        raise FrontierError(f"dtype must be one of 'auto', 'float32', 'bfloat16'; got {dtype!r}")
    hardware = capability(device)
    if hardware is None:
        return _FULL
    key = digest_of([source.digest, torch.__version__, hardware, *PROBE])
    cosine = _measured.get(key)
    if memo:
        with suppress(ValueError):
            cosine = float(cache.get(_SECTION, key) or "")
    if cosine is None:
        on_probe()
        cosine = _measured[key] = fidelity(source, device)
        if memo:
            cache.put(_SECTION, key, repr(cosine).encode())
    return _HALF if cosine >= FIDELITY else _FULL


def fidelity(source: ModelSource, device: str) -> float:
    """The least cosine between a model's bfloat16 and float32 vectors of the probe; -1 if bfloat16 fails.

    Raises FrontierError when the model cannot be loaded or the device has no room for it.
    """
    vectors = []
    for dtype in (_FULL, _HALF):
        try:
            encoder = encoder_model.load(source, device, dtype)
            vectors.append(torch.cat([encoder.encode(PROBE[i : i + 8]) for i in range(0, len(PROBE), 8)]))
        except (DataError, RuntimeError):  # not a FrontierError: no room just now is no verdict to remember
            if dtype == _FULL:
                raise
            encoder_model.unload(source, device, _HALF)
            return -1.0
    cosine = float((vectors[0] * vectors[1]).sum(1).min())
    encoder_model.unload(source, device, _FULL if cosine >= FIDELITY else _HALF)
    return cosine


def capability(device: str) -> str | None:
    """The device's bfloat16 hardware, as part of a cache key; None if it would only be emulated."""
    kind = torch.device(device).type
    if kind == "cuda":
        major, minor = torch.cuda.get_device_capability(device)
        return f"cuda {major}.{minor}" if major >= 8 else None  # is_bf16_supported counts emulation in
    if kind == "cpu":
        # Private, and the only place where torch says it: without them, float32 is right everywhere.
        tests = ("_is_amx_tile_supported", "_is_avx512_bf16_supported")
        has = [test for test in tests if getattr(torch.cpu, test, lambda: False)()]
        return f"cpu {' '.join(has)}" if has else None
    return None
