"""Training recipes by name: every module of this package with a Recipe is one, found when it is first imported."""

import importlib
import pkgutil
from collections.abc import Iterator, Mapping
from typing import Any

from engine.errors import ParamError
from engine.params import Param, check_values
from engine.training.recipe import Recipe


def _subclasses(base: type[Recipe]) -> Iterator[type[Recipe]]:
    """Yield all subclasses of a class, direct and indirect ones."""
    for cls in base.__subclasses__():
        yield from (cls, *_subclasses(cls))


def find_recipes() -> dict[str, type[Recipe]]:
    """Import every module of this package, and return name → recipe class, in the order of lists."""
    for module in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{module.name}")
    # A set, as a class with two bases is found twice; bases that other recipes share have no name.
    recipes = sorted({cls for cls in _subclasses(Recipe) if cls.name}, key=lambda cls: (cls.order, cls.name))
    return {cls.name: cls for cls in recipes}


RECIPES: Mapping[str, type[Recipe]] = find_recipes()
"""Method → its recipe, in the order of lists."""


def recipe_of(method: str) -> type[Recipe]:
    """Return the recipe called `method`; ParamError lists the available ones."""
    if not isinstance(method, str) or method not in RECIPES:
        raise ParamError(f"method must be one of {', '.join(map(repr, RECIPES))}; got {method!r}")
    return RECIPES[method]


def declared_params(method: str) -> tuple[Param, ...]:
    """Return the declared parameters of a method."""
    return recipe_of(method).parameters()


def make_recipe(method: str, **params: Any) -> Recipe:
    """Make a recipe by name with its parameters, checked."""
    return recipe_of(method)(**check_values(declared_params(method), params, f"training {method}"))
