"""What cutting words in every script costs English: BM25's answers and the time to count words, beside plain words.

python tests/bench/bench_words.py --data <folder of judged sets>      writes assets/results/words.md, some minutes

Plain words are runs of letters, digits and underscores in lower case. Fails where nDCG@10 of a set moves by more than
MAX_CHANGE.
"""

import re
import statistics
import sys
import time

import torch
from harness import parse_arguments, table, time_call, write_page

import engine
from engine.decoder import Decoder, decode
from engine.text import bag_of_words, bm25_index
from engine.text.tokenizer import terms

SETS = {
    "cranfield": "test", "toollens": "test", "ultratool-en": "test", "metatool": "test", "multihop-rag-summ500": "test",
    "banking77": "test", "toolbank-numpy": "dev", "perspectrum": "dev",
}  # fmt: skip
MAX_CHANGE = 0.002
N_REPEATS = 7
MIN_PASSAGES = 5000


def cut_plain_words(text, ngrams="1"):
    """Runs of letters, digits and underscores, in lower case."""
    return re.findall(r"\w+", text.lower())


def use_words(cut):
    """Make the index and the counts cut words by another function."""
    bag_of_words.terms = bm25_index.terms = cut


def measure_set(data, split, cut):
    """nDCG@10 of BM25 on a split."""
    use_words(cut)
    # BM25 reads no vectors: one number stands for each.
    space = engine.Space(data.corpus, engine.Embeddings(data.corpus.ids, torch.ones(len(data.corpus), 1)))
    judged = data.judged(split)
    queries = engine.Embeddings(judged.ids, torch.ones(len(judged), 1), texts=judged.texts)
    ranking = decode(Decoder(engine.make("top_k"), engine.make("bm25")), space, queries, k=10)
    return float(engine.measure(ranking, space, queries, data.qrels[split], 10, ("ndcg",)).mean["ndcg"])


def count_seconds(passages, cut):
    """CPU seconds to count the words of a corpus."""
    use_words(cut)
    return time_call(bag_of_words.count_terms, passages, clock=time.process_time)[0]


def main():
    args = parse_arguments(__doc__, data=True)
    rows, changes = [], []
    for name, split in SETS.items():
        data = engine.load_dataset(str(args.data / name))
        # Small corpora are counted several times over, as a clock tells little of milliseconds.
        passages = list(data.corpus.passages) * max(1, MIN_PASSAGES // len(data.corpus))
        plain, words = (measure_set(data, split, cut) for cut in (cut_plain_words, terms))
        # Both are timed in turn, as other work on the machine comes and goes.
        pairs = [[count_seconds(passages, cut) for cut in (cut_plain_words, terms)] for _ in range(N_REPEATS)]
        ratio = statistics.median(with_words / with_plain for with_plain, with_words in pairs)
        changes.append(abs(words - plain))
        n_queries = len(data.judged(split))
        rows.append(
            (name, split, f"{n_queries:,}", f"{plain:.4f}", f"{words:.4f}", f"{words - plain:+.4f}", f"{ratio:.2f}")
        )
    head = ("set", "split", "queries", "plain words", "words", "change", "time to count")
    explanation = (
        "nDCG@10 of BM25 at its defaults; plain words: runs of letters, digits and underscores in lower case; words: "
        "as Frontier cuts them. Time to count: the CPU time of the second over the first, the median of seven pairs."
    )
    write_page(args, "words", "Words in every script", explanation, table(head, rows, "llrrrrr"))
    if max(changes) >= MAX_CHANGE:
        sys.exit(f"nDCG@10 must change by less than {MAX_CHANGE}; got {max(changes):.4f}")


if __name__ == "__main__":
    main()
