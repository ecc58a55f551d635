"""Whether training was worth it, in a sentence or two, from the comparisons of a table."""

from __future__ import annotations

from collections.abc import Sequence

from engine.evaluation.statistics import Comparison
from engine.learning.training.trained import Trained

ENCODER, START, CONTROL = "encoder", "dense", "dense-cont"
"""What systems are called: the corpus before training, what a method starts from, the same trained on for longer."""


def verdict(name: str, learnt: Trained, control: Trained | None, told: Sequence[Comparison]) -> str:
    """What can be said of a method; "" where it was compared with nothing. told: it against every other system.

    Where the method's decoder was tried on the control's embeddings too, that comparison says what training for the
    decoder is worth; the one with the control alone also holds what the decoder is worth without it.
    """
    rows = {row.baseline: row for row in told}
    same = next((row for other, row in rows.items() if other.startswith(f"{CONTROL}, ")), None)
    plain, encoder = rows.get(CONTROL), rows.get(ENCODER)
    said = [f"Training {name} never improved dev: its weights are those it started with."] * (learnt.run.best < 0)
    if same is not None:
        ahead = plain is not None and plain.told and plain.difference > 0
        said.append(_trained_for(name, same, ahead))
        if not same.told and ahead:
            said.append(f"What it gains over {CONTROL}, the decoder gains without being trained for.")
    elif name == START and encoder is not None:
        said.append(_against(name, encoder, "the encoder's own embeddings"))
        if plain is not None and plain.told and plain.difference < 0:
            said.append(f"{CONTROL}, trained on for as long again, beats it: more epochs would help.")
    elif plain is not None:
        said.append(_against(name, plain, f"its control, {CONTROL}"))
    if said and control is not None and control is not learnt:
        said.append(f"{CONTROL} was trained on for {_epochs(control)}, {name} for {_epochs(learnt)}.")
    return " ".join(said)


def _trained_for(name: str, row: Comparison, ahead: bool) -> str:
    """ahead: it beats the control by itself too, whose decoder costs nothing."""
    other = f"{row.baseline}, the same decoder on the embeddings of its control"
    if not row.told:
        return f"Training for the decoder adds nothing that can be told here: no difference between {name} and {other}."
    if row.difference > 0 and ahead:
        return f"Training for the decoder is worth it here: {name} beats {other}, and {CONTROL} by itself."
    if row.difference > 0:
        return (
            f"{name} beats {other}, but does not beat {CONTROL} by itself: training for the decoder, and the decoder, "
            "are not worth it here."
        )
    return f"Training for the decoder does harm here: {name} is worse than {other}."


def _against(name: str, row: Comparison, other: str) -> str:
    if not row.told:
        return f"{name} does not beat {other}: no difference can be told."
    return f"{name} {'beats' if row.difference > 0 else 'is worse than'} {other}."


def _epochs(stage: Trained) -> str:
    count = stage.history[-1].epoch + 1
    return f"{count} epoch{'' if count == 1 else 's'}"
