"""The scripts of the scrubbing views in a real browser, by themselves, against values packed by hand."""

import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest

from dashboard.components.vendor import MODULE_FOLDER
from support.browser import MARKS

pytestmark = MARKS
PACKED = {
    "rows": [10, 20, 30, 40],
    "names": ["a", "b", "c", "d"],
    "relevance": [0.9, 0.8, 0.7, 0.1],
    "scores": None,
    "right": [1, 3],
    "sets": [[0, 1, 2], [0, 2, 1], [3, 0], [2], []],
    "which": [0, 1, 2, 3, 4],
    # b–a exactly .9, c–a, c–b just below .9, and a–d; no pair stands here twice.
    "near": [90_000, 50_000, 89_999, -20_000],
}
EXACT = PACKED | {
    "stops": [0.0, 0.25, 0.5, 0.75, 1.0],
    "start": 0.0,
    "ends": [0.25, 0.5],
    "apart": [[0.5, 3]],
    "which": [0, 1, 2, 3],
    "why": "",
}
SAMPLED = PACKED | {"stops": [1, 2, 5, 6], "ends": None, "which": [0, 1, 2, 2], "why": "no path"}


class Files(SimpleHTTPRequestHandler):
    """The scripts' folder."""

    def log_message(self, *_):
        """Nothing: the test's output is its own."""


