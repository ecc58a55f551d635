"""Loops before they are compiled: as Python, to the same bits, and only where and for as long as that is asked for."""

import json
import os
import pickle
import shutil
import sys

import pytest

from engine.solvers import jit
from support.draws import deepen
from support.processes import start_python

DECODERS = [(name, weight) for name in ("mmr", "dpp", "ssd") for weight in (0.0, 0.3, 1.0)]
ANSWERS = """
import contextlib, json, sys
import numpy as np
import engine
from engine.solvers import gram, jit
from engine.solvers.greedy.lambda_path import follow_pieces
from engine.solvers.greedy.steps import choose_picks, init_state
told = []
jit.INTERPRETING_SECONDS = 1e9
for name, weight in json.loads(sys.argv[1]):
    decoder = engine.Decoder(engine.make(name, relevance_weight=weight))
    if sys.argv[2] == "warm":
        decoder.select.warm()
    for seed, count in ((0, 40), (1, 150)):
        rng = np.random.default_rng(seed)
        vectors = rng.normal(size=(count, 24))
        vectors[count // 2:] = vectors[rng.integers(0, 9, count - count // 2)]
        space = engine.Space.of([str(n) for n in range(count)], vectors.astype(np.float32))
        ranking = engine.decode(decoder, space, (vectors[:1] + 0.1).astype(np.float32), k=8)
        told.append([ranking.index.tolist(), [score.hex() for score in ranking.gain[0].tolist()]])
with jit.compiling() if sys.argv[2] == "warm" else contextlib.nullcontext():
    for name in ("mmr", "dpp", "ssd", "max_sum", "facility_location"):
        fixed = {"polish": False} if name == "max_sum" else {}
        (path,) = engine.path(name, space, (vectors[:1] + 0.1).astype(np.float32), k=4, **fixed)
        told.append([value.tobytes().hex() for value in vars(path.lines).values() if isinstance(value, np.ndarray)])
gram.warm()
codes = [len(loop.signatures) for loop in (gram.compute_products, choose_picks, follow_pieces, init_state)]
jit.INTERPRETING_SECONDS = 0.0
state = np.empty(3)
with jit.interpreting():
    init_state(2, np.ones(3), state)
codes += [len(init_state.signatures), jit.is_compiled(init_state), state.sum()]
print(json.dumps([told, codes]))
"""
"""Picks and scores, and those at every λ, of vectors many of which are equal; how many codes four loops have, and one
out of patience: the first is compiled for what `warm` compiles it for, and nothing else."""


def answers(how, **variables):
    process = start_python("-c", ANSWERS, json.dumps(DECODERS), how, **variables)
    told, complaint = process.communicate()
    assert process.returncode == 0, complaint
    return json.loads(told)


@pytest.mark.deep
def test_picks_and_scores_are_the_same_to_the_bit_before_anything_is_compiled(tmp_path):
    told, codes = answers("cold", NUMBA_CACHE_DIR=str(tmp_path))
    assert codes == [1, 0, 0, 0, 1, True, 3.0], "none is compiled, until patience ends"
    compiled, (_, n_picking, n_following, *_) = answers("warm")
    assert n_picking > 0 and n_following > 0 and told == compiled
    assert len(told) == 2 * len(DECODERS) + 5 and len({str(one) for one in told}) > 6


def test_python_goes_on_while_another_thread_compiles(monkeypatch):
    monkeypatch.setattr(jit, "_interpreted_seconds", [jit.INTERPRETING_SECONDS])
    monkeypatch.setattr(jit, "_compiling_threads", set())
    with jit.interpreting():
        assert not jit._interpreting.get(), "patience has ended"
    jit._compiling_threads.add(0)
    with jit.interpreting():
        assert jit._interpreting.get(), "waiting for the compiler takes longer"


SUM = "3.0\n"
ONE_LOOP = """
import numpy as np
from engine.solvers.greedy.steps import init_state
state = np.empty(3)
init_state(2, np.ones(3), state)
print(state.sum())
"""


def sum_of_one_loop(code=ONE_LOOP, **variables):
    process = start_python("-c", code, **variables)
    said, complaint = process.communicate()
    assert process.returncode == 0, complaint
    return said, complaint


@pytest.fixture(scope="module")
def compiled_once(tmp_path_factory):
    """A folder with the code of one loop."""
    folder = tmp_path_factory.mktemp("code")
    assert sum_of_one_loop(NUMBA_CACHE_DIR=str(folder)) == (SUM, "")
    return folder


