"""Python's conventions, point by point: scikit-learn, ranx and pyversity beside Frontier now and at an earlier commit.

What Frontier does is run; what the others do was read in their source, at the versions that the page names.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

from harness import RESULTS, ROOT

PEERS = ("scikit-learn 1.9.1", "ranx 0.3.21", "pyversity 0.2.0")
SETUP = """
import os, sys, warnings; warnings.simplefilter("ignore")
import numpy as np, pandas as pd, engine
V = np.eye(4)[:, :3] + 0.1; q = np.array([0.1, 0.9, 0.2])
def tell(call):
    try: return call()
    except Exception as error: return f"{type(error).__name__}: {error}"[:110]
"""
DATASET = "d = engine.load_dataset('numpy-api'); "
SPACE = "s = engine.Space.of(list('abcd'), V); r = engine.decode(engine.Decoder(engine.make('top_k')), s, q, k=2); "
#: Question, what each peer does, and code that prints what Frontier does.
POINTS = [
    ("repr of the largest public value, characters", "one line per estimator", "the whole dictionary",
     "all arrays", DATASET + "print(f'{len(repr(d)):,}')"),
    ("repr of a ranking", "–", "the whole dictionary", "all arrays", SPACE + "print(' '.join(repr(r).split())[:90])"),
    ("table in a notebook", "HTML diagram of the estimator", "no", "no",
     SPACE + "print('HTML table' if hasattr(r, '_repr_html_') else 'no')"),
    ("result as a data frame", "set_output(transform='pandas')", "to_dataframe()", "no",
     SPACE + "print(tell(lambda: ', '.join(r.to_frame(s).columns)))"),
    ("pd.DataFrame(result)", "arrays: yes", "no", "no", SPACE + "print(tell(lambda: pd.DataFrame(r).shape))"),
    ("cells or reports as a data frame", "cv_results_ is a dictionary for one", "Report.to_dataframe()", "–",
     "print('engine.to_frame' if hasattr(engine, 'to_frame') else 'build_frame of an inner module')"),
    ("judgements from a frame", "–", "Qrels.from_df, columns named", "–",
     "f = pd.DataFrame({'query_id': ['q'], 'doc_id': ['a'], 'relevance': [1]}); "
     "print(tell(lambda: f'load_qrels: {dict(engine.load_qrels(f).grades)}'))"),
    ("run from a dictionary", "–", "Run(dict)", "–",
     "print(tell(lambda: f'load_run: {dict(engine.load_run({chr(113): {chr(97): 1.0}}).documents)}'))"),
    ("vectors as a data frame", "yes", "–", "yes",
     "print(tell(lambda: engine.select('mmr', pd.DataFrame(V), q, k=2).rows()))"),
    ("vectors as a column of arrays", "no: ValueError", "–", "no: ValueError",
     "print(tell(lambda: engine.select('mmr', pd.Series(list(V)), q, k=2).rows()))"),
    ("query vectors as a list of numbers", "no: Expected 2D array, got 1D", "–", "yes, of scores",
     SPACE + "print(tell(lambda: engine.decode(engine.Decoder(engine.make('top_k')), s, q.tolist(), k=2).rows()))"),
    ("name in capitals", "refused, legal ones listed", "ValueError", "ValueError: Unknown strategy: MMR",
     "print(tell(lambda: engine.make('MMR').label))"),
    ("misspelt name", "refused, legal ones listed", "ValueError", "ValueError: Unknown strategy: mrr",
     "print(tell(lambda: engine.make('mrr')))"),
    ("misspelt function", "Python's message", "Python's message", "Python's message",
     "print(tell(lambda: engine.mesure))"),
    ("arguments swapped", "Expected 2D array, got 1D array instead", "–",
     "embeddings must be 2-D, got shape (3,)", "print(tell(lambda: engine.select('mmr', q, V)))"),
    ("check_estimator, failed checks", "its own", "–", "–",
     "from engine.integrations.sklearn import FrontierRetriever; from sklearn.utils.estimator_checks import "
     "check_estimator; c = check_estimator(FrontierRetriever(), on_fail=None, on_skip=None); "
     "print(sum(x['status'] == 'failed' for x in c), 'of', len(c))"),
    ("progress bar", "verbose=1 prints lines", "no", "no",
     "print('engine.ProgressBar, by tqdm' if hasattr(engine, 'ProgressBar') else 'a callback of one’s own')"),
    ("__version__", "yes", "no", "yes", "print(tell(lambda: engine.__version__))"),
    ("py.typed", "no", "no", "yes",
     "print('yes' if os.path.exists(os.path.join(os.path.dirname(engine.__file__), 'py.typed')) else 'no')"),
]  # fmt: skip


def run_probe(root: Path, code: str) -> str:
    """Run code on the engine of a checkout; return what it printed, fit for a cell of a table."""
    # The last lines alone: others may be remarks of libraries.
    command = [sys.executable, "-c", SETUP + code]
    environment = {**os.environ, "PYTHONPATH": str(root)}
    done = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True)
    output = (done.stdout or done.stderr).strip().splitlines()
    return output[-1].replace("|", "\\|") if output else ""


def measure_import(root: Path, code: str) -> float:
    """Return the least of five times of a program, in milliseconds."""
    timed = f"import time; start = time.perf_counter(); {code}; print(time.perf_counter() - start)"
    environment = {**os.environ, "PYTHONPATH": str(root)}
    command = [sys.executable, "-c", timed]
    runs = [
        subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, check=True).stdout
        for _ in range(5)
    ]
    return 1000 * min(map(float, runs))


def main() -> None:
    """Write assets/results/python-conventions.md."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--before", type=Path, required=True, help="A checkout of the commit to compare with.")
    roots = {"before": parser.parse_args().before.resolve(), "now": ROOT}
    lines = [
        "# Python's conventions",
        "",
        "`python tests/bench/bench_conventions.py --before <checkout of ba4fe4d8>`",
        "",
        "What Frontier does was run, at that commit and now; what the others do was read in their source.",
        "",
        f"| | {' | '.join(PEERS)} | Frontier before | Frontier now |",
        "| --- |" + " --- |" * (len(PEERS) + 2),
    ]
    for question, *peers, code in POINTS:
        answers = [run_probe(root, code) for root in roots.values()]
        lines.append(f"| {' | '.join([question, *peers, *answers])} |")
    for code in ("import engine", "import engine; engine.select"):
        times = [f"{measure_import(root, code):,.1f} ms" for root in roots.values()]
        lines.append(f"| `{code}`, least of 5 | – | – | – | {' | '.join(times)} |")
    (RESULTS / "python-conventions.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
