// The wall of Check-up: a square for each query, by the baseline or by a decoder, whose λ changes all squares at once.

import { counted, hub, make, need, number, path, setting, stage, styled } from "./parts.js";
import { Wall } from "./wall.js";

const EMPTY_CELL = 255, TOP_CELL = 254; // bytes: no pair, and a cosine of 1
const KEY_PAUSE_MS = 90; // after a key press, before the server is told: more may follow
const RELEASE_EVENTS = ["pointerup", "pointercancel"];

// Halves are rounded to even numbers, as in the server's sentence.
function percent(share) {
  const exact = 100 * share, whole = Math.round(exact);
  return `${exact % 1 === 0.5 && whole % 2 ? whole - 1 : whole}%`;
}

// A set of documents as the wall draws it. first: of its cells, a byte for each pair of ranks.
class PackedSet {
  constructor({ cells, size, pairs, groups, ilad, found, off, strayed }, index) {
    this.cells = cells;
    this.pairs = (size * (size - 1)) / 2;
    this.first = index * this.pairs;
    this.duplicates = pairs[index];
    this.nGroups = groups[index];
    this.diversity = ilad[index];
    this.found = found[index];
    this.offTopic = off[index]; // null where no floor of relevance is known
    this.strayed = strayed[index];
    let n = size;
    // Pads stand behind a set's documents: the cell of its last rank with the first one tells if there is such a rank.
    while (n > 1 && cells[this.first + ((n - 1) * (n - 2)) / 2] === EMPTY_CELL) n--;
    this.ids = { length: n };
  }

  cosine(i, j) {
    const [high, low] = i > j ? [i, j] : [j, i];
    return this.cells[this.first + (high * (high - 1)) / 2 + low] / TOP_CELL;
  }
}

function unpack(packed, size) {
  const figures = { ...packed, size, cells: Uint8Array.from(atob(packed.cells), (character) => character.charCodeAt(0)) };
  return packed.pairs.map((_, index) => new PackedSet(figures, index));
}

// The sets of some queries along a slider: for each query the set at each position.
class WallPart {
  constructor(packed, size) {
    const sets = unpack(packed, size);
    let first = 0;
    this.sets = packed.which.map((which, query) => {
      const own = sets.slice(first, (first += packed.counts[query]));
      return which.map((index) => own[index]);
    });
  }
}

class CheckUp {
  constructor(parent) {
    this.root = document.createElement("div");
    this.root.className = "scrub check-up";
    styled(parent, "scrub.css", this.root);
    const controls = (this.controls = make(this.root, "div", "controls"));
    make(controls, "span", "label", { text: "Show", "aria-hidden": true });
    const states = make(controls, "div", "states", { role: "group", "aria-label": "Results that the wall shows" });
    [this.before, this.after] = [false, true].map((shown) => {
      const button = make(states, "button", "", { type: "button", title: "Key w", "aria-keyshortcuts": "w" });
      button.onclick = () => this.show(shown);
      return button;
    });
    this.sign = make(this.after, "i", "", { "aria-hidden": true });
    this.named = make(this.after, "span");
    this.value = make(this.after, "span", "value");
    this.compared = make(controls, "label", "label", { text: "Decoder " });
    this.choice = make(this.compared, "select", "", { title: "The decoder that the wall is compared with, whose slider is beside" });
    this.choice.onchange = () => this.choose(this.choice.value);
    const slider = (this.slider = make(controls, "div", "slider"));
    this.plot = make(slider, "div", "plot");
    this.curves = make(this.plot, "svg", "curves", { viewBox: "0 0 1000 100", preserveAspectRatio: "none", "aria-hidden": true });
    this.cursor = make(this.plot, "i", "cursor");
    this.hatch = make(slider, "div", "offtopic", { "aria-hidden": true });
    this.input = make(slider, "input", "", { type: "range", min: 0, step: 1 });
    this.input.addEventListener("input", () => this.move(this.input.valueAsNumber));
    this.input.addEventListener("change", () => this.commit());
    this.input.addEventListener("pointerdown", () => this.root.classList.add("held"));
    const line = make(this.root, "div", "line");
    this.figure = make(line, "p", "figure", { role: "status" });
    // How the picture is read is asked for once, and stands in nobody's way after that.
    this.ask = make(line, "button", "ask", { type: "button", text: "?", title: "How to read the wall", "aria-label": "How to read the wall", "aria-expanded": false });
    this.note = make(this.root, "p", "note", { hidden: true });
    this.ask.onclick = () => this.ask.setAttribute("aria-expanded", !(this.note.hidden = !this.note.hidden));
    this.caption = make(this.root, "p", "caption");
    this.keys = (event) => this.key(event);
    stage.addEventListener("keydown", this.keys);
    this.free = () => this.root.classList.remove("held");
    for (const end of RELEASE_EVENTS) addEventListener(end, this.free);
    this.values = {};
    this.serial = Date.now(); // above those of a view that stood here before
    this.reported = 0;
  }

