"""The README's pictures, and the recording of a drag, from the real pages.

python tests/bench/pictures.py --out assets [--only explore map tradeoff scrub]
"""

from __future__ import annotations

import io
import tempfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from harness import parse_arguments
from PIL import Image

from support import warm_home
from support.browser import WAIT, Server, chromium, idle, view

ADDRESS = "/?v=1&corpus=numpy-api&decoders=top_k,mmr,dpp,nnn"
FRAMES, PAUSE, WIDTH = 64, 80, 1080
"""Frames of the recording, milliseconds each is shown, and its width in pixels."""
COLOURS = 160
RECORDING = "scrub"


def open_explore(browser, url: str, scheme: str, height: int = 900):
    page = browser.new_context(viewport={"width": 1440, "height": height}, color_scheme=scheme).new_page()
    page.goto(url)
    page.locator(".tile canvas").first.wait_for(timeout=WAIT)
    page.wait_for_function("frontier.paths?.size && [...frontier.paths.values()].every(path => path)", timeout=WAIT)
    idle(page)
    return page


def recording(browser, url: str, file: Path) -> None:
    """A drag of MMR's λ from 0.98 to 0.3 and back a little, as an animated GIF."""
    page = open_explore(browser, url + ADDRESS, "light", 760)
    box = page.get_by_role("slider", name="MMR λ", exact=True).bounding_box()
    frames = []

    def point_at(share: float) -> tuple[float, float]:
        return box["x"] + 8 + (box["width"] - 16) * share, box["y"] + box["height"] / 2

    page.mouse.move(*point_at(0.98))
    page.mouse.down()
    for step in range(FRAMES):
        share = step / (FRAMES - 1)
        page.mouse.move(*point_at(0.98 - 0.68 * min(1, share / 0.7) + 0.4 * max(0, share - 0.7) / 0.3))
        page.wait_for_timeout(40)
        frames.append(Image.open(io.BytesIO(page.screenshot())).convert("RGB"))
    page.mouse.up()
    small = [frame.resize((WIDTH, WIDTH * frame.height // frame.width), Image.Resampling.LANCZOS) for frame in frames]
    palette = small[FRAMES // 2].quantize(COLOURS)
    quantised = [frame.quantize(palette=palette, dither=Image.Dither.NONE) for frame in small]
    quantised[0].save(file, save_all=True, append_images=quantised[1:], duration=PAUSE, loop=0, optimize=True)
    print(f"{file}: {file.stat().st_size / 1e6:.1f} MB")


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
    if page.locator(".st-key-tour-close").count():
        page.locator(".st-key-tour-close button").click()
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
