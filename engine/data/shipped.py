"""Embeddings of the demo's texts by the bundled encoder, shipped with Frontier as float16, and maps of its documents.

Texts are named by a digest, so that any installed NumPy matches the texts that it has; a map by its key in the cache,
which has the digest of all embeddings, so that one bit more or less leaves it unused.
"""

from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path

import numpy as np
import torch
from safetensors import safe_open
from torch import Tensor

from engine.data import demo
from engine.values import digest_of

SHIPPED_ARITHMETIC = "float32"
"""Arithmetic in which they were computed, before they were rounded."""
DIGESTS_TENSOR, VECTORS_TENSOR, WEIGHTS_FIELD = "digests", "vectors", "weights"
"""Tensors of the file, and the field of its metadata with the digest of the encoder's files."""
_DIGEST_BYTES = 8


def shipped_file() -> Path:
    """Return the path of the shipped vectors, existing or not."""
    return demo.demo_folder() / "numpy-api" / "vectors.safetensors"


def shipped_maps_file() -> Path:
    """Return the path of the shipped maps, existing or not."""
    return demo.demo_folder() / "numpy-api" / "maps.safetensors"


def find_shipped_map(key: str) -> tuple[np.ndarray, float] | None:
    """Return a shipped t-SNE map, its (n, 2) float32 points and the perplexity used; None if it is not among them.

    key: of the map in the disk cache, a digest of the embeddings and all settings
    """
    try:
        with safe_open(shipped_maps_file(), "np") as arrays:
            perplexity_by_key = arrays.metadata() or {}
            return (arrays.get_tensor(key), float(perplexity_by_key[key])) if key in perplexity_by_key else None
    except OSError:
        return None


def text_digest(role: str, prompt: str, text: str) -> bytes:
    """Return the digest that names a text as the encoder receives it."""
    return bytes.fromhex(digest_of([role, prompt, text]))[:_DIGEST_BYTES]


def shipped_vectors(weights: str, role: str, prompt: str, texts: Sequence[str]) -> tuple[Tensor, Tensor] | None:
    """Look up the vectors that are shipped with Frontier, by the digests of n texts.

    Returns a mask of the texts that have one, (n,), and unit rows, (n, d) float32, zero for the others. weights: digest
    of the encoder's files; prompt: text that precedes each text. Returns None if the vectors are of another encoder, or
    fewer than half of the texts have one.
    """
    row_of_digest = _index_rows(shipped_file(), weights)
    if not row_of_digest:
        return None
    # −1 stands for a text without a shipped vector.
    row_indices = torch.tensor([row_of_digest.get(text_digest(role, prompt, text), -1) for text in texts])
    has_vector = row_indices >= 0
    if 2 * int(has_vector.sum()) < len(texts):
        return None
    with safe_open(shipped_file(), "pt") as tensors:
        rounded_rows = tensors.get_tensor(VECTORS_TENSOR)
    unit_rows = torch.zeros(len(texts), rounded_rows.shape[1])
    # Rounding to float16 leaves rows slightly off unit length.
    unit_rows[has_vector] = torch.nn.functional.normalize(rounded_rows[row_indices[has_vector]].float(), dim=1)
    return has_vector, unit_rows


@cache
def _index_rows(vectors_path: Path, weights: str) -> dict[bytes, int]:
    """Map the digest of each text to the row of its vector in the file.

    weights: digest of the encoder; the map is empty if the file has vectors of another one, or does not exist.
    """
    try:
        with safe_open(vectors_path, "pt") as tensors:
            if (tensors.metadata() or {}).get(WEIGHTS_FIELD) != weights:
                return {}
            text_digests = map(bytes, tensors.get_tensor(DIGESTS_TENSOR).tolist())
            return {digest: row_index for row_index, digest in enumerate(text_digests)}
    except OSError:
        return {}


def pack_vectors(digests: Iterable[bytes], vectors: Tensor) -> dict[str, Tensor]:
    """Return the tensors of a file of shipped vectors: digests of texts, and their vectors as float16."""
    digest_rows = torch.tensor([list(digest) for digest in digests], dtype=torch.uint8)
    return {DIGESTS_TENSOR: digest_rows, VECTORS_TENSOR: vectors.half()}
