"""The scripts of views and plots in a real browser, by themselves, against values packed by hand and the engine's."""

import itertools
import math
import random

import numpy as np
import pytest
from scipy import stats

from dashboard.components.vendor import MODULE_FOLDER
from engine.evaluation.choice_calibration import Calibration
from engine.evaluation.decision import SURE_CHANCE
from engine.evaluation.loss_model import LossEstimate
from support.browser import MARKS
from support.file_server import serve_files

pytestmark = MARKS
PACKED = {
    "rows": [10, 20, 30, 40],
    "names": ["a", "…b", "c", "d"],
    "tooltips": {20: "all of b"},
    "relevance": [0.9, 0.8, 0.7, 0.1],
    "scores": None,
    "right": [1, 3],
    "sets": [[0, 1, 2], [0, 2, 1], [3, 0], [2], []],
    "which": [0, 1, 2, 3, 4],
    # b–a exactly .9, c–a, c–b just below .9, and a–d; no pair stands here twice.
    "near": [90_000, 50_000, 89_999, -20_000],
    "duplicate": 0.9,
}
EXACT = PACKED | {
    "stops": [0.0, 0.25, 0.5, 0.75, 1.0],
    "start": 0.0,
    "ends": [0.25, 0.5],
    "apart": [[0.5, 3]],
    "which": [0, 1, 2, 3],
    "why": "",
}
SCRIPTS = ["./parts.js", "./budget_level.js", "./hover_lines.js", "./panels.js", "./map_overlay.js", "./verdict.js"]
SAMPLED = PACKED | {"stops": [1, 2, 5, 6], "ends": None, "which": [0, 1, 2, 2], "why": "no path"}


@pytest.fixture(scope="module")
def folder():
    with serve_files(MODULE_FOLDER) as address:
        yield address


@pytest.fixture
def run_js(page, folder):
    """Evaluate a JavaScript expression over the names of SCRIPTS, and `given`."""
    page.goto(f"{folder}/")

    def ask(expression, value=None):
        return page.evaluate(
            f"""async given => {{
                const names = Object.assign({{}}, ...await Promise.all({SCRIPTS}.map(name => import(name))));
                return new Function('names', 'given', `with (names) return ({expression})`)(names, given) ?? null;
            }}""",
            value,
        )

    return ask


def answer(diversity, relevance=0.8, found=0, n_documents=5):
    """Return the figures of a set by which one query's rule chooses."""
    return {"diversity": diversity, "relevance": relevance, "found": found, "ids": list(range(n_documents))}


TOP_K = answer(0.3, found=2)
CHOICES_FOR_ONE_QUERY = {
    "the most diverse": (TOP_K, [answer(0.4, found=2), answer(0.6, found=2), answer(0.5, found=2)], 1),
    "the most diverse before more relevant ones": (TOP_K, [answer(0.5, found=2), answer(0.4, found=3)], 0),
    "as many relevant": (TOP_K, [answer(0.9, found=1), answer(0.4, found=2)], 1),
    "95 % of the relevance": (TOP_K, [answer(0.9, 0.7599, 2), answer(0.4, 0.76, 2)], 1),
    "a tie goes to more relevant ones": (TOP_K, [answer(0.5, 0.79, 2), answer(0.5, 0.77, 3)], 1),
    "then to the relevance": (TOP_K, [answer(0.5, 0.77, 2), answer(0.5, 0.79, 2)], 1),
    "then to the first": (TOP_K, [answer(0.5, found=2), answer(0.5, found=2)], 0),
    "a tie up to rounding": (TOP_K, [answer(0.5, found=3), answer(0.5 + 1e-12, found=2)], 0),
    "no more diverse than Top-k": (TOP_K, [answer(0.3 + 1e-12, 0.9, 5), answer(0.2, 0.9, 5)], None),
    "Top-k found none": (answer(0.3), [answer(0.5), answer(0.4, found=1)], 0),
    "unjudged": (answer(0.3), [answer(0.9, 0.5), answer(0.4)], 1),
    "relevance of 0": (answer(0.3, 0), [answer(0.9, -0.01), answer(0.4, 0)], 1),
    "relevance below 0": (answer(0.3, -0.2), [answer(0.9, -0.205), answer(0.4, -0.2)], 1),
    "fewer documents": (TOP_K, [answer(0.9, found=2, n_documents=4)], None),
    "one document": (answer(None, n_documents=1), [answer(None, 0.9, 1, 1)], None),
    "nothing retrieved": (answer(None, None, 0, 0), [answer(None, None, 0, 0), answer(0.5)], 1),
    "no candidates": (TOP_K, [], None),
}
"""Case → Top-k's set, the candidates, and the position of the chosen one."""


