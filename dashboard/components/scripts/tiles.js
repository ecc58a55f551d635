// A tile for each decoder: sliders with their effects, figures and redundancy; beside them the query's own frontier.

import {
  Answers, MIN_RELEVANCE_SHARE, announce, changed, counted, findAtDiversity, findMostDiverse, hub, inside, isOnTopic, make, nearest, need, number, path, setting,
  stage, styled, thumbnail,
} from "./parts.js";

const RELEASE_EVENTS = ["pointerup", "pointercancel"];
const STACKED_BELOW_PX = [720, 720, 950, 1190]; // widths up to which the trade-off is below one, two, three, or more tiles
const LEVEL_STEPS = 200; // of the handle of equal diversity
const LEVEL_THUMB_PX = 16;
const MIN_LABEL_PX = 28, LABEL_GAP_PX = 6; // of the names of the ends of an axis
const KEY_PAUSE_MS = 90; // after a key press, before the server is told: more may follow
const STEPS_WITHIN_MS = 10000; // after which a query that was stepped to is no longer waited for

// The query that people have stepped to: the position of the one shown, and of the one that the server was asked for and
// has not drawn yet. It outlives tiles, which are gone for a moment while a page is drawn anew: a key counts then too.
const steps = { shown: null, target: null, at: 0, count: 0, isTold: true, forget: () => {} };
const STEPS = { j: 1, k: -1 };

// From which cosine on two documents of a set are near-duplicates, without the zeros of a rounder limit.
const limitOf = (set) => `cosine ≥ ${number(set.answers.packed.duplicate, 4).replace(/0{1,2}$/, "")}`;

// Aim at the query beside the one that is shown or on its way.
function aim(way) {
  if (performance.now() > steps.at + STEPS_WITHIN_MS) steps.target = null;
  const from = steps.target ?? steps.shown;
  if (from !== null) Object.assign(steps, { target: from + way, at: performance.now(), isTold: false });
}

// Return true for a key that is typed into a field, or that the browser takes.
function isTyped(event) {
  const from = event.composedPath()[0];
  return /^(text|search|number|textarea|select-one)$/.test(from.type) || from.isContentEditable || event.ctrlKey || event.metaKey;
}

class Slider {
  constructor(view, tile, parent, given) {
    Object.assign(this, { view, tile });
    const box = make(parent, "div", "slider");
    this.plot = make(box, "div", "plot");
    this.offTopic = make(box, "div", "offtopic", { "aria-hidden": true });
    this.curves = make(this.plot, "svg", "curves", { viewBox: "0 0 1000 100", preserveAspectRatio: "none", "aria-hidden": true });
    this.ghost = make(this.plot, "i", "cursor ghost");
    this.cursor = make(this.plot, "i", "cursor");
    this.input = make(box, "input", "", { type: "range", min: 0, step: 1 });
    this.input.addEventListener("input", () => this.move(this.stops[this.input.valueAsNumber]));
    this.input.addEventListener("change", () => view.commit());
    this.input.addEventListener("keydown", (event) => this.key(event));
    this.input.addEventListener("pointerdown", () => this.begin());
    this.input.addEventListener("dblclick", () => (this.move(this.given.standard), view.commit()));
    this.input.addEventListener("focus", () => view.touch(tile, this));
    this.update(given);
  }

  // Take the server's description of the slider; its answers are requested if their URLs are new.
  update(given) {
    this.given = given;
    this.input.setAttribute("aria-label", `${this.tile.title} ${given.symbol}`);
    this.input.title = given.help;
    this.known = undefined;
    this.arrive();
  }

  arrive() {
    // A large corpus answers with a part first, then with all: each URL is requested once the one before has arrived.
    let latest = null;
    for (const url of this.given.urls) {
      const next = path(url, () => (this.arrive(), this.view.want(true)));
      if (!next) break;
      latest = next;
    }
    if (latest === this.known) return;
    this.known = latest;
    // The same set is drawn anew: only now is it known if the slider is exact or sampled.
    this.tile.drawn = undefined;
    this.stops = latest?.stops ?? this.given.stops;
    this.input.max = this.stops.length - 1;
    this.shown = undefined;
    this.draw();
  }

  get value() {
    return this.tile.values[this.given.param];
  }

  // The position of a value along the slider, from 0 to 1.
  share(value) {
    const { stops } = this, last = stops.length - 1;
    if (!last) return 0.5;
    // Between two stops the position is interpolated, as stops may be unevenly spaced.
    const stop = nearest(stops, value), next = Math.min(last, Math.max(0, stop + Math.sign(value - stops[stop])));
    return (stop + (next === stop ? 0 : (Math.abs(value - stops[stop]) / Math.abs(stops[next] - stops[stop])) * (next - stop))) / last;
  }

