"""Every command, its options and its help; what it does is in the module that it names, imported when it runs."""

from typing import Any

import click

from engine.cli.group import lazy, main, runs_in
from engine.cli.options import (
    CORPUS,
    EMBEDDED,
    ENCODER,
    FINISHED_SWEEP,
    OTHER_RUNS,
    PER_SOURCE_OPTION,
    POINTS,
    READING,
    SENDING,
    SIZE_OPTION,
    SOURCE,
    STAGE_TEXT,
    TABLE_COLUMNS,
    WITHOUT_SELF_OPTION,
    DeclaredCommand,
    chain_options,
    execution_options,
    file_option,
    group_options,
    json_option,
    judged_options,
    metrics_option,
    option,
    seed_option,
    size_option,
    split_option,
    stages_option,
)

JSON_FLAG = json_option()
JSON_LINES_FLAG = json_option("One JSON object a line.")
JUDGED_DATA = judged_options()
JUDGED_SAMPLE = judged_options(
    "Split whose labelled queries are used.",
    option("--count", type=click.IntRange(1), default=200, help="Number of queries, drawn at random."),
    seed_option("Seed of the choice of queries."),
)
SMALL_SIZE = size_option(default="5")
POOL_SIZE = option("--pool", type=int, default=18, help="Number of most relevant documents whose sets are enumerated.")
COLLECTION = click.argument("name", metavar="NAME/COLLECTION")
LOG_FILE = click.argument("log", metavar="LOG")
EXPORT_FILE = file_option("--export", "target", help="The adapted vectors: .npy, .npz or .parquet.")
SELECTORS = stages_option("select", "selectors", "Decoders that are looked at.")


@main.command()
@json_option("Machine-readable.")
@runs_in("engine.cli.decode")  # calls methods() of that module
def methods() -> None:
    """Print the table of methods, their parameters and sources."""


@main.command()
@group_options("source", lazy("engine.cli.inputs:CorpusOptions"), CORPUS, TABLE_COLUMNS, ENCODER)
@click.option("--queries", is_flag=True, help="Embed the data set's queries too.")
@runs_in("engine.cli.decode")  # calls embed() of that module
def embed() -> None:
    """Embed a corpus into the cache; a run that was stopped goes on where it was."""


@main.command(cls=DeclaredCommand, flags=lazy("engine.cli.decode:stage_flags"))
@SOURCE
@click.option("--query", "texts", multiple=True, help="A query; may be given more than once.")
@click.option("--query-id", "query_ids", multiple=True, metavar="ID", help="A labelled query of the corpus.")
@split_option("All labelled queries of a split; prints the means of the metrics.", default=None)
@SIZE_OPTION
@json_option("One JSON object.")
@click.option("--trace", "traced", is_flag=True, help="For every pick its relevance, and the nearest already chosen.")
@PER_SOURCE_OPTION
@WITHOUT_SELF_OPTION
@runs_in("engine.cli.decode")  # calls decode() of that module
def decode() -> None:
    """Retrieve a set for a query, or for every labelled query of a split, and measure it."""


@main.command()
@option("--decoder", "setting", required=True, metavar="FILE", help="A decoder exported as JSON.")
@SOURCE
@click.option("-k", "k", help="Documents per query. Default: as exported.")
@option("--host", default="127.0.0.1", help="Address to listen on; 0.0.0.0 accepts other machines.")
@option("--port", type=click.IntRange(0, 65535), default=8600, help="0 picks a free port.")
@runs_in("engine.cli.decode")  # calls answer() of that module
def answer() -> None:
    """Serve one decoder: POST /answer takes {"queries": ["…"]} or {"vectors": [[…]]}, GET /health says what is served.

    Corpus, encoder and checkpoint are those of the file, unless a flag names others.
    """


@main.command(cls=DeclaredCommand, flags=lazy("engine.cli.passages:task_flags"))
@CORPUS
@group_options("reading", lazy("engine.cli.inputs:ReadOptions"), TABLE_COLUMNS)
@click.option("--out", required=True, metavar="FOLDER", help="BEIR folder to write: new, or empty.")
@runs_in("engine.cli.passages")  # calls passages() of that module
def passages() -> None:
    """Make labelled queries out of a corpus: find the document that contains a passage.

    Passages of the corpus's documents are the queries; relevant is every document that contains one word for word.
    Distractors, copies of these documents with a word or two of the passage changed, are added to the corpus. Recall is
    then how well a text is found again by a part of it: people's questions are harder.
    """