@pytest.mark.parametrize("case", CHOICES_FOR_ONE_QUERY)
def test_one_query_gets_the_most_diverse_set_that_loses_no_relevant_document(run_js, case):
    base, sets, expected = CHOICES_FOR_ONE_QUERY[case]
    candidates = [{"set": figures, "position": position} for position, figures in enumerate(sets)]
    given = {"base": base, "candidates": candidates}
    assert run_js("findMostDiverse(given.candidates, given.base)?.position", given) == expected


AT_LEVEL = [
    answer(0.7, 0.2),
    answer(0.5, 0.5, n_documents=4),
    answer(0.4, 0.6),
    answer(0.4, 0.7, n_documents=3),
    answer(None),
]


@pytest.mark.parametrize(
    ("level", "is_weight", "expected"),
    [
        (0.4, True, 3),
        (0.45, True, 1),
        (0.7, True, 0),
        (0.71, True, None),
        (0.4, False, 2),
        (0.45, False, 0),
        (0.8, False, None),
    ],
)
def test_at_a_diversity_the_largest_weight_or_the_fullest_set_is_taken(run_js, level, is_weight, expected):
    given = {
        "pieces": [{"set": s, "position": i} for i, s in enumerate(AT_LEVEL)],
        "level": level,
        "isWeight": is_weight,
    }
    assert run_js("findAtDiversity(given.pieces, given.level, given.isWeight)?.position", given) == expected


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


@pytest.mark.parametrize(
    ("floor", "expected"), [(None, [3, 3, 2, 1, 0]), (0.75, [2, 2, 2, 0, 0]), (0.7, [3, 3, 2, 1, 0])]
)
def test_a_document_is_on_topic_from_the_floor_on_or_if_it_is_judged_relevant(run_js, floor, expected):
    given = {"packed": PACKED, "floor": floor}
    assert run_js("new Answers(given.packed).of.map(s => s.onTopic(given.floor))", given) == expected


def test_sets_of_too_many_documents_are_without_diversity(run_js):
    packed = PACKED | {"near": None, "unmeasured": "too many"}
    figures = run_js("new Answers(given).of.map(s => [s.found, s.pairs, s.duplicates, s.diversity])", packed)
    assert figures[0] == [1, 3, 0, None] and run_js("new Answers(given).of[0].closestAbove(2).rank", packed) == -1
    assert run_js("new Answers(given).of[0].groups()", packed) == [0, 1, 2]


def test_requests_that_no_view_needs_any_more_are_ended(run_js):
    """A page of another query ends those of the one before; one that a view still needs goes on."""
    ended = run_js("""(() => {
        const open = new Map();
        globalThis.fetch = (url, { signal }) => (open.set(url, signal), new Promise(() => {}));
        for (const url of ["a", "b", "c"]) path(url, () => {});
        need("tiles", ["a", "b"]), need("along", ["b"]), need("tiles", ["b"]);
        return [...open].filter(([, signal]) => signal.aborted).map(([url]) => url);
    })()""")
    assert ended == ["a", "c"]


def test_an_ended_request_leaves_a_newer_one_of_its_url_alone(run_js):
    """Its failure comes after the newer one began, which would be asked for twice and could no longer be ended."""
    asked, is_ended = run_js("""(async () => {
        const open = [];
        globalThis.fetch = (url, { signal }) => (open.push(signal), new Promise((_, fail) => (signal.onabort = fail)));
        path("x", () => {}), need("tiles", []), path("x", () => {});
        await new Promise((done) => setTimeout(done));
        path("x", () => {}), need("tiles", []);
        return [open.length, open.every((signal) => signal.aborted)];
    })()""")
    assert (asked, is_ended) == (2, True)


def test_a_row_says_what_it_is_and_what_is_closest_above_it(run_js):
    assert run_js("new Answers(given).of[0].document(1)", PACKED) == {
        "row": 20, "name": "…b", "tooltip": "all of b", "relevance": 0.8, "score": 0.8, "right": True}  # fmt: skip
    assert run_js("new Answers(given).of[0].document(2).tooltip", PACKED) == "c"
    scored = PACKED | {"scores": [3.5, None, 1.5, 0]}
    assert run_js("new Answers(given).of[0].ids.map((_, i) => new Answers(given).of[0].document(i).score)", scored) == [
        3.5, None, 1.5]  # fmt: skip
    assert run_js("[1, 2].map(i => new Answers(given).of[0].closestAbove(i))", PACKED) == [
        {"rank": 0, "cosine": 0.9}, {"rank": 1, "cosine": 0.89999}]  # fmt: skip
    assert run_js("new Answers(given).of[0].closestAbove(0).rank", PACKED) == -1


