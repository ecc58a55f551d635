"""Values that declared parameters must refuse."""

import math

from engine.params import Choice, Flag, Number, Text


def invalid_values(param):
    """Return values outside the domain of a parameter, at least one of each kind of mistake."""
    if isinstance(param, Number):
        beyond = [param.low - 1]
        if param.high is not None and math.isfinite(param.high):
            beyond.append(param.high + 1)
        if param.type is float:
            beyond += [math.inf, "much"]
        else:
            beyond += [param.low + 0.5, "many"]
        return [*beyond, math.nan, True, *([] if param.unset else [None])]
    if isinstance(param, Text):
        return ["", " ", "two\nlines", "x" * (param.max_length + 1), 1, None]
    assert isinstance(param, Choice | Flag)
    return ["maybe", 1, None]
