"""The registered methods as tables."""

from collections.abc import Mapping, Sequence

from engine.evaluation.metrics import METRICS
from engine.stages import Kind, methods


def method_columns(kind: Kind | None = None) -> list[Mapping[str, str]]:
    """Return a row per method: summary, parameters with their ranges, and source."""
    return [
        {
            "name": spec.name,
            "method": spec.title,
            "what": spec.summary,
            "parameters": "; ".join(
                f"{p.name} ({p.symbol}), {p.domain}, default {p.text(p.default)}" for p in spec.params
            )
            or "–",
            "cost": spec.cost,
            "source": spec.paper,
        }
        for spec in methods(kind).values()
    ]


def method_table() -> str:
    """Return the tables of methods and metrics for assets/methods.md, in Markdown."""
    tables: dict[str, Sequence[Mapping[str, str]]] = {
        "Selectors": method_columns("selector"),
        "Scorers": method_columns("scorer"),
        "Metrics": [{"name": m.name, "metric": f"{m.title}@k", "formula": m.formula} for m in METRICS.values()],
    }
    return "\n\n".join(f"**{heading}**\n\n{_markdown(rows)}" for heading, rows in tables.items())


def _markdown(rows: Sequence[Mapping[str, str]]) -> str:
    head = list(rows[0])
    lines = ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    for row in rows:
        cells = [f"`{row[c]}`" if c == "name" else row[c].replace("|", "\\|") for c in head]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)