  begin() {
    this.view.touch(this.tile, this);
    this.view.began = new Map(this.view.tiles.map((tile) => [tile, { ...tile.values }]));
    for (const slider of this.view.sliders()) slider.ghost.style.left = `${100 * slider.share(slider.value)}%`;
    this.view.root.classList.add("held");
  }

  move(value) {
    this.view.touch(this.tile, this);
    this.view.untold = this.view.isMoved = true;
    this.view.leaveLevel();
    this.tile.values[this.given.param] = value;
    this.view.want();
  }

  key(event) {
    const way = { ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1 }[event.key];
    const step = Math.max(1, Math.round((this.stops.length - 1) / 100));
    if (!way || step === 1 || event.shiftKey) return;
    event.preventDefault();
    const target = nearest(this.stops, this.value) + way * step;
    this.move(this.stops[Math.min(this.stops.length - 1, Math.max(0, target))]);
    this.view.commit(KEY_PAUSE_MS);
  }

  place() {
    const { value } = this;
    if (this.shown === value) return;
    this.shown = value;
    const share = this.share(value);
    this.input.value = nearest(this.stops, value);
    this.input.style.setProperty("--at", share);
    this.cursor.style.left = `${100 * share}%`;
  }

  // Draw the effect of the slider: each figure as a step function of its value.
  draw() {
    this.curves.textContent = this.offTopic.textContent = "";
    const answers = this.known, { judged, floor } = this.view.data;
    if (!answers) return;
    const across = (value) => (1000 * this.share(value)).toFixed(1);
    const height = (value) => (100 - 96 * Math.max(0, Math.min(1, value ?? 0))).toFixed(1);
    const step = (of) =>
      answers.pieces.map(({ set, from, to }, i) => `${i ? "L" : "M"}${across(from)},${height(of(set))}H${across(to)}`).join("");
    const diversity = step((set) => set.diversity);
    make(this.curves, "path", "area", { d: `${diversity}V100H0Z` });
    if (judged) make(this.curves, "path", "recall", { d: step((set) => set.found / judged) });
    else make(this.curves, "path", "relevance", { d: step((set) => set.relevance) });
    make(this.curves, "path", "diversity", { d: diversity });
    const { changes } = answers;
    make(this.curves, "path", "marks", { d: changes.map(({ from }) => `M${across(from)},94V100`).join("") });
    // The track is hatched where the set's mean relevance is below the floor.
    const spans = [];
    for (const { set, from, to } of answers.pieces) {
      if (isOnTopic(set.relevance, floor)) continue;
      if (spans.at(-1)?.to === from) spans.at(-1).to = to;
      else spans.push({ from, to });
    }
    for (const { from, to } of spans) {
      const left = this.share(from);
      make(this.offTopic, "i", "", { style: `left:${100 * left}%;width:${100 * (this.share(to) - left)}%` });
    }
    const hatched = spans.length ? " · hatched: mean relevance below that of the 5% most relevant documents" : "";
    const kind = answers.exact ? `every value exact, ${counted(changes.length + 1, "set")}` : `sampled at ${answers.stops.length} positions${answers.why && `: ${answers.why}`}`;
    this.plot.title = `Diversity (filled) and ${judged ? "Recall" : "relevance"} along ${this.given.symbol} · ${kind}${hatched}`;
    this.plot.dataset.kind = answers.exact ? "exact" : "sampled";
  }
}

class Tile {
  constructor(view, parent, given) {
    this.view = view;
    this.title = given.title;
    this.node = make(parent, "div", "tile", { role: "group", "aria-label": given.title, style: `--light:${given.light};--dark:${given.dark}` });
    const top = make(this.node, "header");
    this.sign = make(top, "i", "sign", { "aria-hidden": true });
    this.heading = make(top, "h3");
    this.state = make(top, "small");
    this.weights = make(top, "output", "weights");
    const body = make(this.node, "div", "body");
    const facts = make(body, "div", "facts");
    this.right = make(facts, "p", "right");
    this.figures = make(facts, "p", "figures");
    this.topic = make(facts, "p", "topic");
    this.thumb = make(body, "canvas", "thumb", { role: "img" });
    this.tracks = make(this.node, "div", "tracks");
    this.update(given);
  }

