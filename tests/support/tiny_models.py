"""Models small enough to be made in a test, with random weights and no hub."""

from pathlib import Path

import torch


def tiny_cross_encoder(folder: Path, labels: int = 1, safe: bool = True, seed: int = 0) -> Path:
    """A folder that holds a two-layer BERT cross-encoder; safe: in safetensors, else pickled as torch.save does."""
    from transformers import BertConfig, BertForSequenceClassification, BertTokenizer

    letters = list("abcdefghijklmnopqrstuvwxyz0123456789")
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *letters, *(f"##{c}" for c in letters)]
    folder.mkdir(exist_ok=True)
    (folder / "vocab.txt").write_text("\n".join(words), encoding="utf-8")
    BertTokenizer(str(folder / "vocab.txt"), model_max_length=64).save_pretrained(folder)
    config = BertConfig(
        vocab_size=len(words),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=64,
        num_labels=labels,
        initializer_range=0.4,
    )
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = BertForSequenceClassification(config)
    model.save_pretrained(folder)
    if not safe:
        torch.save(model.state_dict(), folder / "pytorch_model.bin")
        (folder / "model.safetensors").unlink()
    return folder


def tiny_encoder(folder: Path, words: tuple[str, ...], seed: int = 0, prompt: str = "") -> Path:
    """A folder that holds a two-layer BERT sentence encoder which knows these words; prompt: its own for queries."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Normalize, Pooling, Transformer
    from transformers import BertConfig, BertModel, BertTokenizer

    known = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *words]
    below = folder.with_name(f"{folder.name}-bert")
    below.mkdir(parents=True)
    (below / "vocab.txt").write_text("\n".join(known), encoding="utf-8")
    BertTokenizer(str(below / "vocab.txt"), model_max_length=32).save_pretrained(below)
    config = BertConfig(
        vocab_size=len(known),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=32,
        initializer_range=0.4,
    )
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        BertModel(config).save_pretrained(below)
    layers = [Transformer(str(below)), Pooling(32), Normalize()]
    prompts = {"query": prompt} if prompt else {}
    SentenceTransformer(modules=layers, device="cpu", prompts=prompts).save_pretrained(
        str(folder), create_model_card=False
    )
    return folder
