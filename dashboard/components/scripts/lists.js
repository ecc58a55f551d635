// The ranked lists of the visible decoders, with lines between the same documents. They follow the tiles' sliders.

import { announce, heat, hub, isOnTopic, listen, make, number, stage, stillness, styled } from "./parts.js";

const ROW_PX = 28, DROPPED_ROW_PX = 22, DROPPED_HEAD_PX = 24;
const MIN_LIST_PX = 190, LIST_GAP_PX = 44;

// Split a dotted name into its last part, which distinguishes it and is printed first, and the rest.
function splitName(name) {
  const cut = /^\S+$/.test(name) ? name.lastIndexOf(".") : -1;
  return cut > 0 && cut < name.length - 1 ? [name.slice(cut + 1), name.slice(0, cut)] : [name, ""];
}

// Narrow lists have no room for the word: there it is for screen readers, beside a mark hatched like the track.
// A drag places every row in every frame: the mark is made anew only where it changes.
function markOffTopic(row, isOff) {
  if (row.isOff === isOff) return;
  row.isOff = isOff;
  const node = row.off;
  node.textContent = "";
  node.title = isOff ? "Off-topic: not among the documents most relevant to the query, 5% of the corpus or 3·k documents where those are more" : "";
  if (!isOff) return;
  make(node, "span", "", { text: "OFF-TOPIC" });
  make(node, "i", "brief-mark", { "aria-hidden": true });
}

class List {
  constructor(view, parent, decoder) {
    this.view = view;
    this.key = decoder.key;
    this.node = make(parent, "div", "list", { role: "group", "aria-label": decoder.title, style: `--light:${decoder.light};--dark:${decoder.dark}` });
    // Screen readers have the group's name. With three lists or more, none stands under its tile.
    const head = make(this.node, "p", "list-head", { "aria-hidden": true, title: decoder.title });
    make(head, "i", "sign", { text: decoder.sign });
    make(head, "b", "", { text: decoder.title });
    this.rows = new Map();
    this.cut = make(this.node, "p", "cut");
    this.order = make(this.node, "ol", "order");
  }

  row(document) {
    let row = this.rows.get(document.row);
    if (row) return row;
    const node = make(this.order, "li", "document"), [name, module] = splitName(document.name);
    node.dataset.row = document.row;
    row = { node, y: 0, dim: 0, document, parts: [name, module] };
    row.rank = make(node, "span", "rank");
    row.near = make(node, "i", "near");
    row.name = make(node, "button", "name", { type: "button", text: name, title: document.tooltip });
    row.qualifier = make(row.name, "span", "qualifier");
    row.name.prepend(row.qualifier);
    if (module) make(row.name, "small", "", { text: module });
    row.off = make(node, "span", "topicless");
    row.tag = make(node, "span", "tag");
    row.votes = make(node, "span", "votes");
    row.tick = make(node, "span", "tick");
    row.score = make(node, "span", "score");
    row.name.onclick = () => this.view.open(document.row, this.key);
    node.onpointerenter = () => announce("hover", { row: document.row });
    node.onpointerleave = () => announce("hover", { row: null });
    this.rows.set(document.row, row);
    return row;
  }

  // Set each document's target: the set's documents by rank, below them the baseline's that the set lacks.
  aim(decoder, base) {
    const { set } = decoder, isCompared = !decoder.baseline, { k } = hub.shown;
    this.node.classList.toggle("computing", !set);
    if (!set || (this.set === set && this.base === base)) return;
    Object.assign(this, { set, base });
    for (const row of this.rows.values()) row.fade = 0;
    const baseTitle = hub.shown.decoders.find(({ baseline }) => baseline)?.title ?? "the ranking by relevance";
    const inside = new Set(set.rows), baseRows = new Set(base.rows), groups = set.groups();
    const dropped = isCompared ? base.rows.map((_, i) => base.document(i)).filter((document) => !inside.has(document.row)) : [];
    const sizes = groups.reduce((count, group) => count.set(group, (count.get(group) ?? 0) + 1), new Map());
    set.rows.forEach((_, rank) => {
      const document = set.document(rank), row = this.place(document, rank, rank * ROW_PX), nearest = set.closestAbove(rank);
      row.rank.textContent = rank + 1;
      const isOff = !document.right && !isOnTopic(document.relevance, hub.shown.floor);
      row.node.classList.toggle("off", isOff);
      row.tag.textContent = isCompared && !baseRows.has(document.row) ? "NEW" : "";
      row.tag.title = row.tag.textContent && `New: not among the results of ${baseTitle}`;
      markOffTopic(row, isOff);
      const isDuplicate = nearest.cosine >= set.answers.packed.duplicate;
      row.near.style.background = nearest.rank >= 0 ? `rgb(${heat(nearest.cosine)})` : "transparent";
      row.near.classList.toggle("alike", sizes.get(groups[rank]) > 1);
      row.near.title = nearest.rank >= 0 ? `Closest above: #${nearest.rank + 1}, cosine ${number(nearest.cosine)}${isDuplicate ? ", a near-duplicate" : ""}` : "";
      row.node.dataset.rank = rank + 1;
    });
    dropped.forEach((document, i) => {
      const row = this.place(document, set.ids.length + i, k * ROW_PX + DROPPED_HEAD_PX + i * DROPPED_ROW_PX);
      row.node.classList.add("out");
      markOffTopic(row, false);
      row.rank.textContent = row.tag.textContent = "";
      row.near.style.background = "transparent";
      delete row.node.dataset.rank;
    });
    this.cut.textContent = dropped.length ? `DROPPED ${dropped.length}` : "";
    this.cut.title = dropped.length ? `Results of ${baseTitle} that are not in this list` : "";
    this.cut.style.top = `${k * ROW_PX}px`;
    this.node.style.height = `${k * ROW_PX + (isCompared ? DROPPED_HEAD_PX + Math.max(dropped.length, 2) * DROPPED_ROW_PX : 0)}px`;
    for (const [document, row] of this.rows) if (!row.fade) delete row.node.dataset.rank;
  }

