"""What is said of a training: only what its comparisons bear."""

import pytest

from engine.evaluation.statistics import Comparison
from engine.training.comparison import verdict


def row(baseline, difference, significant=True):
    low, high = (difference - 0.01, difference + 0.01) if significant else (-0.1, 0.1)
    p = 0.001 if significant else 0.8
    return Comparison(
        name="m", label="m", baseline=baseline, metric="comp", k=5, queries=9, mean=0.5, baseline_mean=0.5 - difference,
        difference=difference, low=low, high=high, p=p, p_holm=p, comparisons=2, wins=(3, 3, 3),
    )  # fmt: skip


def verdict_of(name, rows, unimproved=False, epochs=6, control_epochs=20):
    return verdict(name, rows, unimproved, epochs, control_epochs)


@pytest.mark.parametrize(
    "gain, words",
    [
        (0.1, "is worth it here: nnn beats"),
        (-0.1, "does harm here: nnn is worse than"),
        (0, "makes no significant difference here: nnn vs"),
    ],
)
def test_training_for_a_decoder_is_held_against_that_decoder_without_it(gain, words):
    text = verdict_of("nnn", [row("dense-cont", 0.2), row("dense-cont, nnn", gain, significant=gain != 0)])
    assert words in text and "dense-cont, nnn, the same decoder on the embeddings of its control" in text
    # What the decoder is worth is never put down to training for it.
    assert ("the decoder gains without being trained for" in text) == (gain == 0)
    assert "dense-cont was trained on for 20 epochs, nnn for 6 epochs." in text
    assert "without being trained" not in verdict_of(
        "nnn", [row("dense-cont", 0.2, significant=False), row("dense-cont, nnn", 0, significant=False)]
    )


@pytest.mark.parametrize("gain", [row("dense-cont", 0, significant=False), row("dense-cont", -0.1)])
def test_what_the_control_does_without_the_decoder_is_not_hidden(gain):
    text = verdict_of("nnn", [gain, row("dense-cont, nnn", 0.1)])
    assert "does not beat dense-cont by itself" in text and "not worth it" in text and "is worth it" not in text


@pytest.mark.parametrize("gain, words", [(0.1, "beats"), (-0.1, "is worse than"), (0, "does not beat")])
def test_without_a_decoder_of_its_own_it_is_held_against_the_control(gain, words):
    text = verdict_of("colt", [row("encoder", 0.3), row("dense-cont", gain, significant=gain != 0)])
    assert text.startswith(f"colt {words} its control, dense-cont")


def test_the_start_is_held_against_the_encoder():
    text = verdict_of("dense", [row("encoder", 0.1), row("dense-cont", -0.1)])
    assert "beats the encoder's own embeddings" in text and "more epochs would help" in text
    assert "more epochs" not in verdict_of("dense", [row("encoder", 0.1), row("dense-cont", 0.1)])


def test_verdict_states_first_that_nothing_was_learnt():
    text = verdict_of("nnn", [row("dense-cont", 0.2), row("dense-cont, nnn", 0, significant=False)], unimproved=True)
    assert text.startswith("Training nnn never improved dev")
    assert verdict_of("nnn", []) == "" and "1 epoch." in verdict_of("colt", [row("dense-cont", 0.1)], epochs=1)
