"""BM25 written down from its formulas: one text, one query, one term at a time, in float64. Shares nothing with the
engine."""

import math
import re
from collections import Counter


def cut(text, ngrams="1"):
    words = re.findall(r"\w+", text.lower())
    pairs = [words[i] + " " + words[i + 1] for i in range(len(words) - 1)]
    return words + (pairs if ngrams == "2" else [])


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
            shared = [term for term in cut(query, ngrams) if bag[term]]
            row.append(
                math.fsum(idf(variant, len(texts), df[term]) * gain(variant, bag[term], c, k1) for term in shared)
            )
        table.append(row)
    return table