@main.command()
@SOURCE
@option("--run", required=True, metavar="FILE", help="What the system returned: a run in any form that compare takes.")
@stages_option("select", "selectors", "Selectors that are tried, at every weight and depth. Default: all.")
@option("--depth", metavar="VALUE", help="Depth of the pool, if it is known. Default: it is found.")
@seed_option("Seed of the resampling.")
@option(
    "--expect",
    "expected",
    metavar="FILE",
    help="A decoder exported as JSON that should have made the run: exit code 0 if it did, 1 if not, 2 if that could "
    "not be judged.",
)
@JSON_FLAG
@runs_in("engine.cli.identify")  # calls identify() of that module
def identify() -> None:
    """Name the decoder, its weight of relevance and its pool that made another system's lists.

    The lists are those of the corpus's queries, a few dozen of them. Documents and queries are embedded by --encoder,
    which should be the system's.
    """


@main.command()
@SOURCE
@option("--endpoint", required=True, metavar="NAME", help="The entry of endpoints.toml whose chat model judges.")
@option("--queries", "queries_file", metavar="FILE", help="Searches: one a line, or a table. Default: the corpus's.")
@split_option("Split whose labelled queries are used. Default: all queries.", default=None)
@option("--count", type=click.IntRange(1), help="Number of these queries, drawn at random. Default: all.")
@seed_option("Seed of that draw.")
@stages_option("select", "selectors", "Selectors whose documents are judged. Default: all.")
@click.option("--run", "runs", multiple=True, metavar="FILE", help="Results of another system, judged as well.")
@SIZE_OPTION
@click.option("--prompt", is_flag=True, help="Print the prompt, to be changed as judge_prompt; nothing is sent.")
@option("--out", metavar="FOLDER", help="The model's judgements as a BEIR folder: new, or empty.")
@JSON_FLAG
@runs_in("engine.cli.judge")  # calls judge() of that module
def judge() -> None:
    """Have a language model grade what decoders return, in the order in which people would judge it.

    Each grade is kept as it comes, under the model's name and apart from people's; a run that was stopped goes on
    without asking twice.
    """


@main.command(name="grade-answers")
@judged_options(
    "Split whose labelled queries are asked.",
    option("--count", type=click.IntRange(1), default=100, help="Number of queries, drawn at random."),
    seed_option("Seed of that draw, and of the intervals."),
)
@option("--endpoint", required=True, metavar="NAME", help="The entry of endpoints.toml whose chat model is asked.")
@stages_option("select", "selectors", "Selectors whose sets are read. Default: all.")
@click.option("--run", "runs", multiple=True, metavar="FILE", help="Results of another system, read as well.")
@SIZE_OPTION
@click.option("--prompt", is_flag=True, help="Print the prompts, to be changed as answer_prompt and support_prompt.")
@option("--person", metavar="FILE.csv", help="A person's grades of some answers: query, decoder, grade (0, 1 or 2).")
@option("--sheet", metavar="FILE.csv", help="Write the answers, for a person to grade from the top on.")
@JSON_FLAG
@runs_in("engine.cli.grade_answers")  # calls grade_answers() of that module
def grade_answers() -> None:
    """Have a language model answer queries from each decoder's set, and grade if the relevant documents support that.

    The first decoder is the baseline. Each answer and each grade is kept as it comes; a run that was stopped goes on
    without asking twice. A person's grades correct the model's.
    """


@main.command()
@CORPUS
@group_options("reading", lazy("engine.cli.inputs:ReadOptions"), READING)
@option("--url", required=True, help="Address of the search, such as http://127.0.0.1:8600/answer.")
@click.option("--request-header", "headers", multiple=True, metavar='"NAME: VALUE"', help="Header of every request.")
@split_option("Split whose labelled queries are asked. Default: all queries.", default=None)
@SIZE_OPTION
@option("--out", required=True, metavar="FILE.json", help="The run to write.")
@runs_in("engine.cli.record")  # calls record() of that module
def record() -> None:
    """Ask a search over HTTP the corpus's queries and keep its lists as a run, which identify and compare read.

    The search is sent the queries' texts: POST {"queries": ["…"], "k": 10}. It answers, as frontier answer does, with
    {"answers": [{"ids": ["…"]}]}.
    """


