"""8-bit codes: what they bound, and that no entry of the cache is used for rows that it is not of."""

import os

import numpy as np
import pytest
import torch

import engine
from engine.data import inventory
from engine.data.codes import CHECKSUM_BLOCK_WORDS, CODE_BLOCK_NUMBERS, CODES_SECTION, compute_codes, load_cached_codes
from engine.matrix import Matrix
from engine.paths import home

pytestmark = pytest.mark.usefixtures("home")


def rows_of(n=300, d=21, seed=0):
    return np.random.default_rng(seed).standard_normal((n, d), dtype=np.float32)


def mapped(path):
    """(the vectors of the file, their lengths)."""
    vectors = engine.load_vectors(path).vectors
    return vectors, vectors.norm(dim=1)


def entries():
    return [path for path in (home() / CODES_SECTION).glob("*") if path.name != "CACHEDIR.TAG"]


def are_equal(codes, expected):
    return all(torch.equal(a, b) for a, b in zip(codes, expected, strict=True))


@pytest.mark.parametrize("shape", [(1, 1), (3, 5), (2 * CODE_BLOCK_NUMBERS // 64 + 7, 64)])
def test_codes_of_rows_are_within_their_slack_and_never_far_off(shape):
    rows = rows_of(*shape)
    rows[0] = 0
    codes, step, slack = compute_codes(torch.from_numpy(rows))
    off = np.linalg.norm(rows - step.numpy()[:, None] * codes.numpy().astype(float), axis=1)
    assert (off <= slack.numpy()).all() and (slack.numpy() <= np.abs(rows).max(1) / 127 * np.sqrt(shape[1])).all()
    assert codes.dtype == torch.int8 and (codes[1:].abs().amax(1) == 127).all() and (codes[0] == 0).all()


def test_codes_of_a_file_are_made_once_and_read_as_its_pages(tmp_path, monkeypatch):
    np.save(tmp_path / "v.npy", rows_of(CHECKSUM_BLOCK_WORDS // 3, 29))  # more words than one piece of the checksum
    vectors, lengths = mapped(tmp_path / "v.npy")
    first = load_cached_codes(tmp_path / "v.npy", vectors, lengths)
    assert are_equal(first, compute_codes(vectors)) and len(entries()) == 1
    monkeypatch.setattr("engine.data.codes._quantize_blocks", None)
    again = load_cached_codes(tmp_path / "v.npy", vectors, lengths)
    assert are_equal(again, first)
    assert entries()[0].read_bytes()[: first[0].numel()] == first[0].numpy().tobytes()
    [item] = inventory.list_items()
    assert item.section == CODES_SECTION and item.facts["file"] == str(tmp_path / "v.npy")


@pytest.mark.parametrize("position", [0, 6299, 6300, 6304, -100, -60, -41, -40, -20, -8, -1])
def test_codes_with_any_byte_changed_are_made_anew(tmp_path, position):
    np.save(tmp_path / "v.npy", rows_of())
    vectors, lengths = mapped(tmp_path / "v.npy")
    load_cached_codes(tmp_path / "v.npy", vectors, lengths)
    [entry] = entries()
    sound = entry.read_bytes()
    damaged = bytearray(sound)
    damaged[position] ^= 64
    for content in (bytes(damaged), sound[:-1], sound + b"\0", b""):
        entry.write_bytes(content)
        assert are_equal(load_cached_codes(tmp_path / "v.npy", vectors, lengths), compute_codes(vectors))
        assert entry.read_bytes() == sound


def test_codes_of_a_file_that_changed_behind_its_time_are_made_anew(tmp_path):
    path = tmp_path / "v.npy"
    for seed in range(3):
        np.save(path, rows_of(seed=seed))
        os.utime(path, ns=(10**18, 10**18))
        vectors, lengths = mapped(path)
        assert are_equal(load_cached_codes(path, vectors, lengths), compute_codes(vectors)) and len(entries()) == 1
    old_bytes = entries()[0].read_bytes()
    os.utime(path, ns=(10**18, 10**18 + 1))
    assert (
        are_equal(load_cached_codes(path, vectors, lengths), compute_codes(vectors))
        and entries()[0].read_bytes() != old_bytes
    )
    # The same lengths in the same file: rows that were sampled tell.
    assert are_equal(load_cached_codes(path, -vectors, lengths), compute_codes(-vectors))


def test_codes_are_in_memory_where_nothing_can_be_kept(tmp_path, monkeypatch):
    np.save(tmp_path / "v.npy", rows_of())
    vectors, lengths = mapped(tmp_path / "v.npy")
    (tmp_path / "taken").write_text("a file")
    monkeypatch.setenv("FRONTIER_HOME", str(tmp_path / "taken"))
    assert are_equal(load_cached_codes(tmp_path / "v.npy", vectors, lengths), compute_codes(vectors))
    monkeypatch.setenv("FRONTIER_HOME", str(tmp_path / "home"))
    (tmp_path / "v.npy").rename(tmp_path / "gone.npy")
    assert are_equal(load_cached_codes(tmp_path / "v.npy", vectors, lengths), compute_codes(vectors)) and not entries()


def test_spaces_keep_codes_of_files_only(tmp_path):
    np.save(tmp_path / "v.npy", rows_of(70, 40))
    dataset = engine.load_dataset(tmp_path / "v.npy")
    space = engine.Space(dataset.corpus, dataset.vectors, "cpu")
    expected = compute_codes(space.vectors)
    assert are_equal(Matrix(space.vectors, cached=True).codes, expected) and not entries()
    assert are_equal(space.matrix.codes, expected) and len(entries()) == 1
    for scaled in (True, False):
        embeddings = engine.load_vectors(tmp_path / "v.npy", normalize=scaled)
        assert embeddings.file == (None if scaled else tmp_path / "v.npy")
    np.save(tmp_path / "double.npy", rows_of().astype(float))
    assert engine.load_vectors(tmp_path / "double.npy").file is None


def test_nnn_over_a_mapped_file_answers_as_over_memory(tmp_path):
    rows = rows_of(30_000, 40)
    np.save(tmp_path / "v.npy", rows / np.linalg.norm(rows, axis=1, keepdims=True))
    embeddings = engine.load_vectors(tmp_path / "v.npy")
    corpus = engine.Corpus(embeddings.ids, embeddings.ids)
    file, memory = (
        engine.Space(corpus, engine.Embeddings(embeddings.ids, vectors).with_file(path), "cpu")
        for vectors, path in ((embeddings.vectors, embeddings.file), (embeddings.vectors.clone(), None))
    )
    decoder = engine.Decoder(engine.make("nnn", l1=0.1, l2=0.1))
    query = embeddings.vectors[5] + embeddings.vectors[6]
    first, second = (engine.decode(decoder, space, query) for space in (file, memory))
    assert len(entries()) == 1 and first.info == second.info and first.info[0]["certified"]
    assert torch.equal(first.index, second.index) and torch.equal(first.gain, second.gain)


def test_vectors_of_a_folder_lie_in_their_file_until_rows_are_taken(tmp_path):
    np.save(tmp_path / "vectors.npy", rows_of(3))
    (tmp_path / "corpus.jsonl").write_text("".join(f'{{"_id": "{name}", "text": "{name}"}}\n' for name in "abc"))
    vectors = engine.load_dataset(tmp_path).vectors
    assert vectors.ids == ("a", "b", "c") and vectors.file == tmp_path / "vectors.npy"
    assert vectors.take([1, 0, 2]).file is None and vectors.with_file(None) == vectors
    (tmp_path / "vectors.ids.txt").write_text("c\na\nb\n")
    assert engine.load_dataset(tmp_path).vectors.file is None, "reordered, so in memory"
