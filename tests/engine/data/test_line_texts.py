"""Texts that stay in a large JSON Lines file: the same data set, and nothing of another file."""

import json
import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import engine
from engine.data import line_texts
from engine.data.line_texts import LineTexts
from engine.values import TextSource

ROWS = [
    {"_id": "a", "title": "One", "text": "the first — with ünïcode", "metadata": {"kind": "x"}},
    {"_id": "b", "title": None, "text": None, "metadata": {"kind": "y"}},
    {"_id": 3, "title": 7, "text": 42, "metadata": {"kind": "x"}},
    {"_id": "d", "text": "lone \ud800 surrogate\nand a break", "metadata": {"kind": "x"}},
    {"_id": "e", "title": "", "text": "", "metadata": {"kind": "y"}},
]


def write_folder(folder, rows=ROWS, mark=b"", gap="\n", end="\n"):
    """A data set's folder: a file with blank lines, perhaps a BOM, and a last line with or without a break."""
    folder.mkdir(exist_ok=True)
    body = gap.join(json.dumps(row, ensure_ascii="\\ud" in json.dumps(row)) + "\n" for row in rows)
    (folder / "corpus.jsonl").write_bytes(mark + (body.rstrip("\n") + end).encode())
    return folder


@pytest.fixture
def large(monkeypatch):
    """Every file counts as large."""
    monkeypatch.setattr(line_texts, "LARGE_FILE_BYTES", 0)


@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("gap", ["", "\n", " \r\n"])
@pytest.mark.parametrize("end", ["", "\n"])
def test_a_large_file_is_the_same_corpus_whose_texts_stay_there(tmp_path, monkeypatch, mark, gap, end):
    folder = write_folder(tmp_path / "set", mark=mark, gap=gap, end=end)
    small = engine.load_dataset(folder)
    assert isinstance(small.corpus.texts, tuple)
    monkeypatch.setattr(line_texts, "LARGE_FILE_BYTES", 0)
    stays = engine.load_dataset(folder)
    assert isinstance(stays.corpus.texts, LineTexts) and isinstance(stays.corpus.titles, LineTexts)
    assert stays.corpus == small.corpus and stays.notices == small.notices
    assert tuple(stays.corpus.texts) == small.corpus.texts and tuple(stays.corpus.titles) == small.corpus.titles
    assert tuple(stays.corpus.passages) == small.corpus.passages
    assert stays.corpus.texts[-2] == small.corpus.texts[-2] and stays.corpus.texts[1:4] == small.corpus.texts[1:4]


def test_rows_are_given_as_any_sequence_in_its_order(tmp_path, large):
    texts = engine.load_dataset(write_folder(tmp_path / "set")).corpus.texts
    every = list(texts)
    for rows in (range(5), [3, 0, 3], (1,), np.array([4, 2]), range(4, -1, -2), [], np.array([], int)):
        assert texts.read_rows(rows) == [every[row] for row in rows]


def test_selected_and_repeated_rows_stay_too(tmp_path, large):
    folder = write_folder(tmp_path / "set", [*ROWS, {**ROWS[0], "text": "again"}])
    chosen = engine.load_dataset(folder, where={"kind": ["x"]}, repeated="first").corpus
    assert chosen.ids == ("a", "3", "d") and isinstance(chosen.texts, TextSource)
    assert list(chosen.texts) == [ROWS[0]["text"], "42", ROWS[3]["text"]] and list(chosen.titles) == ["One", "7", ""]
    numbered = engine.load_dataset(folder, repeated="number").corpus
    assert numbered.ids[-1] == "a-2" and numbered.texts[-1] == "again"


def test_a_corpus_without_titles_does_not_read_any(tmp_path, large):
    corpus = engine.load_dataset(write_folder(tmp_path / "set", [{"_id": "a", "text": "alone"}])).corpus
    assert corpus.titles == ("",) and list(corpus.texts) == ["alone"]


def test_threads_read_at_once(tmp_path, large):
    rows = [{"_id": str(n), "text": f"text {n} " * (n % 7)} for n in range(500)]
    texts = engine.load_dataset(write_folder(tmp_path / "set", rows)).corpus.texts
    orders = [np.random.default_rng(seed).permutation(500) for seed in range(16)]
    with ThreadPoolExecutor(8) as threads:
        for order, texts_read in zip(orders, threads.map(texts.read_rows, orders), strict=True):
            assert texts_read == [rows[row]["text"] for row in order]


def test_pickled_it_is_a_path_and_offsets(tmp_path, large):
    rows = [{"_id": str(n), "text": "word " * 1000} for n in range(50)]
    texts = engine.load_dataset(write_folder(tmp_path / "set", rows)).corpus.texts
    assert texts[7] == rows[7]["text"], "the file is open"
    pickled = pickle.dumps(texts)
    assert len(pickled) < 3000
    assert pickle.loads(pickled).read_rows(range(50)) == [row["text"] for row in rows]


def test_a_file_that_changed_or_is_gone_is_named(tmp_path, large):
    folder = write_folder(tmp_path / "set")
    texts = engine.load_dataset(folder).corpus.texts
    restored = pickle.loads(pickle.dumps(texts))
    assert texts[0] == ROWS[0]["text"]
    with (folder / "corpus.jsonl").open("a") as file:
        file.write("\n")
    for source in (texts, restored):
        with pytest.raises(engine.DataError, match=r"corpus\.jsonl has changed since it was read.*load it again"):
            source.read_rows([0])
    elsewhere = pickle.loads(pickle.dumps(engine.load_dataset(folder).corpus.texts))
    (folder / "corpus.jsonl").unlink()
    with pytest.raises(engine.DataError, match=r"cannot read .*corpus\.jsonl: No such file"):
        elsewhere.read_rows([0])


def test_it_is_decoded_with_words_as_a_corpus_in_memory(tmp_path, monkeypatch):
    rows = [{"_id": str(n), "text": text} for n, text in enumerate(("red apples", "green pears", "red cherries"))]
    folder, texts_read = write_folder(tmp_path / "set", rows), []
    for bytes_ in (1 << 20, 0):
        monkeypatch.setattr(line_texts, "LARGE_FILE_BYTES", bytes_)
        space = engine.Space(engine.load_dataset(folder).corpus, engine.Embeddings(("0", "1", "2"), np.eye(3)), "cpu")
        queries = engine.Embeddings(("q",), np.ones((1, 3)), texts=("red cherries",))
        decoder = engine.Decoder(engine.make("top_k"), engine.make("bm25"))
        texts_read.append(engine.decode(decoder, space, queries, 3).index.tolist())
    assert texts_read[0] == texts_read[1]
