"""Built-in corpora: documentation of the installed Python packages, so that nothing is downloaded.

Documents are (id, title, text), one for each object: names of one object share a document, objects that merely
resemble each other (numpy.sum, numpy.nansum, numpy.ma.sum, numpy.ndarray.sum) have their own.
"""

import importlib
import importlib.util
import inspect
import io
import pkgutil
import re
import sys
import threading
import warnings
from collections.abc import Iterable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from functools import cache
from importlib import resources
from itertools import chain
from pathlib import Path
from typing import Any

from engine.errors import DataError
from engine.progress import Progress, Stop, with_cancellation

Document = tuple[str, str, str]
NamedObject = tuple[str, Any]
"""An object under one of its names."""

# Classes that people call like functions; NumPy's other classes are scalar types, containers and exceptions.
_CALLED_LIKE_FUNCTIONS = (
    "broadcast", "busdaycalendar", "errstate", "finfo", "iinfo", "memmap", "ndenumerate", "ndindex", "nditer",
    "poly1d", "vectorize",
)  # fmt: skip
_NUMPY_MODULES = (
    "numpy", "numpy.linalg", "numpy.fft", "numpy.random", "numpy.strings", "numpy.ma", "numpy.lib.stride_tricks",
)  # fmt: skip
_STRIDE_TRICKS = ("as_strided", "sliding_window_view")  # the only module of those without __all__
_NUMPY_CLASSES = ("numpy.ndarray", "numpy.random.Generator")

PACKAGES = ("numpy", "pandas", "scipy", "sklearn", "torch")
# Tests, examples, vendored or generated code, build tools, and modules that set up logging or caches when imported.
_SKIPPED_PARTS = {"conftest", "examples", "experimental", "externals", "setup", "test", "tests", "testutils"}
_SKIPPED_PREFIXES = (
    "numpy.core", "numpy.distutils", "numpy.f2py", "numpy.matlib", "numpy.typing.mypy_plugin",
    "pandas.compat", "pandas.core", "sklearn.utils.estimator_checks",
    "torch.backends.xeon", "torch.compiler.config", "torch.contrib", "torch.distributed.flight_recorder",
    "torch.onnx.symbolic_", "torch.testing", "torch.utils.backcompat", "torch.utils.benchmark",
    "torch.utils.bottleneck", "torch.utils.cpp_extension", "torch.utils.data.datapipes.gen_pyi",
    "torch.utils.hipify", "torch.utils.jit", "torch.utils.tensorboard",
)  # fmt: skip

_import_lock = threading.Lock()


def demo_folder() -> Path:
    """Return the folder of the demos' queries, judgements and vectors: installed, or in a checkout."""
    installed = Path(str(resources.files("engine.data") / "demo"))
    return installed if installed.is_dir() else Path(__file__).resolve().parents[2] / "assets" / "demo"


def numpy_api_documents() -> list[Document]:
    """Build a document of each public function of the installed NumPy, about 800, sorted by id.

    Raises DataError under python -OO.
    """
    _check_docstrings()
    return _build_documents(_list_numpy_names())


@cache
def _index_numpy_ids() -> dict[str, str]:
    """Map every public name of a NumPy function to the id of its document."""
    # The best name of a function is the id of its document.
    return {name: names[0] for names, _ in _group_names(_list_numpy_names()) for name in names}


def find_canonical_id(name: str) -> str:
    """Return the document id of a NumPy function by any public name. Raises KeyError for unknown names."""
    return _index_numpy_ids()[name]


