"""The pages' scripts as one text, for pages without a server: a file that is opened, a widget of a notebook."""

import json
import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

from dashboard.components.vendor import MODULE_FOLDER

MODULES_NAME = "frontierModules"
"""Variable of a bundle that holds the exports of each script, by its file name."""
HUB_NAME, PAGE_HUB = "frontierHub", "(globalThis.frontier ??= { shown: null })"
"""Variable of a bundle that holds the state that its views share, and that state where a page has one bundle."""
_IMPORT = re.compile(r'^import \{([^}]*)\} from "\./([\w.-]+)";$', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:const|class|function) (\w+))", re.MULTILINE)
_OTHER_FORM = re.compile(r"^(?:import|export)\b.*", re.MULTILINE)
_SHEET = re.compile(r'\bstyled\(\w+, "([\w.-]+)"')


@cache
def bundle_scripts(*names: str, folder: Path = MODULE_FOLDER, hub: str = PAGE_HUB) -> str:
    """Return scripts with all that they import, and their style sheets, as the text of one module without imports.

    names: of scripts in the folder, as "tiles.js"; hub: JavaScript of the state that the views share. Each script runs
    once, in a function of its own, and its exports are in `frontierModules[name]`. The text is a module's
    (`<script type="module">`, the `_esm` of a widget), to which the caller adds the code that mounts the views. Raises
    ValueError for a form of import or export that is not used here.
    """
    sources = _collect_sources(names, folder)
    sheet_names = sorted({name for source in sources.values() for name in _SHEET.findall(source)})
    sheets = {name: (folder / name).read_text(encoding="utf-8") for name in sheet_names}
    # `styled` of parts.js takes a sheet from the hub before it would ask for the file.
    parts = [
        f"const {HUB_NAME} = {hub};",
        f"{HUB_NAME}.sheets = {encode_json(sheets)};",
        f"const {MODULES_NAME} = {{}};",
    ]
    parts += [_wrap_script(name, source) for name, source in sources.items()]
    return "\n".join(parts)


def encode_json(value: Any) -> str:
    """Return a value as JSON that can stand inside a script element: no text of it can end the element."""
    # "</script" and "<!--" have a meaning for HTML wherever they stand in a script.
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).replace("<", "\\u003c")


def _collect_sources(names: Iterable[str], folder: Path) -> dict[str, str]:
    """Return the texts of scripts and of what they import, by file name, each after its imports."""
    sources: dict[str, str] = {}

    def collect(name: str) -> None:
        """Add a script's imports, then the script."""
        source = (folder / name).read_text(encoding="utf-8")
        for _, imported in _IMPORT.findall(source):
            if imported not in sources:
                collect(imported)
        sources[name] = source

    for name in names:
        if name not in sources:
            collect(name)
    return sources


def _wrap_script(name: str, source: str) -> str:
    """Return a script as a function that is called at once and returns the script's exports."""
    exports = _EXPORT.findall(source)
    body = _EXPORT.sub("", _IMPORT.sub(_read_exports, source))
    if (other_form := _OTHER_FORM.search(body)) is not None:
        raise ValueError(f"{name} must import and export names alone; got {other_form.group()!r}")
    # Within a text both mean the same; the first one would end the element that the script stands in.
    body = body.replace("</script", "<\\/script")
    return f"{MODULES_NAME}[{name!r}] = (() => {{\n{body}\nreturn {{ {', '.join(exports)} }};\n}})();"


def _read_exports(statement: re.Match[str]) -> str:
    """Return an import as the reading of another script's exports into constants."""
    names, imported = statement.groups()
    return f"const {{{names.replace(' as ', ': ')}}} = {MODULES_NAME}[{imported!r}];"