@main.command(name="data")
@CORPUS
@group_options("reading", lazy("engine.cli.inputs:ReadOptions"), READING)
@JSON_FLAG
@runs_in("engine.cli.passages")  # calls sizes() of that module
def sizes() -> None:
    """Count documents, queries and relevant documents per query, by split; nothing is embedded."""


@main.command()
@SOURCE
@option("--groups", "n_groups", type=click.IntRange(0), default=10, help="Groups to print, the largest first.")
@JSON_FLAG
@runs_in("engine.cli.duplicates")  # calls duplicates() of that module
def duplicates() -> None:
    """Find the near-duplicates of a corpus before any query, in groups, with what dropping them would leave."""


@main.command()
@judged_options("Split whose labelled queries are decoded.")
@stages_option("select", "selectors", "Default: every selector.")
@stages_option("retrieve", "retrieves", "Default: dense.")
@stages_option("rerank", "reranks", "Default: none.")
@option("--depth", metavar="VALUE", help="Number of candidates to rerank and choose from. Default: all.")
@PER_SOURCE_OPTION
@WITHOUT_SELF_OPTION
@POINTS
@click.option(
    "--values",
    type=click.Choice(["grid", "all"]),
    default="grid",
    help="all: print every λ, exactly, of selectors whose rankings have a path over it, and a grid of the others. "
    "grid: a grid of all; those exact curves are stored beside it, for the decision.",
)
@size_option("sizes", ("5", "10"))
@metrics_option("Default: all that can be measured.")
@execution_options("sweep.db")
@json_option("One JSON object a cell.")
@runs_in("engine.cli.evaluation")  # calls sweep() of that module
def sweep() -> None:
    """Measure decoders over their parameters; what is finished is kept, and not computed again."""


@main.command()
@FINISHED_SWEEP
@OTHER_RUNS
@option(
    "--model-judged",
    metavar="FILE",
    help="A model's judgements of more of the queries, in a form that --qrels takes: those of the store, a random "
    "sample of them, correct it. Needs --corpus.",
)
@metrics_option("Metrics of the table. Default: those of the store.")
@click.option("--wins", is_flag=True, help="In --y, every setting against the baseline query by query.")
@click.option("--oracle", is_flag=True, help="In --y, what choosing a method's setting for every query could gain.")
@file_option("--out", "files", multiple=True, help=".md .tex: the table; .csv .parquet: every cell.")
@JSON_FLAG
@runs_in("engine.cli.evaluation")  # calls compare() of that module
def compare() -> None:
    """Print which setting a finished sweep suggests, its frontier, and what differs from the baseline."""


@main.command()
@SOURCE
@option("--select", "selector", metavar=STAGE_TEXT, help="Tune this selector; all chooses among all of them.")
@option("--retrieve", metavar=STAGE_TEXT, help="Tune this scorer instead; beside --select all: scorers to try, or all.")
@option("--objective", help="maximise, diverse or knee; default: diverse for selectors, maximise with --metric.")
@option("--metric", help="Metric to maximise; default: comp.")
@option("--share", type=float, help="Share of the baseline's Recall that diverse keeps; default: 0.95.")
@PER_SOURCE_OPTION
@WITHOUT_SELF_OPTION
@split_option("The split that chooses.", default="dev", name="--dev")
@split_option("The split that reports; none for no report.", name="--test")
@click.option("--halve", is_flag=True, help="Choose on one half of the split --dev and report on the other.")
@option(
    "--model-judged",
    metavar="FILE",
    help="A model's judgements of more queries, in a form that --qrels takes: those of --dev, a random sample of them, "
    "correct it. For diverse alone.",
)
@SIZE_OPTION
@POINTS
@option("--trials", type=int, default=64, help="Settings tried beyond two parameters.")
@seed_option("Seed of the search and of the draws.")
@execution_options("tune.db")
@option("--export", "target", help="Print the chosen setting: python, json, command, service, langchain, haystack, …")
@click.option("--history", "past", is_flag=True, help="List the studies in the store, newest first; tune nothing.")
@JSON_FLAG
@runs_in("engine.cli.evaluation")  # calls tune() of that module
def tune() -> None:
    """Choose a setting on one split, and report it on another beside the baseline."""


