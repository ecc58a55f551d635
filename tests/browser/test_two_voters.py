"""Two people who vote on one corpus at once: every vote is kept, and each page says what came of both."""

import contextlib
from collections import Counter

import pytest

from engine import orag
from support import warm_home
from support.browser import MARKS, ROOTS, WAIT, Server, idle, open_page, settle, until
from support.draws import deepen

pytestmark = MARKS
THUMBS = f"""kind => [{ROOTS}.flatMap(root => [...root.querySelectorAll('.list')])[0]].flatMap(list =>
    [...list.querySelectorAll('.document[data-rank] .votes button')].filter(button => button.title === kind)
        .map(button => [button.ariaLabel, button.ariaPressed === 'true']))"""
"""The thumbs of a kind in the first list: what they are called, and whether they are pressed."""
PRESS = f"""label => {ROOTS}.flatMap(root => [...root.querySelectorAll('.votes button')])
    .find(button => button.ariaLabel === label).click()"""
A_QUERY = 5
"""Votes that a person gives to one query before the next."""


class Voter:
    """A person who votes on the first documents of query after query, in one direction."""

    def __init__(self, browser, url, kind):
        self.page, self.kind, self.asked = open_page(browser, f"{url}/?v=1&decoders=top_k"), kind, None
        self.given = self.here = 0
        settle(self.page)
        self.page.locator(".st-key-header-corpus button").first.click()
        self.page.get_by_test_id("stPopoverBody").get_by_text("Apply votes").click()
        self.page.keyboard.press("Escape")
        until(self.page, self.thumbs)

    def thumbs(self):
        return self.page.evaluate(THUMBS, self.kind)

    def find_unpressed(self):
        """Return the first thumb that is not pressed."""
        return next(label for label, pressed in self.thumbs() if not pressed)

    def ask(self):
        """Press a thumb without waiting for its effect."""
        if self.here == A_QUERY:
            self.step()
        self.asked = self.find_unpressed()
        self.page.evaluate(PRESS, self.asked)

    def step(self):
        """Go to the next query, which has no votes yet."""
        first_thumbs, self.here = self.thumbs(), 0
        self.page.keyboard.press("j")
        until(
            self.page, lambda: self.thumbs() and {label for label, _ in self.thumbs()} != {a for a, _ in first_thumbs}
        )
        idle(self.page)

    def hear(self):
        """Wait until the page shows the vote, or that it has moved the document out of the list."""
        until(self.page, lambda: dict(self.thumbs()).get(self.asked, True))
        idle(self.page)
        self.given, self.here = self.given + 1, self.here + 1

    def wait_for_count(self, count):
        """Wait until the page shows the number of votes behind its answers."""
        self.page.get_by_text(f"{count:,} vote" + "s" * (count != 1), exact=True).first.wait_for(timeout=WAIT)
        assert self.page.get_by_test_id("stException").count() == 0


@pytest.mark.threat(
    "two browsers that vote on the same documents at the same time, at one server or at two of one home",
    "every vote that a page shows is in the log, each counts once, and both pages say of how many their answers are",
)
@pytest.mark.parametrize(
    ("votes", "servers"),
    [*deepen([(2, 1), (4, 2)], [(4, 2)]), *(pytest.param(100, n, marks=pytest.mark.slow) for n in (1, 2))],
)
def test_two_voters_lose_nothing_and_are_told(browser, warm, tmp_path, demo, votes, servers):
    home = warm_home.copy(tmp_path / "home")
    with contextlib.ExitStack() as stack:
        urls = [stack.enter_context(contextlib.closing(Server(home))).url for _ in range(servers)]
        voters = [Voter(browser, urls[-index], kind) for index, kind in enumerate(("More like this", "Less like this"))]
        for turn in range(votes):
            for voter in voters:
                voter.ask()
            for voter in voters:
                voter.hear()
            if turn == votes // 2:
                voters[0].step()  # a page that runs again says what others did meanwhile
                voters[0].wait_for_count(2 * (turn + 1))
        for voter in voters:
            voter.step()
            voter.wait_for_count(2 * votes)
            voter.page.context.close()
    (file,) = (home / "feedback").glob("*.sqlite")
    session, notices = orag.load(file, demo[1])
    assert notices == () and len(session.effective_events) == len(session.events) == 2 * votes
    assert sorted(Counter(event.person for event in session.events).values()) == [votes, votes]
    assert all(len({e.good for e in session.events if e.person == p}) == 1 for p in {e.person for e in session.events})
