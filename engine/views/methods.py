"""The registered methods as tables."""

from collections.abc import Mapping, Sequence

from engine.evaluation.metrics import METRICS
from engine.stages import Kind, methods


def method_columns(kind: Kind | None = None) -> list[Mapping[str, str]]:
    """Return a table row for each registered method of a kind: summary, parameters with ranges, source.

    kind: "selector", "scorer" or others of `engine.stages`; None for all
    """
    rows: list[Mapping[str, str]] = []
    for spec in methods(kind).values():
        params = [
            f"{param.name} ({param.symbol}), {param.domain}, default {param.text(param.default)}"
            for param in spec.params
        ]
        rows.append({
            "name": spec.name, "method": spec.title, "what": spec.summary, "parameters": "; ".join(params) or "–",
            "cost": spec.cost, "source": spec.paper,
        })  # fmt: skip
    return rows


def method_table() -> str:
    """Return the tables of methods and metrics for assets/methods.md, in Markdown."""
    tables: dict[str, Sequence[Mapping[str, str]]] = {
        "Selectors": method_columns("selector"),
        "Scorers": method_columns("scorer"),
        "Metrics": [
            {"name": metric.name, "metric": f"{metric.title}@k", "formula": metric.formula}
            for metric in METRICS.values()
        ],
    }
    return "\n\n".join(f"**{heading}**\n\n{_markdown(rows)}" for heading, rows in tables.items())


def _markdown(rows: Sequence[Mapping[str, str]]) -> str:
    """Format rows as a Markdown table with names as code; bars are escaped, as one would end its cell."""
    column_names = list(rows[0])
    table_lines = ["| " + " | ".join(column_names) + " |", "|" + " --- |" * len(column_names)]
    for row in rows:
        cells = [f"`{row[column]}`" if column == "name" else row[column].replace("|", "\\|") for column in column_names]
        table_lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(table_lines)
