"""Errors for the user: each message names the value, the legal values and the fix."""


class FrontierError(ValueError):
    """Unusable input; the message names the problem and the fix."""


class ParamError(FrontierError):
    """A parameter value outside its declared domain."""


class DataError(FrontierError):
    """A file or table that cannot be read; the message names its position and the fix."""


class RepeatedIdError(DataError):
    """A table in which several rows share an id."""


class Cancelled(Exception):
    """Cancellation of long work on request; finished parts stay cached."""