@pytest.fixture(scope="module")
def folder():
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Files, directory=str(MODULE_FOLDER))) as served:
        threading.Thread(target=served.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{served.server_port}"
        served.shutdown()


@pytest.fixture
def run_js(page, folder):
    """Evaluate a JavaScript expression over the names of parts.js and `given`."""
    page.goto(f"{folder}/")

    def ask(expression, value=None):
        return page.evaluate(
            f"""async given => {{
                const names = await import('./parts.js');
                return new Function('names', 'given', `with (names) return ({expression})`)(names, given) ?? null;
            }}""",
            value,
        )

    return ask


def test_a_set_knows_its_documents_and_figures(run_js):
    figures = "({rows: s.rows, found: s.found, duplicates: s.duplicates, pairs: s.pairs, relevance: s.relevance})"
    first, _, third, alone, none = run_js(f"new Answers(given).of.map(s => {figures})", PACKED)
    assert first == {"rows": [10, 20, 30], "found": 1, "duplicates": 1, "pairs": 3, "relevance": pytest.approx(0.8)}
    assert third == {"rows": [40, 10], "found": 1, "duplicates": 0, "pairs": 1, "relevance": pytest.approx(0.5)}
    assert (alone["pairs"], none["pairs"], none["relevance"]) == (0, 0, None)
    diversity = run_js("new Answers(given).of.map(s => s.diversity)", PACKED)
    assert diversity[:3] == pytest.approx([1 - 2.29999 / 3 - 5e-6, 1 - 2.29999 / 3 - 5e-6, 1.2 - 5e-6])
    assert diversity[3:] == [None, None]
    keys = run_js("new Answers(given).of.map(s => s.key)", PACKED)
    assert keys[0] == keys[1] and len(set(keys)) == 4, "the order is no part of a set"


def test_a_row_says_what_it_is_and_what_is_closest_above_it(run_js):
    assert run_js("new Answers(given).of[0].document(1)", PACKED) == {
        "row": 20, "name": "b", "relevance": 0.8, "score": 0.8, "right": True}  # fmt: skip
    scored = PACKED | {"scores": [3.5, None, 1.5, 0]}
    assert run_js("new Answers(given).of[0].ids.map((_, i) => new Answers(given).of[0].document(i).score)", scored) == [
        3.5, None, 1.5]  # fmt: skip
    assert run_js("[1, 2].map(i => new Answers(given).of[0].closestAbove(i))", PACKED) == [
        {"rank": 0, "cosine": 0.9}, {"rank": 1, "cosine": 0.89999}]  # fmt: skip
    assert run_js("new Answers(given).of[0].closestAbove(0).rank", PACKED) == -1


def test_near_duplicates_begin_at_nine_tenths_and_chain(run_js):
    assert run_js("new Answers(given).of[0].groups()", PACKED) == [0, 0, 2]
    assert run_js("new Answers(given).of[1].groups()", PACKED) == [0, 1, 0]
    # b–a, c–a, c–b, d–a, d–b, d–c: c joins a and b to d.
    chain = PACKED | {"sets": [[0, 1, 2, 3]], "which": [0], "near": [0, 95_000, 10_000, 0, 0, 95_000]}
    assert run_js("new Answers(given).of[0].groups()", chain) == [0, 1, 0, 0]
    joined = chain | {"near": [0, 95_000, 95_000, 0, 0, 0]}
    assert run_js("new Answers(given).of[0].groups()", joined) == [0, 0, 0, 3]


def test_a_path_knows_every_value_between_its_ends(run_js):
    values = [0, 0.1, 0.25, 0.2500001, 0.4999999, 0.5, 0.5000001, 1, -0.001, 1.001]
    rows_at = "given.asked.map(v => new Path(given.path).at(v)?.rows ?? null)"
    first, second, third = [10, 20, 30], [10, 30, 20], [40, 10]
    assert run_js(rows_at, {"path": EXACT, "asked": values}) == [
        first, first, first, second, second, [30], third, third, None, None]  # fmt: skip
    assert run_js("new Path(given).changes.map(piece => piece.set.rows)", EXACT) == [third]
    late = EXACT | {"stops": [0, 0.2, 1], "start": 0.2, "apart": [[0, 3]]}
    assert run_js(rows_at, {"path": late, "asked": [0, 0.1, 0.19, 0.2, 0.3, 1]}) == [
        [30],
        None,
        None,
        first,
        second,
        third,
    ]


def test_a_step_lands_inside_the_next_piece_that_differs(run_js):
    change = "given.asked.map(([v, way, order]) => new Path(given.path).change(v, way, order) ?? null)"
    steps = [(0.1, 1, False), (0.1, 1, True), (0.9, -1, False), (0.9, -1, True), (0.3, -1, True), (0.3, -1, False),
             (0.1, -1, True), (0.9, 1, True)]  # fmt: skip
    assert run_js(change, {"path": EXACT, "asked": steps}) == [0.75, 0.38, 0.38, 0.38, 0.13, None, None, None]
    late = EXACT | {"stops": [0, 0.2, 1], "start": 0.2}
    assert run_js(change, {"path": late, "asked": [(0.3, -1, True)]}) == [0.23], "not before the path begins"
    assert run_js(change, {"path": SAMPLED, "asked": [(1, 1, False), (1, 1, True), (6, -1, False), (2, -1, True)]}) == [
        5, 2, 2, 1]  # fmt: skip


def test_without_a_path_the_positions_alone_are_known(run_js):
    rows_at = "given.asked.map(v => new Path(given.path).at(v)?.rows ?? null)"
    assert run_js(rows_at, {"path": SAMPLED, "asked": [1, 2, 5, 6, 1.5, 3, 0, 7]}) == [
        [10, 20, 30], [10, 30, 20], [40, 10], [40, 10], None, None, None, None]  # fmt: skip
    assert run_js("[new Path(given).exact, new Path(given).why]", SAMPLED) == [False, "no path"]


def test_the_shortest_decimal_inside_an_interval(run_js):
    decimals = run_js("given.map(([a, b]) => inside(a, b))", [(0, 1), (0.12, 0.13), (0.1234, 0.1235), (0.3, 0.3)])
    assert decimals == [0.5, 0.125, 0.12345, 0.3]


def test_the_nearest_position(run_js):
    nearest = "given.map(v => nearest([0, 0.25, 0.5, 1], v))"
    assert run_js(nearest, [-1, 0, 0.1, 0.125, 0.126, 0.25, 0.7, 0.75, 0.76, 1, 9]) == [0, 0, 0, 0, 1, 1, 2, 2, 3, 3, 3]
    assert run_js("nearest([0.5], 3)") == 0


def test_numbers_are_written_in_the_one_style(run_js):
    written = run_js("[number(0.1494), number(-0.5, 2), number(null), setting(-0.25), setting(0.001)]")
    assert written == ["0.149", "−0.50", "–", "−0.25", "0.001"]
    assert run_js("[0.5, -0.022, 0.0004, -0.0004].map(v => signed(v))") == [
        "+0.500", "−0.022", "±0", "±0"]  # fmt: skip
    assert run_js("[counted(1, 'set'), counted(0, 'set'), counted(2, 'query', 'queries')]") == [
        "1 set", "0 sets", "2 queries"]  # fmt: skip
    colours = run_js("[-1, 0, 0.5, 1, 2].map(heat)")
    assert colours[0] == colours[1] == [0, 34, 78] and colours[3] == colours[4] == [254, 232, 56] != colours[2]
