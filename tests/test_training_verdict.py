"""What is said of a training: only what its comparisons bear."""

from types import SimpleNamespace

import pytest

from engine.evaluation.statistics import Comparison
from engine.learning.training.verdict import verdict


def stage(epochs, best=0):
    return SimpleNamespace(
        run=SimpleNamespace(best=best), history=[SimpleNamespace(epoch=e) for e in range(-1, epochs)]
    )


def row(baseline, difference, told=True):
    low, high = (difference - 0.01, difference + 0.01) if told else (-0.1, 0.1)
    p = 0.001 if told else 0.8
    return Comparison(
        name="m", label="m", baseline=baseline, metric="comp", k=5, queries=9, mean=0.5, baseline_mean=0.5 - difference,
        difference=difference, low=low, high=high, p=p, p_holm=p, comparisons=2, wins=(3, 3, 3),
    )  # fmt: skip


LEARNT, CONTROL = stage(6, 2), stage(20, 5)


def said(name, rows, learnt=LEARNT, control=CONTROL):
    return verdict(name, learnt, control, rows)


@pytest.mark.parametrize(
    "gain, words",
    [
        (0.1, "is worth it here: nnn beats"),
        (-0.1, "does harm here: nnn is worse than"),
        (0, "adds nothing that can be"),
    ],
)
def test_training_for_a_decoder_is_held_against_that_decoder_without_it(gain, words):
    told = said("nnn", [row("dense-cont", 0.2), row("dense-cont, nnn", gain, told=gain != 0)])
    assert words in told and "dense-cont, nnn, the same decoder on the embeddings of its control" in told
    # What the decoder is worth is never put down to training for it.
    assert ("the decoder gains without being trained for" in told) == (gain == 0)
    assert "dense-cont was trained on for 20 epochs, nnn for 6 epochs." in told
    assert "without being trained" not in said(
        "nnn", [row("dense-cont", 0.2, told=False), row("dense-cont, nnn", 0, told=False)]
    )


@pytest.mark.parametrize("plain", [row("dense-cont", 0, told=False), row("dense-cont", -0.1)])
def test_what_the_control_does_without_the_decoder_is_not_hidden(plain):
    told = said("nnn", [plain, row("dense-cont, nnn", 0.1)])
    assert "does not beat dense-cont by itself" in told and "not worth it" in told and "is worth it" not in told


@pytest.mark.parametrize("gain, words", [(0.1, "beats"), (-0.1, "is worse than"), (0, "does not beat")])
def test_without_a_decoder_of_its_own_it_is_held_against_the_control(gain, words):
    told = said("colt", [row("encoder", 0.3), row("dense-cont", gain, told=gain != 0)])
    assert told.startswith(f"colt {words} its control, dense-cont")


def test_the_start_is_held_against_the_encoder():
    told = said("dense", [row("encoder", 0.1), row("dense-cont", -0.1)])
    assert "beats the encoder's own embeddings" in told and "more epochs would help" in told
    assert "more epochs" not in said("dense", [row("encoder", 0.1), row("dense-cont", 0.1)])


def test_where_nothing_was_learnt_it_says_so_first():
    told = said("nnn", [row("dense-cont", 0.2), row("dense-cont, nnn", 0, told=False)], stage(3, -1))
    assert told.startswith("Training nnn never improved dev")
    assert said("nnn", []) == "" and "1 epoch." in said("colt", [row("dense-cont", 0.1)], stage(1))
