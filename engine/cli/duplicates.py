"""The command `duplicates`: near-duplicates of a corpus before any query."""

import engine
from engine.cli.group import Meter, use_threads
from engine.cli.inputs import CorpusOptions, embed_corpus
from engine.cli.output import echo, echo_json, echo_lines, format_columns, one_line
from engine.evaluation.studies.near_duplicates import DuplicateGroup, NearDuplicates
from engine.progress import counted
from engine.values import Corpus
from engine.views.near_duplicates import describe_near_duplicates, name_documents

MAX_NAMED_MEMBERS = 4
"""Members of a group that the table names beside its head."""
MAX_NAME_CHARACTERS = 40


def duplicates(source: CorpusOptions, n_groups: int, as_json: bool) -> None:
    """Print the groups of near-duplicates of a corpus, and what dropping them would leave.

    n_groups: number of groups that are printed, the largest first; JSON has all
    """
    use_threads()
    with Meter() as meter:
        dataset = source.load(meter)
        space = embed_corpus(dataset, source, progress=meter)
        duplicates = engine.find_near_duplicates(space, source.duplicate_threshold, progress=meter)
    if as_json:
        return echo_json(_as_json(duplicates, space.corpus), allow_nan=False)
    echo_lines(describe_near_duplicates(duplicates))
    if rows := [_describe_group(group, space.corpus) for group in duplicates.groups[:n_groups]]:
        echo("\n" + format_columns([("size", "stays", "others"), *rows], "rll"))
    if len(duplicates.groups) > n_groups:
        echo(f"and {counted(len(duplicates.groups) - n_groups, 'more group')}: --groups N, or --json for all", err=True)


def _describe_group(group: DuplicateGroup, corpus: Corpus) -> tuple[str, ...]:
    """Return a group's size, its head, and some of the others, as cells of a table."""
    names = name_documents(corpus, group.rows[: MAX_NAMED_MEMBERS + 1])
    head, *others = (one_line(name, MAX_NAME_CHARACTERS) for name in names)
    more = " …" if len(group) > len(names) else ""
    return f"{len(group):,}", head, ", ".join(others) + more


def _as_json(duplicates: NearDuplicates, corpus: Corpus) -> dict[str, object]:
    """Return all groups as lists of ids, the head first, with the counts, as JSON values."""
    pairs = duplicates.random_pairs
    kinds = {"groups": duplicates.groups, "copies": duplicates.copies, "equal_vectors": duplicates.equal_vectors}
    groups = {kind: [[corpus.ids[row] for row in group.rows] for group in members] for kind, members in kinds.items()}
    return {
        "corpus": corpus.name, "documents": len(duplicates), "threshold": duplicates.threshold,
        "with_neighbours": duplicates.count_with_neighbours(), "with_five": duplicates.count_with_neighbours(5),
        "without_copies": duplicates.n_without_copies, "without_near": duplicates.n_collapsed,
        "random_pairs": {"count": len(pairs), "ilad": pairs.ilad if len(pairs) else None}, **groups,
    }  # fmt: skip