@pytest.mark.deep
@pytest.mark.threat("damaged code of a loop on the disk", "compiled anew")
@pytest.mark.parametrize(
    "suffix,damage",
    deepen(
        [(".nbi", b""), (".nbi", b"\x80\x05garbage"), (".nbc", b""), (".nbc", b"garbage")],
        [(".nbi", b""), (".nbc", b""), (".nbc", b"garbage")],
    ),
)
def test_damaged_code_on_the_disk_is_compiled_anew(tmp_path, compiled_once, suffix, damage):
    shutil.copytree(compiled_once, tmp_path, dirs_exist_ok=True)
    files = [path for path in tmp_path.rglob(f"*{suffix}")]
    assert files
    for path in files:
        path.write_bytes(damage)
    assert sum_of_one_loop(NUMBA_CACHE_DIR=str(tmp_path)) == (SUM, "")
    assert all(path.stat().st_size > len(damage) for path in tmp_path.rglob("*.nb?")), (suffix, damage)


class Attack:
    """What makes a folder when it is unpickled."""

    def __init__(self, place):
        self.place = place

    def __reduce__(self):
        return os.mkdir, (self.place,)


@pytest.mark.deep
@pytest.mark.threat(
    "a code folder that others own or can write to holds their pickle", "it is not read, and that is said"
)
@pytest.mark.skipif(sys.platform == "win32", reason="needs modes")
@pytest.mark.parametrize(
    "who", deepen(["others can write", "a group can write", "others own"], ["a group can write", "others own"])
)
def test_code_that_others_could_have_written_is_not_read(tmp_path, compiled_once, who):
    shutil.copytree(compiled_once, tmp_path / "code")
    place = {"NUMBA_CACHE_DIR": str(tmp_path / "code"), "TMPDIR": str(tmp_path)}
    (state,) = (tmp_path / "code").iterdir()
    for index in state.rglob("*.nbi"):
        index.write_bytes(pickle.dumps(Attack(str(tmp_path / "attacked"))))
    if who == "others own":
        if os.geteuid():
            pytest.skip("needs root to give a folder away")
        os.chown(state, 65534, 65534)
    else:
        os.chown(state, -1, 0 if os.geteuid() else -1)
        state.chmod(0o707 if who == "others can write" else 0o770)
        if who == "a group can write" and state.stat().st_gid == os.geteuid():
            if os.geteuid():
                pytest.skip("the group is the user's own")
            os.chown(state, -1, 65534)
    answer, said = sum_of_one_loop(**place)
    assert answer == SUM and not (tmp_path / "attacked").exists()
    assert f"compiled code in {state} is not used" in said and said.count("\n") == 1
    (own,) = tmp_path.glob("frontier-*")
    assert list(own.rglob("*.nbi")), "it is kept among the user's temporary files"


@pytest.mark.skipif(sys.platform == "win32", reason="needs modes")
@pytest.mark.parametrize(
    ("mode", "owner", "group", "is_closed"),
    [
        (0o40700, 0, 0, True),
        (0o40755, 0, 1, True),
        (0o40707, 0, 0, False),
        (0o40770, 0, 1, False),
        (0o40770, 0, 0, True),
        (0o40700, 1, 0, False),
        (0o41777, 0, 0, False),
        (0o100700, 0, 0, False),
    ],
)
def test_a_folder_is_closed_where_only_the_user_can_write(mode, owner, group, is_closed):
    """owner, group: 0 for the user's own, 1 for another's."""
    own, foreign = os.geteuid(), os.geteuid() + 65_534
    ids = [(own, foreign)[number] for number in (owner, group)]
    status = os.stat_result((mode, 0, 0, 0, *ids, 0, 0, 0, 0))
    assert jit._is_closed(status, allows_additions=False) == is_closed
    assert jit._is_closed(status) == (is_closed or mode == 0o41777)


@pytest.mark.deep
@pytest.mark.threat(
    "a home that cannot be written", "loops are compiled all the same, and kept in a folder of the user's"
)
def test_code_of_a_home_that_cannot_be_written_lies_among_temporary_files(tmp_path):
    (tmp_path / "file").write_text("in the way")
    around = {"FRONTIER_HOME": str(tmp_path / "file" / "home"), "NUMBA_CACHE_DIR": "", "TMPDIR": str(tmp_path)}
    assert sum_of_one_loop(**around) == (SUM, "")
    (own,) = tmp_path.glob("frontier-*")
    files = {path: path.stat().st_mtime_ns for path in own.rglob("*") if path.is_file()}
    assert files and sum_of_one_loop(**around) == (SUM, "")
    assert files == {path: path.stat().st_mtime_ns for path in own.rglob("*") if path.is_file()}
    if sys.platform != "win32":
        assert {path.stat().st_mode & 0o777 for path in own.rglob("*") if path.is_file()} == {0o600}
        assert {path.stat().st_mode & 0o777 for path in (own, *own.iterdir())} == {0o700}


@pytest.mark.deep
@pytest.mark.threat(
    "a disk that is full when a loop was compiled", "it runs, and nothing that was kept is deleted for long"
)
@pytest.mark.skipif(sys.platform == "win32", reason="needs a limit of files' sizes")
def test_loops_run_where_their_code_cannot_be_written(tmp_path):
    limit = "import resource\nresource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
    assert sum_of_one_loop(limit + ONE_LOOP, NUMBA_CACHE_DIR=str(tmp_path)) == (SUM, "")
