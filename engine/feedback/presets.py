"""Presets: the parameters by which a session learns, and three named settings of them."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from engine.errors import ParamError
from engine.params import Choice, Declared, Flag, Real, Whole, check_values, declare, params_of, values_of

UNBOUNDED_LABEL = "no bound"
UPDATE_MODES = ("chosen", "full")
MIN_TEMPERATURE = 1e-6


@dataclass(frozen=True)
class Preset(Declared):
    """Parameters of a session; presets are equal if all parameters are.

    Every parameter is declared with its range and its help, as `engine.feedback.presets` lists them.

    Examples
    --------
    >>> orag.PRESETS["careful"].rate
    0.01
    """

    mode: str = declare(
        Choice("chosen", "mode", UPDATE_MODES, source="Algorithm 1 and appendix B.2"),
        "chosen: an outcome moves the chosen document only; full: it moves all of them.",
    )
    rate: float = declare(
        Real(0.02, "η", 0.0, 1.0, comfortable=(1e-8, 0.1), scale="log", source="Algorithm 1"),
        "How far one piece of feedback moves a document; the temperature is part of it.",
    )
    schedule: str = declare(
        Choice("constant", "η_t", ("constant", "sqrt"), source="section 3"),
        "constant: always η; sqrt: η/√t at round t.",
    )
    cap: float | None = declare(
        Real(0.1, "cap", 0.0, comfortable=(0.0, 0.2), unset=UNBOUNDED_LABEL, requires=("optimizer", "sgd")),
        "No single step is larger: one wrong answer cannot throw a document far.",
    )
    trust: float | None = declare(
        Real(0.5, "ρ", 0.0, comfortable=(0.0, 1.0), unset=UNBOUNDED_LABEL),
        "No document goes farther from where it began.",
    )
    ball: bool = declare(
        Flag(True, "ball", source="Algorithm 1, line 6"),
        "No document becomes longer than 1, or than it was where that is more.",
    )
    temperature: float | None = declare(
        Real(None, "τ", MIN_TEMPERATURE, comfortable=(0.01, 1.0), scale="log", unset="by perplexity"),
        "How sharply the chance of a document follows its score; not in the paper, which has 1.",
    )
    perplexity: float = declare(
        Real(8.0, "perplexity", 1.0, comfortable=(2.0, 50.0), advanced=True),
        "Without a temperature: the typical number of documents that a draw decides among.",
    )
    optimizer: str = declare(
        Choice("sgd", "optimizer", ("sgd", "adamw"), source="appendix C.2"),
        "Plain steps, or AdamW as in the paper's experiments.",
    )
    batch: int = declare(
        Whole(1, "batch", 1, 100_000, comfortable=(1, 50), source="appendix C.2"), "Rounds per update."
    )
    exposure: int = declare(
        Whole(1, "exposure", 1, 10_000, comfortable=(1, 10), source="appendix C.3"),
        "Number of times that a simulated stream shows every query.",
    )
    weights: str = declare(
        Choice("inclusion", "weights", ("inclusion", "paper"), source="Algorithm 2", advanced=True),
        "Several drawn: weighted by the chance to be among them, or by p as printed, which is biased.",
    )
    seed: int = declare(Whole(0, "seed", 0, 2**63 - 1, comfortable=(0, 100)), "Seed of the draws.")

    @property
    def name(self) -> str:
        """Name of the equal named setting, regardless of seed and exposure; "custom" if there is none."""
        # The named settings are PRESETS. Seed and exposure say how a run is drawn, not how documents learn.
        comparable = replace(self, seed=0, exposure=1)
        return next((preset_name for preset_name, preset in PRESETS.items() if preset == comparable), "custom")

    @property
    def by_rows(self) -> bool:
        """True if each round is a step of its own that moves only the chosen documents.

        Such a session stores only the rows that moved, not a matrix.
        """
        return self.mode == "chosen" and self.optimizer == "sgd" and self.batch == 1

    def step(self, step_number: int) -> float:
        """Return the learning rate η_t of a step, counted from 1."""
        return self.rate if self.schedule == "constant" else self.rate / max(step_number, 1) ** 0.5

    def as_json(self) -> dict[str, Any]:
        """Return the parameters as plain JSON values, which `Preset(**values)` reads back."""
        return values_of(self)


PRESETS: Mapping[str, Preset] = {
    "default": Preset(),
    "careful": Preset(rate=0.01, cap=0.05, trust=0.3),
    "paper": Preset(
        mode="full",
        rate=1e-5,
        schedule="sqrt",
        cap=None,
        trust=None,
        ball=False,
        temperature=1.0,
        optimizer="adamw",
        batch=10,
        weights="paper",
    ),
}
"""Named settings: "default" for streams of outcomes, "careful" for real people, "paper" as printed (see NOTES)."""
NOTES = {
    "default": "Moves the chosen document only, with every guard.",
    "careful": "Half the pace and less room: for feedback of real people.",
    "paper": "As the paper has it: expect no visible change in one pass.",
}


def resolve_preset(preset: str | Preset, overrides: Mapping[str, Any]) -> Preset:
    """Return a preset, given by name or as a value, with some of its parameters changed.

    Raises ParamError for an unknown name or parameter.
    """
    base_preset = PRESETS.get(preset) if isinstance(preset, str) else preset
    if not isinstance(base_preset, Preset):
        raise ParamError(f"preset must be one of {', '.join(PRESETS)}, or a Preset; got {preset!r}")
    return replace(base_preset, **check_values(params_of(base_preset), overrides, "a session"))
