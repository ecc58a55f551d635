"""The command line: flags are generated from the declared parameters."""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any

import click
from click.core import ParameterSource

from engine.cli_encoding import ENCODER, ENCODING, Encoding, say_learnt, searched
from engine.errors import Cancelled, FrontierError
from engine.progress import Eta, spoken


class Frontier(click.Group):
    """The commands; without one, the default command runs, and takes its flags directly."""

    default: str | None = None

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        own = {"--help", "-h", "--version"}
        if self.default and (not args or (args[0].startswith("-") and args[0] not in own)):
            args = [self.default, *args]
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except FrontierError as error:
            raise click.ClickException(str(error)) from None
        except (KeyboardInterrupt, Cancelled) as error:
            # A Ctrl-C has no text of its own, and some texts begin with the word.
            why = str(error).removeprefix("stopped ") or "what was finished is kept"
            click.echo(f"stopped; {why}", err=True)
            ctx.exit(130)


@click.group(cls=Frontier, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="frontier-retrieval", prog_name="frontier")
def main() -> None:
    """What relevance costs and what diversity buys, on your own corpus."""


class FromDeclarations(click.Command):
    """A command whose flags are made, when it is first needed, from what the methods declare."""

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        return [*super().get_params(ctx), *_stage_flags()]


@main.command()
@click.option("--json", "as_json", is_flag=True, help="Machine-readable.")
def methods(as_json: bool) -> None:
    """The table of methods, their parameters and sources."""
    from engine.views import method_columns, method_table

    if as_json:
        click.echo(json.dumps(method_columns(), ensure_ascii=False, indent=2))
    else:
        click.echo(method_table())


CORPUS = click.option(
    "--corpus",
    default="numpy-api",
    show_default=True,
    metavar="NAME|PATH",
    help="numpy-api, python-api, a BEIR folder, or a .csv .tsv .jsonl .parquet .npy .npz file.",
)
QRELS = click.option(
    "--qrels",
    default="qrels",
    show_default=True,
    metavar="FOLDER",
    help="The folder of judgements inside a BEIR folder.",
)


@main.command()
@CORPUS
@ENCODER
@click.option("--queries", is_flag=True, help="Embed the data set's queries too.")
def embed(corpus: str, encoding: Encoding, queries: bool) -> None:
    """Embed a corpus into the cache; a run that was stopped goes on where it was."""
    import engine

    use_threads()
    with Meter() as meter:
        dataset = engine.load_dataset(corpus, progress=meter)
        _print_notices(dataset)
        for what in (dataset.corpus, *([dataset.queries] if queries and len(dataset.queries) else [])):
            made = engine.embed(
                what, encoder=encoding.encoder, dtype=encoding.dtype, device=encoding.device, progress=meter
            )
            meter.clear()
            ref = made.encoder
            click.echo(
                f"{len(made):,} vectors of {made.dimension} dimensions, {ref.name} in {ref.dtype}, "
                f"fingerprint {made.digest[:12]}"
            )