def test_near_duplicates_begin_at_the_threshold_of_the_corpus_and_chain(run_js):
    assert run_js("new Answers(given).of[0].groups()", PACKED) == [0, 0, 2]
    assert run_js("new Answers(given).of[0].groups()", PACKED | {"duplicate": 0.9001}) == [0, 1, 2]
    assert run_js("new Answers(given).of[0].duplicates", PACKED | {"duplicate": 0.89999}) == 2
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
    assert run_js("[changed(0.357, 0.144, 2), changed(0.144, 0.144, 2)]") == ["+0.22", "±0"], "as 0.36 and 0.14 differ"
    assert run_js("[counted(1, 'set'), counted(0, 'set'), counted(2, 'query', 'queries')]") == [
        "1 set", "0 sets", "2 queries"]  # fmt: skip
    colours = run_js("[-1, 0, 0.5, 1, 2].map(heat)")
    assert colours[0] == colours[1] == [0, 34, 78] and colours[3] == colours[4] == [254, 232, 56] != colours[2]


@pytest.mark.parametrize("degrees", [1, 2, 4, 20, 156, 2000])
def test_chance_of_a_budget_is_that_of_students_t(run_js, degrees):
    scores = np.linspace(-8, 8, 161)
    # With a mean of −.1 and an error of .01, a share of .9 − .01 t is kept with the chance of t.
    shares = (0.9 - 0.01 * scores).tolist()
    ask = "given.shares.map(share => chanceOf([-.1, .01, 0, 1], share, given.degrees, 1.7, [1, 0]))"
    chances = run_js(ask, {"shares": shares, "degrees": degrees})
    assert chances == pytest.approx(stats.t.cdf(scores, degrees), abs=0.01)


@pytest.mark.parametrize("calibration", [Calibration(), Calibration(0.6, 0.0), Calibration(0.8, 0.9)])
def test_calibrated_chance_of_a_budget_is_the_engines(run_js, calibration):
    rng = np.random.default_rng(0)
    mean, std_error = rng.normal(-0.1, 0.05, size=200), np.abs(rng.normal(0.03, 0.02, size=200))
    std_error[:60] = 0.0  # no spread
    mean[:20] = 0.0  # as of what returns the baseline's sets
    skew_loss, largest_loss = rng.choice([0.0, 0.001, 0.01], 200), rng.choice([0.0, 0.2, 1.0], 200)
    mean[40:80] *= -1  # some gain
    facts = np.transpose([mean, std_error, skew_loss, largest_loss]).tolist()
    for degrees in (3, 21, 156):
        losses = LossEstimate(
            mean=mean, std_error=std_error, skew_loss=skew_loss, degrees=degrees, n_at_stake=degrees // 2,
            largest_loss=largest_loss,
        )  # fmt: skip
        given = {
            "facts": facts,
            "degrees": degrees,
            "atStake": degrees // 2,
            "sureScore": stats.t.ppf(SURE_CHANCE, degrees),
        }
        given["calibration"] = [calibration.scale, calibration.shift]
        for share in (0.8, 0.9, 0.95, 1.0, 1.05):
            ask = "chanceOf(each, given.share, given.degrees, given.sureScore, given.calibration, given.atStake)"
            chances = run_js(f"given.facts.map(each => {ask})", given | {"share": share})
            expected_chances = calibration.to_chances(losses.score(mean, share), degrees)
            assert chances == pytest.approx(expected_chances, abs=0.01)


DRAGS = """(() => {
    const told = [], chart = {div: document.body, controls: {place() {}}};
    chart.component = {setTriggerValue: (name, {value}) => told.push(value)};
    const level = new BudgetLevel(chart, document.body), meta = value => ({value, low: 90, high: 100, step: 0.5});
    level.show(meta(95));
    const {handle} = level.makePanel(), send = name => handle.dispatchEvent(new PointerEvent(name));
    handle.setPointerCapture = () => {};  // no real pointer can be captured
    for (const value of given) {
        send('pointerdown');
        level.raise(value);
        send('pointerup');
    }
    send('pointerdown');
    level.show(undefined);
    level.show(meta(92));
    level.end();
    return [told, level.value];
})()"""


