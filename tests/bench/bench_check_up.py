"""Seconds of the check-up of a demo's size: 157 queries over 819 vectors. Fails where it takes a second or more.

python tests/bench/bench_check_up.py
"""

import sys

from harness import machine, ms, parse_arguments, time_call, verdict

import engine
from engine.evaluation.studies.check_up import check_up
from support.instances import problem
from support.rankings import queries_of, space_of

PROMISED = 1.0


def main() -> int:
    parse_arguments(__doc__)
    rows, points = problem("clustered", 5, n=819, d=384, batch=157)
    space, queries, decoder = space_of(rows), queries_of(points), engine.Decoder(engine.make("top_k"))
    check_up(decoder, space, queries)
    seconds, _ = time_call(lambda: check_up(decoder, space, queries))
    print(machine(("torch",)), ms(seconds), verdict(seconds < PROMISED))
    return int(seconds >= PROMISED)


if __name__ == "__main__":
    sys.exit(main())
