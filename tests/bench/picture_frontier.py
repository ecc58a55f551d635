"""Draws assets/frontier-light.png and -dark.png: Recall@10 against ILAD@10 on the demo's test split, measured now.

python tests/bench/picture_frontier.py            needs Debian's chromium
"""

import plotly.graph_objects as go
from harness import ROOT, draw, one_thread, points_of

import engine
from dashboard.charts.palette import method_style

WEIGHTS = (1.0, 0.95, 0.9, 0.85, 0.8, 0.75, 0.7, 0.65, 0.6, 0.55, 0.5)
K = 10


def measure_points() -> dict[str, list]:
    """The point of every setting, by method."""
    one_thread()
    data = engine.load_dataset("numpy-api")
    space, queries = engine.Space(data.corpus, engine.embed(data.corpus)), engine.embed(data.judged("test"))
    stages = {
        "top_k": [engine.make("top_k")],
        "mmr": [engine.make("mmr", relevance_weight=weight) for weight in WEIGHTS],
    }
    data_args = (space, queries, data.qrels["test"], K, ("recall", "ilad"), "test")
    return {name: points_of(list(map(engine.Decoder, stage_list)), *data_args) for name, stage_list in stages.items()}


def figure(points: dict[str, list], dark: bool) -> go.Figure:
    """Points joined in the order of λ, λ written at the ends and in the middle."""
    ink, grid = ("#E6E6E6", "#333333") if dark else ("#222222", "#E3E3E3")
    chart = go.Figure()
    for name, settings in points.items():
        style, has_settings = method_style(name), len(settings) > 1
        labelled = {0, len(settings) // 2, len(settings) - 1} if has_settings else ()
        chart.add_scatter(
            x=[p.mean["ilad"] for p in settings],
            y=[p.mean["recall"] for p in settings],
            text=[f"λ = {WEIGHTS[i]:g}" if i in labelled else "" for i in range(len(settings))],
            textposition=["top right"] * (len(settings) - 1) + ["top center"],
            mode="lines+markers+text" if has_settings else "markers",
            name=engine.methods()[name].title,
            line={"color": style.colour(dark), "width": 2},
            marker={"color": style.colour(dark), "symbol": style.symbol, "size": 11},
        )
    chart.add_hline(points["top_k"][0].mean["recall"], line={"color": ink, "width": 1, "dash": "dot"})
    chart.update_layout(
        width=1100,
        height=520,
        margin={"l": 70, "r": 30, "t": 20, "b": 60},
        paper_bgcolor="#0E1117" if dark else "#FFFFFF",
        plot_bgcolor="rgba(0,0,0,0)",
        font={"color": ink, "size": 16, "family": "DejaVu Sans, sans-serif"},
        legend={"x": 0.99, "y": 0.99, "xanchor": "right"},
        xaxis={"title": f"ILAD@{K}: how unlike each other →", "gridcolor": grid, "zeroline": False},
        yaxis={"title": f"Recall@{K} ↑", "gridcolor": grid, "zeroline": False},
    )
    return chart


def main() -> None:
    points = measure_points()
    for point in (point for settings in points.values() for point in settings):
        print(f"{point.label}  ILAD@{K} {point.mean['ilad']:.4f}  Recall@{K} {point.mean['recall']:.4f}")
    for scheme in ("light", "dark"):
        picture = figure(points, dark=scheme == "dark")
        draw(picture, ROOT / "assets" / f"frontier-{scheme}.png", height=picture.layout.height)


if __name__ == "__main__":
    main()