def test_a_budget_dragged_back_before_the_page_answers_is_reported_and_a_lost_handle_is_let_go(run_js):
    assert run_js(DRAGS, [97, 97, 95]) == [[97, 95], 92]


MARKS_OF_CHOICES = """(() => {
    const host = document.body;
    host.replaceChildren();
    host.style.cssText = 'position: relative; margin: 0; font-family: sans-serif';
    host.appendChild(document.createElement('style')).textContent = STYLE;
    const scale = {l2p: x => x, d2p: y => y, p2d: y => y}, {size: [width, height], options, ends} = given;
    const frames = [{method: 'one', xaxis: scale, yaxis: scale, left: 40, top: 30, width, height}, {}];
    frames[1] = {...frames[0], method: 'other', left: 60 + width};
    const level = new BudgetLevel({div: host, controls: {place() {}}, fadingParts: () => []}, host);
    const label = "keep ≥ {} of Top-k's Recall", choices = {choices: [[0, 1]], options, sureEnds: [ends]};
    level.show({value: height - 15, low: height - 15, high: height + 5, step: 1, label, ...choices});
    level.place(frames);
    const boxes = name => [...host.querySelectorAll(name)].filter(node => node.style.display !== 'none').map(node => {
        const {left, right, top, bottom} = node.getBoundingClientRect();
        return [left, right, top, bottom];
    });
    const found = ['.frontier-choice', '.ring', '.strip', '.frontier-level > span', '.frontier-choice i'].map(boxes);
    host.style.fontSize = '8px';
    host.querySelector('style').textContent += '.frontier-choice { font-size: 8px }';
    document.fonts.dispatchEvent(new Event('loadingdone'));
    level.place(frames);
    const again = boxes('.frontier-choice');
    level.end();
    return [...found, again];
})()"""


@pytest.mark.parametrize("seed", range(12))
def test_names_of_both_choices_keep_off_rings_whiskers_and_each_other(run_js, seed):
    rng = random.Random(seed)
    size = rng.choice([(150, 130), (240, 160)])
    options, ends = [], []
    # Close to each other, as a sure setting and a bet of one decoder often are.
    x, y = rng.uniform(0.3, 0.55) * size[0], rng.uniform(0.35, 0.6) * size[1]
    for x_shift, y_shift in ((0, 0), (rng.uniform(14, 40), rng.uniform(0, 25))):
        look = {"colour": "#229973", "name": "Frank–Wolfe · θ 0.9", "method": "one"}
        options.append(look | {"x": x + x_shift, "y": y + y_shift, "high": y + y_shift - 30})
        ends.append(y + y_shift + 25)
    given = {"size": size, "options": options, "ends": ends}
    names, rings, strips, tags, leaders, names_of_small_type = run_js(MARKS_OF_CHOICES, given)
    assert len(names) == len(rings) == 2 and len(strips) == 4 and len(tags) == 1

    def overlap(one, other):
        return one[0] < other[1] and other[0] < one[1] and one[2] < other[3] and other[2] < one[3]

    for number, name in enumerate(names):
        assert name[0] >= 40 and name[1] <= 40 + size[0] + 8 and name[2] >= 30 and name[3] <= 30 + size[1]
        assert not any(overlap(name, other) for other in [*rings, *strips, *tags, *names[number + 1 :]])
        ring, leader, small = rings[number], leaders[number], names_of_small_type[number]
        gaps = [max(ring[low] - name[low + 1], name[low] - ring[low + 1], 0) for low in (0, 2)]
        # A line of no length has no width either.
        assert (leader[1] - leader[0] + leader[3] - leader[2] > 2) == (math.hypot(*gaps) > 9), (name, ring, leader)
        middle = (ring[0] + ring[1]) / 2
        gap = small[0] - middle if small[0] > middle else middle - small[1]
        assert gap == pytest.approx(14, abs=1), "a name is measured again in another typeface"