  update(given) {
    const values = Object.fromEntries(given.sliders.map((slider) => [slider.param, slider.value]));
    const [moved, ...others] = this.sliders?.filter((slider) => slider.value !== this.committed[slider.given.param]) ?? [];
    const answered = moved && !others.length && given.sliders.find(({ urls }) => urls.join() === moved.given.urls.join());
    const drawn = answered && answered.value === moved.value ? this.set : undefined;
    const fresh = !this.given || this.view.settled;
    Object.assign(this, { given, title: given.title, committed: values });
    if (fresh || Object.keys(values).some((name) => !(name in this.values))) this.values = { ...values };
    this.sign.textContent = given.sign;
    this.heading.textContent = given.title;
    this.heading.title = given.note;
    this.now = new Answers(given.now).of[0];
    // The engine's answer at the released value was drawn already from the slider's sets; a mark confirms that they agree.
    if (drawn && !given.error) {
      this.confirmed = String(drawn.rows) === String(this.now.rows);
      if (!this.confirmed && !moved.known?.within) console.error(`${given.title}: drawn is not what the engine answers`, values);
    }
    const shape = given.sliders.map((slider) => slider.param).join();
    if (shape === this.shape) this.sliders.forEach((slider, i) => slider.update(given.sliders[i]));
    else {
      this.tracks.textContent = "";
      this.sliders = given.sliders.map((slider) => new Slider(this.view, this, this.tracks, slider));
    }
    this.shape = shape;
    this.node.classList.toggle("failed", Boolean(given.error));
    this.node.classList.toggle("confirmed", Boolean(this.confirmed));
    this.node.classList.toggle("crowded", given.sliders.length > 1);
    this.drawn = undefined;
  }

  // The set at the values of the sliders; undefined while it is unknown.
  get set() {
    const moved = this.sliders.filter((slider) => slider.value !== this.committed[slider.given.param]);
    if (!moved.length) return this.now;
    return moved.length > 1 ? undefined : moved[0].known?.at(moved[0].value);
  }

  // Move the first slider to the best set with at least this diversity; without one the tile is grey, at its most diverse.
  reach(level) {
    const [slider] = this.sliders;
    if (this.given.baseline) return;
    for (const other of this.sliders) this.values[other.given.param] = this.committed[other.given.param];
    const pieces = slider?.known?.pieces ?? [], reached = findAtDiversity(pieces, level, slider?.given.isWeight);
    const isMoreDiverse = (best, piece) => ((piece.set.diversity ?? -1) > (best?.set.diversity ?? -1) ? piece : best);
    const piece = reached ?? pieces.reduce(isMoreDiverse, undefined);
    if (piece) this.values[slider.given.param] = piece.at ?? inside(piece.from, piece.to);
    this.node.classList.toggle("unreached", (this.set?.diversity ?? -1) < level - 1e-9);
  }

  // The origin of the set in words: exact, in steps (sampled), or searched among a part of the documents.
  get kind() {
    const sampled = this.sliders.filter((slider) => slider.known && !slider.known.exact).map((slider) => slider.given.symbol);
    const computed = this.sliders.filter((slider) => !slider.known).map((slider) => slider.given.symbol);
    if (computed.length) return `computing every ${computed.join(", ")}`;
    if (!this.sliders.length) return "";
    const within = this.sliders.map((slider) => slider.known?.within).find(Boolean);
    if (within) return this.sliders.some((slider) => slider.value !== this.committed[slider.given.param]) ? within : "";
    const exact = this.sliders.map((slider) => slider.given.symbol).filter((symbol) => !sampled.includes(symbol));
    const parts = [exact.length && `every ${exact.join(", ")} exact`, sampled.length && `${sampled.join(", ")} in steps`];
    return parts.filter(Boolean).join(" · ");
  }

