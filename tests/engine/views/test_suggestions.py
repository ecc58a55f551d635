"""Suggested searches: whose words, which of them, and that they are the same every time."""

import numpy as np
import pytest
import torch

import engine
from engine.views.suggestions import first_words, suggest_searches

LONG = "Shells of revolution buckle under axial loads that vary with time, and nobody knows why they do so"


@pytest.mark.parametrize(
    "title,text,words",
    [
        ("A title of words", "Some text.", "A title of words"),
        ("reader.py", "Reads a file. Then closes it.", "Reads a file"),
        ("numpy.take", "take(a, axis=None). Take elements from an array.", "Take elements from an array"),
        ("alone", "", "alone"),
        ("", "Mask where *not* equal to **2 * 3** apples.", "Mask where not equal to **2 * 3** apples"),
        ("12", "34", ""),
        ("", LONG, "Shells of revolution buckle under axial loads that vary with"),
        ("", "two\n\nlines\u202e here", "two lines here"),
        ("", "紅茶はインドから来ました。緑茶は日本です。", "紅茶はインドから来ました。"),
        ("", "茶" * 100, "茶" * 60),
        ("", "", ""),
    ],
)
def test_first_words_are_a_phrase_cut_at_a_word(title, text, words):
    assert first_words(engine.Corpus(("d",), (text,), (title,)), 0) == words


def test_each_cluster_gives_one_search_and_the_largest_comes_first():
    random, sizes = np.random.default_rng(1), (9, 6, 4)
    rows = np.concatenate([np.eye(8)[group] + 0.05 * random.normal(size=(n, 8)) for group, n in enumerate(sizes)])
    texts = [f"group {group} member {i}" for group, n in enumerate(sizes) for i in range(n)]
    texts[-4:] = ["", "", "", "group 0 member 0"]
    ids = tuple(map(str, range(len(texts))))
    space = engine.Space(engine.Corpus(ids, tuple(texts)), engine.Embeddings(ids, torch.tensor(rows)), "cpu")
    suggestions = suggest_searches(space, 3)
    assert [text.split()[1] for _, text in suggestions] == ["0", "1", "0"] and len({t for _, t in suggestions}) == 3
    assert suggestions == suggest_searches(space, 3) and all(texts[row] == text for row, text in suggestions)
    # Nearest to the mean of its cluster.
    mean = rows[:9] / np.linalg.norm(rows[:9], axis=1, keepdims=True)
    assert suggestions[0].row == int(((mean - mean.mean(0)) ** 2).sum(1).argmin())
    assert [s.text for s in suggest_searches(space.of(["one", "one"], np.ones((2, 3))))] == ["one"]