@main.command(cls=FromDeclarations)
@CORPUS
@QRELS
@click.option("--query", "texts", multiple=True, help="A query; may be given more than once.")
@click.option("--query-id", "query_ids", multiple=True, metavar="ID", help="A labelled query of the corpus.")
@click.option("--split", default=None, help="All judged queries of a split; prints the means of the metrics.")
@click.option("-k", "k", default="10", show_default=True, help="How many documents a query gets.")
@ENCODING
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
@click.option("--trace", "traced", is_flag=True, help="For every pick its relevance, and the nearest already chosen.")
def decode(
    corpus: str,
    qrels: str,
    texts: tuple[str, ...],
    query_ids: tuple[str, ...],
    split: str | None,
    k: str,
    encoding: Encoding,
    as_json: bool,
    traced: bool,
    **given: str | None,
) -> None:
    """Retrieve a set for a query, or for every judged query of a split, and measure it."""
    import engine
    from engine.decoder import SET_SIZE
    from engine.evaluation.metrics import METRICS, available
    from engine.values import Queries, showable
    from engine.views import trust

    use_threads()
    source = click.get_current_context().get_parameter_source
    flags = {name: text for name, text in given.items() if source(name) is not ParameterSource.DEFAULT}
    # What is wrong with the flags is said before anything is embedded, where no checkpoint has a say in them.
    decoder = _decoder(flags) if encoding.trained is None else None
    size = SET_SIZE.parse(k)
    if sum(map(bool, (texts, query_ids, split))) != 1:
        raise click.UsageError("give one of --query, --query-id or --split")
    if any(not text.strip() for text in texts):
        raise click.UsageError("--query is empty")
    with Meter() as meter:
        dataset = engine.load_dataset(corpus, qrels=qrels, progress=meter)
        if not as_json:
            _print_notices(dataset)
        if texts:
            queries = Queries.of(texts)
        elif split:
            queries = dataset.judged(split)
        else:
            if missing := [q for q in query_ids if q not in dataset.queries.position]:
                raise click.UsageError(
                    f"no query {missing[0]!r} in this corpus; it has {len(dataset.queries):,} queries"
                )
            queries = dataset.queries.only(query_ids)
        space, own = searched(dataset, encoding, progress=meter)
        if own is not None:
            decoder = _decoder(flags, own)
            meter.clear()
            _say_taken(decoder, flags)
        asked = queries if space.encoder is None else engine.embed_queries(space, queries, progress=meter)
        if not texts:
            say_learnt(space, queries, meter)
        started = time.perf_counter()
        ranking = engine.decode(decoder, space, asked, k=size)
        seconds = time.perf_counter() - started
        meter.clear()
    judgements = _judgements(dataset, queries, split)
    aspects = dataset.aspects if judgements else None
    measured = engine.measure(ranking, space, asked, judgements, size, available(judgements, aspects, asked), aspects)
    result = {
        "decoder": decoder.label,
        "corpus": dataset.corpus.name,
        "documents": len(dataset.corpus),
        "k": size,
        "queries": len(queries),
        "milliseconds": round(1000 * seconds, 3),
        "mean": {m: v if v == v else None for m, v in measured.mean.items()},
        "left_out": measured.left_out,
    }
    results = []
    if as_json or not split:
        picks = engine.trace(ranking, space, asked)
        results = [_result(space, queries, picks, ranking.info, i) for i in range(len(queries))]
    if as_json:
        click.echo(showable(json.dumps({**result, "results": results}, ensure_ascii=False, allow_nan=False)))
        return
    for entry in results:
        click.echo(click.style(f"\n{_one_line(entry['query'], 100)}", bold=True))
        if traced:
            click.echo("  #     score  relevance  nearest chosen")
        for document in entry["documents"]:
            score = f"{document['rank']:>3}  {document['gain']:>8.4f}"
            name, text = _one_line(document["id"], 60), _one_line(document["text"], 80)
            if not traced:
                click.echo(f"{score}  {name}  {text}")
                continue
            near = document["nearest"] or ""
            near = f"{document['similarity']:.4f} {_one_line(near, 40)}" if near else "–"
            click.echo(f"{score}  {document['relevance']:>9.4f}  {near:<47}  {name}  {text}")
        if said := trust(entry["info"]):
            click.echo(f"     {said}")
    means = "  ".join(f"{METRICS[m].title}@{size} {v:.4f}" for m, v in measured.mean.items() if v == v)
    left = f"  ({measured.left_out:,} without judgements left out)" if judgements and measured.left_out else ""
    click.echo(
        f"\n{decoder.label}: {_counted(len(queries), 'query', 'queries')}, "
        f"{_counted(len(space), 'document', 'documents')}, {1000 * seconds:.1f} ms"
    )
    click.echo(f"{means}{left}")


class Meter:
    """A progress line on a terminal: done of total, and the time left. Silent where nobody looks."""

    def __init__(self) -> None:
        self._live = sys.stderr.isatty()
        self._eta = Eta()
        self._label, self._drawn = "", 0.0

    def __enter__(self) -> Meter:
        return self

    def __exit__(self, *_: object) -> None:
        self.clear()

    def __call__(self, done: int, total: int, label: str) -> None:
        if not self._live:
            return
        left = self._eta(done, total, label)
        now = time.monotonic()
        if label == self._label and now - self._drawn < 0.1 and done < total:
            return
        self._label, self._drawn = label, now
        parts = [label, *([f"{done:,} of {total:,}"] if total else []), *([f"{spoken(left)} left"] if left else [])]
        click.echo("\r\x1b[2K" + " · ".join(parts), nl=False, err=True)

    def clear(self) -> None:
        """Wipe the line."""
        if self._live and self._label:
            click.echo("\r\x1b[2K", nl=False, err=True)
            self._label = ""


