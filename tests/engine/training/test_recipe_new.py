"""Adding a recipe is adding one file: commands, `engine.train`, checkpoints and the page list it by themselves."""

import sys

import pytest

import engine
from engine.training import recipes
from support.cli import run
from support.train_page import page, write_source
from support.training import QUICK, plant

TOY = '''"""toy: queries drawn to the mean of their relevant documents; a made-up method."""

from dataclasses import dataclass

from engine.params import Real, declare
from engine.training.metrics import Losses
from engine.training.recipe import AdapterRecipe
from engine.training.recipes.dense import InnerProducts


@dataclass(frozen=True, kw_only=True)
class ToyRecipe(AdapterRecipe):
    """Draws a query to its relevant documents."""

    name, title, source = "toy", "Toy", "nobody 2026"

    pull: float = declare(Real(default=1.0, low=0.0, high=9.0, symbol="p", help="How hard it pulls."))

    def objective(self, model, documents):
        return Pull(model, self)


class Pull(InnerProducts):
    def __call__(self, batch):
        relevant = batch.relevance(batch.document, len(rows := self.model.encode_corpus()))
        means = relevant.to(rows.dtype) @ rows / batch.counts.unsqueeze(1)
        return Losses(self.recipe.pull * (self.model.encode_query(batch.positions) - means).square().sum(1))
'''


@pytest.fixture
def toy(tmp_path, monkeypatch):
    """The recipes with one more file beside them."""
    (tmp_path / "toy.py").write_text(TOY, encoding="utf-8")
    monkeypatch.setattr(recipes, "__path__", [*recipes.__path__, str(tmp_path)])
    monkeypatch.setitem(recipes.RECIPES, "toy", recipes.find_recipes()["toy"])
    yield
    del sys.modules["engine.training.recipes.toy"]


@pytest.fixture(scope="module")
def data():
    return plant(n=24, d=8, train=48, dev=20)


def test_new_recipe_trains_and_comes_back_from_its_checkpoint(toy, data, tmp_path):
    path = tmp_path / "toy.safetensors"
    trained = engine.train("toy", *data, checkpoint=path, pull=2.0, **QUICK)
    losses = [epoch.loss for epoch in trained.history[1:]]
    assert losses == sorted(losses, reverse=True) and losses[-1] < losses[0]
    restored = engine.load_trained(path, data[0])
    assert restored.digest == trained.digest and restored.recipe == trained.recipe and restored.recipe.pull == 2.0
    with pytest.raises(engine.ParamError, match=r"pull \(p\) must be a number in \[0, 9\]; got 10"):
        engine.train("toy", *data, pull=10)


def test_new_recipe_is_compared_with_its_control(toy, data):
    result = engine.course("toy", *data, **{**QUICK, "epochs": 1})
    assert list(result.stages) == ["dense", "dense-cont", "toy"] and result.table.rows[-1][0] == "toy"


def test_new_recipe_has_a_command_with_its_flags(toy):
    assert "toy            Draws a query to its relevant documents." in run("train", "--help")
    text = run("train", "toy", "--help")
    assert text.index("--pull VALUE") < text.index("--query-side VALUE") < text.index("--epochs VALUE")


@pytest.mark.deep
def test_new_recipe_is_in_the_page_list_with_its_parameter(toy, tmp_path_factory):
    app = page(write_source(tmp_path_factory.mktemp("set")), **{"train.method": "toy"})
    assert app.selectbox(key="train.method").options[-1] == "Toy"
    assert any("Draws a query to its relevant documents. nobody 2026." in text.value for text in app.caption)
