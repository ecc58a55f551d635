"""Draws assets/frontier-light.png and -dark.png: Recall@10 against ILAD@10 on the demo's test split, measured now.

python tests/bench/picture_frontier.py            needs Debian's chromium
"""

import plotly.graph_objects as go
from harness import ROOT, draw, one_thread

import engine
from dashboard.charts.palette import style_of

WEIGHTS = (1.0, 0.95, 0.9, 0.85, 0.8, 0.75, 0.7, 0.65, 0.6, 0.55, 0.5)
K = 10


def measured() -> dict[str, list[tuple[float | None, float, float]]]:
    """(weight, ILAD, Recall) of every setting, by method."""
    one_thread()
    data = engine.load_dataset("numpy-api")
    space = engine.Space(data.corpus, engine.embed(data.corpus))
    queries, qrels = data.judged("test"), data.qrels["test"]
    vectors = engine.embed(queries)

    def point(stage) -> tuple[float, float]:
        ranking = engine.decode(engine.Decoder(select=stage), space, vectors, k=K)
        mean = engine.measure(ranking, space, queries, qrels, K, ("recall", "ilad")).mean
        return mean["ilad"], mean["recall"]

    return {
        "top_k": [(None, *point(engine.make("top_k")))],
        "mmr": [(w, *point(engine.make("mmr", relevance_weight=w))) for w in WEIGHTS],
    }


def figure(points: dict[str, list[tuple[float | None, float, float]]], dark: bool) -> go.Figure:
    """Points joined in the order of λ, λ written at the ends and in the middle."""
    ink, grid = ("#E6E6E6", "#333333") if dark else ("#222222", "#E3E3E3")
    chart = go.Figure()
    for name, settings in points.items():
        style = style_of(name)
        labels = [
            "" if w is None else f"λ = {w:g}" if i in (0, len(settings) // 2, len(settings) - 1) else ""
            for i, (w, _, _) in enumerate(settings)
        ]
        chart.add_scatter(
            x=[p[1] for p in settings],
            y=[p[2] for p in settings],
            text=labels,
            textposition=["top right"] * (len(settings) - 1) + ["top center"],
            mode="lines+markers+text" if len(settings) > 1 else "markers",
            name=engine.methods()[name].title,
            line={"color": style.colour(dark), "width": 2},
            marker={"color": style.colour(dark), "symbol": style.symbol, "size": 11},
        )
    baseline = points["top_k"][0][2]
    chart.add_hline(baseline, line={"color": ink, "width": 1, "dash": "dot"})
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
    points = measured()
    for name, settings in points.items():
        for weight, ilad, recall in settings:
            print(f"{name:6} λ={weight}  ILAD@{K} {ilad:.4f}  Recall@{K} {recall:.4f}")
    for scheme in ("light", "dark"):
        picture = figure(points, dark=scheme == "dark")
        draw(picture, ROOT / "assets" / f"frontier-{scheme}.png", height=picture.layout.height)


if __name__ == "__main__":
    main()