  draw(base) {
    for (const slider of this.sliders) slider.place();
    const { set } = this, written = this.sliders.map((slider) => `${slider.given.symbol} ${setting(slider.value)}`).join("  ");
    if (this.written !== written) this.weights.textContent = this.written = written;
    if (this.drawn === set && set !== undefined && this.base === base) return false;
    this.base = base;
    this.drawn = set;
    this.node.classList.toggle("computing", set === undefined);
    this.node.classList.toggle("waiting", this.sliders.some((slider) => !slider.known));
    const { judged, k, floor } = this.view.data, short = set && set.ids.length < k;
    this.state.textContent = set === undefined ? "computing" : (this.given.error ?? [short && `returns ${set.ids.length} of ${k}`, this.kind].filter(Boolean).join(" · "));
    if (set === undefined) return true;
    const { unmeasured } = set.answers.packed;
    if (unmeasured) this.state.textContent += " · no diversity";
    this.state.title = unmeasured ?? "";
    const isCompared = !this.given.baseline, hasDots = judged && judged <= 5;
    this.right.hidden = !judged;
    if (judged) this.right.innerHTML = `<b>${hasDots ? "●".repeat(set.found) + "○".repeat(Math.max(0, judged - set.found)) : ""} ${set.found} of ${judged}</b> relevant`;
    const delta = (value, baseValue) => (isCompared && baseValue !== null && value !== null ? ` <span>${changed(value, baseValue, 2)}</span>` : "");
    this.figures.innerHTML =
      `<span title="Diversity (ILAD): mean of 1 − cosine over all pairs; 0 = all the same">Diversity <b>${number(set.diversity, 2)}</b>${delta(set.diversity, base.diversity)}</span>` +
      `<span title="Mean cosine of the set's documents with the query">Relevance <b>${number(set.relevance, 2)}</b>${delta(set.relevance, base.relevance)}</span>`;
    this.topic.hidden = floor === null;
    this.topic.innerHTML = `<b>${set.ids.length - set.onTopic(floor)} of ${set.ids.length}</b> off-topic`;
    this.topic.title = floor === null ? "" : `Documents with a relevance below ${number(floor)}, which 5% of the corpus reach, or 3·k documents where those are more, that are not judged relevant`;
    // A single document has no pairs, and a picture of them would be an empty box.
    this.thumb.hidden = !set.pairs;
    Object.assign(this.thumb, { width: k, height: k });
    thumbnail(this.thumb, set, k);
    this.thumb.ariaLabel = this.thumb.title = unmeasured || `${set.duplicates} of ${set.pairs} pairs are near-duplicates (${limitOf(set)})`;
    const summary = `${judged ? `${set.found} of ${judged} relevant, ` : ""}diversity ${number(set.diversity, 2)}, relevance ${number(set.relevance, 2)}`;
    for (const slider of this.sliders) slider.input.setAttribute("aria-valuetext", `${setting(slider.value)}: ${summary}`);
    return true;
  }
}

class Tiles {
  constructor(parent) {
    this.root = document.createElement("div");
    this.root.className = "scrub board";
    styled(parent, "scrub.css", this.root);
    this.skip = make(this.root, "button", "frontier-skip", { type: "button", text: "Skip to λ" });
    make(this.root, "h2", "hidden", { text: "Decoders" });
    const top = make(this.root, "div", "top");
    this.said = make(top, "p", "said", { role: "status" });
    this.all = make(top, "button", "advice", { type: "button", text: "See all queries" });
    this.all.onclick = () => this.component.setTriggerValue("stepped", 0);
    this.advice = make(top, "button", "advice", { type: "button" });
    this.advice.onclick = () => this.advised && this.take(this.advised);
    this.switch = make(this.root, "div", "switch", { role: "group", "aria-label": "Decoder" });
    const row = make(this.root, "div", "row");
    this.row = make(row, "div", "tiles");
    this.legend = make(this.root, "p", "reading");
    this.side = make(row, "aside", "side", { "aria-label": "Trade-off of this query" });
    this.front = make(this.side, "svg", "front", { role: "img" });
    const tools = make(this.side, "div", "tools");
    this.axis = make(tools, "button", "", { type: "button" });
    this.reached = make(tools, "output", "");
    this.axis.onclick = () => ((this.byRelevance = !this.byRelevance), this.frontier());
    this.level = null; // the diversity that all decoders are set to, null while each stands where it was put
    this.handle = make(this.side, "input", "handle", { type: "range", min: 0, max: LEVEL_STEPS, "aria-label": "Diversity of all decoders" });
    this.handle.title = "Drag: every decoder takes its most relevant set with at least this diversity";
    this.handle.addEventListener("input", () => this.setLevel((this.far * this.handle.valueAsNumber) / LEVEL_STEPS));
    this.handle.addEventListener("change", () => this.commit());
    this.side.insertBefore(this.handle, tools);
    // The page's first tab stop, as the navigation and the header have a dozen before λ. A notebook's page is not ours.
    if (hub.root) this.skip.remove();
    else document.body.prepend(this.skip);
    this.skip.onclick = () => this.sliders()[0]?.input.focus();
    this.tiles = [];
    this.serial = 0;
    steps.forget();
    this.address = location.pathname;
    this.keys = (event) => this.key(event);
    stage.addEventListener("keydown", this.keys);
    // The browser sends no change event for a drag that ends where it began.
    this.free = () => this.root.classList.contains("held") && (this.root.classList.remove("held"), this.commit());
    for (const end of RELEASE_EVENTS) addEventListener(end, this.free);
    this.sizes = new ResizeObserver(() => (this.stack(), this.frontier()));
    for (const part of [this.root, this.front]) this.sizes.observe(part);
  }