def use_threads() -> None:
    """Half the cores for torch and NumPy, once for the process: on a busy machine more threads are slower, not faster.

    FRONTIER_THREADS overrides.
    """
    import torch

    from engine.solvers.threads import limit_blas

    wanted = os.environ.get("FRONTIER_THREADS", "")
    count = int(wanted) if wanted.isdigit() and int(wanted) else max(1, (os.cpu_count() or 2) // 2)
    torch.set_num_threads(count)
    limit_blas(count)


# Which stage of a decoder a flag belongs to, and what is written before its parameters' names.
STAGES = (("select", "selector", ""), ("retrieve", "scorer", "retrieve-"), ("rerank", "scorer", "rerank-"))
DEFAULTS = {"select": "top_k", "retrieve": "dense", "rerank": None}


def _stage_flags() -> list[click.Option]:
    from engine.decoder import DEPTH
    from engine.stages import methods as registered

    flags = []
    for stage, kind, prefix in STAGES:
        specs = registered(kind)
        flags.append(
            click.Option(
                [f"--{stage}"],
                type=click.Choice(list(specs)),
                default=DEFAULTS[stage],
                show_default=DEFAULTS[stage] is not None,
                help=f"The {kind} that {stage}s.",
            )
        )
        owners: dict[str, list[Any]] = {}
        for spec in specs.values():
            for param in spec.params:
                owners.setdefault(param.name, []).append((spec, param))
        for name, declared in owners.items():
            told = "; ".join(
                f"{spec.name}: {p.symbol}, {p.domain}, default {p.text(p.default)}. {p.help}" for spec, p in declared
            )
            flag = f"--{prefix}{declared[0][1].flag[2:]}"
            flags.append(click.Option([flag, f"{stage}__{name}"], default=None, metavar="VALUE", help=told))
    flags.append(
        click.Option([DEPTH.flag], default=None, metavar="VALUE", help=f"{DEPTH.help} Default: {DEPTH.unset}.")
    )
    return flags


def _decoder(flags: dict[str, str | None], own: Any = None) -> Any:
    """The decoder of the flags that were given; own: that of a checkpoint, which has what they leave open."""
    from engine.decoder import DEPTH, Decoder
    from engine.params import parsed, values_of
    from engine.stages import make, methods, spec_of

    stages = {}
    for stage, kind, prefix in STAGES:
        texts = {key.split("__", 1)[1]: v for key, v in flags.items() if key.startswith(f"{stage}__") and v is not None}
        there = None if own is None else getattr(own, stage)
        name = flags.get(stage) or (DEFAULTS[stage] if there is None else there.spec.name)
        if name is None:
            if texts:
                raise click.UsageError(f"--{stage} is not given, so {', '.join(texts)} has nothing to act on")
            stages[stage] = None
            continue
        params = spec_of(name, kind).params
        for text in texts:
            owners = [s.name for s in methods(kind).values() if text in {p.name for p in s.params}]
            if text not in {p.name for p in params}:
                flag = f"--{prefix}{text.replace('_', '-')}"
                raise click.UsageError(f"{flag} is of {', '.join(owners)}; add --{stage} {owners[0]}")
        known = values_of(there) if there is not None and there.spec.name == name else {}
        stages[stage] = make(name, **(known | parsed(params, texts, name)))
    depth = flags.get("depth")
    unset = DEPTH.default if own is None else own.depth
    return Decoder(**stages, depth=unset if depth is None else DEPTH.parse(depth))


def _say_taken(decoder: Any, flags: dict[str, str | None]) -> None:
    """Say on stderr where a checkpoint decides how it is searched."""
    try:
        plain = _decoder(flags)
    except click.UsageError:
        plain = None
    if not flags:
        click.echo(f"searched as the checkpoint was trained for: {decoder.label}", err=True)
    elif decoder != plain:
        click.echo(f"what no flag says is the checkpoint's: {decoder.label}", err=True)


def _judgements(dataset: Any, queries: Any, split: str | None) -> Any:
    """What is known of these queries: the split's judgements, or those of any split; None where there are none."""
    from engine.values import Qrels

    if split:
        return dataset.qrels[split]
    splits = dataset.qrels.values()
    known = {q: grades for qrels in splits for q, grades in qrels.grades.items() if q in queries.position}
    return Qrels(known) if known and queries.digest == dataset.queries.only(queries.ids).digest else None


def _result(space: Any, queries: Any, picks: Any, info: Any, i: int) -> dict[str, Any]:
    documents = [
        {
            "rank": pick["rank"],
            "id": space.corpus.ids[pick["row"]],
            "gain": pick["score"],
            "relevance": pick["relevance"],
            "nearest": None if pick["nearest"] is None else space.corpus.ids[pick["nearest"]],
            "similarity": pick["similarity"],
            "text": space.corpus.passages[pick["row"]],
        }
        for pick in picks.rows(i)
    ]
    return {"id": queries.ids[i], "query": queries.texts[i], "documents": documents, "info": dict(info[i])}


def _print_notices(dataset: Any) -> None:
    for notice in dataset.notices:
        click.echo(f"note: {notice}", err=True)


def _counted(count: int, one: str, many: str) -> str:
    return f"{count:,} {one if count == 1 else many}"


def _one_line(text: str, width: int) -> str:
    """The text as one line a terminal can show: no control characters, at most `width` long."""
    from engine.values import showable

    line = " ".join("".join(c if c.isprintable() else " " for c in showable(text)).split())
    return line if len(line) <= width else line[: width - 1] + "…"


if __name__ == "__main__":
    from engine.cli import main as whole  # the group that the other commands join is that of the module, not this copy

    whole()
else:
    # Their commands add themselves to the group.
    from engine import cli_evaluation, cli_orag, cli_passages, cli_search, cli_training  # noqa: F401
