"""Errors for the user: each message names the value, the legal ones, and the fix."""


class FrontierError(ValueError):
    """Unusable input; the message says what and how to mend it."""


class ParamError(FrontierError):
    """A parameter value outside its declared domain."""


class DataError(FrontierError):
    """A file or table that cannot be read; the message names the place and the fix."""


class RepeatedIdError(DataError):
    """A table in which several rows have one id."""


class Cancelled(Exception):
    """Long work was stopped on request; finished parts stay cached."""
