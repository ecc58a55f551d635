"""What the public functions say of themselves: complete, with examples that run, and printed as the reference."""

import doctest
import inspect
import sys

import pytest
from numpydoc.validate import validate

from engine import orag
from engine.params import Declared
from support import reference
from support.fork_server import fork_python

PUBLIC = {name: (module, value) for name, module, value in reference.iterate_public()}
CHECKS = {"GL08", "SS01", "SS03", "SS05", "PR01", "PR02", "PR03", "PR04", "PR07", "RT01", "RT03", "EX01"}
"""Findings of numpydoc that count: missing or unknown parameters, types, returns and examples, and the first line."""
UNFINISHED: set[str] = set()
"""Names whose docstring has no sections yet. None is to be added."""


@pytest.mark.parametrize("name", sorted(PUBLIC))
def test_public_name_is_documented(name):
    """A name that is finished must leave the list of those that are not."""
    module, value = PUBLIC[name]
    checks = CHECKS - {"PR01"} if declares_parameters_elsewhere(value) else CHECKS
    if inspect.isclass(value) and issubclass(value, Exception):
        checks = {"GL08", "SS03"}
    errors = validate(f"{module}.{value.__qualname__}")["errors"]
    findings = [f"{code}: {text}" for code, text in errors if code in checks]
    assert bool(findings) == (name in UNFINISHED), findings


def declares_parameters_elsewhere(value):
    """Return whether the fields have their help where they are declared, or the class is a protocol."""
    return inspect.isclass(value) and (issubclass(value, Declared) or getattr(value, "_is_protocol", False))


def run_examples(value, name, namespace):
    """Run the examples of a docstring; the names that they make stand in the namespace."""
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    for examples in doctest.DocTestFinder(recurse=False).find(value, name, False, globs={}):
        examples.globs = namespace
        runner.run(examples, clear_globs=False)
    assert runner.summarize(verbose=False).failed == 0


@pytest.fixture(scope="module")
def feedback_names():
    """The names that the examples of the package on feedback make."""
    namespace = {}
    run_examples(orag, "engine.orag", namespace)
    assert "before" in namespace
    return namespace


@pytest.mark.parametrize("name", sorted(PUBLIC))
def test_examples_run(name, feedback_names, tmp_path):
    module, value = PUBLIC[name]
    namespace = dict(vars(sys.modules[module]))
    if name.startswith("engine.orag."):
        namespace |= feedback_names | {"path": tmp_path / "session"}
    run_examples(value, name, namespace)


def test_reference_is_current():
    # A process of its own: click remembers the name of a command's help option from whoever asked first.
    with fork_python("-c", "from support import reference; print(reference.build_reference())") as process:
        built, errors = process.communicate()
    assert process.returncode == 0, errors
    assert reference.PATH.read_text(encoding="utf-8") == built[:-1], "run `python -m support.reference` in tests"
