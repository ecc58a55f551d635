"""The reference of the Python functions and of the command line, made from docstrings and from the commands' help.

`python -m support.reference`, run in `tests`, writes `assets/reference.md`.
"""

import inspect
import re
import textwrap
from collections.abc import Iterator

import click
from numpydoc.docscrape import NumpyDocString

import dashboard
import engine
from dashboard import notebook
from dashboard.serve import main
from engine import integrations, orag
from support.paths import ROOT

PATH = ROOT / "assets" / "reference.md"
PREFACE = """# Reference

Made from the source by `python -m support.reference` in `tests`; change the docstrings, not this file.
"""
AREAS = {
    "Data": ("engine.data", "engine.values", "engine.errors"),
    "Decoders": ("engine.decoder", "engine.stages", "engine.space", "engine.reach"),
    "Evaluation": ("engine.evaluation",),
    "Feedback": ("engine.feedback",),
    "Training": ("engine.training",),
    "Theory": ("engine.theory",),
    "Maps": ("engine.maps",),
    "Integrations": ("engine.integrations",),
    "Notebooks": ("dashboard",),
}
"""Headings, and the packages whose public names stand below them."""
SECTIONS = ("Parameters", "Attributes", "Returns", "Yields", "Raises")


def iterate_public() -> Iterator[tuple[str, str, object]]:
    """Yield the public name, the module and the object of each function and class that is handed out."""
    packages = {"engine": engine, "engine.orag": orag, "engine.integrations": integrations}
    packages |= {"dashboard": dashboard, "dashboard.notebook": notebook}
    for prefix, package in packages.items():
        for name in package.__all__:
            value = getattr(package, name)
            if inspect.isfunction(value) or inspect.isclass(value):
                yield f"{prefix}.{name}", value.__module__, value


def build_reference() -> str:
    """Return the text of the reference."""
    parts = [PREFACE]
    public = sorted(iterate_public(), key=lambda entry: entry[0].lower())
    for area, packages in AREAS.items():
        parts.append(f"\n## {area}\n")
        for name, module, value in public:
            if module.startswith(packages):
                parts.append(_describe(name, value))
    parts.append("\n## Command line\n")
    parts += _describe_commands(main, click.Context(main, info_name="frontier", **main.context_settings))
    return "\n".join(parts).rstrip() + "\n"


def _describe(name: str, value: object) -> str:
    """Describe one function or class: signature, summary, sections and examples."""
    doc = NumpyDocString(inspect.getdoc(value) or "")
    lines = [f"\n### {name}\n"]
    if not (inspect.isclass(value) and issubclass(value, Exception)):
        lines += ["```text", *textwrap.wrap(name + _format_signature(value), 110, subsequent_indent="    "), "```\n"]
    lines += [" ".join(doc["Summary"]), *(["", *doc["Extended Summary"]] if doc["Extended Summary"] else [])]
    for section in SECTIONS:
        if doc[section]:
            lines.append(f"\n**{section}**\n")
            for entry in doc[section]:
                text = " ".join(line.strip() for line in entry.desc)
                head = ", ".join(f"`{part}`" for part in (entry.name, entry.type) if part)
                lines.append(f"- {head}: {text}" if text else f"- {head}")
    if doc["Examples"]:
        lines += ["\n**Examples**\n", "```pycon", *doc["Examples"], "```"]
    if inspect.isclass(value):
        lines += _list_methods(value)
    return "\n".join(lines)


def _format_signature(value: object) -> str:
    """Return the names of the parameters with their defaults; types stand in the list below it."""
    signature = inspect.signature(value)
    parameters = [
        parameter.replace(annotation=inspect.Parameter.empty)
        for parameter in signature.parameters.values()
        if parameter.name != "self"
    ]
    text = str(signature.replace(parameters=parameters, return_annotation=inspect.Signature.empty))
    # Addresses of objects change from run to run.
    return re.sub(r"<(?:function|object|factory)[^>]*>|<[\w.]+ object at 0x[0-9a-f]+>", "…", text)


def _list_methods(value: type) -> list[str]:
    """List the public methods and properties of a class with the first line of their docstrings."""
    rows = []
    for name, member in sorted(vars(value).items()):
        function = member.fget if isinstance(member, property) else getattr(member, "__func__", member)
        text = inspect.getdoc(function) if inspect.isfunction(function) else None
        if not name.startswith("_") and text:
            call = name if isinstance(member, property) else f"{name}{_format_signature(function)}"
            summary = text.partition("\n\n")[0].replace("\n", " ")
            rows.append(f"- `{call}`: {summary}")
    return ["\n**Methods and properties**\n", *rows] if rows else []


def _describe_commands(group: click.Group, context: click.Context) -> list[str]:
    """Describe the commands of a group, and of the groups in it."""
    parts = []
    for command_name in group.list_commands(context):
        command = group.get_command(context, command_name)
        command_context = click.Context(
            command, parent=context, info_name=command_name, max_content_width=110, terminal_width=110
        )
        if isinstance(command, click.Group):
            parts += _describe_commands(command, command_context)
        else:
            parts.append(f"\n### {command_context.command_path}\n\n```text\n{command.get_help(command_context)}\n```")
    return parts


if __name__ == "__main__":
    PATH.write_text(build_reference(), encoding="utf-8")
