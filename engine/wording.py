"""Numbers in words, and texts that can be shown: one style for pages, sentences and the command line."""

import re
import shlex
from collections.abc import Iterable

MINUS = "−"
SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
STEERING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""What steers a screen in place of being shown: control characters but for ends of lines and tabs, marks of direction,
separators of lines; and halves of characters, which no screen takes."""


def decimal(value: float, digits: int = 3) -> str:
    """A number with so many decimals, "0.149"; more where they would all be 0, a power of ten beyond six."""
    if value and abs(value) < 0.5 * 10**-6:
        return power(value)
    while value and abs(value) < 0.5 * 10**-digits:
        digits += 1
    return f"{value + 0.0:.{digits}f}".replace("-", MINUS)


def signed(value: float, digits: int = 3) -> str:
    """A difference, "+0.149" or "−0.022"; "±0" where it rounds to nothing."""
    text = f"{abs(value):.{digits}f}"
    return f"{MINUS if value < 0 else '+'}{text}" if float(text) else "±0"


def gain(value: float) -> str:
    """A measured difference, "+0.149"; more decimals where `signed` would write nothing."""
    shown = decimal(abs(value))
    return f"{MINUS if value < 0 else '+'}{shown}" if value else "±0"


def percent(share: float, digits: int = 0) -> str:
    """A share, "95%"."""
    return f"{share:.{digits}%}".replace("-", MINUS)


def power(value: float) -> str:
    """A very small or large number to its power of ten, "2·10⁻¹⁵"; "0" for 0."""
    mantissa, _, exponent = f"{value:.0e}".partition("e")
    if not value:
        return "0"
    return f"{mantissa.replace('-', MINUS)}·10{str(int(exponent)).translate(SUPERSCRIPTS)}"


def visible(text: str) -> str:
    """The text with what would steer a screen, or turn what stands beside it, written as Python's escapes."""
    return STEERING.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def in_json(text: str) -> str:
    """JSON, or a literal of it in code, that says the same and steers no screen: what would is escaped."""
    return STEERING.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def command_line(words: Iterable[str]) -> str:
    """A command as a shell takes it; words that would steer a screen are quoted as Bash and its kin escape them."""
    return " ".join(map(_quoted, words))


def _quoted(word: str) -> str:
    if not STEERING.search(word):
        return shlex.quote(word)
    plain = word.replace("\\", r"\\").replace("'", r"\'")
    return f"$'{in_json(plain)}'"