@main.command()
@JUDGED_DATA
@stages_option("rerank", "reranks", "Rerankers.", required=True)
@stages_option("retrieve", "retrieves", "Default: dense.")
@stages_option("select", "selectors", "Default: the first one.")
@click.option(
    "--depth", "depths", multiple=True, metavar="N", help="Number of candidates to rerank. Default: 10 to 1000."
)
@click.option("--random", type=int, help="Number of random documents to rerank too; nothing is stored.")
@seed_option("Seed of the random documents.")
@SIZE_OPTION
@metrics_option("Metrics to measure.", default=("mrr",))
@execution_options("depths.db")
@JSON_LINES_FLAG
@runs_in("engine.cli.search")  # calls depths() of that module
def depths() -> None:
    """Measure rerankers by how many of the retrieved documents they get to see."""


@main.command()
@JUDGED_DATA
@stages_option("retrieve", "retrieves", "Scorers whose vectors are searched. Default: dense.")
@click.option(
    "--index",
    "indexes",
    multiple=True,
    metavar=STAGE_TEXT,
    help="hnsw (links, construction, breadth) or ivf (cells, probes); a bare name tries several. Default: both.",
)
@SIZE_OPTION
@metrics_option("Default: mrr and ndcg.")
@option("--share", metavar="VALUE", help="Share of the exact answer that the quickest must reach. Default: 0.99.")
@seed_option("Seed of the graph and of k-means.")
@JSON_LINES_FLAG
@runs_in("engine.cli.search")  # calls ann() of that module
def ann() -> None:
    """Measure approximate search against the exact one: quality, time and memory (extra `ann`)."""


@main.command()
@JUDGED_DATA
@stages_option("select", "selectors", "Default: every selector that has a weight of relevance.")
@size_option("sizes", ("10", "20", "50", "100"))
@click.option("--weight", "weights", multiple=True, type=float, default=(0.5, 0.7, 0.9), help="Weight of relevance.")
@option("--calls", type=int, default=9, help="Number of queries to time.")
@click.option(
    "--plain/--no-plain", default=True, help="mmr, dpp, max_sum without swaps: also as their papers print them."
)
@JSON_LINES_FLAG
@runs_in("engine.cli.search")  # calls latency() of that module
def latency() -> None:
    """Measure what one query takes by k and by the weight of relevance: one at a time, on one thread."""


@main.command()
@JUDGED_DATA
@stages_option("select", "selectors", "Default: the first one.")
@stages_option("retrieve", "retrieves", "Default: dense.")
@click.option("--words", "budgets", multiple=True, type=int, help="A budget. Default: 50 to 1600.")
@size_option(default="50")
@click.option("--answers", "answered", is_flag=True, help="Also answer strings, of answers.tsv in the corpus' folder.")
@JSON_LINES_FLAG
@runs_in("engine.cli.search")  # calls budget() of that module
def budget() -> None:
    """Measure Recall within budgets of words: what a reader of so many words gets, best document first."""


@main.command()
@click.argument("which", metavar="[PAPER|CLAIM|all]", default="all")
@option("--data", metavar="FOLDER", type=click.Path(exists=True, file_okay=False), help="Judged sets in BEIR layout.")
@option("--encoder", default="bundled", metavar="NAME|PATH", help="Embeds the sets.")
@option("--workers", type=click.IntRange(1, 64), default=1, help="Processes of this machine, a thread each.")
@option("--work", metavar="FOLDER", type=click.Path(file_okay=False), help="Trained systems, a folder a set.")
@click.option("--train", is_flag=True, help="Train what --work lacks: hours on a processor.")
@seed_option("Seed of samples and resamples.")
@click.option("--anew", is_flag=True, help="Measure again what is stored.")
@option("--endpoint", metavar="NAME", help="The entry of endpoints.toml whose chat model reads sets, for V10 and C15.")
@SENDING
@file_option("--out", help="The judged claims as a file, which frontier evidence takes.")
@json_option("One JSON object a claim.")
@runs_in("engine.cli.theory")  # calls reproduce() of that module
def reproduce() -> None:
    """Measure and judge claims of the papers; what was measured is kept, and a run that was killed goes on."""