  update(component) {
    this.component = component;
    const data = (this.data = component.data), isOther = data.version !== this.version;
    if (isOther) {
      this.version = data.version;
      this.base = unpack(data.base, data.size);
      this.baseCounts = this.count(this.base);
      this.wall?.end();
      this.wall = new Wall(this.root, "Similarities within each query's results, the most redundant first", data.titles, (position) => this.open(position));
    }
    this.wall.mark(data.current);
    // A setting that was changed elsewhere is taken over; one that is held, or that the server has yet to answer, stays.
    const isSettled = data.serial >= this.reported;
    for (const { key, value } of data.decoders) if (isOther || (isSettled && this.sent[key] !== value)) this.values[key] = value;
    if (isOther || isSettled) this.sent = Object.fromEntries(data.decoders.map(({ key, value }) => [key, value]));
    const names = data.decoders.map(({ key }) => key).join();
    if (isOther || names !== this.names) {
      this.names = names;
      this.shown = data.shown;
      this.choice.textContent = "";
      for (const { key, title } of data.decoders) make(this.choice, "option", "", { value: key, text: title });
      this.chosen = data.decoder;
    }
    this.compared.hidden = data.decoders.length < 2;
    this.controls.hidden = !data.decoders.length;
    if (data.address) history.replaceState(history.state, "", `${location.pathname}?${data.address}`);
    this.select();
  }

  // The decoder whose sets the wall can show, undefined if none can be chosen.
  get decoder() {
    return this.data.decoders.find(({ key }) => key === this.chosen);
  }

  choose(key) {
    this.chosen = key;
    this.select();
    this.commit();
  }

  select() {
    const { decoder } = this;
    need(this, decoder ? decoder.urls : []);
    const wanted = decoder && [this.version, ...decoder.urls].join();
    if (wanted !== this.wanted || !this.sets) {
      this.wanted = wanted;
      this.sets = this.counts = null;
    }
    if (decoder) {
      this.choice.value = decoder.key;
      this.root.style.setProperty("--light", decoder.light);
      this.root.style.setProperty("--dark", decoder.dark);
      this.input.setAttribute("aria-label", `${decoder.title} ${decoder.symbol} of all queries`);
      this.input.title = decoder.help;
      this.input.max = decoder.stops.length - 1;
      // A number that grew would move the slider beside it, under the pointer.
      this.value.style.width = `${Math.max(...decoder.stops.map((stop) => setting(stop).length))}ch`;
      if (!this.sets) this.arrive();
    }
    this.want();
  }

  // Each part of the queries is requested once the part before has arrived, so that other sliders are answered between.
  arrive() {
    const { decoder } = this, parts = [], { size, titles } = this.data;
    this.failed = "";
    for (const url of decoder.urls) {
      const build = (packed) => new WallPart(packed, size);
      const onFailure = () => decoder === this.decoder && ((this.failed = "Not every λ could be computed"), this.want());
      const part = path(url, () => decoder === this.decoder && (this.arrive(), this.want()), { build, onFailure });
      if (!part) break;
      parts.push(part);
    }
    this.nComputed = parts.reduce((sum, part) => sum + part.sets.length, 0);
    if (this.nComputed < titles.length) return;
    const sets = parts.flatMap((part) => part.sets);
    // At each position: the sets of all queries, how many of them hold near-duplicates, and the pairs of these.
    this.sets = decoder.stops.map((_, position) => sets.map((along) => along[position]));
    this.counts = this.sets.map((at) => this.count(at));
    this.drawCurve();
  }

