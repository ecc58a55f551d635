"""Embeddings of the demo's texts by the bundled encoder, which come with Frontier as float16.

Texts are named by a digest, so that whatever NumPy is installed finds those that it has.
"""

from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path

import torch
from safetensors import safe_open
from torch import Tensor

from engine.data import demo
from engine.values import digest_of

ARITHMETIC = "float32"
"""What they were computed in, before they were rounded."""
DIGESTS, VECTORS, WEIGHTS = "digests", "vectors", "weights"
"""Tensors of the file, and what its metadata calls the digest of the encoder's files."""
_BYTES = 8


def file() -> Path:
    """The file that holds them, there or not."""
    return demo.folder() / "numpy-api" / "vectors.safetensors"


def text_digest(role: str, prompt: str, text: str) -> bytes:
    """The name of a text as it is given to the encoder."""
    return bytes.fromhex(digest_of([role, prompt, text]))[:_BYTES]


def shipped_vectors(weights: str, role: str, prompt: str, texts: Sequence[str]) -> tuple[Tensor, Tensor] | None:
    """Whether a vector came for each text, (n,), and those unit rows, (n, d) float32, zero for the others.

    None where the encoder's weights are others, or fewer than half of the texts have one.
    """
    known = _rows(file(), weights)
    if not known:
        return None
    found = torch.tensor([known.get(text_digest(role, prompt, text), -1) for text in texts])
    there = found >= 0
    if 2 * int(there.sum()) < len(texts):
        return None
    with safe_open(file(), "pt") as tensors:
        rounded = tensors.get_tensor(VECTORS)
    rows = torch.zeros(len(texts), rounded.shape[1])
    # Rounding to float16 has left them a little off unit length.
    rows[there] = torch.nn.functional.normalize(rounded[found[there]].float(), dim=1)
    return there, rows


@cache
def _rows(path: Path, weights: str) -> dict[bytes, int]:
    """The row of each text's vector by its digest; empty for other weights, and where there is no such file."""
    try:
        with safe_open(path, "pt") as tensors:
            if (tensors.metadata() or {}).get(WEIGHTS) != weights:
                return {}
            return {bytes(row): i for i, row in enumerate(tensors.get_tensor(DIGESTS).tolist())}
    except OSError:
        return {}


def packed(digests: Iterable[bytes], vectors: Tensor) -> dict[str, Tensor]:
    """The tensors of the file."""
    names = torch.tensor([list(digest) for digest in digests], dtype=torch.uint8)
    return {DIGESTS: names, VECTORS: vectors.half()}
