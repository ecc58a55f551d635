"""The pages' scripts as one text: all that they import, nothing that is fetched."""

import re

import pytest

from dashboard.components.bundle import bundle_scripts, encode_json
from dashboard.components.vendor import MODULE_FOLDER

SCRIPTS = sorted(file.name for file in MODULE_FOLDER.glob("*.js") if file.name != "loader.js")


@pytest.mark.parametrize("name", SCRIPTS)
def test_bundle_of_each_script_has_no_import_and_all_its_exports(name):
    text = bundle_scripts(name)
    assert not re.search(r"^(import|export)\b", text, re.MULTILINE)
    exports = re.findall(r"^export (?:const|class|function) (\w+)", (MODULE_FOLDER / name).read_text(), re.MULTILINE)
    assert exports and f"return {{ {', '.join(exports)} }};" in text
    assert "</script" not in text.lower() and "<!--" not in text


def test_bundle_has_each_script_once_after_its_imports():
    text = bundle_scripts("tiles.js", "lists.js", "parts.js")
    assert re.findall(r"^frontierModules\['([\w.]+)'\]", text, re.MULTILINE) == ["parts.js", "tiles.js", "lists.js"]
    assert encode_json((MODULE_FOLDER / "scrub.css").read_text()) in text


@pytest.mark.parametrize(
    "line", ['import * as parts from "./parts.js";', "export default () => 1;", 'import "./a.js";']
)
def test_bundle_refuses_other_forms_of_import_and_export(tmp_path, line):
    (tmp_path / "odd.js").write_text(f"const a = 1;\n{line}\n")
    with pytest.raises(ValueError, match=re.escape(f"odd.js must import and export names alone; got {line!r}")):
        bundle_scripts("odd.js", folder=tmp_path)


def test_bundle_renames_as_the_import_does(tmp_path):
    (tmp_path / "a.js").write_text("export const A = 1, unused = 2;\n")
    (tmp_path / "b.js").write_text('import {\n  A as B,\n} from "./a.js";\nexport function c() {\n  return B;\n}\n')
    assert "const {\n  A: B,\n} = frontierModules['a.js'];" in bundle_scripts("b.js", folder=tmp_path)


def test_encode_json_cannot_end_a_script_element():
    assert encode_json({"a": "</script><!-- é"}) == '{"a":"\\u003c/script>\\u003c!-- é"}'
