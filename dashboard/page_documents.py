"""HTML of the pages that people open by their own address, such as /tradeoff."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import streamlit
from starlette.responses import HTMLResponse
from starlette.routing import Route

if TYPE_CHECKING:
    from starlette.requests import Request

INDEX_FILE = Path(streamlit.__file__).parent / "static" / "index.html"
# Streamlit's script looks for its server below the page's own path first, and each miss is an error in the console.
# The browser's path has the prefixes of proxies, which the server may not know: only the page's name is taken off.
BASE_SCRIPT = """<script>
window.__streamlit = {BACKEND_BASE_URL: location.origin + location.pathname.replace(/\\/[^/]*$/, "")}
</script>"""


def build_routes(base_path: str) -> list[Route]:
    """Return the routes of the pages below `base_path`; the first page, at the base path itself, is Streamlit's."""
    scripts = sorted((Path(__file__).parent / "screens").glob("[!_]*.py"))
    return [Route(f"{base_path}/{script.stem}", _send_page) for script in scripts]


async def _send_page(_: Request) -> HTMLResponse:
    """Send the HTML of a page."""
    return HTMLResponse(_read_document(), headers={"Cache-Control": "no-cache"})


@cache
def _read_document() -> str:
    """Read Streamlit's HTML and insert the script; the title is the one that the page sets later."""
    document = INDEX_FILE.read_text("utf-8").replace("<title>Streamlit</title>", "<title>Frontier</title>")
    return document.replace("<head>", f"<head>\n{BASE_SCRIPT}", 1)