@pytest.mark.parametrize("count", [4, 5, 9])
def test_panels_stand_two_a_row_on_a_phone_and_as_the_server_has_them_elsewhere(run_js, count):
    names = [str(n + 1) if n else "" for n in range(count)]
    layout = {f"{letter}axis{name}": {"domain": [0, 1]} for name in names for letter in "xy"}
    layout[f"xaxis{names[-1]}"]["title"] = {"text": "Diversity →"}
    title = {"text": "<b>◆ Facility location +3%, sure</b>", "x": 0, "y": 0, "font": {"color": "red"}}
    layout["annotations"] = [*(count * [title]), {"name": "y title", "text": "Recall ↑", "yshift": 24}]
    layout |= {"meta": {"panels": count * ["mmr"]}, "height": 700, "margin": {"l": 10, "t": 52}}
    assert run_js("(arrangePanels(given, 700), given)", layout) == layout
    narrow = run_js("(arrangePanels(given, 358), given)", layout)
    x, y = ([narrow[f"{letter}axis{name}"] for name in names] for letter in "xy")
    assert [axis["domain"] for axis in x[::2]] == [x[0]["domain"]] * len(x[::2]), "two columns"
    assert x[0]["domain"][0] == 0 and x[0]["domain"][1] < x[1]["domain"][0] and x[1]["domain"][1] == pytest.approx(1)
    rows = [axis["domain"] for axis in y[::2]]
    assert all(above[0] > below[1] + 0.05 for above, below in itertools.pairwise(rows)) and rows[-1][0] >= 0
    assert [axis["showticklabels"] for axis in y] == [n % 2 == 0 for n in range(count)]
    # The last panel of each column has the title; the names break before the gain.
    assert [bool(axis["title"]["text"]) for axis in x] == [n >= count - 2 for n in range(count)]
    assert [note["text"] for note in narrow["annotations"][:-1]] == count * ["<b>◆ Facility location<br>+3%, sure</b>"]
    assert [note["y"] for note in narrow["annotations"][:-1]] == [axis["domain"][1] for axis in y]


def test_panels_titles_follow_the_budget_and_what_is_of_another_one_is_hidden(run_js):
    titles = {"names": ["◆ A", "● B"], "gains": [["+2%, sure", ""], ["+1%, 9 in 100", "+3%, sure"]]}
    titles["settings"] = [[0, None], [0, 1]]
    level = {"low": 90, "step": 5, "value": 95, "choices": [[0, None], [None, 1]]}
    level["options"] = [{"method": "a"}, {"method": "b"}]
    texts = """[...div.querySelectorAll('text')].map(text => [text.textContent, text.style.fontWeight])"""
    hidden = """[...div.querySelectorAll('[style*=hidden]')].map(node => node.getAttribute('class'))"""
    drawn = """<svg><g class="shapelayer"><path class="frame" data-index="0"/></g>
        <g class="scatterlayer"><g class="trace best a"/><g class="trace best b"/></g>
        <g class="annotation" data-index="0"><text>◆ A +1%</text></g>
        <g class="annotation" data-index="1"><text><tspan class="line">● B</tspan><tspan class="line">+3%</tspan></text>
        </g></svg>"""
    result = run_js(
        f"""(() => {{
            const div = Object.assign(document.createElement('div'), {{ innerHTML: given.drawn }});
            div.layout = {{ shapes: [{{ name: 'chosen' }}] }};
            [...div.querySelectorAll('.trace')].forEach((node, i) => {{
                node.__data__ = [{{ trace: {{ name: 'best setting', xaxis: i ? 'x2' : 'x' }} }}];
            }});
            const chart = {{ controls: {{ meta: {{ panels: ['a', 'b'] }} }} }};
            return [95, 90, 95].map(value => {{
                turnTitles(div, given.titles, {{ level: given.level, value, chart }});
                return [{texts}, {hidden}];
            }});
        }})()""",
        {"titles": titles, "level": level, "drawn": drawn},
    )
    assert result[0] == [[["◆ A +1%", ""], ["● B+3%", ""]], []], "what the page has drawn stays"
    # Of a panel that has two lines each one keeps its place.
    assert result[1] == [[["◆ A +2%, sure", "bold"], ["● B", ""]], ["frame", "trace best b"]]
    assert result[2] == [[["◆ A +1%, 9 in 100", ""], ["● B+3%, sure", "bold"]], []]


def test_pins_of_the_map_whose_short_names_would_be_alike_differ(run_js):
    alike = [f"A refund for a damaged {thing} is paid when the return arrives." for thing in ("lamp", "chair", "table")]
    names = [*alike, alike[0], "A short name", "Another long title of one document alone"]
    labels = run_js("given.map(name => shortenApart(given).get(name))", names)
    assert labels[:3] == ["…lamp is paid when th…", "…chair is paid when t…", "…table is paid when t…"]
    assert labels[3:] == [labels[0], "A short name", "Another lo…ment alone"]
    assert max(map(len, labels)) <= 22


