"""What is installed is whole: a wheel, unpacked away from the checkout, finds its demo and its command."""

import os
import subprocess
import sys
import zipfile

import pytest

from support.paths import ROOT


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    done = subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "--quiet", "-w", folder, ROOT],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return next(folder.glob("*.whl"))


def test_it_holds_code_and_demo_and_nothing_else(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    tops = {name.split("/")[0] for name in names}
    assert tops == {"engine", "dashboard", next(t for t in tops if t.endswith(".dist-info"))}
    for needed in ("queries.jsonl", "qrels/dev.tsv", "qrels/test.tsv", "vectors.safetensors"):
        assert f"engine/data/demo/numpy-api/{needed}" in names
    # Type checkers read the annotations of a package only if it has this file.
    assert {"engine/py.typed", "dashboard/py.typed"} <= set(names)
    assert "dashboard/screens/explore.py" in names and "engine/data/readers.py" in names
    with zipfile.ZipFile(wheel) as archive:
        entry = next(n for n in names if n.endswith("entry_points.txt"))
        assert "frontier = dashboard.start:main" in archive.read(entry).decode()


@pytest.mark.deep
def test_installed_elsewhere_it_loads_its_demo(wheel, tmp_path):
    site = tmp_path / "site"
    zipfile.ZipFile(wheel).extractall(site)
    code = (
        "import engine, dashboard.serve, dashboard.start\n"
        "ds = engine.load_dataset('numpy-api')\n"
        "print(engine.__file__, len(ds.corpus), len(ds.queries), engine.__version__, *ds.qrels, sep='|')\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(site)}
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    where, documents, queries, version, *splits = done.stdout.strip().split("|")
    assert where.startswith(str(site)) and 600 <= int(documents) <= 1000 and int(queries) >= 160
    assert splits == ["dev", "test"] and f"-{version}-" in wheel.name
