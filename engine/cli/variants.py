"""Options of how a simulated deployment shows documents: a reranker, documents that come later, hops, updates."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from engine.cli.options import STAGE, grouped, make_stages, option

if TYPE_CHECKING:
    from engine.params import Param
    from engine.values import Dataset


@dataclass(frozen=True, kw_only=True)
class VariantOptions:
    """What these options say, as `simulate` takes it; hops: whether questions come by the steps of their plans."""

    reranker: Any = None
    candidates: int | None = None
    arrivals: tuple[tuple[float, int], ...] = ()
    newcomers: str = "neighbours"
    hops: bool = False
    updates: int | None = None

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments of `simulate`, but for the hops."""
        return {name: value for name, value in vars(self).items() if name != "hops"}

    def planned(self, dataset: Dataset, corpus: str, qrels: str) -> tuple[Dataset, Any]:
        """The data set, by hops where that is asked for, and these; corpus, qrels: as their options name them."""
        from engine.data.plans import FILE, planned

        if not self.hops:
            return dataset, None
        folder = qrels if (Path(qrels) / FILE).is_file() else corpus
        found = planned(dataset, folder)
        return found.dataset, found.hops


def _declared(name: str) -> Param:
    from engine.simulation import variants

    param: Param = getattr(variants, name)
    return param


def _parsed(name: str) -> Any:
    """A callback that reads an option's text as a declared parameter."""

    def parse(_ctx: click.Context, _parameter: click.Parameter, text: str | None) -> Any:
        param = _declared(name)
        return param.parse(text) if text is not None else param.default if name == "NEWCOMERS" else None

    return parse


def _reranker(_ctx: click.Context, _parameter: click.Parameter, text: str | None) -> Any:
    from engine.simulation.variants import RERANKERS

    return text if text is None or text in RERANKERS else make_stages((text,), "rerank")[0]


def _arrivals(_ctx: click.Context, parameter: click.Parameter, texts: tuple[str, ...]) -> tuple[tuple[float, int], ...]:
    """(share, round) of each SHARE@ROUND, the share as 0.5 or 50%."""
    pairs = []
    for text in texts:
        share, _, after = text.partition("@")
        try:
            pairs.append((float(share.removesuffix("%")) / (100 if share.endswith("%") else 1), int(after)))
        except ValueError:
            raise click.UsageError(
                f"{parameter.opts[0]} takes SHARE@ROUND, 0.5@1000 or 50%@1000; got {text!r}"
            ) from None
    return tuple(pairs)


VARIANT = grouped(
    "variant",
    VariantOptions,
    option(
        "--reranker", metavar=f"cosine|judgements|{STAGE}", callback=_reranker,
        help="Picks what is shown among several drawn (Algorithm 2): cosine, judgements (the best there is), a scorer.",
    ),
    option(
        "--candidates", metavar="K", callback=_parsed("CANDIDATES"),
        help="So many are drawn for the reranker; default: 10.",
    ),
    click.option(
        "--arrive", "arrivals", multiple=True, metavar="SHARE@ROUND", callback=_arrivals,
        help="A share of the documents comes only after that round (Algorithm 3), 0.5@1000 say; several of them.",
    ),
    option(
        "--newcomers", metavar="neighbours|printed", callback=_parsed("NEWCOMERS"),
        help="They start at their vector moved as their 5 nearest have moved (not the paper's; default), or as printed "
        "at their vector.",
    ),
    click.option(
        "--hops", is_flag=True,
        help="Questions come by the steps of their plans, one after the other (Algorithm 4): metadata.plan of "
        "queries.jsonl, a list of {step, tool}.",
    ),
    option(
        "--updates", metavar="N", callback=_parsed("UPDATES"),
        help="Queries come again until documents were updated so often; the paper has about 3,000 (appendix C.3).",
    ),
)  # fmt: skip
"""The options of a VariantOptions."""
