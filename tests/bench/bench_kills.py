"""Work that is ended by SIGKILL at random moments: what is lost, done again, and whether it ends as undisturbed.

    python tests/bench/bench_kills.py --kills 50 --out assets/results

Each operation runs in a process of its own, which is killed after some pieces and a moment; the next one goes on in the
same folder, until it ends. Then a new folder is begun, until all kills are done. The vector engine is a PostgreSQL of
the bench, the model a server of this process.
"""

from __future__ import annotations

import re
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from harness import machine, parse_arguments, table, write_page

from support import assault, durable
from support.encoders import WORDS
from support.model_server import ModelServer, complete_chat
from support.stores import PASSWORD, PASSWORD_ENV, pg_server
from support.tiny_models import tiny_encoder

SEED = 11
TITLES = {
    "embed": "Embedding 320 texts, in chunks of 12",
    "model judge": "60 grades of a model behind an address",
    "feedback": "60 votes",
    "judgements": "60 grades of a person",
    "sweep": "A sweep",
    "tune": "A tuning",
    "train": "A training",
    "store load": "Loading 2,000 documents into PostgreSQL, in batches of 50",
    "cache": "60 entries of the cache",
}
HEAD = ("work", "kills", "folders", "lost", "done again though kept", "begun again", "other results", "seconds")


def grade(body: dict) -> dict:
    """Grade a text by its number."""
    number = int(re.search(r"text number (\d+)", body["messages"][0]["content"])[1])
    return complete_chat({"reason": "", "grade": number % 4})


def main() -> None:
    args = parse_arguments(__doc__, kills=50, only="")
    names = args.only.split(",") if args.only else list(TITLES)
    rows = []
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        model = tiny_encoder(folder / "model", (*WORDS, *map(str, range(400))))
        assailant = assault.Assailant(**{durable.MODEL_ENV: str(model)})
        stack.callback(assailant.close)
        if "model judge" in names:
            server = stack.enter_context(ModelServer(key=None))
            server.chat = grade
            server.write_settings(folder / "settings", chat="wise", requests=1, key_env=None)
            assailant.set_variable(durable.ENDPOINTS_ENV, (folder / "settings" / "endpoints.toml").read_text())
        if "store load" in names:
            assailant.set_variable(durable.STORES_ENV, stack.enter_context(pg_server()).toml())
            assailant.set_variable(PASSWORD_ENV, PASSWORD)
        for name in names:
            began = time.monotonic()
            report = assailant.ask("kill", name, folder / name.replace(" ", "_"), args.kills, SEED)
            fields = [report[field] for field in ("kills", "lives", "lost", "again", "redone")]
            rows.append([TITLES[name], *map(str, fields), str(len(report["other"])), f"{time.monotonic() - began:.0f}"])
            print(rows[-1], flush=True)
    unmet = [row[0] for row in rows if any(cell != "0" for cell in (row[3], row[4], row[6]))]
    write_page(
        args,
        "kills",
        "Work that is killed at random moments",
        f"{machine(('torch',))}; seed {SEED}.",
        table(HEAD, rows, "lr"),
        "Lost: pieces that had been acknowledged and that the next reader did not find. Done again though kept: of "
        "these, what a later process computed again. Begun again: pieces in flight at a kill. Other results: runs that "
        "went on to their end and gave another result than an undisturbed one.",
        f"Not as it should be: {', '.join(unmet) or 'nothing'}.",
    )


if __name__ == "__main__":
    main()