def python_api_documents(progress: Progress | None = None, stop: Stop | None = None) -> list[Document]:
    """Build a document of each module, function, class and method of five packages, about 15,000.

    The packages are numpy, pandas, scipy, sklearn and torch. Those that are not installed or cannot be imported are
    left out. Documents are sorted by id. Raises Cancelled when stopped, DataError under python -OO.
    """
    _check_docstrings()
    module_names = list(chain.from_iterable(map(_list_module_names, PACKAGES)))
    named_objects = list(_list_numpy_names()) if importlib.util.find_spec("numpy") else []
    report_progress = with_cancellation(progress, stop, "reading the installed packages was stopped")
    for n_done, module_name in enumerate(module_names, start=1):
        named_objects.extend(_list_module_members(module_name))
        report_progress(n_done, len(module_names), "Reading modules")
    return _build_documents(named_objects)


def _check_docstrings() -> None:
    """Raise a DataError if this Python runs without docstrings, of which the built-in corpora are made."""
    if sys.flags.optimize > 1:
        raise DataError("the built-in corpora are made of docstrings, which python -OO strips: run without -OO")


def _list_numpy_names() -> Iterator[NamedObject]:
    """Yield (name, object) for the public functions of NumPy and the methods of two of its classes.

    A function is yielded under each name by which it can be imported. Classes are yielded only if people call them as
    they call functions, such as numpy.vectorize.
    """
    for module_name in _NUMPY_MODULES:
        module = importlib.import_module(module_name)
        # Only numpy.lib.stride_tricks has no list of its public names.
        for name in sorted(getattr(module, "__all__", _STRIDE_TRICKS)):
            thing = getattr(module, name, None)
            if inspect.isclass(thing):
                public = module_name == "numpy" and name in _CALLED_LIKE_FUNCTIONS
            else:  # masked operations are instances of private classes, so being callable has to do
                public = callable(thing) and not name.startswith("_") and name != "test"
            if public:
                yield f"{module_name}.{name}", thing
    for class_name in _NUMPY_CLASSES:
        module_name, _, name = class_name.rpartition(".")
        yield from _list_methods(class_name, getattr(importlib.import_module(module_name), name))


def _list_methods(class_name: str, cls: type) -> Iterator[NamedObject]:
    """Yield the public methods of a class, also those inherited from a class of a documented package.

    class_name: the path under which the class is imported. Methods inherited from Python itself are left out.
    """
    for name in sorted(set(dir(cls))):
        owner = next((base for base in cls.__mro__ if name in vars(base)), None)
        if name.startswith("_") or owner is None or str(owner.__module__).partition(".")[0] not in PACKAGES:
            continue
        member = inspect.getattr_static(cls, name)  # static: properties are not computed
        member = getattr(member, "__func__", member)  # classmethod and staticmethod make a new object at each access
        if inspect.isroutine(member):
            yield f"{class_name}.{name}", member


def _list_module_names(package: str) -> list[str]:
    """List the public modules of a package, by its files on disk: none is imported."""
    spec = importlib.util.find_spec(package)
    if spec is None or spec.submodule_search_locations is None:
        return []
    names = [package]

    def walk(paths: list[str], prefix: str) -> None:
        """Add the public modules in folders to the list, and descend into packages."""
        for info in sorted(pkgutil.iter_modules(paths), key=lambda info: info.name):
            name = prefix + info.name
            if info.name.startswith("_") or info.name in _SKIPPED_PARTS or name.startswith(_SKIPPED_PREFIXES):
                continue
            names.append(name)
            if info.ispkg:
                # A package's folder has its name, in one of the folders that were searched.
                walk([f"{path}/{info.name}" for path in paths], name + ".")

    walk(list(spec.submodule_search_locations), package + ".")
    return names