def test_a_confirmed_choice_keeps_the_colour_of_its_squares_and_its_sign_has_it_too(run_js):
    option = {
        "label": "a",
        "sign": "◆",
        "name": "A",
        "facts": "+2%",
        "interval": "",
        "light": "#ff0000",
        "dark": "#ff0000",
    }
    budget = {"sentences": [], "choices": [0, 0], "chances": [99, 50], "sureShares": ["at least 95%"] * 2}
    answer = {"text": "Confirmed on test", "help": ""}
    data = {"part": "choices", "budget": 90, "low": 90, "step": 5, "budgets": [budget], "options": [option]}
    data |= {"metric": "Recall", "denial": "", "origin": " on dev", "dark": False}
    data["confirmations"] = [answer | {"isDenied": False}, answer | {"isDenied": True}]
    expression = """(async () => {
        const view = mount(document.body);
        view.update({ data: given });
        const root = view.root, colourOf = (name, property) =>
            [...root.querySelectorAll(name)].map(node => getComputedStyle(node)[property]);
        const isPending = () => colourOf(".squares i:first-child", "backgroundColor")[0] === "rgba(0, 0, 0, 0)";
        const until = performance.now() + 5000;
        while (isPending() && performance.now() < until)
            await new Promise(requestAnimationFrame);
        return [colourOf('.squares i:first-child', 'backgroundColor'), colourOf('.name .sign', 'color'),
            [...root.querySelectorAll('.name')].map(node => node.textContent)];
    })()"""
    squares, signs, names = run_js(expression, data)
    assert squares[0] == "rgb(255, 0, 0)" and squares[1] != squares[0], "grey is what the other split denies"
    assert signs == ["rgb(255, 0, 0)"] * 2 and names == ["◆ A"] * 2


def test_a_chance_below_its_estimate_says_why(run_js):
    """ "100.9% of Top-k's Recall" beside "42 in 100 to keep 100%" reads as a contradiction."""
    option = {"label": "a", "sign": "◆", "name": "A", "facts": "", "interval": "", "light": "#f00", "dark": "#f00"}
    data = {"part": "choices", "budget": 100, "low": 100, "step": 5, "metric": "Recall", "denial": "", "origin": ""}
    data |= {"dark": False, "options": [option | {"kept": 1.009}, option | {"kept": 0.99}]}
    expression = """(() => {
        const view = mount(document.body);
        view.update({ data: given });
        return [...view.root.querySelectorAll('.chance')].map(node => node.textContent);
    })()"""
    for chances, options, has_reason in (((42, 60), (0, 0), (True, False)), ((42, 42), (0, 1), (True, False))):
        budget = {"sentences": [], "choices": options, "chances": chances, "sureShares": ["at least 98%"] * 2}
        texts = run_js(expression, data | {"budgets": [budget]})
        expected = [f"chance to keep 100% of Recall: {chance} in 100" for chance in chances]
        reason = ", lowered as the best of many looks better than it is"
        assert texts[-2:] == [text + reason * said for text, said in zip(expected, has_reason, strict=True)]


def test_a_window_is_widened_for_a_budget_and_its_choices_and_else_stays(run_js):
    window = {"x": [0, 10], "y": [90, 100]}
    level = "{ value: given.value, chosen: () => given.choices }"
    expression = f"widenForBudget(given.window, {level})"
    inside = {"window": window, "value": 92, "choices": [None, {"x": 4, "y": 93}]}
    assert run_js(expression, inside) == window
    widened = run_js(expression, inside | {"value": 85, "choices": [None, {"x": 12, "y": 86}]})
    assert widened["x"][0] == 0 and widened["y"][1] == 100, "only the ends that something is beyond are moved"
    assert widened["y"][0] < 85 and widened["x"][1] > 12


def test_hover_texts_fit_a_phone_and_stay_whole_on_a_wide_chart(run_js):
    text = f"<b>{'word ' * 12}</b><br>{'&amp; ' * 10}end"
    narrow, wide = (run_js(f"fitHoverTexts(given, {width})", [{"hovertext": [text, None]}, {}]) for width in (190, 900))
    lines = narrow[0]["hovertext"][0].split("<br>")
    assert " ".join(lines) == text.replace("<br>", " ") and len(lines) > 3
    assert max(len(line.replace("&amp;", "_").replace("<b>", "").replace("</b>", "")) for line in lines) <= 20
    assert wide == [{"hovertext": [text, None]}, {}] and narrow[0]["hovertext"][1] is None