  // The trade-off is a strip below the tiles where both do not fit side by side, which depends on how many there are.
  stack() {
    const limit = STACKED_BELOW_PX[Math.min(this.tiles.length, STACKED_BELOW_PX.length) - 1] ?? 0;
    this.side.parentNode.classList.toggle("stacked", this.root.clientWidth <= limit);
  }

  // Set every decoder to its best set with at least this diversity, so that their relevance can be compared.
  setLevel(level) {
    this.level = level;
    this.untold = this.isMoved = true;
    for (const tile of this.tiles) tile.reach(level);
    this.want();
  }

  leaveLevel() {
    this.level = null;
    for (const tile of this.tiles) tile.node.classList.remove("unreached");
  }

  sliders() {
    return this.tiles.flatMap((tile) => tile.sliders);
  }

  update(component) {
    this.component = component;
    if (this.data?.query !== component.data.query) {
      this.leaveLevel();
      this.isMoved = false;
    }
    const data = (this.data = component.data);
    // Answers arrive late: while a newer value is held or on its way, the sliders stay where people put them.
    this.standing = data.base && new Answers(data.base).of[0];
    this.settled = data.serial >= this.serial && !this.untold;
    this.serial = Math.max(this.serial, data.serial);
    const shape = data.decoders.map((decoder) => decoder.key).join();
    if (shape === this.shape) this.tiles.forEach((tile, i) => tile.update(data.decoders[i]));
    else {
      this.shape = shape;
      this.row.textContent = this.switch.textContent = "";
      this.tiles = data.decoders.map((decoder) => new Tile(this, this.row, decoder));
      this.row.style.setProperty("--count", this.tiles.length);
      this.stack();
      for (const tile of this.tiles) {
        const button = make(this.switch, "button", "", { type: "button", text: `${tile.given.sign} ${tile.title}` });
        button.onclick = () => (this.touch(tile), this.want(true));
        tile.button = button;
      }
      this.touched = this.tiles.find((tile) => tile.title === this.touched?.title);
    }
    // The page names the decoder whose setting was last brought or moved; from then on people choose by their sliders.
    if (data.touched && data.touched !== this.named) this.touched = this.tiles.find((tile) => tile.given.key === data.touched) ?? this.touched;
    this.named = data.touched;
    this.touched ??= this.tiles.find((tile) => !tile.given.baseline && tile.sliders.length) ?? this.tiles[this.tiles.length - 1];
    need(this, this.sliders().flatMap(({ given }) => given.urls));
    this.axis.hidden = !data.judged;
    const line = data.judged ? "grey: Recall" : "dashed: relevance", hatching = data.floor === null ? "" : ", hatched: off-topic";
    const squares = data.k < 2 ? "" : " · Squares: cosines within a set, dark 0 to yellow 1";
    this.legend.textContent = this.sliders().length ? `Above each slider: filled: diversity, ${line}${hatching}${squares}` : "";
    this.side.hidden = data.k < 2; // there is no diversity then
    steps.shown = data.position ?? null;
    if (steps.shown === steps.target) steps.target = null;
    if (!steps.isTold) this.tellStep();
    if (data.address) history.replaceState(history.state, "", `${location.pathname}?${data.address}`);
    this.want(true);
  }

  touch(tile, slider) {
    this.touched = tile;
    this.slider = slider ?? tile.sliders[0];
  }

  want(anew = false) {
    this.anew ||= anew;
    this.asked ??= requestAnimationFrame(() => {
      this.asked = null;
      const from = performance.now(), changed = this.draw();
      hub.log?.push({ at: from, took: performance.now() - from, changed });
    });
  }

  draw() {
    const { base, anew } = this;
    this.anew = false;
    // Views of all queries follow the settings, also where this query's sets stay.
    announce("settings", { tiles: this.tiles, touched: this.touched });
    // A decoder may fall short of a diversity with the set that it had: its list turns grey with its tile.
    const unreached = this.tiles.map(({ node }) => node.classList.contains("unreached")), isOther = String(unreached) !== this.unreached;
    this.unreached = String(unreached);
    const changed = this.tiles.map((tile) => tile.draw(base)).some(Boolean) || anew || isOther;
    if (anew) this.frontier(), this.advise();
    if (changed || this.level !== null || this.written !== this.touched?.written) this.sentence();
    if (changed || this.level !== null) this.dots();
    if (!changed) return false;
    for (const tile of this.tiles) {
      tile.button.ariaPressed = tile === this.touched;
      tile.node.classList.toggle("touched", tile === this.touched);
    }
    const decoders = this.tiles.map(({ given, set, now }, i) => ({ ...given, set, now, isUnreached: unreached[i] }));
    const sets = decoders.filter(({ set }) => set).map(({ name, set }) => ({ name, rows: set.rows, relevant: set.ids.filter((id) => set.answers.right.has(id)).map((id) => set.answers.packed.rows[id]) }));
    hub.shown = { query: this.data.query, k: this.data.k, floor: this.data.floor, base, decoders, touched: this.touched?.given.key, sets };
    announce("sets", hub.shown);
    return true;
  }

