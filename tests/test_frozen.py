"""What users write stays: names of the façade, parameters, flags, keys of pages, fields of links.

A name of tests/frozen/strings.json that is gone fails; a new one does not.
"""

import subprocess
import sys

import pytest

import engine
from engine import orag
from support.draws import deepen
from support.frozen import (
    CORPUS,
    LOOKS,
    STRINGS,
    collect_names,
    find_missing,
    list_parameters,
    list_strings,
    page_keys,
    populate_home,
    read_link,
)
from support.paths import ROOT
from support.public_values import select_judged


@pytest.fixture(scope="module", autouse=True)
def root():
    """The root of the checkout as the current folder."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ROOT)
        yield


@pytest.fixture(scope="module")
def world():
    """(data set, space, the vectors of all its queries)."""
    dataset = engine.load_dataset(CORPUS.path)
    space = engine.Space(dataset.corpus, engine.embed(dataset.corpus, dtype="float32"), "cpu")
    world = dataset, space, engine.embed_queries(space, dataset.queries)
    populate_home(world)
    return world


def test_no_name_is_gone(world, tmp_path):
    missing = find_missing(STRINGS["names"], collect_names(world, tmp_path))
    assert not missing, "\n".join(f"frozen name {name.strip()} is gone" for name in missing)


def test_parameters_keep_their_order():
    """Callers may give them by place; of Embeddings the first two in either order, which test_values.py asserts."""
    assert list_parameters(engine.Embeddings) == ["ids", "vectors", "encoder", "texts"]
    for facade, module in (("engine", engine), ("engine.orag", orag)):
        for name, frozen in STRINGS["names"][facade].items():
            if name == "Embeddings":
                continue
            current = [p for p in list_parameters(getattr(module, name)) if p in frozen]
            assert current == frozen, f"the parameters of {facade}.{name} were {frozen} and are {current}"


@pytest.mark.deep
def test_orag_is_reached_in_every_way():
    code = (
        "import engine; a = engine.orag.session\nfrom engine import orag; assert orag.session is a\n"
        "import engine as e; assert e.orag.log is orag.log and 'orag' in dir(engine) and 'orag' in engine.__all__"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_every_metric_is_measured(world):
    dataset, space, _ = world
    dev = select_judged(world, "dev")
    ranking = engine.decode(engine.Decoder(engine.make("top_k")), space, dev, 5)
    for name in STRINGS["metrics"]:
        measures = engine.measure(ranking, space, dev, dataset.qrels["dev"], 5, [name], dataset.aspects)
        assert len(measures.values[name]) == len(dev), f"frozen metric {name} is gone"


# The tests of tuning, training, drift and theory press most of their keys by name.
@pytest.mark.parametrize("name", deepen(LOOKS, ["tune", "drift", "theory"]))
def test_no_widget_key_is_gone(name, world):
    missing = find_missing(STRINGS["keys"][name], page_keys(name), name)
    assert not missing, "\n".join(f"frozen name {key} is gone" for key in missing)


def test_no_spelling_is_gone():
    """Folders and files of FRONTIER_HOME, suffixes, and what an address is made of."""
    now = list_strings()
    missing = [name for group, frozen in STRINGS["spelt"].items() for name in find_missing(frozen, now, group)]
    assert not missing, "\n".join(f"frozen name {name.strip()} is gone" for name in missing)


@pytest.mark.parametrize("name,value", STRINGS["address"].items())
def test_a_field_of_an_address_is_read(name, value):
    remarks = [remark for remark in read_link({"v": "1", name: value}).remarks if "does not know" in remark]
    assert not remarks, f"frozen name {name} is gone: {remarks}"
    assert read_link({"v": "1", "nosuch": "1"}).remarks, "what is not known is said"