@main.group()
def theory() -> None:
    """Measure on a corpus what the papers prove or claim."""


@theory.command()
@JUDGED_SAMPLE
@SMALL_SIZE
@POOL_SIZE
@json_option("One JSON object a query.")
@runs_in("engine.cli.theory")  # calls vrsd() of that module
def vrsd() -> None:
    """VRSD: compare §3.1's two problems, and Algorithm 1 with the best set, by enumeration of small pools."""


@theory.command()
@JUDGED_SAMPLE
@JSON_FLAG
@runs_in("engine.cli.theory")  # calls nnn() of that module
def nnn() -> None:
    """NNN: count the relevant sets that are recovered exactly: by dense retrieval, on a grid, for any λ₁."""


@theory.command()
@JUDGED_SAMPLE
@size_option("sizes", ("5", "10", "50"))
@click.option("--weight", "weights", multiple=True, type=float, default=(0.0, 0.3, 0.6, 0.8, 0.9, 1.0), help="θ.")
@option(
    "--pool", type=click.IntRange(4, 10), default=8, help="Number of most relevant documents; all faces are enumerated."
)
@JSON_FLAG
@runs_in("engine.cli.theory")  # calls ccbqp() of that module
def ccbqp() -> None:
    """CCBQP: measure how tight the relaxation is, how often Algorithm 1 ends at sets, and how narrow the cone is."""


@theory.command()
@JUDGED_SAMPLE
@SMALL_SIZE
@stages_option("select", "selectors", "Selectors with an objective. Default: all, with and without swaps.")
@POOL_SIZE
@click.option("--fix-first", is_flag=True, help="vrsd: only sets with the most relevant document (Definition 2).")
@json_option("One JSON object a selector and query.")
@runs_in("engine.cli.theory")  # calls gap() of that module
def gap() -> None:
    """Measure how often selectors find the best set of their objective, and what they lack, by enumeration."""


@theory.command()
@JUDGED_SAMPLE
@option("--vectors", type=click.Choice(["bm25", "boolean", "dense"]), default="bm25", help="Vectors to project.")
@click.option("--dimension", "dimensions", multiple=True, type=int, default=(256, 1024, 4096), help="k.")
@option("--rank", type=int, default=1, help="r₀: within how many the best document is wanted.")
@option("--draws", type=int, default=40, help="Number of projections.")
@json_option("One JSON object a query and dimension.")
@runs_in("engine.cli.theory")  # calls recall() of that module
def recall() -> None:
    """Lemma 2: measure how often random projections lose a query's best document, beside the bound."""


@main.group()
def store() -> None:
    """Corpora in PostgreSQL with pgvector, or in Milvus, as FRONTIER_HOME/stores.toml names them."""


@store.command("load")
@COLLECTION
@SOURCE
@option("--batch", type=click.IntRange(1, 100_000), default=1_000, help="Documents a transaction.")
@click.option("--index", is_flag=True, help="Build an HNSW index in the end.")
@option("--m", "links", type=click.IntRange(2, 100), default=16, help="Links a document in the index.")
@option("--ef-construction", type=click.IntRange(4, 1000), default=64, help="Candidates while the index is built.")
@JSON_FLAG
@runs_in("engine.cli.stores")  # calls load_command() of that module
def load_command() -> None:
    """Write a corpus with its embeddings; run again, it goes on where it was."""


@store.command("check")
@COLLECTION
@option("--queries", type=click.IntRange(1, 10_000), default=20, help="Points between two documents, at random.")
@click.option("--data", metavar="NAME|PATH", help="A data set whose queries are asked instead.")
@option("-n", "--depth", "n", type=click.IntRange(1, 10_000), default=500, help="Number of documents to compare.")
@option("--enough", type=click.FloatRange(0, 1), default=0.95, help="The recall at which to stop.")
@seed_option("Same seed, same points.")
@json_option("One JSON object an ef.")
@runs_in("engine.cli.stores")  # calls check_command() of that module
def check_command() -> None:
    """Measure what the index finds, for queries and for the questions that prove answers, at rising ef.

    What was measured is kept; answers quote it.
    """


