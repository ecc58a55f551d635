"""Arithmetic to encode in: bfloat16 if the hardware has it and the vectors stay the same, else float32."""

from collections.abc import Callable
from contextlib import suppress

import torch

from engine.data import cache
from engine.data.models import encoder_model
from engine.data.models.encoder_model import Dtype, ModelSource
from engine.errors import DataError, FrontierError
from engine.values import digest_of

MIN_FIDELITY = 0.999
"""Least cosine to the float32 vector, over all probe texts, at which bfloat16 is used."""

_PROBE_SECTION = "probes"
_HALF_DTYPE: Dtype = "bfloat16"
_FULL_DTYPE: Dtype = "float32"
_measured: dict[str, float] = {}

_PROBE_WORDS = "".join(
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
PROBE_TEXTS = tuple(" ".join((_PROBE_WORDS * 3)[start : start + 1 + 5 * i]) for i, start in enumerate(range(0, 96, 3)))


def choose_dtype(
    source: ModelSource, device: str, dtype: str, use_cache: bool = True, on_probe: Callable[[], None] = lambda: None
) -> Dtype:
    """Return the arithmetic for a model on a device: the requested one, or the best for "auto".

    That is bfloat16 if the hardware has it and a probe of the model shows faithful vectors, else float32. use_cache:
    remember the result of the probe on disk; on_probe: called before it. Raises FrontierError for any other dtype.
    """
    if dtype in (_FULL_DTYPE, _HALF_DTYPE):
        # Not `dtype` itself, which is any text to a type checker; the constants have the return type.
        return _FULL_DTYPE if dtype == _FULL_DTYPE else _HALF_DTYPE
    if dtype != "auto":
        raise FrontierError(f"dtype must be one of 'auto', 'float32', 'bfloat16'; got {dtype!r}")
    hardware = describe_hardware(device)
    if hardware is None:
        return _FULL_DTYPE
    # The result depends on the weights, on torch's kernels, on the hardware and on the probe texts.
    probe_key = digest_of([source.digest, torch.__version__, hardware, *PROBE_TEXTS])
    cosine = _measured.get(probe_key)
    if use_cache:
        # Without an entry the text is empty, which is no number: the model is then probed.
        with suppress(ValueError):
            cosine = _measured[probe_key] = float(cache.get(_PROBE_SECTION, probe_key) or "")
    if cosine is None:
        on_probe()
        cosine = _measured[probe_key] = measure_fidelity(source, device)
        if use_cache:
            cache.put(_PROBE_SECTION, probe_key, repr(cosine).encode())
    return _HALF_DTYPE if cosine >= MIN_FIDELITY else _FULL_DTYPE


def measure_fidelity(source: ModelSource, device: str) -> float:
    """Encode probe texts in bfloat16 and float32; return the least cosine of the two vectors of a text.

    −1 if bfloat16 fails. Only the model in the arithmetic that this cosine suggests stays in memory. Raises
    FrontierError when the model cannot be loaded or the device has no room for it.
    """
    vectors = []
    for dtype in (_FULL_DTYPE, _HALF_DTYPE):
        try:
            encoder = encoder_model.load(source, device, dtype)
            # Few texts at a time, so that the probe needs little memory.
            vectors.append(torch.cat([encoder.encode(PROBE_TEXTS[i : i + 8]) for i in range(0, len(PROBE_TEXTS), 8)]))
        # Other FrontierErrors are raised, such as that of a device without room: they may pass, but the result is kept.
        except (DataError, RuntimeError):
            if dtype == _FULL_DTYPE:
                raise
            encoder_model.unload(source, device, _HALF_DTYPE)
            return -1.0
    full_vectors, half_vectors = vectors
    cosine = float((full_vectors * half_vectors).sum(1).min())
    encoder_model.unload(source, device, _FULL_DTYPE if cosine >= MIN_FIDELITY else _HALF_DTYPE)
    return cosine


def describe_hardware(device: str) -> str | None:
    """Return a text that identifies the device's bfloat16 hardware; None if it would only be emulated."""
    device_type = torch.device(device).type
    if device_type == "cuda":
        major, minor = torch.cuda.get_device_capability(device)
        # Torch's own is_bf16_supported is true of older hardware too, which emulates.
        return f"cuda {major}.{minor}" if major >= 8 else None
    if device_type == "cpu":
        # Private functions, the only place where torch tells: if a version lacks them, None means float32, which is
        # right everywhere.
        tests = ("_is_amx_tile_supported", "_is_avx512_bf16_supported")
        supported = [test_name for test_name in tests if getattr(torch.cpu, test_name, lambda: False)()]
        return f"cpu {' '.join(supported)}" if supported else None
    return None