  get base() {
    return this.tiles.find((tile) => tile.given.baseline)?.now ?? this.standing;
  }

  sentence() {
    this.written = this.touched?.written;
    const { touched, base } = this, { judged } = this.data, set = touched?.set;
    this.said.textContent = "";
    this.said.setAttribute("aria-live", this.root.classList.contains("held") ? "off" : "polite");
    // The headline speaks of the standard settings, as long as nobody has moved a slider: from then on each value is said
    // in the same words, also the standard one on the way or at the end of a drag.
    const isStandard = !this.isMoved && this.level === null && this.sliders().every(({ value, given }) => value === given.standard);
    this.all.hidden = !isStandard || !this.data.headline;
    if (!this.all.hidden) {
      const [sentence, brief] = this.data.headline;
      make(this.said, "b", "wide", { text: sentence, title: sentence });
      make(this.said, "b", "brief", { text: brief });
      return;
    }
    if (this.level !== null) return this.compareAtLevel();
    if (!set) return;
    const { floor } = this.data, off = set.ids.length - set.onTopic(floor), offTopic = off ? `, ${off} of ${set.ids.length} off-topic` : "";
    // "0 → 0" would say nothing.
    const pairs = base.duplicates || set.duplicates ? `${counted(base.duplicates, "near-duplicate pair")} → ${set.duplicates}` : `No near-duplicate pairs (${limitOf(set)})`;
    const lead = make(this.said, "b", "", {
      text: touched.given.baseline ? `${counted(set.duplicates, "near-duplicate pair")} in ${touched.title}` : `${pairs}${offTopic}`,
    });
    if (base.answers.packed.unmeasured || set.answers.packed.unmeasured) lead.textContent = base.answers.packed.unmeasured || set.answers.packed.unmeasured;
    if (touched.given.baseline) return;
    const found = !judged ? "" : `, ${set.found} of ${judged} relevant` + (set.found === base.found ? "" : ` instead of ${base.found}`);
    const gained = set.diversity === null || base.diversity === null ? "" : `${changed(set.diversity, base.diversity, 2)} diversity for `;
    lead.after(make(this.said, "span", "", {
      text: `${touched.title}${touched.written ? ` · ${touched.written}` : ""}: ${gained}${changed(set.relevance ?? 0, base.relevance ?? 0, 2)} relevance${found}.`,
    }));
  }

  // Say which decoder is the most relevant at the diversity that all were set to.
  compareAtLevel() {
    const { k } = this.data, isReached = ({ given, node, set }) => !given.baseline && set && !node.classList.contains("unreached");
    const isWaiting = ({ sliders }) => sliders.some((slider) => !slider.known);
    const compared = this.tiles.filter((tile) => isReached(tile) && !isWaiting(tile));
    // Fewer documents are more relevant in the mean: such a set is named, and never the best.
    const isShort = ({ set }) => set.ids.length < Math.min(k, this.base.ids.length);
    compared.sort((one, other) => isShort(one) - isShort(other) || other.set.relevance - one.set.relevance);
    // Decoders that differ by less than is printed are named together.
    const figure = ({ set }) => number(set.relevance, 2), full = compared.filter((tile) => !isShort(tile));
    const best = full.filter((tile) => figure(tile) === figure(full[0])), others = compared.slice(best.length);
    // Three names with their settings would leave no room for what is said of them; the tiles have the settings.
    const named = best.map(({ title, written }) => (best.length > 2 || !written ? title : `${title} ${written}`));
    const names = named.length > 2 ? `${named.slice(0, -1).join(", ")} and ${named.at(-1)}` : named.join(" and ");
    // One decoder alone is the best of nothing.
    const [one, several] = full.length > best.length ? ["is the most relevant,", "are the most relevant,"] : ["has relevance", "have relevance"];
    // The diversity of documents that have nothing to do with the query is no success.
    const { floor } = this.data, countOff = ({ set }) => set.ids.length - set.onTopic(floor);
    const offTopic = (tiles) => {
      const counts = tiles.map(countOff), [least, most] = [Math.min(...counts), Math.max(...counts)];
      return most ? `, ${least < most ? `${least} to ${most}` : most} of ${tiles[0].set.ids.length} off-topic` : "";
    };
    const lead = best.length ? `${names} ${best.length > 1 ? several : one} ${figure(best[0])}${offTopic(best)}` : "no decoder reaches it";
    make(this.said, "b", "", { text: `At diversity ≥ ${number(this.level, 2)}: ${lead}` });
    const waiting = this.tiles.filter((tile) => !tile.given.baseline && isWaiting(tile)).map(({ title }) => `${title} is being computed`);
    const unreached = this.tiles.filter(({ node }) => node.classList.contains("unreached")).map(({ title }) => `${title} cannot reach it`);
    make(this.said, "span", "", { text: [...others.map((tile) => `${tile.title} ${tile.written}: ${figure(tile)}${offTopic([tile])}${isShort(tile) ? ` (${tile.set.ids.length} of ${k})` : ""}`), ...waiting, ...unreached].join(" · ") });
  }