@store.command("prove", cls=DeclaredCommand, flags=lazy("engine.cli.decode:stage_flags"))
@COLLECTION
@option("--query", "texts", multiple=True, required=True, help="A query; may be given more than once.")
@SIZE_OPTION
@click.option("--by-index", is_flag=True, help="Answer from the engine's index, and prove nothing.")
@json_option("One JSON object a query.")
@runs_in("engine.cli.stores")  # calls prove_command() of that module
def prove_command() -> None:
    """Answer queries from a collection, and have its engine look at all documents until the answer is proven.

    An answer is proven as far as the store tells the truth: scores, lengths and counts that contradict each other are
    errors, but a store that leaves a document out of everything it says cannot be told from one that lacks it.
    """


@main.group()
def orag() -> None:
    """Feedback that moves the documents' vectors, and the drift it causes."""


def _numbers_parser(number_type: type) -> Any:
    """Return a callback that parses comma-separated numbers; it returns None if the option is not given."""

    # click passes the parameter, so that the error names the option as it was typed.
    def parse(_context: click.Context, parameter: click.Parameter, option: str | None) -> tuple[Any, ...] | None:
        """Parse an option's text into numbers; None if it was not given. Raises UsageError."""
        try:
            return None if option is None else tuple(map(number_type, option.split(",")))
        except ValueError:
            raise click.UsageError(f"{parameter.opts[0]} takes numbers with commas between; got {option!r}") from None

    return parse


def _parse_arrivals(
    _context: click.Context, parameter: click.Parameter, arrival_texts: tuple[str, ...]
) -> tuple[tuple[float, int], ...]:
    """Parse each SHARE@ROUND, 0.5@1000 or 50%@1000, into (share, round); UsageError if it is none.

    That share of the documents joins the simulated corpus only after that round.
    """
    arrivals = []
    for arrival_text in arrival_texts:
        share, _, round_text = arrival_text.partition("@")
        try:
            arrivals.append((float(share.removesuffix("%")) / (100 if share.endswith("%") else 1), int(round_text)))
        except ValueError:
            flag = parameter.opts[0]
            raise click.UsageError(f"{flag} takes SHARE@ROUND, 0.5@1000 or 50%@1000; got {arrival_text!r}") from None
    return tuple(arrivals)


_PARSE_PARAM = lazy("engine.cli.simulation:parse_declared")
SHOWING = chain_options(
    option(
        "--reranker", metavar=f"cosine|judgements|{STAGE_TEXT}", callback=lazy("engine.cli.simulation:parse_reranker"),
        help="Picks what is shown among several drawn (Algorithm 2): cosine, judgements (the best there is), a scorer.",
    ),
    option("--candidates", metavar="K", callback=_PARSE_PARAM, help="Documents drawn for the reranker; default: 10."),
    click.option(
        "--arrive", "arrivals", multiple=True, metavar="SHARE@ROUND", callback=_parse_arrivals,
        help="A share of the documents comes only after that round (Algorithm 3), 0.5@1000 say; several of them.",
    ),
    option(
        "--newcomers", metavar="neighbours|printed", callback=_PARSE_PARAM,
        help="They start at their vector moved as their 5 nearest have moved (not the paper's; default), or as printed "
        "at their vector.",
    ),
    click.option(
        "--hops", is_flag=True,
        help="Questions come by the steps of their plans, one after the other (Algorithm 4): metadata.plan of "
        "queries.jsonl, a list of {step, tool}.",
    ),
    option(
        "--updates", metavar="N", callback=_PARSE_PARAM,
        help="Queries come again until documents were updated so often; the paper has about 3,000 (appendix C.3).",
    ),
)  # fmt: skip
"""Options of the way that a simulated deployment shows documents."""
STREAM_OPTIONS = lazy("engine.cli.simulation:StreamOptions")
STREAM_SPLIT = split_option("Split whose labelled queries are the stream; default: the largest.", default=None)