def _list_module_members(module_name: str) -> list[NamedObject]:
    """List a module, its public functions and classes, and the public methods of those classes."""
    members: list[NamedObject] = []
    silence = io.StringIO()  # a few modules remark on what they miss
    # Warning filters and standard streams belong to the process: two threads would restore each other's.
    with _import_lock, warnings.catch_warnings(), redirect_stdout(silence), redirect_stderr(silence):
        warnings.simplefilter("ignore")
        try:
            module = importlib.import_module(module_name)
        except (Exception, SystemExit):  # a module for another platform, or one whose optional dependency is missing
            return members
        members.append((module_name, module))
        listed = getattr(module, "__all__", None)  # without it, what a module merely imports is not its own
        # With it, an object counts if it was defined anywhere in the package; without, only if in this module.
        home = module_name if listed is None else module_name.partition(".")[0]
        for name in sorted(set(dir(module) if listed is None else listed)):
            if name.startswith("_"):
                continue
            try:
                thing = getattr(module, name)
            except Exception:  # deprecated names raise when touched
                continue
            if inspect.ismodule(thing) or not callable(thing) or name == "test":
                continue
            if not str(getattr(thing, "__module__", None) or home).startswith(home):
                continue
            members.append((f"{module_name}.{name}", thing))
            if inspect.isclass(thing):
                members.extend(_list_methods(f"{module_name}.{name}", thing))
    return members


def _group_names(named_objects: Iterable[NamedObject]) -> list[tuple[list[str], Any]]:
    """Group the names of each object; return pairs of its names, the best first, and the object.

    The best name ends as the object's own name, and has the shortest path.
    """
    objects_by_key: dict[int, Any] = {}
    names_by_key: dict[int, dict[str, None]] = {}
    for name, object_ in named_objects:
        # torch wraps torch.manual_seed anew when some of its modules are imported.
        object_key = id(inspect.unwrap(object_) if inspect.isfunction(object_) else object_)
        objects_by_key.setdefault(object_key, object_)  # kept alive, so that ids stay distinct
        names_by_key.setdefault(object_key, {})[name] = None

    def badness(name: str, object_: Any) -> tuple[bool, int]:  # ties keep the order in which the names were found
        """Return a sort key, smaller for a better name."""
        return name.rpartition(".")[2] != getattr(object_, "__name__", None), name.count(".")

    return [
        (sorted(names_by_key[object_key], key=lambda name: badness(name, object_)), object_)
        for object_key, object_ in objects_by_key.items()
    ]


def _build_documents(named_objects: Iterable[NamedObject]) -> list[Document]:
    """Build a document, (id, title, text), for each object, sorted by id.

    Its id is the best of the object's names; up to four others are in its title.
    """
    documents: dict[str, Document] = {}
    for names, thing in _group_names(named_objects):
        aliases = names[1:5]  # a method inherited by 200 classes would list them all
        title = names[0] + (f" (also {', '.join(aliases)})" if aliases else "")
        # torch.nn.utils.weight_norm is a function and a module; the function, met first, is what people call
        documents.setdefault(names[0], (names[0], title, _describe_object(names[0], thing)))
    return [documents[name] for name in sorted(documents)]


def _describe_object(name: str, thing: Any) -> str:
    """Return the text of an object's document: name and signature, then its docstring's beginning.

    name: the path under which it is imported, as "numpy.sort". Of the docstring the first paragraph is taken.
    """
    short_name = name.rpartition(".")[2]
    paragraphs = re.split(r"\n\s*\n", inspect.getdoc(thing) or "")
    written_signature = None
    if re.match(rf"(\w+\.)?{re.escape(short_name)}\s*\(", paragraphs[0].strip()):  # ufuncs and builtins open with it
        written_signature = " ".join(paragraphs.pop(0).split())
    try:
        signature = short_name + str(inspect.signature(thing))
    except Exception:  # written in C, or annotated with names that do not resolve
        signature = written_signature or short_name
    # The dozen keywords that all ufuncs share and the placeholder for missing values do not help a reader. Addresses
    # and paths of default values differ between processes and machines, and would change the digest of the corpus.
    signature = re.sub(r", /, out=.*(casting|where)=.*\)$", ")", signature)
    summary = " ".join(paragraphs[0].split()) if paragraphs else ""
    description = re.sub(r"=<no value>| at 0x[0-9a-fA-F]+", "", f"{signature}. {summary}".strip())
    return re.sub(r"<module '([\w.]+)'[^>]*>", r"\1", description)