  // Screen readers follow the order of the elements, not their places: it is corrected once nothing moves.
  sort() {
    const rows = [...this.rows.values()].sort((a, b) => a.order - b.order);
    if (rows.every(({ node }, i) => this.order.children[i] === node)) return;
    const focused = rows.find(({ node }) => node.matches(":focus-within"))?.name;
    this.order.append(...rows.map(({ node }) => node));
    focused?.focus({ preventScroll: true });
  }

  place(document, order, y) {
    const row = this.row(document);
    // An invisible row has no place to slide from: it starts at its target.
    if (row.dim < 0.05) row.y = y + (row.node.isConnected ? 0 : ROW_PX);
    Object.assign(row, { aim: y, fade: 1, order });
    row.node.className = `document${document.right ? " right" : ""}${this.view.opened === document.row ? " opened" : ""}`;
    row.tick.textContent = document.right ? "✓" : "";
    row.score.textContent = document.score === null ? "" : number(document.score);
    row.score.title = `Relevance as the decoder used it; cosine with the query ${number(document.relevance)}`;
    this.view.thumbs(row, document.row, this.key);
    return row;
  }
}

export class Lists {
  constructor(parent) {
    this.root = document.createElement("div");
    this.root.className = "scrub lists";
    styled(parent, "scrub.css", this.root);
    this.body = make(this.root, "div", "columns");
    this.missed = make(this.root, "p", "missed-by-all");
    this.lists = [];
    this.stop = [
      listen("sets", () => this.draw()),
      listen("hover", ({ row }) => {
        for (const list of this.lists) for (const [id, { node }] of list.rows) node.classList.toggle("hovered", id === row);
      }),
    ];
    this.escape = (event) => event.key === "Escape" && this.opened !== null && this.component.setTriggerValue("opened", { row: null });
    stage.addEventListener("keydown", this.escape);
    this.sizes = new ResizeObserver(() => (this.divide(), this.want()));
    this.sizes.observe(this.root);
  }

  update(component) {
    this.component = component;
    const { opened = null, votes = null } = component.data;
    Object.assign(this, { opened, votes });
    for (const list of this.lists) list.set = undefined;
    this.draw();
  }

  open(row, source) {
    this.component.setTriggerValue("opened", { row, source });
  }

  // Draw the vote buttons of a row, while feedback is on.
  thumbs(row, document, source) {
    if (!this.votes) return (row.votes.textContent = "");
    const given = this.votes[document] ?? "";
    if (row.given === given && row.votes.childElementCount) return;
    row.given = given;
    row.votes.textContent = "";
    for (const [kind, sign, label] of [["up", "▲", "More like this"], ["down", "▼", "Less like this"]]) {
      const button = make(row.votes, "button", "", { type: "button", text: sign, title: label, "aria-label": `${label}: ${row.document.name}`, "aria-pressed": given === kind });
      button.onclick = () => this.component.setTriggerValue("voted", { row: document, kind, source });
    }
  }

  draw() {
    const { shown } = hub;
    if (!shown || !this.component || shown.query !== this.component.data.query) return;
    // The lists are rebuilt only for other decoders, so that rows can slide.
    const shape = shown.decoders.map((decoder) => decoder.key).join();
    if (shape !== this.shape) {
      this.shape = shape;
      this.body.textContent = "";
      this.links = [];
      this.lists = shown.decoders.map((decoder, i) => {
        if (i) this.links.push({ svg: make(this.body, "svg", "links", { "aria-hidden": true }), lines: new Map() });
        return new List(this, this.body, decoder);
      });
      this.divide();
    }
    this.lists.forEach((list, i) => {
      list.aim(shown.decoders[i], shown.base);
      list.node.classList.toggle("touched", list.key === shown.touched);
      list.node.classList.toggle("unreached", Boolean(shown.decoders[i].isUnreached));
    });
    this.qualify();
    this.nameMissed(shown.decoders);
    this.flow();
  }

