"""Content of a verdict card: a frontier, its conclusion, the evidence, and the code to reproduce it."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class CardCurve:
    """The points of one method, in the order of its parameter; a single one for a method without."""

    method: str  # its registered name
    label: str  # for people
    x: tuple[float, ...]
    y: tuple[float, ...]


@dataclass(frozen=True, kw_only=True)
class VerdictCard:
    """One picture's content; texts are shown as they are."""

    sentence: str
    curves: tuple[CardCurve, ...]
    titles: tuple[str, str]  # of x and y
    chosen: tuple[float, float] | None = None  # the point that the sentence is about
    chosen_label: str = ""
    queries: int  # the number of queries measured
    interval: str = ""  # of the sentence's figure, such as "95% CI +0.138 to +0.160"
    corpus: str
    fingerprint: str  # of its embeddings
    code: tuple[str, ...] = ()  # lines of Python
