"""Several at work in one home, of whom one is killed: two servers that take votes, three judges of the same pairs."""

import asyncio
import json
import random
import time
import urllib.error
import urllib.request
from collections import deque
from contextlib import suppress

import pytest
from websockets.exceptions import WebSocketException

from dashboard.services import corpora, feedback
from support import warm_home
from support.browser import Server
from support.fork_server import fork_python
from support.patience import patient
from support.visitors import Visitor

N_TURNS = 3
JUDGED_PAIRS = [(f"q{query}", f"d{document}") for query in range(4) for document in range(6)]
JUDGE = """
import json, sys
from engine.judging.log import JudgingLog
path, person, chosen = sys.argv[1:]
log = JudgingLog(path)
for (query, document), grade in json.loads(chosen):
    log.judge(query, document, grade, person)
    print("kept", flush=True)
"""


def choose_grades(person):
    """Return a person's judgements in order: of each pair four times, so that people change their minds."""
    chance = random.Random(person)
    return [(pair, chance.randrange(4)) for _ in range(4) for pair in chance.sample(JUDGED_PAIRS, len(JUDGED_PAIRS))]


@pytest.mark.threat(
    "three judges of the same pairs at once, one of whom is killed",
    "every grade that was acknowledged is there under its judge's name, the last of each pair; none is another's",
)
def test_three_judges_at_once_keep_each_their_grades(tmp_path):
    from engine.judging.log import JudgingLog

    path, killed, n_before_the_kill = tmp_path / "judged.sqlite", "cleo", 17
    judges = {
        name: fork_python("-c", JUDGE, str(path), name, json.dumps(choose_grades(name)))
        for name in ("ana", "ben", killed)
    }
    for _ in range(n_before_the_kill):
        assert judges[killed].stdout.readline() == "kept\n", judges[killed].stderr.read()
    judges[killed].kill()
    n_kept = {name: len(list(judge.stdout)) for name, judge in judges.items()}
    for name, judge in judges.items():
        assert name == killed or judge.wait() == 0, judge.stderr.read()
    n_kept[killed] += n_before_the_kill

    grades = JudgingLog(path).read().grades
    for name, count in n_kept.items():
        chosen = choose_grades(name)
        read = {pair: people[name] for pair, people in grades.items() if name in people}
        # What was in flight at the kill is there or not; nobody was told.
        assert read in [dict(chosen[: count + in_flight]) for in_flight in range(1 + (name == killed))]
    assert n_kept["ana"] == n_kept["ben"] == 4 * len(JUDGED_PAIRS) > n_kept[killed]


def start_loaded(home):
    """Start a server and wait until it has loaded the demo."""
    server = Server(home)
    for _ in range(int(patient(600))):
        # It answers 503 until then.
        with suppress(urllib.error.HTTPError):
            urllib.request.urlopen(f"{server.url}/healthz").close()
            return server
        time.sleep(0.1)
    server.process.kill()
    raise AssertionError("the server never loaded the demo")


async def vote_on(server, number, acknowledged):
    """Open a page and vote until the server is gone."""
    visitor = Visitor()
    try:
        async with visitor.open(server.url):
            for _ in range(8):
                await visitor.vote()
                acknowledged[number] = visitor.votes
    except (OSError, WebSocketException):
        pass  # the server was killed
    assert not visitor.errors
    return visitor.voted_rows


async def vote_and_kill(servers, after):
    """Have two visitors of each server vote, kill the first server in the meantime; returns votes kept, and tried."""
    acknowledged = {}
    visits = [
        asyncio.create_task(vote_on(server, (name, number), acknowledged))
        for name, server in enumerate(servers)
        for number in range(2)
    ]
    while sum(votes for (name, _), votes in acknowledged.items() if name == 0) < after:
        await asyncio.sleep(0.01)
        assert not all(visit.done() for visit in visits)
    servers[0].process.kill()
    return acknowledged, await asyncio.gather(*visits)


@pytest.mark.deep
@pytest.mark.threat(
    "two servers on one home, one of which is killed again and again while people vote on both",
    "every vote that a page showed is in the log, the other server goes on, and a new one begins with all of them",
)
def test_votes_on_two_servers_survive_the_kills_of_one(tmp_path, monkeypatch):
    home = warm_home.copy(tmp_path / "home")
    monkeypatch.setenv("FRONTIER_HOME", str(home))
    servers, n_acknowledged, n_tried = deque([start_loaded(home), start_loaded(home)]), 0, 0
    try:
        for turn in range(N_TURNS):
            acknowledged, tried = asyncio.run(vote_and_kill(servers, after=2 * turn + 1))
            n_acknowledged += sum(acknowledged.values())
            n_tried += sum(tried)
            servers[0].process.wait()
            assert servers[1].answers()
            servers[0] = start_loaded(home)
            servers.rotate(1)
        assert n_tried > n_acknowledged > 2 * 8 * N_TURNS
        job = corpora.get_loading_job()
        job.join()
        assert n_acknowledged <= feedback.count_events(job.result) <= n_tried
    finally:
        for server in servers:
            printed = server.close() if server.process.poll() is None else ""
            assert "Traceback" not in printed
