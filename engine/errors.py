"""Errors for the user: each message names the value, the legal values and the fix."""


class FrontierError(ValueError):
    """Unusable input; the message names the problem and the fix.

    finding: the message without options of functions and of the command line, for a page, which has fields of its own
    """

    def __init__(self, message: str = "", finding: str = "") -> None:
        super().__init__(message)
        self.finding = finding or message


class ParamError(FrontierError):
    """A parameter value outside its declared domain."""


class DataError(FrontierError):
    """A file or table that cannot be read; the message names its position and the fix."""


class RepeatedIdError(DataError):
    """A table in which several rows share an id."""


class ConflictingGradesError(DataError):
    """Judgements in which a document has different grades for one query."""


class Cancelled(Exception):
    """Cancellation of long work on request; finished parts stay cached."""