  // Recall and documents off-topic are means over the queries that have judgements, or a floor of relevance.
  count(sets) {
    const { judged } = this.data, mean = (values) => (values.length ? values.reduce((sum, value) => sum + value, 0) / values.length : null);
    const withFloor = sets.filter(({ offTopic }) => offTopic !== null);
    return {
      share: sets.filter(({ duplicates }) => duplicates).length / sets.length,
      pairs: sets.reduce((sum, { duplicates }) => sum + duplicates, 0),
      offTopic: mean(withFloor.map(({ offTopic }) => offTopic)),
      strayed: mean(withFloor.map(({ strayed }) => strayed)),
      diversity: mean(sets.flatMap(({ diversity }) => diversity ?? [])),
      recall: mean(sets.flatMap(({ found }, query) => (judged[query] ? [found / judged[query]] : []))),
    };
  }

  // What the sets cost in words, beside those of the baseline: facts as [what is emphasised, the rest].
  costs(before, counts) {
    const facts = [];
    if (counts.offTopic !== null) facts.push([`${number(before.offTopic, 1)} → ${number(counts.offTopic, 1)}`, ` of the top ${this.data.size} off-topic, on average`]);
    // Of no relevant document found, none can be kept.
    if (before.recall) facts.push([percent(counts.recall / before.recall), " of Recall kept"]);
    return facts;
  }

  // The position of the slider that is nearest to the decoder's setting.
  get position() {
    const { stops } = this.decoder, value = this.values[this.chosen];
    return stops.reduce((best, stop, i) => (Math.abs(stop - value) < Math.abs(stops[best] - value) ? i : best), 0);
  }

  move(position) {
    this.values[this.chosen] = this.decoder.stops[position];
    this.shown = true;
    this.want();
  }

  show(shown) {
    this.shown = shown && Boolean(this.decoder);
    this.want();
    this.commit(KEY_PAUSE_MS);
  }

  // w switches between the two states.
  key(event) {
    const from = event.composedPath()[0];
    if (/^(text|search|number|textarea|select-one)$/.test(from.type) || from.isContentEditable || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key !== "w" || !this.decoder) return;
    event.preventDefault();
    this.show(!this.shown);
  }

  want() {
    this.asked ??= requestAnimationFrame(() => {
      this.asked = null;
      const from = performance.now();
      this.draw();
      hub.log?.push({ at: from, took: performance.now() - from, changed: true });
    });
  }

  draw() {
    const { decoder, data, root } = this, isAfter = Boolean(this.shown && decoder), known = this.sets;
    this.before.textContent = data.baseTitle;
    this.caption.textContent = data.caption;
    this.before.setAttribute("aria-pressed", !isAfter);
    this.after.setAttribute("aria-pressed", isAfter);
    root.classList.toggle("computing", isAfter && !known);
    this.figure.setAttribute("aria-live", root.classList.contains("held") ? "off" : "polite");
    if (!decoder) return this.drawBefore();
    const { position } = this, stop = decoder.stops[position], share = position / Math.max(1, decoder.stops.length - 1);
    const written = `${decoder.symbol} ${setting(stop)}`;
    this.named.textContent = `${decoder.title} ${decoder.symbol} `;
    this.sign.textContent = `${decoder.sign} `;
    this.value.textContent = setting(stop);
    this.input.value = position;
    this.input.disabled = !known;
    this.slider.classList.toggle("waiting", !known);
    this.input.style.setProperty("--at", share);
    this.cursor.style.left = `${100 * share}%`;
    const counts = this.counts?.[position], costs = counts ? this.costs(this.baseCounts, counts) : [];
    const progress = this.nComputed ? `: ${this.nComputed} of ${data.titles.length} queries` : "";
    const origin = known ? decoder.note : this.failed || `Computing every ${decoder.symbol}${progress}`;
    // What is waited for, or could not be had, is said without being asked for.
    if (!known) this.caption.textContent = `${data.caption} ${origin}.`;
    const ground = known ? ` Above the slider: share of queries with near-duplicates${this.hatchText}.` : "";
    this.note.textContent = `${data.legend}${this.describeDiversity(isAfter ? counts : null)}${ground} ${origin}.`;
    const costText = costs.map((fact) => `, ${fact.join("")}`).join("");
    this.input.setAttribute("aria-valuetext", counts ? `${setting(stop)}: ${percent(counts.share)} of queries hold near-duplicates${costText}` : "computing");
    if (!isAfter || !known) return this.drawBefore();
    this.wall.draw(known[position], data.size);
    const before = this.baseCounts, whole = (count) => count.toLocaleString("en");
    this.figure.textContent = "";
    make(this.figure, "b", "", { text: `${percent(before.share)} → ${percent(counts.share)}` });
    this.figure.append(` of ${counted(data.titles.length, "query", "queries")} hold near-duplicates`);
    for (const [figure, rest] of costs) {
      this.figure.append(" · ");
      make(this.figure, "b", "", { text: figure });
      this.figure.append(rest);
    }
    this.figure.append(` · ${whole(before.pairs)} → ${whole(counts.pairs)} pairs · ${data.baseTitle} → ${decoder.title} ${written}`);
  }

