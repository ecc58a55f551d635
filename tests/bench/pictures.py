"""The README's pictures, and a recording of some twenty seconds, from the real pages.

python tests/bench/pictures.py --out assets [--only explore map tradeoff demo]
"""

from __future__ import annotations

import io
import tempfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from harness import parse_arguments
from PIL import Image

import engine
from support import warm_home
from support.browser import WAIT, Server, chromium, idle, view

ADDRESS, TWO = "/?v=1&corpus=numpy-api&decoders=top_k,mmr,dpp,nnn", "/?v=1&corpus=numpy-api&decoders=top_k,mmr"
PAUSE_MS, WIDTH, HEIGHT, COLOURS = 130, 1280, 800, 256
"""Milliseconds that a frame of the recording is shown, width and height of the recorded page, and colours.

From 1201 pixels on the choices stand beside the chart, and not below it, where the frame would cut them.
"""
RECORDING = "demo"
LIVE_PAGE = Path(__file__).parents[2] / "assets" / "live.html"


def new_page(browser, scheme: str, size: tuple[int, int]):
    width, height = size
    return browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme).new_page()


def open_explore(browser, url: str, scheme: str, size: tuple[int, int] = (1440, 900)):
    page = new_page(browser, scheme, size)
    page.goto(url)
    page.locator(".tile canvas").first.wait_for(timeout=WAIT)
    page.wait_for_function("frontier.paths?.size && [...frontier.paths.values()].every(path => path)", timeout=WAIT)
    idle(page)
    return page


