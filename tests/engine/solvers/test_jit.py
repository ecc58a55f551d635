"""Loops before they are compiled: as Python, to the same bits, and only where and for as long as that is asked for."""

import json

from support.processes import started

DECODERS = [(name, weight) for name in ("mmr", "dpp", "ssd") for weight in (0.0, 0.3, 1.0)]
ANSWERS = """
import json, sys
import numpy as np
import engine
from engine.solvers import jit
from engine.solvers.greedy.steps import choose, nothing_chosen
told = []
for name, weight in json.loads(sys.argv[1]):
    decoder = engine.Decoder(engine.make(name, relevance_weight=weight))
    if sys.argv[2] == "warm":
        decoder.select.warm()
    for seed, count in ((0, 40), (1, 400)):
        rng = np.random.default_rng(seed)
        vectors = rng.normal(size=(count, 24))
        vectors[count // 2:] = vectors[rng.integers(0, 9, count - count // 2)]
        space = engine.Space.of([str(n) for n in range(count)], vectors.astype(np.float32))
        ranking = engine.decode(decoder, space, (vectors[:1] + 0.1).astype(np.float32), k=8)
        told.append([ranking.index.tolist(), [score.hex() for score in ranking.gain[0].tolist()]])
codes = [len(choose.signatures), len(nothing_chosen.signatures)]
jit.PATIENCE = 0.0
state = np.empty(3)
with jit.interpreting():
    nothing_chosen(2, np.ones(3), state)
codes += [len(nothing_chosen.signatures), jit.is_compiled(nothing_chosen), state.sum()]
print(json.dumps([told, codes]))
"""
"""Picks and scores, of vectors many of which are equal; how many codes two loops have, and one out of patience."""


def answers(how, **variables):
    process = started("-c", ANSWERS, json.dumps(DECODERS), how, **variables)
    told, complaint = process.communicate()
    assert process.returncode == 0, complaint
    return json.loads(told)


def test_picks_and_scores_are_the_same_to_the_bit_before_anything_is_compiled(tmp_path):
    told, codes = answers("cold", NUMBA_CACHE_DIR=str(tmp_path))
    assert codes == [0, 0, 1, True, 3.0], "none is compiled, until patience ends"
    compiled, (some, *_) = answers("warm")
    assert some > 0 and told == compiled
    assert len(told) == 2 * len(DECODERS) and len({str(one) for one in told}) > 6


ONE_LOOP = """
import numpy as np
from engine.solvers.greedy.steps import nothing_chosen
state = np.empty(3)
nothing_chosen(2, np.ones(3), state)
print(state.sum())
"""


def test_damaged_code_on_the_disk_is_compiled_anew(tmp_path):
    def sum_of_one_loop():
        process = started("-c", ONE_LOOP, NUMBA_CACHE_DIR=str(tmp_path))
        said, complaint = process.communicate()
        assert process.returncode == 0, complaint
        return said

    first = sum_of_one_loop()
    for suffix, damage in ((".nbi", b""), (".nbi", b"\x80\x05garbage"), (".nbc", b""), (".nbc", b"garbage")):
        files = [path for path in tmp_path.rglob(f"*{suffix}")]
        assert files
        for path in files:
            path.write_bytes(damage)
        assert sum_of_one_loop() == first
        assert all(path.stat().st_size > len(damage) for path in tmp_path.rglob("*.nb?")), (suffix, damage)