  // Offer the most diverse set along any slider that this query affords.
  advise() {
    const { base } = this, { floor } = this.data, candidates = [];
    for (const tile of this.tiles)
      for (const slider of tile.given.baseline ? [] : tile.sliders)
        for (const piece of slider.known?.pieces ?? [])
          // Diversity of documents that have nothing to do with the query is no advice.
          if (piece.set.onTopic(floor) >= base.onTopic(floor)) candidates.push({ tile, slider, piece, set: piece.set });
    const advised = (this.advised = findMostDiverse(candidates, base));
    this.advice.hidden = !advised;
    if (!advised) return;
    advised.value = advised.piece.at ?? inside(advised.piece.from, advised.piece.to);
    this.advice.textContent = `For this query: ${advised.tile.title} ${advised.slider.given.symbol} ${setting(advised.value)}`;
    const relevant = this.data.judged ? `at least ${base.found} relevant and ` : "";
    this.advice.title = `The most diverse set for this query with ${relevant}${100 * MIN_RELEVANCE_SHARE}% of Top-k's relevance`;
  }

  take({ tile, slider, value }) {
    this.touch(tile, slider);
    for (const other of tile.sliders) tile.values[other.given.param] = tile.committed[other.given.param];
    slider.move(value);
    this.commit();
  }

  // Draw the query's own trade-off: a curve for each decoder's first slider, and a sign at each decoder's set.
  frontier() {
    if (!this.data) return;
    const { judged } = this.data, byRecall = judged && !this.byRelevance, width = this.front.clientWidth, height = this.front.clientHeight;
    if (!width) return;
    const up = (set) => (byRecall ? set.found : set.relevance), foot = 30, right = 10, top = 8;
    const known = this.tiles.flatMap((tile) => [tile.set, ...(tile.sliders[0]?.known?.sets ?? [])]).filter((set) => set && set.diversity !== null);
    this.front.textContent = "";
    this.axis.textContent = byRecall ? "Recall ↑" : "Relevance ↑";
    this.front.ariaLabel = `${byRecall ? "Recall" : "Mean relevance"} against diversity for this query`;
    this.spot = null;
    this.handle.disabled = !known.length;
    if (!known.length) return;
    const tall = known.map(up), low = byRecall ? 0 : Math.min(...tall), high = byRecall ? judged : Math.max(...tall);
    const labels = [low, high].map((value) => make(this.front, "text", "label", { text: byRecall ? `${value} of ${judged}` : number(value, 2) }));
    // With many relevant documents the words are wider than usual, and would run into the tile beside.
    const left = Math.max(MIN_LABEL_PX, ...labels.map((label) => Math.ceil(label.getComputedTextLength()))) + LABEL_GAP_PX;
    this.handle.style.left = `${left - LEVEL_THUMB_PX / 2}px`;
    this.handle.style.width = `${width - left - right + LEVEL_THUMB_PX}px`;
    const far = (this.far = Math.max(...known.map((set) => set.diversity)) || 1);
    const across = (this.across = (diversity) => left + (diversity / far) * (width - left - right));
    const upward = (value) => top + (1 - (value - low) / (high - low || 1)) * (height - foot - top);
    this.spot = (set) => [across(set.diversity), upward(up(set))];
    make(this.front, "line", "axis", { x1: left, x2: width - right, y1: height - foot, y2: height - foot });
    const step = [0.05, 0.1, 0.2, 0.25, 0.5].find((size) => far / size <= 4) ?? 1;
    for (let tick = 0; tick <= far; tick += step) make(this.front, "text", "label place", { x: across(tick), y: height - 4, text: setting(Number(tick.toFixed(2))) });
    for (const [i, value] of [low, high].entries()) {
      labels[i].setAttribute("x", left - LABEL_GAP_PX);
      labels[i].setAttribute("y", upward(value) + 4);
    }
    this.rule = make(this.front, "line", "rule", { y1: 0, y2: height - foot });
    for (const tile of this.tiles) {
      const found = tile.sliders[0]?.known;
      const style = `--light:${tile.given.light};--dark:${tile.given.dark}`;
      const spots = (found?.pieces ?? []).filter((piece) => piece.set.diversity !== null).map((piece) => this.spot(piece.set).map((pixels) => pixels.toFixed(1)));
      // No set finds part of a document, so that a line between two counts would say what is not.
      const draw = ([x, y], i) => (!i ? `M${x} ${y}` : byRecall ? `H${x}V${y}` : `L${x} ${y}`);
      if (found) make(this.front, "path", "line", { style, d: spots.map(draw).join("") });
      tile.mark = make(this.front, "text", "mark", { style, text: tile.given.sign });
    }
    this.dots();
  }