class Recording:
    """Frames of pages, one after another, as an animated GIF."""

    def __init__(self) -> None:
        self.frames: list[Image.Image] = []

    def look(self, page, count: int = 1) -> None:
        """Take a frame of a page, shown `count` times as long."""
        self.frames += [Image.open(io.BytesIO(page.screenshot())).convert("RGB")] * count

    def drag(self, page, points, steps: int) -> None:
        """Drag from point to point, and take a frame at each step."""
        (x, y), *others = points
        page.mouse.move(x, y)
        page.mouse.down()
        for next_x, next_y in others:
            for step in range(1, steps + 1):
                page.mouse.move(x + (next_x - x) * step / steps, y + (next_y - y) * step / steps)
                page.wait_for_timeout(40)
                self.look(page)
            x, y = next_x, next_y
        page.mouse.up()

    def save(self, file: Path) -> None:
        """Write the frames with the colours of all of them; frames that are equal take no room."""
        samples = self.frames[:: max(1, len(self.frames) // 8)]
        sheet = Image.new("RGB", (WIDTH, sum(frame.height for frame in samples)))
        for position, frame in enumerate(samples):
            sheet.paste(frame, (0, sum(sample.height for sample in samples[:position])))
        palette = sheet.quantize(COLOURS)
        first, *others = [frame.quantize(palette=palette, dither=Image.Dither.NONE) for frame in self.frames]
        first.save(file, save_all=True, append_images=others, duration=PAUSE_MS, loop=0, optimize=True)
        print(f"{file}: {file.stat().st_size / 1e6:.1f} MB, {len(self.frames) * PAUSE_MS / 1000:.0f} s")


def point_on(slider, share: float) -> tuple[float, float]:
    """Return the point of a slider at a share of its track."""
    box = slider.bounding_box()
    return box["x"] + 8 + (box["width"] - 16) * share, box["y"] + box["height"] / 2


def recording(browser, url: str, file: Path) -> None:
    """The wall cools, a query's lists go off-topic, the budget moves, and a live page does the same from a file."""
    story = Recording()
    # What takes time to load is opened before it is shown.
    frontier = open_all_decoders(browser, url)
    page = open_explore(browser, url + TWO, "light", (WIDTH, HEIGHT))
    close_tour(page)
    view(page, "Check-up")
    wall_slider = page.get_by_role("slider", name="MMR λ of all queries")
    wall_slider.wait_for(timeout=WAIT)
    page.get_by_text("each computed by the engine").wait_for(state="attached", timeout=WAIT)
    story.look(page, 8)
    wall_slider.press("End")
    page.wait_for_timeout(300)
    story.drag(page, [point_on(wall_slider, share) for share in (1.0, 0.6)], 24)
    story.look(page, 5)
    page.locator(".frontier-wall button").first.click()
    page.locator(".tile canvas").first.wait_for(timeout=WAIT)
    idle(page)
    slider = page.get_by_role("slider", name="MMR λ", exact=True)
    story.look(page, 6)
    story.drag(page, [point_on(slider, share) for share in (0.6, 0.3, 0.8)], 16)
    story.look(page, 5)
    budget = frontier.get_by_role("slider", name="Budget").first
    budget.scroll_into_view_if_needed()
    box = budget.bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    story.look(frontier, 6)
    story.drag(frontier, [(x, y), (x, y + 50), (x, y)], 14)
    story.look(frontier, 4)
    live = new_page(browser, "light", (WIDTH, HEIGHT))
    live.goto(LIVE_PAGE.as_uri())
    live.wait_for_timeout(1500)
    story.look(live, 5)
    slider = live.get_by_role("slider", name="MMR λ", exact=True)
    slider.scroll_into_view_if_needed()
    story.drag(live, [point_on(slider, share) for share in (0.8, 0.5)], 14)
    story.look(live, 6)
    story.save(file)


def open_all_decoders(browser, url: str):
    """Open Trade-off with every decoder measured, each in its panel: the verdict is then on all of them."""
    page = new_page(browser, "light", (WIDTH, HEIGHT))
    page.goto(f"{url}/?v=1&corpus=numpy-api&decoders={','.join(engine.methods('selector'))}")
    page.locator(".tile canvas").first.wait_for(timeout=WAIT)
    tradeoff(page)
    page.get_by_text("so far", exact=True).wait_for(state="hidden", timeout=6 * WAIT)
    idle(page)
    page.wait_for_timeout(3000)
    return page


def close_tour(page) -> None:
    dot = page.locator(".st-key-tour button").first
    if dot.count():
        dot.click()
        page.get_by_role("button", name="Close", exact=True).click()


def scrub_slider(page) -> None:
    """The verdict of a query in place of the corpus's, as after a first move."""
    slider = page.get_by_role("slider", name="MMR λ", exact=True)
    slider.press("ArrowLeft")
    slider.press("ArrowRight")
    page.wait_for_timeout(2000)
    slider.evaluate("element => element.blur()")


def on_map(page) -> None:
    scrub_slider(page)
    view(page, "Map")
    page.get_by_text("t-SNE, perplexity").wait_for(timeout=WAIT)
    page.wait_for_timeout(5000)


def tradeoff(page) -> None:
    close_tour(page)
    page.get_by_role("link", name="Trade-off").click()
    start, done = page.locator(".st-key-tradeoff-start button"), page.get_by_text("Wins and losses", exact=True)
    start.or_(done).first.wait_for(timeout=WAIT)
    if start.count():  # so many settings do not begin by themselves
        start.click()
    done.wait_for(timeout=4 * WAIT)
    page.wait_for_timeout(5000)


PICTURES: dict[str, Callable] = {"explore": scrub_slider, "map": on_map, "tradeoff": tradeoff}


def main() -> None:
    args = parse_arguments(__doc__, only=["all"])
    is_chosen = (lambda _: True) if args.only == ["all"] else args.only.__contains__
    folder = Path(args.out or "assets")
    with (
        tempfile.TemporaryDirectory() as home,
        closing(Server(warm_home.copy(Path(home) / "home"))) as server,
        chromium() as (browser,),
    ):
        for name, show in filter(lambda item: is_chosen(item[0]), PICTURES.items()):
            for scheme in ("light", "dark"):
                page = open_explore(browser, server.url + ADDRESS, scheme)
                show(page)
                idle(page)
                page.screenshot(path=folder / f"{name}-{scheme}.png")
        if is_chosen(RECORDING):
            recording(browser, server.url, folder / f"{RECORDING}.gif")


if __name__ == "__main__":
    main()
