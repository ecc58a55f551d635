"""The wall of Check-up in a browser: λ changes all squares in its frame, and a click opens a query at that λ."""

import re

from support.browser import LISTS_DRAWN, MARKS, ROOTS, WAIT, findings, idle, until

pytestmark = MARKS
ADDRESS = "/?v=1&corpus=numpy-api&decoders=top_k,mmr"
READ_WALL = f"""() => {{
    const root = {ROOTS}.find(root => root.querySelector('.frontier-wall'));
    return {{
        figure: root.querySelector('.figure').textContent,
        note: root.querySelector('.note').textContent,
        counts: [...root.querySelectorAll('.frontier-wall span')].map(note => Number(note.textContent)),
        pixels: root.querySelector('canvas').toDataURL(),
    }};
}}"""


def read_shares(figure):
    """Read the shares of queries with near-duplicates, before and after, of the figure above the wall."""
    return tuple(map(int, re.match(r"(\d+)% → (\d+)%", figure).groups()))


def test_a_drag_changes_all_squares_and_a_click_opens_the_query_at_its_lambda(page, server):
    sent = []
    page.on("websocket", lambda socket: socket.on("framesent", lambda text: sent.append(text)))
    page.goto(server + ADDRESS)
    page.wait_for_function(LISTS_DRAWN, timeout=WAIT)
    idle(page)
    page.keyboard.press("w")
    slider = page.get_by_role("slider", name="MMR λ of all queries")
    until(page, slider.is_enabled)
    idle(page)
    assert page.locator(".tile").count() == 0, "the wall has the whole width"
    legend = "Above the slider: share of queries with near-duplicates; hatched: the mean relevance of most sets"
    until(page, lambda: legend in page.locator(".check-up .note").text_content())
    page.get_by_role("button", name="How to read the wall").click()
    assert legend in page.locator(".check-up .note").inner_text(), "shown when it is asked for"
    base = page.evaluate(READ_WALL)
    assert "holds near-duplicates" in base["figure"] and len(base["counts"]) == 157
    box = slider.bounding_box()
    point_at = lambda share: (box["x"] + 8 + (box["width"] - 16) * share, box["y"] + box["height"] / 2)  # noqa: E731
    page.mouse.move(*point_at(0.8))
    page.mouse.down()
    page.wait_for_timeout(100)
    n_sent, n_entries, walls = len(sent), page.evaluate("history.length"), []
    for share in (0.9, 0.75, 0.5):
        page.mouse.move(*point_at(share), steps=4)
        drawn = [base, *walls]
        until(page, lambda: page.evaluate(READ_WALL)["pixels"] not in [wall["pixels"] for wall in drawn])  # noqa: B023
        # The last of the drag's steps may still be on its way.
        page.wait_for_timeout(100)
        walls.append(page.evaluate(READ_WALL))
    assert len(sent) == n_sent, "nothing is sent while the thumb is held"
    shares = [read_shares(wall["figure"]) for wall in walls]
    assert len({before for before, _ in shares}) == 1
    n_redundant = sum(count > 0 for count in base["counts"])
    assert shares[0][0] == round(100 * n_redundant / 157) > shares[0][1] > shares[1][1] > shares[2][1]
    assert len({wall["pixels"] for wall in [base, *walls]}) == 4
    (mean,) = re.findall(r"on average over \d+ queries: (0\.\d\d);", base["note"])
    means = [re.search(rf"on average over \d+ queries: {mean} → (0\.\d\d);", wall["note"])[1] for wall in walls]
    assert mean < means[0] < means[1] < means[2], "the caption's diversity is that of the squares"
    page.mouse.up()
    until(page, lambda: len(sent) > n_sent and re.search(r"mmr\.relevance_weight=0\.(49|5|51)&", page.url))
    idle(page)
    assert page.evaluate(READ_WALL) == walls[-1], "the answer to a release changes nothing"
    assert page.evaluate("history.length") == n_entries, "a release is no entry of the browser's history"
    off_topic = "of the top 10 off-topic, on average"
    cost = re.search(rf"(\d\.\d → \d\.\d) {off_topic} · (\d+%) of Recall kept", walls[-1]["figure"])
    said = f": {shares[-1][1]}% of queries hold near-duplicates, {cost[1]} {off_topic}, {cost[2]} of Recall kept"
    assert slider.get_attribute("aria-valuetext").endswith(said) and "off-topic" not in base["figure"]
    assert page.locator(".check-up .offtopic i").count() > 0
    assert page.locator(".frontier-wall [aria-pressed=true]").count() == 1, "the square of the open query is marked"
    page.keyboard.press("w")
    until(page, lambda: page.evaluate(READ_WALL) == base)
    page.keyboard.press("w")
    until(page, lambda: page.evaluate(READ_WALL) == walls[-1])
    assert not findings(page)
    assert slider.bounding_box() == box, "the slider stays where the pointer has it"
    square = page.locator(".frontier-wall button").nth(1)
    until(page, lambda: f"{walls[-1]['counts'][1]} near-duplicate" in square.get_attribute("aria-label"))
    title = square.get_attribute("aria-label").rpartition(": ")[0]
    square.click()
    page.wait_for_function(LISTS_DRAWN, timeout=WAIT)
    idle(page)
    assert page.get_by_role("radio", name="Results", exact=True).is_checked()
    assert page.evaluate("frontier.shown.decoders[1].sliders[0].value") in (0.49, 0.5, 0.51)
    until(page, lambda: page.get_by_test_id("stSelectbox").first.locator("input").input_value() == title)