  dots() {
    if (!this.spot) return;
    const diversity = this.level ?? this.touched?.set?.diversity ?? 0;
    for (const end of ["x1", "x2"]) this.rule.setAttribute(end, this.across(diversity).toFixed(1));
    this.rule.classList.toggle("set", this.level !== null);
    if (this.level === null) this.handle.value = Math.round((diversity / this.far) * LEVEL_STEPS);
    this.handle.setAttribute("aria-valuetext", `diversity ${number(diversity, 2)}`);
    this.reached.textContent = `diversity ${number(diversity, 2)}`;
    for (const { mark, set } of this.tiles) {
      if (!mark) continue;
      const shown = set && set.diversity !== null;
      mark.style.visibility = shown ? "" : "hidden";
      if (!shown) continue;
      const [x, y] = this.spot(set);
      mark.setAttribute("x", x.toFixed(1));
      mark.setAttribute("y", (y + 4).toFixed(1));
    }
  }

  // [ and ] go to the next change of the set, { and } to the next change of the order; j and k step the query;
  // w opens the wall of all queries.
  key(event) {
    if (isTyped(event)) return;
    if (STEPS[event.key]) {
      event.preventDefault();
      this.step(STEPS[event.key]);
      return;
    }
    if (event.key === "w" && this.data.hasWall) {
      event.preventDefault();
      this.component.setTriggerValue("stepped", 0);
      return;
    }
    const way = { "]": 1, "}": 1, "[": -1, "{": -1 }[event.key], slider = this.slider ?? this.touched?.sliders[0];
    if (!way || !slider?.known) return;
    event.preventDefault();
    const next = slider.known.change(slider.value, way, event.key === "{" || event.key === "}");
    if (next === undefined) return;
    slider.move(next);
    this.commit(KEY_PAUSE_MS);
  }

  step(way) {
    // A page without a server takes each step at once.
    if (this.data.position === undefined) return this.component.setTriggerValue("stepped", way);
    aim(way);
    this.tellStep();
  }

  // Tell the server a position and no direction: it may hear of several steps at once, and while it draws, browsers send
  // the choice of a query along that was there before.
  tellStep() {
    if (steps.target === null) return;
    steps.isTold = true;
    this.component.setStateValue("position", [steps.target, ++steps.count]);
  }

  // Count the steps that are asked for until the tiles of this page are drawn anew.
  countWhileGone() {
    const { address } = this;
    const count = (event) => {
      if (STEPS[event.key] && location.pathname === address && !isTyped(event)) aim(STEPS[event.key]);
    };
    stage.addEventListener("keydown", count);
    steps.forget = () => stage.removeEventListener("keydown", count);
    setTimeout(steps.forget, STEPS_WITHIN_MS);
  }

  // Report the values to the server, which then updates the address, other views and the engine's own answer.
  commit(pause = 0) {
    clearTimeout(this.waiting);
    this.waiting = setTimeout(() => {
      const values = {};
      this.untold = false;
      for (const tile of this.tiles)
        for (const { given, value } of tile.sliders)
          if (value !== tile.committed[given.param]) (values[tile.given.key] ??= {})[given.param] = value;
      if (Object.keys(values).length) this.component.setStateValue("committed", { serial: ++this.serial, values });
    }, pause);
  }

  end() {
    need(this, []);
    stage.removeEventListener("keydown", this.keys);
    this.countWhileGone();
    for (const end of RELEASE_EVENTS) removeEventListener(end, this.free);
    this.sizes.disconnect();
    cancelAnimationFrame(this.asked);
    clearTimeout(this.waiting);
    this.skip.remove();
    hub.shown = null;
    this.root.remove();
  }
}

export const mount = (parent) => new Tiles(parent);