  // The mean diversity of the sets that are shown, after the baseline's where the two differ as they are printed.
  describeDiversity(counts) {
    const { randomDiversity } = this.data, { diversity } = this.baseCounts;
    if (diversity === null || randomDiversity === null) return "";
    const [before, after] = [diversity, counts?.diversity ?? diversity].map((value) => number(value, 2));
    const over = `of the top ${this.data.size}, on average over ${counted(this.data.titles.length, "query", "queries")}`;
    return ` Diversity (ILAD) ${over}: ${before === after ? before : `${before} → ${after}`}; of two random documents: ${number(randomDiversity, 2)}.`;
  }

  drawBefore() {
    if (!this.decoder) this.note.textContent = this.data.legend + this.describeDiversity(null);
    this.wall.draw(this.base, this.data.size);
    if (this.figure.textContent === this.data.headline) return;
    this.figure.textContent = "";
    make(this.figure, "b", "sentence", { text: this.data.headline });
  }

  // The share of queries with near-duplicates along the slider.
  drawCurve() {
    this.curves.textContent = "";
    const last = Math.max(1, this.counts.length - 1);
    const line = this.counts.map(({ share }, i) => `${i ? "L" : "M"}${((1000 * i) / last).toFixed(1)},${(100 - 96 * share).toFixed(1)}`).join("");
    make(this.curves, "path", "area", { d: `${line}V100H0Z` });
    make(this.curves, "path", "diversity", { d: line });
    // The track is hatched where the mean relevance of most sets is below the floor.
    this.hatch.textContent = "";
    const isHatched = this.counts.map(({ strayed }) => strayed > 0.5);
    isHatched.forEach((hatched, i) => {
      const start = Math.max(0, i - 0.5) / last, end = Math.min(last, i + 0.5) / last;
      if (hatched) make(this.hatch, "i", "", { style: `left:${100 * start}%;width:${100 * (end - start)}%` });
    });
    const hatchText = (this.hatchText = isHatched.includes(true) ? "; hatched: the mean relevance of most sets is below that of the 5% most relevant documents" : "");
    this.plot.title = `Share of queries with near-duplicates along ${this.decoder.symbol}, ${counted(this.counts.length, "position")}${hatchText}`;
  }

  // Tell the server which state and setting stand: it sets the decoder, for the query that is opened next.
  commit(pause = 0) {
    clearTimeout(this.waiting);
    this.waiting = setTimeout(() => this.report(), pause);
  }

  report() {
    clearTimeout(this.waiting);
    this.waiting = null;
    if (!this.decoder) return;
    // A setting between two positions stays while its slider is not moved.
    const value = (this.sent[this.chosen] = this.values[this.chosen]);
    // The number makes each report a change, which the server is told of.
    this.reported = ++this.serial;
    this.component.setStateValue("released", { serial: this.reported, decoder: this.chosen, value, shown: Boolean(this.shown) });
  }

  open(position) {
    // A report that waits goes first.
    if (this.waiting) this.report();
    this.component.setTriggerValue("clicked", position);
  }

  end() {
    need(this, []);
    stage.removeEventListener("keydown", this.keys);
    for (const end of RELEASE_EVENTS) removeEventListener(end, this.free);
    cancelAnimationFrame(this.asked);
    clearTimeout(this.waiting);
    this.wall?.end();
    this.root.remove();
  }
}

export const mount = (parent) => new CheckUp(parent);
