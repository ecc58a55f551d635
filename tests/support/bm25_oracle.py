"""BM25 written down from its formulas: one text, one query, one term at a time, in float64. Shares nothing with the
engine."""

import math
from collections import Counter
from unicodedata import category, name, normalize

UNSPACED = ("CJK ", "HIRAGANA", "KATAKANA", "THAI", "LAO", "KHMER", "MYANMAR", "HANGUL", "IDEOGRAPHIC")
POINTS = ("ARABIC", "HEBREW")


def is_word(character):
    return character == "_" or category(character)[0] in "LMN"


def is_unspaced(character):
    return category(character)[0] in "LMN" and name(character, "").startswith(UNSPACED)


def fold(text):
    folded = normalize("NFKC", normalize("NFKC", text).casefold())
    points = [c for c in folded if category(c) == "Mn" and name(c, "").startswith(POINTS)]
    dropped = {*points, "\u0640", "\u034f", *(c for c in folded if category(c) == "Cf" and c != "\u200b")}
    dropped = {c for c in dropped if not 0x653 <= ord(c) <= 0x655} | {c for c in folded if 0xFE00 <= ord(c) <= 0xFE0F}
    return normalize("NFKC", "".join(c for c in folded if c not in dropped))


def split_runs(text):
    """[(characters, whether they are in a script without spaces)]: letters with their marks, neighbours of one kind."""
    runs, open_run = [], False
    for character in text:
        mark = category(character)[0] == "M"
        if not is_word(character) or (mark and not open_run):
            open_run = False
        elif mark:
            runs[-1][0][-1] += character
        elif open_run and runs[-1][1] == is_unspaced(character):
            runs[-1][0].append(character)
        else:
            runs.append(([character], is_unspaced(character)))
            open_run = True
    return runs


def cut(text, ngrams="1"):
    """The words of texts without + and #."""
    words = []
    for characters, unspaced in split_runs(fold(text)):
        if unspaced and len(characters) > 1:
            words += [characters[i] + characters[i + 1] for i in range(len(characters) - 1)]
        else:
            words.append("".join(characters))
    pairs = [words[i] + " " + words[i + 1] for i in range(len(words) - 1)]
    return words + (pairs if ngrams == "2" else [])


def stand_for(word, bag):
    """The terms of a text that a query's word means: of one character without spaces all pairs with it, too."""
    if not is_unspaced(word[0]) or len(split_runs(word)[0][0]) > 1:
        return [word]
    pairs = [term for term in bag if " " not in term and is_unspaced(term[0]) and len(split_runs(term)[0][0]) == 2]
    return [word, *(term for term in pairs if word in split_runs(term)[0][0])]


def idf(variant, n, df):
    match variant:
        case "lucene":
            return math.log(1 + (n - df + 0.5) / (df + 0.5))
        case "robertson":
            return max(0.0, math.log((n - df + 0.5) / (df + 0.5)))
        case "atire":
            return math.log(n / df)
        case "bm25l":
            return math.log((n + 1) / (df + 0.5))
        case "bm25+":
            return math.log((n + 1) / df)


def gain(variant, tf, c, k1):
    match variant:
        case "lucene" | "robertson":
            return tf / (tf + k1 * c)
        case "atire":
            return (k1 + 1) * tf / (tf + k1 * c)
        case "bm25l":
            return (k1 + 1) * (tf / c + 0.5) / (k1 + tf / c + 0.5)
        case "bm25+":
            return (k1 + 1) * tf / (tf + k1 * c) + 1.0


def bm25(texts, queries, variant="lucene", k1=1.5, b=0.75, ngrams="1"):
    """Compute [[score of each text] for each query]."""
    bags = [Counter(cut(text, ngrams)) for text in texts]
    lengths = [sum(bag.values()) for bag in bags]
    mean = math.fsum(lengths) / len(lengths)
    df = Counter(term for bag in bags for term in bag)
    table = []
    for query in queries:
        row = []
        for bag, length in zip(bags, lengths, strict=True):
            c = 1 - b + b * length / mean if mean else 1.0
            shared = [term for word in cut(query, ngrams) for term in stand_for(word, bag) if bag[term]]
            row.append(
                math.fsum(idf(variant, len(texts), df[term]) * gain(variant, bag[term], c, k1) for term in shared)
            )
        table.append(row)
    return table
