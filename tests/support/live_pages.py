"""Live pages for tests: small ones of toy problems, and the data that a page holds."""

import json
from html.parser import HTMLParser

import engine
from dashboard.live.page import LiveContent, build_live_page
from support.sweeps import toy

K = 5


class Parts(HTMLParser):
    """The elements of a page with their attributes, and the texts of its scripts by type."""

    def __init__(self, page):
        super().__init__()
        self.elements, self.scripts, self.texts, self._open = [], {}, [], None
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        self._open = dict(attributes).get("type") if tag == "script" else None

    def handle_data(self, text):
        if self._open:
            self.scripts[self._open] = self.scripts.get(self._open, "") + text
        else:
            self.texts.append(text)

    def handle_endtag(self, tag):
        self._open = None

    @property
    def data(self):
        return json.loads(self.scripts["application/json"])


def toy_content(*selectors, n_queries=3, **options):
    """A toy problem of 40 queries, some of which can be opened."""
    space, queries, qrels = toy(batch=40)
    qrels = engine.Qrels({query: grades for query, grades in qrels.grades.items() if any(grades.values())})
    decoders = [engine.Decoder(engine.make(name)) for name in selectors or ("top_k", "mmr")]
    chosen = queries.take(range(n_queries))
    given = {"space": space, "queries": chosen, "decoders": decoders, "qrels": qrels, "judged": queries, "k": K}
    return LiveContent(**given | options)


def build_toy(*selectors, **options):
    return build_live_page(toy_content(*selectors, **options))
