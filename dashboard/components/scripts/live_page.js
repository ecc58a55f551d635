// A page without a server: the frontier of a corpus with its budget, a wall of queries, and one query's tiles and lists.

import { mount as mountLists } from "./lists.js";
import { LiveFrontier } from "./live_frontier.js";
import { Answers, hub, listen, make, packedAnswers, path, setting } from "./parts.js";
import { mount as mountTiles } from "./tiles.js";
import { mount as mountVerdict } from "./verdict.js";
import { Wall } from "./wall.js";

const darkness = matchMedia("(prefers-color-scheme: dark)");

// Names and positions of sliders are stored once for all answers.
function restore({ names, tooltips, stops }, packed) {
  const full = { ...packed, tooltips, names: packed.rows.map((row) => names[row]) };
  if (packed.stops !== undefined) full.stops = stops[packed.stops];
  return full;
}

class LivePage {
  constructor(root, data) {
    this.data = data;
    for (const [key, packed] of Object.entries(data.answers)) packedAnswers.set(key, restore(data, packed));
    this.queries = data.queries.map((query) => ({ ...query, tiles: this.restoreTiles(query.tiles) }));
    this.current = 0;
    this.makeParts(root);
    listen("settings", (settings) => this.follow(settings));
    darkness.addEventListener("change", () => this.updateVerdict());
    this.open(0);
    // The paths of the other queries are unpacked while nobody waits, before the first drag asks for all of them.
    const keys = [...packedAnswers.keys()], unpack = () => {
      if (!keys.length) return;
      path(keys.shift());
      setTimeout(unpack);
    };
    setTimeout(unpack, 200);
  }

  restoreTiles(tiles) {
    const decoders = tiles.decoders.map((decoder) => ({
      ...decoder,
      now: restore(this.data, decoder.now),
      sliders: decoder.sliders.map((slider) => ({ ...slider, stops: this.data.stops[slider.stops] })),
    }));
    return { ...tiles, base: tiles.base && restore(this.data, tiles.base), decoders };
  }

  makeParts(root) {
    const { frontier } = this.data;
    if (frontier) this.makeFrontier(make(root, "section", "all", { "aria-label": "All labelled queries" }));
    const wall = make(root, "section", "", { "aria-label": "Wall of queries" });
    this.reading = make(wall, "p", "note");
    this.wall = new Wall(wall, "Queries", this.queries.map(({ text }) => text), (position) => this.open(position));
    const one = make(root, "section", "one", { "aria-label": "One query" });
    const heading = make(one, "div", "heading");
    this.heading = make(heading, "h2", "", { "aria-live": "polite" });
    for (const [step, text] of this.queries.length > 1 ? [[-1, "Previous"], [1, "Next"]] : []) {
      const button = make(heading, "button", "step", { type: "button", text });
      button.onclick = () => this.step(step);
    }
    // Each view has a root of its own, as their style sheets use the same names.
    const [tiles, lists] = ["tiles", "lists"].map((name) => make(one, "div", name).attachShadow({ mode: "open" }));
    this.tiles = mountTiles(tiles);
    this.lists = mountLists(lists);
  }

  makeFrontier(section) {
    const { frontier } = this.data, { verdict } = frontier;
    const [headline, choices] = ["headline", "choices"].map((part) => ({ part, host: document.createElement("div") }));
    if (verdict) section.append(headline.host);
    const row = make(section, "div", "sides"), left = make(row, "div");
    this.frontier = new LiveFrontier(left, frontier, { setTriggerValue() {} });
    this.reached = make(left, "p", "reached");
    const right = make(row, "div");
    if (verdict) right.append(choices.host);
    for (const note of frontier.notes) make(right, "p", "note", { text: note });
    this.verdicts = (verdict ? [headline, choices] : []).map(({ part, host }) => ({ part, view: mountVerdict(host.attachShadow({ mode: "open" })) }));
    this.updateVerdict();
  }

  updateVerdict() {
    for (const { part, view } of this.verdicts ?? []) {
      const data = { ...this.data.frontier.verdict, part, dark: darkness.matches };
      view.update({ data, setTriggerValue: (_, label) => this.take(label) });
      const { level } = this.frontier;
      if (level) view.turn(level.value);
    }
  }

  // Set the slider of a decoder to a setting of the frontier.
  take(label) {
    const [key, value] = this.data.frontier.settings[label] ?? [];
    const tile = this.tiles.tiles.find((candidate) => candidate.given.key === key);
    if (tile?.sliders.length) this.tiles.take({ tile, slider: tile.sliders[0], value });
  }

  step(way) {
    const { length } = this.queries;
    this.open((this.current + way + length) % length);
  }

  open(position) {
    this.current = position;
    this.opened = null;
    const { text, tiles } = this.queries[position];
    this.heading.textContent = text;
    this.heading.title = text;
    this.wall.mark(position);
    this.updateLists();
    // A slider that was moved stays where it is.
    this.tiles.update({
      data: tiles,
      setStateValue() {},
      setTriggerValue: (name, way) => name === "stepped" && this.step(way),
    });
  }

  updateLists() {
    const { tiles } = this.queries[this.current];
    this.lists.update({
      data: { query: tiles.query, opened: this.opened, votes: null },
      setTriggerValue: (name, { row }) => {
        if (name !== "opened") return;
        // A document is marked in all lists; a second click ends that.
        this.opened = row === this.opened ? null : row;
        this.updateLists();
      },
    });
  }

  // Wall and frontier follow the sliders, in the frame in which one has moved.
  follow({ tiles, touched }) {
    const { key, title } = touched.given, [slider] = touched.sliders, value = slider?.value;
    const sets = this.queries.map((query) => this.setOf(query, key, slider, value));
    const { k } = this.queries[this.current].tiles, of = slider ? `${title} · ${slider.given.symbol} ${setting(value)}` : title;
    this.reading.textContent = `Each square is a query: the similarities within its ${k} documents by ${of}, dark 0 to yellow 1. The number counts near-duplicate pairs.`;
    this.wall.draw(sets, k);
    if (!this.frontier) return;
    const values = Object.fromEntries(tiles.map(({ given, sliders: [first] }) => [given.key, first?.value ?? 0]));
    this.reached.textContent = this.frontier.turn(values, key);
  }

  setOf(query, key, slider, value) {
    const decoder = query.tiles.decoders.find((candidate) => candidate.key === key), [given] = decoder.sliders;
    // A decoder without a slider, and one that stands at its own setting, has the set that came with it.
    if (!slider || value === given.value) return (decoder.set ??= new Answers(decoder.now).of[0]);
    return path(given.urls[given.urls.length - 1])?.at(value);
  }
}

export const start = (root, data) => (hub.page = new LivePage(root, data));
