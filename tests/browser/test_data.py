"""The Data page in a real browser: a table is uploaded and explored, and no text of it ever acts."""

import csv
import io
import re

import pytest

from support import browser as kit

pytestmark = kit.MARKS

ANIMALS = ("cat", "dog", "horse", "heron", "whale", "mouse")
VERBS = ("runs", "sleeps", "eats", "jumps")
HOSTILE = [
    '<img src="hostile-image" onerror="alert(1)">',
    "$\\href{javascript:alert(1)}{click}$",
    "![x](http://192.0.2.1/x.png)",
    "[link](http://192.0.2.1)",
    '<a href="http://192.0.2.1">x</a><script>alert(1)</script>',
    ":material/home: :red[blood] https://192.0.2.1/auto",
]


def table(rows):
    stream = io.StringIO()
    csv.writer(stream).writerows(rows)
    return stream.getvalue().encode()


def upload(page, server, name, content):
    page.goto(f"{server}/data")
    page.get_by_text("Built in").wait_for(timeout=kit.WAIT)
    page.get_by_text("Upload", exact=True).click()
    page.locator("input[type=file]").set_input_files({"name": name, "mimeType": "text/csv", "buffer": content})
    page.get_by_text("Text column").wait_for(timeout=kit.WAIT)


def test_upload_map_embed_query_and_slide(page, server):
    rows = [("code", "notes", "said")] + [
        (f"00{i}", f"note {i}", f"a {a} that {v}")
        for i, (a, v) in enumerate((a, v) for a in ANIMALS for v in VERBS)
    ]  # fmt: skip
    upload(page, server, f"animals-{page.scheme}.csv", table(rows))
    page.locator("[data-testid=stDataFrame] table th", has_text="code").wait_for(state="attached", timeout=kit.WAIT)
    kit.until(page, lambda: kit.column(page, 0, "code")[:2] == ["000", "001"])
    kit.choose(page, "Text column", "said")
    kit.choose(page, "Id column", "code")
    kit.idle(page)
    page.get_by_text("Load and embed").click()
    page.get_by_text("24 documents · 384").wait_for(timeout=kit.WAIT)

    page.get_by_role("link", name="Explore").click()
    kit.type_query(page, "a sleeping cat")
    kit.settle(page)
    top, first_lists = kit.lists(page)
    assert top[0] == "a cat that sleeps"
    spread = kit.diversity(page, 1)
    kit.slide(page, "Home")
    kit.until(page, lambda: kit.diversity(page, 1) > spread and kit.lists(page)[1] != first_lists)
    assert kit.lists(page)[0] == top


@pytest.mark.deep  # test_markup.py looks at the pages of such a corpus
def test_text_of_a_hostile_table_never_acts(page, server):
    acted = []
    page.on("dialog", lambda dialog: (acted.append(dialog.message), dialog.dismiss()))
    page.on("request", lambda r: acted.append(r.url) if "hostile" in r.url or "192.0.2.1" in r.url else None)
    heads = ["id " + HOSTILE[0], "text " + HOSTILE[2], "title " + HOSTILE[1], HOSTILE[3], HOSTILE[5]]
    rows = [heads] + [[f"{i} {h}", f"text {h}", f"title {h}", h, h] for i, h in enumerate(HOSTILE * 3)]
    upload(page, server, f"[link](x) {page.scheme} $x$ <b>.csv", table(rows))
    innocent(page, acted)
    for label, head in (("Text column", heads[1]), ("Id column", heads[0]), ("Title column", heads[2])):
        kit.choose(page, label, head)
    kit.idle(page)
    innocent(page, acted)
    page.get_by_text("Load and embed").click()
    page.get_by_text("18 documents · 384").wait_for(timeout=kit.WAIT)
    innocent(page, acted)
    for name in ("Encoders", "Cache"):
        kit.view(page, name)
        kit.idle(page)
        innocent(page, acted)

    page.get_by_role("link", name="Explore").click()
    kit.type_query(page, " ".join(HOSTILE))
    kit.settle(page)
    assert all(any(bad in name for bad in HOSTILE) for name in kit.lists(page)[0])
    innocent(page, acted)
    kit.read_first(page)
    page.get_by_text(re.compile(r"^Relevance [−-]?\d\.\d{3}, rank \d+ of 18")).wait_for(timeout=kit.WAIT)
    innocent(page, acted)
    kit.view(page, "Table")
    kit.idle(page)
    innocent(page, acted)
    page.locator(".st-key-reading-close button").first.click()
    kit.ask_by(page, "Like a document")
    page.get_by_role("textbox", name="Document id").fill("nothing like it 192")
    page.get_by_role("textbox", name="Document id").press("Enter")
    page.get_by_text("No document has this id").wait_for(timeout=kit.WAIT)
    page.get_by_role("textbox", name="Document id").fill("href")
    page.get_by_role("textbox", name="Document id").press("Enter")
    page.get_by_text("Did you mean").wait_for(timeout=kit.WAIT)
    innocent(page, acted)


def innocent(page, acted):
    """The hostile text has made no request, no dialog, no link and no image."""
    assert not acted, acted
    assert page.locator("img").count() == 0
    assert page.locator("a[href*='192.0.2.1'], a[href*='javascript'], script:text('alert')").count() == 0
    assert page.locator(".katex").count() == 0
