"""Models small enough to be made in a test, with random weights and no hub."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch


def _bert(folder: Path, kind: str, words: Iterable[str], length: int, seed: int, **config_options: int) -> Any:
    """Save a two-layer transformers model with random weights, and its tokenizer, in a folder."""
    import transformers

    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *words]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "vocab.txt").write_text("\n".join(vocabulary), encoding="utf-8")
    transformers.BertTokenizer(str(folder / "vocab.txt"), model_max_length=length).save_pretrained(folder)
    config = transformers.BertConfig(
        vocab_size=len(vocabulary),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=length,
        initializer_range=0.4,
        **config_options,
    )
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = getattr(transformers, kind)(config)
    model.save_pretrained(folder)
    return model


def tiny_cross_encoder(folder: Path, labels: int = 1, safe: bool = True, seed: int = 0) -> Path:
    """Save a two-layer BERT cross-encoder; safe: in safetensors, else pickled as torch.save does."""
    model = _bert(folder, "BertForSequenceClassification", list_letters(), 64, seed, num_labels=labels)
    if not safe:
        torch.save(model.state_dict(), folder / "pytorch_model.bin")
        (folder / "model.safetensors").unlink()
    return folder


def list_letters() -> tuple[str, ...]:
    """Return letters and digits, alone and within words, of which a tokenizer makes up every text."""
    letters = "abcdefghijklmnopqrstuvwxyz0123456789"
    return *letters, *(f"##{letter}" for letter in letters)


def tiny_encoder(folder: Path, words: tuple[str, ...], seed: int = 0, prompt: str = "") -> Path:
    """Save a two-layer BERT sentence encoder for a vocabulary; prompt: its own for queries."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Normalize, Pooling, Transformer

    below = folder.with_name(f"{folder.name}-bert")
    _bert(below, "BertModel", words, 32, seed)
    layers = [Transformer(str(below)), Pooling(32), Normalize()]
    prompts = {"query": prompt} if prompt else {}
    model = SentenceTransformer(modules=layers, device="cpu", prompts=prompts)
    model.save_pretrained(str(folder), create_model_card=False)
    return folder
