"""Numbers in words and printable texts, in one style for pages, sentences and the command line."""

import re
import shlex
from collections.abc import Iterable
from difflib import get_close_matches

MINUS = "−"
IRREGULAR_NOUNS = {"queries": "query"}
SINGULAR_WORDS = {"are": "is", "were": "was", "have": "has", "stand": "stands"}
"""Verbs of the remarks on data."""
SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
CONTROL_CHARACTERS = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)
"""Control characters except line ends and tabs, bidi marks, line separators, and lone surrogates."""


def decimal(value: float, digits: int = 3) -> str:
    """Format a number with `digits` decimals and a proper minus sign, "0.149".

    With more decimals if all would be 0, and as a power of ten beyond six.
    """
    if value and abs(value) < 0.5 * 10**-6:
        return power(value)
    # At least one digit other than 0 is shown.
    while value and abs(value) < 0.5 * 10**-digits:
        digits += 1
    # Adding 0.0 turns negative zero into zero.
    return f"{value + 0.0:.{digits}f}".replace("-", MINUS)


def signed(value: float, digits: int = 3) -> str:
    """Format a difference, "+0.149" or "−0.022"; "±0" where it rounds to zero."""
    text = f"{abs(value):.{digits}f}"
    sign = MINUS if value < 0 else "+"
    return f"{sign}{text}" if float(text) else "±0"


def gain(value: float) -> str:
    """Format a measured difference, "+0.149", with more decimals where `signed` would print "±0"."""
    magnitude = decimal(abs(value))
    sign = MINUS if value < 0 else "+"
    return f"{sign}{magnitude}" if value else "±0"


def percent(share: float, digits: int = 0) -> str:
    """Format a share as a percentage, "95%"."""
    return f"{share:.{digits}%}".replace("-", MINUS)


def format_budget(share: float) -> str:
    """Format the share of a metric that is to be kept as a percentage with the digits that it has, "92.5%"."""
    return f"{100 * share:.4g}%"


def count_share(count: int, total: int) -> str:
    """Format a count with its share of a total, "385 (47%)"; a small share is never told as none."""
    share = count / total
    return f"{count:,} ({'under 1%' if 0 < share < 0.005 else percent(share)})"


def power(value: float) -> str:
    """Format a very small or large number with its power of ten, "2·10⁻¹⁵"; "0" for 0."""
    # Python's own rounding to one digit may raise the exponent: 9.6e-7 becomes 1·10⁻⁶.
    mantissa, _, exponent = f"{value:.0e}".partition("e")
    if not value:
        return "0"
    return f"{mantissa.replace('-', MINUS)}·10{str(int(exponent)).translate(SUPERSCRIPTS)}"


def singular_remark(remark: str) -> str:
    """Return a remark that follows a count above 1 as it follows 1: "file is not read" of "files are not read".

    Its first word is the noun, if it ends in s; the first verb before a colon is the noun's, and so is one after "and".
    Other sentences need a singular of their own.
    """
    noun, _, predicate = remark.partition(" ")
    if not noun.endswith("s"):
        return remark
    clause, colon, explanation = predicate.partition(":")
    verbs = "|".join(SINGULAR_WORDS)
    # Of several verbs the first one has the noun as its subject, and those that "and" adds.
    clause = re.sub(rf"\b({verbs})\b", lambda match: SINGULAR_WORDS[match[0]], clause, count=1)
    clause = re.sub(rf"(?<=\band )({verbs})\b", lambda match: SINGULAR_WORDS[match[0]], clause)
    sentence = f"{IRREGULAR_NOUNS.get(noun, noun[:-1])} {clause}{colon}{explanation}"
    return re.sub(r"\btheir\b", "its", sentence).rstrip()


def visible(text: str) -> str:
    """Replace control and bidi characters in a text, which could garble a screen, by Python's escapes."""
    return CONTROL_CHARACTERS.sub(lambda match: match[0].encode("unicode_escape").decode(), text)


def in_json(text: str) -> str:
    """Escape control characters in JSON, or in a string literal of code, without changing its value."""
    return CONTROL_CHARACTERS.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def command_line(words: Iterable[str]) -> str:
    """Join the words of a command to a line that can be pasted into a shell.

    Words with control characters use the $'…' quoting of Bash.
    """
    return " ".join(map(_quote_word, words))


def _quote_word(word: str) -> str:
    """Quote one word for a shell: by `shlex`, or by Bash's $'…' if it has control characters."""
    if not CONTROL_CHARACTERS.search(word):
        return shlex.quote(word)
    # Inside $'…' a backslash and a quote need a backslash; control characters become escapes that Bash reads.
    escaped_word = word.replace("\\", r"\\").replace("'", r"\'")
    return f"$'{in_json(escaped_word)}'"


def suggest_name(name: object, names: Iterable[str]) -> str:
    """Return "; did you mean 'mmr'?" for a name that is nearly one of `names`; "" for one that is near none."""
    nearest = get_close_matches(normalize_name(str(name)), list(names), n=1, cutoff=0.6)
    return f"; did you mean {nearest[0]!r}?" if nearest else ""


def normalize_name(name: str) -> str:
    """Return a name as methods and metrics are called: "Max-Sum" and "max sum" as "max_sum"."""
    return re.sub(r"[\s_-]+", "_", name.strip()).lower()
