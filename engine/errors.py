"""The errors that reach a person: each says what was given, what would be legal, and what to do."""


class FrontierError(ValueError):
    """Something a person gave cannot be used; the message says what and how to mend it."""


class ParamError(FrontierError):
    """A parameter was given a value outside its declared domain."""


class DataError(FrontierError):
    """A file or a table cannot be read as it stands; the message names the place and the fix."""


class Cancelled(Exception):
    """Long work was asked to stop; what it had finished is kept."""
