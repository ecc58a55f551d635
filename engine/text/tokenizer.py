"""Tokenizer: case-folded words and pairs of neighbours in any script, without stemming or stop words."""

import re
from itertools import pairwise
from unicodedata import normalize

import regex

ANALYZER_VERSION = "2"
"""Part of the cache keys of all that is built from words: raise it with every change of how words are cut."""

# Letters of scripts that are written without spaces between words (Unicode's line breaking class SA holds Thai, Lao,
# Khmer, Burmese and their neighbours). Korean is among them: it spaces words, but glues particles to them, so that
# whole words rarely meet; pairs of syllables do.
_UNSPACED = r"[[\p{scx=Han}\p{scx=Hiragana}\p{scx=Katakana}\p{Line_Break=SA}\p{sc=Hangul}]--\p{M}]"
_IS_UNSPACED = regex.compile(_UNSPACED, regex.V1)
# A character as readers see it: a letter with its vowel signs and tone marks.
_CHARACTER = regex.compile(rf"{_UNSPACED}\p{{M}}*", regex.V1)
_SCRIPT_RUNS = regex.compile(rf"(?:{_UNSPACED}\p{{M}}*)+|(?:(?!{_UNSPACED}).)+", regex.V1)
# Characters that only join, hide or stretch (soft hyphens, joiners, tatweel), and the vowel points of Arabic and
# Hebrew, which most writers leave out. Zero-width spaces stay: they part words. So do Arabic maddah and hamza, which
# make other letters.
_IGNORABLE = regex.compile(
    r"[[\p{Default_Ignorable_Code_Point}--\u200b]\u0640"
    r"[[\p{Block=Arabic}\p{Block=Arabic_Extended_A}\p{Block=Hebrew}]&&\p{Mn}--[\u0653-\u0655]]]+",
    regex.V1,
)
# All beyond Latin, Greek, Cyrillic, punctuation and signs: texts without such characters take the quick way.
_HAS_OTHER_SCRIPT = re.compile(
    "[\u00ad\u0300-\u036f\u0483-\u0489\u0530-\u1dff\u2000-\u200f\u2028-\u202f\u205f-\u206f\u2c00-\U0010ffff]"
)
_QUICK_WORD = re.compile(r"\w+")
_PLAIN_WORD = regex.compile(r"[\p{L}\p{N}_][\p{L}\p{M}\p{N}_]*")
# C++, C#, A+: signs that end a word belong to it; those between two words (a+b, page#part) do not, nor does the + of
# longer words, which are known without it (Disney+). In scripts without spaces a word can end anywhere.
_SPACED_LETTER, _SPACED_WORD = rf"[[\p{{L}}\p{{M}}]--{_UNSPACED}]", rf"[[\p{{L}}\p{{M}}\p{{N}}_]--{_UNSPACED}]"
_SIGNED_WORD = regex.compile(
    r"[\p{L}\p{N}_][\p{L}\p{M}\p{N}_]*"
    rf"(?:(?<={_SPACED_LETTER})(?:\+\+(?!{_SPACED_LETTER}|[_+#])|#(?!{_SPACED_WORD}|[+#])"
    rf"|(?<!{_SPACED_WORD}{{2}})\+(?!{_SPACED_WORD}|[+#])))?",
    regex.V1,
)


def terms(text: str, ngrams: str = "1") -> list[str]:
    """Return the words of a text; with ngrams "2" also the pairs of neighbouring words.

    A word is a run of letters, marks, digits and underscores, with a ++ or # that ends it ("c++"), in Unicode's form
    NFKC without case. Chinese, Japanese, Korean, Thai, Lao, Khmer and Burmese are cut into pairs of neighbouring
    characters; a character without a neighbour is a word. A pair of words is joined by a space; pairs stand after all
    words.
    """
    folded_text = text.lower() if text.isascii() else normalize("NFKC", text).casefold()
    has_other_script = not folded_text.isascii() and _HAS_OTHER_SCRIPT.search(folded_text) is not None
    if has_other_script:
        # What is dropped can stand between a letter and its accent; folding case can undo the normal form.
        folded_text = normalize("NFKC", _IGNORABLE.sub("", folded_text))
    words: list[str]
    if "#" in folded_text or "+" in folded_text:
        words = _SIGNED_WORD.findall(folded_text)
    else:
        words = (_PLAIN_WORD if has_other_script else _QUICK_WORD).findall(folded_text)
    if has_other_script and _IS_UNSPACED.search(folded_text):
        words = [term for word in words for term in _cut_unspaced(word)]
    if ngrams == "1":
        return words
    return words + [f"{first_word} {second_word}" for first_word, second_word in pairwise(words)]


def split_characters(term: str) -> list[str]:
    """Return the characters of a term in scripts without spaces, one or two; [] for any other term."""
    if term.isascii() or not _IS_UNSPACED.match(term):
        return []
    characters: list[str] = _CHARACTER.findall(term)
    return characters


def _cut_unspaced(word: str) -> list[str]:
    """Cut the parts of a word that are in scripts without spaces into pairs of characters."""
    if word.isascii() or not _IS_UNSPACED.search(word):
        return [word]
    cut_terms: list[str] = []
    for run in _SCRIPT_RUNS.findall(word):
        characters = _CHARACTER.findall(run) if _IS_UNSPACED.match(run) else [run]
        if len(characters) > 1:
            cut_terms += [first + second for first, second in pairwise(characters)]
        else:
            cut_terms += characters
    return cut_terms