  // Name the relevant documents that no set has; while a set is computed, the line stays as it is.
  nameMissed(decoders) {
    if (decoders.some(({ set }) => !set)) return;
    const { relevant = [], max_missed: maxNames, n_unsent: nUnsent = 0 } = this.component.data;
    const inside = new Set(decoders.flatMap(({ set }) => set.rows)), missed = relevant.filter(([row]) => !inside.has(row));
    const names = missed.slice(0, maxNames).map(([, name]) => name), nMore = missed.length - names.length + nUnsent;
    if (nMore > 0) names.push(`and ${nMore.toLocaleString("en")} more`);
    const text = names.length ? `Missed by all: ${names.join(", ")}` : "";
    if (this.missed.textContent !== text) this.missed.textContent = text;
  }

  // Where two documents have one last part, what is before it tells them apart: "ma.std", "ndarray.std".
  qualify() {
    const rows = this.lists.flatMap((list) => [...list.rows.values()]), modules = new Map();
    for (const { parts: [name, module] } of rows) modules.set(name, (modules.get(name) ?? new Set()).add(module));
    for (const { parts: [name, module], qualifier } of rows) {
      const homonyms = [...modules.get(name)], isClear = new Set(homonyms.map((other) => splitName(other)[0])).size === homonyms.length;
      const text = module && homonyms.length > 1 ? `${isClear ? splitName(module)[0] : module}.` : "";
      if (qualifier.textContent !== text) qualifier.textContent = text;
    }
  }

  // Lists are never cut at the edge: as many as fit share the width, and the row scrolls to the others.
  divide() {
    this.gap = undefined;
    const width = this.root.clientWidth, n = this.lists.length;
    if (!width || !n) return;
    const fitting = Math.max(1, Math.min(n, Math.floor((width + LIST_GAP_PX) / (MIN_LIST_PX + LIST_GAP_PX))));
    const column = fitting < n ? `${(width - (fitting - 1) * LIST_GAP_PX) / fitting}px` : "minmax(0, 1fr)";
    this.body.style.gridTemplateColumns = this.lists.map(() => column).join(" var(--gap) ");
  }

  want() {
    this.asked ??= requestAnimationFrame(() => {
      this.asked = null;
      const from = performance.now();
      this.flow();
      hub.log?.push({ at: from, took: performance.now() - from, changed: false });
    });
  }

  // Move rows and lines a part of the way to their targets, again in each frame until nothing moves.
  flow() {
    let moving = false;
    const share = stillness.matches ? 1 : 0.34;
    for (const { rows } of this.lists)
      for (const [id, row] of rows) {
        if (row.aim === row.y && row.dim === row.fade && row.drawn) continue;
        row.y = Math.abs(row.aim - row.y) < 0.4 ? row.aim : row.y + (row.aim - row.y) * share;
        row.dim = Math.abs(row.fade - row.dim) < 0.04 ? row.fade : row.dim + (row.fade - row.dim) * share;
        row.drawn = true;
        row.node.style.transform = `translateY(${row.y.toFixed(1)}px)`;
        row.node.style.opacity = row.dim;
        if (!row.dim) row.node.remove(), rows.delete(id);
        moving ||= row.aim !== row.y || row.dim !== row.fade;
      }
    this.links?.forEach(({ svg, lines }, i) => this.join(this.lists[i], this.lists[i + 1], svg, lines));
    if (moving) this.want();
    else for (const list of this.lists) list.sort();
  }

  join(left, right, svg, lines) {
    // Reading the width costs a layout, so it is read once for a size of the window.
    const width = (this.gap ??= svg.clientWidth);
    if (!width) return;
    for (const line of lines.values()) line.used = false;
    for (const [id, from] of left.rows) {
      const to = right.rows.get(id), out = from.node.classList.contains("out") + (to?.node.classList.contains("out") ?? 0);
      if (!from.fade || !to?.fade || out === 2) continue;
      const line = lines.get(id) ?? make(svg, "path"), look = out ? "out" : from.document.right ? "right" : "";
      lines.set(id, line);
      line.used = true;
      if (line.look !== look) line.setAttribute("class", (line.look = look));
      const [y, z] = [from, to].map((row) => (row.y + (row.node.classList.contains("out") ? DROPPED_ROW_PX : ROW_PX) / 2).toFixed(1));
      const d = `M4,${y}C${width * 0.55},${y} ${width * 0.45},${z} ${width - 3},${z}`;
      if (line.d !== d) line.setAttribute("d", (line.d = d));
    }
    for (const [id, line] of lines) if (!line.used) line.remove(), lines.delete(id);
  }

  end() {
    for (const stop of this.stop) stop();
    stage.removeEventListener("keydown", this.escape);
    this.sizes.disconnect();
    cancelAnimationFrame(this.asked);
    this.root.remove();
  }
}

export const mount = (parent) => new Lists(parent);