@orag.command(cls=DeclaredCommand, flags=lazy("engine.cli.simulation:simulation_flags"))
@group_options(
    "stream",
    STREAM_OPTIONS,
    EMBEDDED,
    option("--preset", default="default", help="Preset of learning: default, careful or paper."),
    STREAM_SPLIT,
    split_option("A split that is only measured; default: a share of the stream's.", default=None, name="--test"),
    SHOWING,
)
@SELECTORS
@SIZE_OPTION
@file_option("--file", "file", help="File of intermediate results; the same command resumes from it.")
@file_option("--log", "log", help="Write the feedback as a log, for replay and report; .jsonl: as an export.")
@EXPORT_FILE
@JSON_FLAG
@runs_in("engine.cli.feedback")  # calls simulate() of that module
def simulate() -> None:
    """Learn from a stream of labelled queries as if people answered, and measure what it does."""


@orag.command()
@LOG_FILE
@SOURCE
@option("--to", "to", metavar="N|NAME", help="State after N records, or at a snapshot.")
@EXPORT_FILE
@JSON_FLAG
@runs_in("engine.cli.feedback")  # calls replay() of that module
def replay() -> None:
    """Fold a log over the corpus again: the documents as feedback left them."""


@orag.command()
@LOG_FILE
@SOURCE
@click.argument("events", nargs=-1, metavar="[EVENT]…")
@option("--last", type=click.IntRange(1), metavar="N", help="Undo the newest N events that count.")
@JSON_FLAG
@runs_in("engine.cli.feedback")  # calls undo() of that module
def undo() -> None:
    """Take feedback back: the documents are as if it had not been given. The log keeps what happened."""


@orag.command()
@LOG_FILE
@SOURCE
@split_option("Split whose queries are followed; default: the largest.", default=None)
@option("--points", default=10, help="Number of moments to measure.")
@click.option("--query", "texts", multiple=True, help="A query to answer then and now; may be given more than once.")
@SELECTORS
@SIZE_OPTION
@option("--events", "shown", default=10, help="Number of newest events to list.")
@JSON_FLAG
@runs_in("engine.cli.feedback")  # calls report() of that module
def report() -> None:
    """Report what feedback did: drift along the log, what moved most, and answers then and now."""


@orag.command(cls=DeclaredCommand, flags=lazy("engine.cli.simulation:simulation_flags"))
@group_options(
    "stream",
    STREAM_OPTIONS,
    EMBEDDED,
    option("--preset", default="paper", help="Preset, except rate and batch: default, careful or paper."),
    option(
        "--rates",
        metavar="η,η,…",
        callback=_numbers_parser(float),
        help="Rates to try; default: the paper's ten, 1e-8 to 1e-5.",
    ),
    option(
        "--batches",
        metavar="N,N,…",
        callback=_numbers_parser(int),
        help="Batch sizes to try; default: the paper's six, 5 to 50.",
    ),
    STREAM_SPLIT,
    split_option(
        "A split that only the report is on; default: a share of the second half's.", default=None, name="--test"
    ),
    SHOWING,
)
@SIZE_OPTION
@JSON_FLAG
@runs_in("engine.cli.simulation")  # calls search() of that module
def search() -> None:
    """Search for learning rate and batch size.

    Every setting learns the first half of the stream and is measured on queries of it that it never saw; the best one
    starts anew on the second half, where it is reported. One pass unless --updates or --exposure says more.
    """


class TrainingGroup(click.Group):
    """A command for each recipe and one for cross-encoders, created on first use."""

    def list_commands(self, _context: click.Context) -> list[str]:
        # Names of recipes are known only to the training package, which is imported for --help of this group alone.
        return sorted(lazy("engine.cli.training:commands")())

    def get_command(self, _context: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command that trains by the recipe of this name; None if there is no such recipe."""
        # Recipes import torch, so their commands are built only if one of them is named.
        command: click.Command | None = lazy("engine.cli.training:commands")().get(cmd_name)
        return command


@main.group(cls=TrainingGroup)
def train() -> None:
    """Train embeddings for a decoder, and compare them with what they must be compared with."""
