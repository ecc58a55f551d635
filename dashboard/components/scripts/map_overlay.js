// Result sets over a map: pins with labels, hulls, the query, names of clusters. They are drawn in one frame from rows
// of the corpus, which the server sends, and which another component replaces while a slider is dragged:
//   document event "frontier:sets", detail {query, sets: [{name, rows, relevant}]}
//   document event "frontier:hover", detail {row, from}: sent for the pin under the mouse; a received one is highlighted

import { hub, luminance } from "./parts.js";

const SVG = "http://www.w3.org/2000/svg";
const MIN_GUTTERS_WIDTH = 560; // pixels; a wider plot has columns of labels at both sides
const LABEL_LINE_PX = 17; // pixels between two labels
const EDGE_PX = 6;
const MIN_MAP_PX = 260, PIN_GAP_PX = 9;
const GUTTER_PX = 190; // pixels at each side for the columns of labels
const MAX_LABEL_LETTERS = 22; // characters
const LEADER_GAP_PX = 3; // pixels between a label and its leader
const PIN_REACH_PX = 10; // pixels around a pin in which the mouse is on it
// A cluster's name lies above plotly's hover label, whose text it would cross out.
// The map goes on beyond the edges: what lies there fades out, where a straight cut would look like its end.
const STYLE = `
.frontier-box { position: relative; }
.frontier-box:has(> svg.frontier-overlay) .svg-container > :is(.main-svg:first-of-type, .gl-container) {
  mask-image: linear-gradient(transparent 24px, #000 64px, #000 calc(100% - 40px), transparent); }
.frontier-box > svg.frontier-overlay { position: absolute; inset: 0; pointer-events: none; overflow: hidden; }
.frontier-overlay text { font-size: 12px; paint-order: stroke; stroke-width: 3px; stroke-linejoin: round; }
.frontier-overlay .cluster { text-anchor: middle; opacity: 0.62; font-style: italic; }
.frontier-box:has(.hoverlayer .hovertext) .cluster { opacity: 0; }
.frontier-overlay .hull { fill-opacity: 0.07; stroke-width: 1.5; stroke-opacity: 0.8; stroke-linejoin: round; }
.frontier-overlay .leader { fill: none; stroke-opacity: 0.35; }
.frontier-overlay .hot .leader { stroke-opacity: 1; stroke-width: 2; }
.frontier-overlay .hot text { font-weight: 700; }
.frontier-overlay .pulse .pin { animation: frontier-pulse 0.9s ease-out 2; transform-box: fill-box; transform-origin: center; }
@keyframes frontier-pulse { 40% { transform: scale(2.2); } }
@media (prefers-reduced-motion: reduce) { .frontier-overlay .pulse .pin { animation: none; } }
.frontier-legend { position: absolute; inset: 0 0 auto; display: flex; gap: 2px 14px; padding: 4px 6px; font-size: 13px;
  flex-wrap: wrap; pointer-events: none; }
.frontier-legend span { white-space: nowrap; }
`;

const arrayOf = (values) => Array.from(values ?? [], Number);

function element(parent, name, attributes, text) {
  const node = document.createElementNS(SVG, name);
  for (const key in attributes) node.setAttribute(key, attributes[key]);
  if (text !== undefined) node.textContent = text;
  parent.appendChild(node);
  return node;
}

// Shorten a name in its middle, which distinguishes least: variants differ at their ends.
function shorten(text) {
  const letters = [...text];
  if (letters.length <= MAX_LABEL_LETTERS) return text;
  // A name that lacks its beginning or its end is no whole: it is read from where it starts.
  if (text.startsWith("…") || text.endsWith("…")) return letters.slice(0, MAX_LABEL_LETTERS - 1).join("") + "…";
  const half = (MAX_LABEL_LETTERS - 1) >> 1;
  return letters.slice(0, half).join("") + "…" + letters.slice(-half).join("");
}

// Shorten names without their common prefix; of those that are then alike, each is read from the first word in which
// they differ.
export function shortenApart(names, prefix = "") {
  const labels = new Map(), groups = new Map();
  for (const name of new Set(names)) {
    const text = name.startsWith(prefix) && name.length > prefix.length ? name.slice(prefix.length) : name;
    groups.set(shorten(text), [...(groups.get(shorten(text)) ?? []), [name, text]]);
  }
  for (const [label, alike] of groups) {
    const first = alike[0][1];
    let n = 0;
    while (alike.length > 1 && alike.every(([, text]) => text.length > n && text[n] === first[n])) n++;
    const start = first.lastIndexOf(" ", n - 1) + 1;
    for (const [name, text] of alike) labels.set(name, start ? shorten(`…${text.slice(start)}`) : label);
  }
  return labels;
}

// Return the corners of the convex hull (Andrew's monotone chain).
function convexHull(points) {
  const sorted = [...points].sort((a, b) => a[0] - b[0] || a[1] - b[1]);
  const left = (o, a, b) => (a[0] - o[0]) * (b[1] - o[1]) - (a[1] - o[1]) * (b[0] - o[0]) <= 0;
  const chain = (order) => {
    const corners = [];
    for (const point of order) {
      while (corners.length > 1 && left(corners.at(-2), corners.at(-1), point)) corners.pop();
      corners.push(point);
    }
    return corners.slice(0, -1);
  };
  return sorted.length < 3 ? sorted : [...chain(sorted), ...chain(sorted.reverse())];
}

// Place the labels of pins on one side: near the height of their pins, LABEL_LINE_PX apart, without crossing leaders.
function stackLabels(pins, top, bottom, x) {
  pins.sort((a, b) => a.y - b.y);
  const room = Math.min(LABEL_LINE_PX, (bottom - top) / Math.max(1, pins.length));
  // Labels that would overlap form a block around the mean of their pins (isotonic regression).
  const blocks = [];
  pins.forEach((pin, i) => {
    let block = { sum: pin.y - i * room, count: 1 };
    while (blocks.length && blocks.at(-1).sum / blocks.at(-1).count > block.sum / block.count) {
      const above = blocks.pop();
      block = { sum: above.sum + block.sum, count: above.count + block.count };
    }
    blocks.push(block);
  });
  const [first, last] = [top + room / 2, bottom + room / 2 - pins.length * room];
  const starts = blocks.flatMap(({ sum, count }) => Array(count).fill(Math.min(last, Math.max(first, sum / count))));
  pins.forEach((pin, i) => Object.assign(pin, { lx: x, ly: starts[i] + i * room }));
  const side = (a, b, c) => Math.sign((b.x - a.x) * (c.y - a.y) - (b.y - a.y) * (c.x - a.x));
  const crossing = (p, q) => {
    const [a, b, c, d] = [p, { x, y: p.ly }, q, { x, y: q.ly }];
    return side(a, b, c) * side(a, b, d) < 0 && side(c, d, a) * side(c, d, b) < 0;
  };
  // Each exchange shortens the sum of the leaders, so the loop ends.
  for (let hasChanged = true; hasChanged; ) {
    hasChanged = false;
    for (let i = 0; i < pins.length; i++)
      for (let j = 0; j < i; j++)
        if (crossing(pins[i], pins[j])) {
          [pins[i].ly, pins[j].ly] = [pins[j].ly, pins[i].ly];
          hasChanged = true;
        }
  }
}

// Find how far the controls that lie over the map's upper right corner on a wide page reach down, 0 without them.
function findControlsBottom(svg) {
  const column = document.querySelector(".st-key-map-side")?.closest(".stColumn");
  if (!column || getComputedStyle(column).position !== "absolute") return 0;
  return column.getBoundingClientRect().bottom - svg.getBoundingClientRect().top;
}

// A range of the x axis with room for labels at both sides, where the plot is wide enough.
export function withGutters([low, high], width) {
  const room = width < MIN_GUTTERS_WIDTH ? 0 : ((high - low) * GUTTER_PX) / (width - 2 * GUTTER_PX);
  return [low - room, high + room];
}

// The height of a map: on a phone what its ranges need, as areas keep their shape and the rest would be empty.
export function fitMapHeight({ xaxis, yaxis, margin, height }, width) {
  if (!width || width >= MIN_GUTTERS_WIDTH) return height;
  const [across, down] = [xaxis, yaxis].map(({ range: [low, high] }) => high - low);
  return Math.round(Math.min(height, Math.max(MIN_MAP_PX, margin.t + margin.b + (width * down) / across)));
}

export class MapOverlay {
  constructor(box, plot) {
    this.box = box;
    this.plot = plot;
    this.style = document.createElement("style");
    this.style.textContent = STYLE;
    this.svg = document.createElementNS(SVG, "svg");
    this.svg.setAttribute("class", "frontier-overlay");
    this.svg.setAttribute("aria-hidden", "true");
    this.legend = document.createElement("div");
    this.legend.className = "frontier-legend";
    box.append(this.style, this.svg, this.legend);
    this.brush = document.createElement("canvas").getContext("2d");
    this.widths = new Map();
    this.listeners = new AbortController();
    // One signal removes all listeners at the end.
    const listen = (target, name, callback) => target.addEventListener(name, callback, { signal: this.listeners.signal });
    listen(document, "frontier:sets", (event) => this.take(event.detail));
    listen(document, "frontier:hover", (event) => this.light(event.detail?.row ?? null, event.detail?.from !== "map"));
    listen(box, "mousemove", (event) => this.tell(this.rowAt(event)));
    listen(box, "mouseleave", () => this.tell(null));
  }

  // data: of the server; documents: the drawn traces of all documents; ink, ground: the page's colours.
  update(data, documents, ink, ground) {
    Object.assign(this, { data, ink, ground });
    this.dark = luminance(ground) < 0.5;
    this.brush.font = `12px ${getComputedStyle(this.box).fontFamily}`; // once: asked during a redraw it costs a layout
    // A run of the page that changed no set must not replace the sets of a slider that is being dragged.
    const serverSets = JSON.stringify([data.query, data.sets, data.relevant]);
    if (serverSets !== this.serverSets) {
      this.serverSets = serverSets;
      this.sets = data.sets.map((set) => ({ ...set }));
      this.relevant = new Set(data.relevant);
    }
    if (documents[0] !== this.documents?.[0] || documents.length !== this.documents.length) {
      this.documents = documents;
      this.at = new Map();
      for (const trace of documents)
        for (let i = 0; i < trace.x.length; i++)
          this.at.set(Number(trace.customdata[i]), [trace.x[i], trace.y[i], trace.hovertext[i]]);
    }
    this.share();
    this.draw();
  }

  // Take the rows of another component in place of those of the same selectors.
  take(detail) {
    if (!this.data || (detail?.query && detail.query !== this.data.query)) return;
    for (const received of detail?.sets ?? []) {
      const set = this.sets.find((candidate) => candidate.key === received.name);
      if (!set) continue;
      set.rows = arrayOf(received.rows);
      for (const row of arrayOf(received.relevant)) this.relevant.add(row);
    }
    this.share();
    this.draw();
  }

  share() {
    hub.sets = this.sets;
  }

  placeOf(row) {
    return this.at.get(row) ?? this.data.places[row];
  }

  colourOf(set) {
    return this.dark ? set.dark : set.light;
  }

  widthOf(text) {
    if (!this.widths.has(text)) this.widths.set(text, this.brush.measureText(text).width);
    return this.widths.get(text);
  }

  // Return a function from places to pixels, by the current ranges: plotly's own conversion lags during a pan.
  project() {
    const { xaxis, yaxis } = this.plot._fullLayout;
    const [x0, x1] = xaxis.range.map(Number);
    const [y0, y1] = yaxis.range.map(Number);
    this.frame = { x: xaxis._offset, y: yaxis._offset, w: xaxis._length, h: yaxis._length };
    const { x, y, w, h } = this.frame;
    return ([px, py]) => [x + ((px - x0) / (x1 - x0)) * w, y + h - ((py - y0) / (y1 - y0)) * h];
  }

  inside([x, y]) {
    const { frame } = this;
    return x >= frame.x && x <= frame.x + frame.w && y >= frame.y && y <= frame.y + frame.h;
  }

  draw() {
    if (!this.data || !this.plot._fullLayout?.xaxis) return;
    const pixel = this.project();
    const pins = new Map();
    this.svg.replaceChildren();
    const { width, height } = this.plot._fullLayout;
    this.svg.setAttribute("width", width);
    this.svg.setAttribute("height", height);
    const layers = Object.fromEntries(
      ["hulls", "clusters", "leaders", "pins", "query"].map((name) => [name, element(this.svg, "g", { class: name })]),
    );
    for (const set of this.sets) {
      const points = [];
      set.outside = 0;
      for (const row of set.rows) {
        const place = this.placeOf(row);
        if (!place) continue;
        const point = pixel(place);
        points.push(point);
        if (!this.inside(point)) set.outside++;
        else if (pins.has(row)) pins.get(row).sets.push(set);
        else pins.set(row, { row, x: point[0], y: point[1], name: place[2], sets: [set] });
      }
      this.drawHull(layers.hulls, set, points);
    }
    for (const row of this.relevant) {
      const point = !pins.has(row) && this.placeOf(row) && pixel(this.placeOf(row));
      if (point && this.inside(point)) pins.set(row, { row, x: point[0], y: point[1], name: this.placeOf(row)[2], sets: [] });
    }
    this.pins = [...pins.values()];
    this.labels = shortenApart(this.pins.map(({ name }) => name), this.data.prefix ?? "");
    const taken = this.pins.map(({ x, y }) => [x - 8, y - 8, x + 8, y + 8]);
    // Before the first query there is none to mark.
    const query = this.data.place && pixel(this.data.place);
    // A chart that has no labels beside it draws the query and its name itself.
    const { isUnlabelled } = this.data, [across, above] = isUnlabelled ? [22, 28] : [10, 10];
    if (query) taken.push([query[0] - across, query[1] - above, query[0] + across, query[1] + 10]);
    this.drawPins(layers, taken);
    if (query && !isUnlabelled) this.drawQuery(layers.query, query, taken);
    this.drawClusters(layers.clusters, pixel, taken);
    this.drawLegend();
  }

  drawHull(layer, set, points) {
    if (points.length < 2) return;
    const d = `M${convexHull(points)
      .map(([x, y]) => `${x.toFixed(1)},${y.toFixed(1)}`)
      .join("L")}Z`;
    const colour = this.colourOf(set);
    element(layer, "path", { class: "hull", d, fill: colour, stroke: colour, "data-set": set.key });
  }

  // A pin is a ring with a part for each set that has the document; relevant ones are filled. A narrow plot has room
  // for the sets' signs, a wide one for names.
  drawPins(layers, taken) {
    const wide = this.frame.w >= MIN_GUTTERS_WIDTH;
    if (wide) this.placeLabels();
    const boxes = wide ? taken : taken.slice(-1);
    for (const pin of this.pins) {
      const relevant = this.relevant.has(pin.row);
      const group = element(layers.pins, "g", { class: "document", "data-row": pin.row });
      const colour = pin.sets.length ? this.colourOf(pin.sets[0]) : this.ink;
      if (wide && pin.ly !== undefined)
        element(group, "path", { class: "leader", stroke: colour, d: `M${pin.lx},${pin.ly}L${pin.x},${pin.y}` });
      const shape = element(group, "g", { class: "pin" });
      const core = relevant ? this.ink : this.ground;
      element(shape, "circle", { cx: pin.x, cy: pin.y, r: pin.sets.length ? 5 : 3.5, fill: core, stroke: this.ground });
      const round = 2 * Math.PI * 6;
      pin.sets.forEach((set, i) => {
        const part = round / pin.sets.length;
        const ring = { cx: pin.x, cy: pin.y, r: 6, fill: "none", stroke: this.colourOf(set), "stroke-width": 3 };
        element(shape, "circle", { ...ring, "stroke-dasharray": `${part} ${round}`, "stroke-dashoffset": -i * part });
      });
      if (wide ? pin.ly !== undefined : pin.sets.length) this.drawLabel(group, pin, wide, relevant, boxes);
    }
    if (!wide) taken.push(...boxes);
    this.lit();
  }

  drawLabel(group, pin, wide, relevant, taken) {
    const words = (relevant ? " ✓" : "") + (wide ? ` ${this.labels.get(pin.name)}` : "");
    const width = this.widthOf(words) + 11 * pin.sets.length;
    // Signs that the right edge would cut stand left of their pin.
    const isLeft = !wide && pin.x + PIN_GAP_PX + width > this.frame.x + this.frame.w;
    const [x, y] = wide ? [pin.lx + (pin.right ? LEADER_GAP_PX : -LEADER_GAP_PX), pin.ly + 4] : [pin.x + (isLeft ? -PIN_GAP_PX : PIN_GAP_PX), pin.y + 4];
    const start = (wide && !pin.right) || isLeft ? x - width : x;
    const box = [start, y - 11, start + width, y + 4];
    if (!wide && this.covered(box, taken)) return;
    taken.push(box);
    const anchor = start < x ? "end" : "start";
    const text = element(group, "text", { x, y, "text-anchor": anchor, stroke: this.ground, fill: this.ink });
    for (const set of pin.sets) element(text, "tspan", { fill: this.colourOf(set) }, set.sign);
    element(text, "tspan", {}, words);
  }

  // Place labels in two columns, left and right of the pins. Without room for all, the best ranks have one.
  placeLabels() {
    const { x, y, w, h } = this.frame;
    const maxLabels = 2 * Math.floor((h - 2 * EDGE_PX) / LABEL_LINE_PX);
    const rank = (pin) => Math.min(...pin.sets.map((set) => set.rows.indexOf(pin.row)));
    const order = this.pins
      .filter((pin) => pin.sets.length)
      .map((pin) => [rank(pin) - 1000 * this.relevant.has(pin.row), pin])
      .sort((a, b) => a[0] - b[0])
      .slice(0, maxLabels)
      .map(([, pin]) => pin)
      .sort((a, b) => a.x - b.x);
    const middle = x + w / 2;
    let half = order.filter((pin) => pin.x < middle).length;
    half = Math.max(order.length - maxLabels / 2, Math.min(maxLabels / 2, half));
    const labels = order.map((pin) => this.widthOf(this.labels.get(pin.name)) + 11 * pin.sets.length + 26);
    const longest = (from, to) => Math.max(0, ...labels.slice(from, to));
    order.forEach((pin, i) => (pin.right = i >= half));
    const top = y + EDGE_PX, belowControls = Math.max(top, findControlsBottom(this.svg));
    const columns = [
      [order.slice(0, half), top, x + EDGE_PX + longest(0, half) + LEADER_GAP_PX],
      [order.slice(half), belowControls, x + w - EDGE_PX - longest(half) - LEADER_GAP_PX],
    ];
    for (const [pins, from, labelX] of columns) stackLabels(pins, from, y + h - EDGE_PX, labelX);
  }

  drawQuery(layer, [x, y], taken) {
    if (!this.inside([x, y])) return;
    const star = [0, 1, 2, 3, 4, 5, 6, 7].map((i) => {
      const [r, angle] = [i % 2 ? 3.5 : 10, (i * Math.PI) / 4];
      return `${(x + r * Math.sin(angle)).toFixed(1)},${(y - r * Math.cos(angle)).toFixed(1)}`;
    });
    const look = { fill: this.ink, stroke: this.ground, "stroke-width": 1.5 };
    element(layer, "path", { class: "query-mark", d: `M${star.join("L")}Z`, ...look });
    const width = this.widthOf("query");
    for (const [dx, dy] of [[-width / 2, -14], [-width / 2, 23], [13, 4], [-13 - width, 4]]) {
      const box = [x + dx, y + dy - 11, x + dx + width, y + dy + 3];
      if (this.covered(box, taken)) continue;
      element(layer, "text", { x: x + dx, y: y + dy, fill: this.ink, stroke: this.ground }, "query");
      taken.push(box);
      return;
    }
  }

  covered([x0, y0, x1, y1], taken) {
    return taken.some((box) => x0 < box[2] && box[0] < x1 && y0 < box[3] && box[1] < y1);
  }

  // Draw the names of clusters, the largest first; one that would cover something is left out until there is room.
  drawClusters(layer, pixel, taken) {
    const { x, y, w, h } = this.frame;
    const largest = Math.max(1, ...this.data.clusters.map(([, , size]) => size));
    for (const [px, py, size, name] of this.data.clusters) {
      const [cx, cy] = pixel([px, py]);
      const font = Math.round(11 + 5 * Math.sqrt(size / largest));
      const half = (this.widthOf(name) * font) / 24 + 2;
      const box = [cx - half, cy - font, cx + half, cy + 4];
      if (box[0] < x || box[2] > x + w || box[1] < y || box[3] > y + h || this.covered(box, taken)) continue;
      taken.push(box);
      const look = { class: "cluster", fill: this.ink, stroke: this.ground, style: `font-size:${font}px` };
      element(layer, "text", { x: cx, y: cy, ...look }, name);
    }
  }

  drawLegend() {
    const entries = this.sets.map((set) => {
      const more = set.outside ? ` (${set.outside} outside)` : "";
      return [this.colourOf(set), `${set.sign} `, `${set.title}${more}`];
    });
    if (this.relevant.size) entries.push([this.ink, "✓ ", "relevant"]);
    this.legend.replaceChildren(
      ...entries.map(([colour, sign, text]) => {
        const entry = document.createElement("span");
        const mark = document.createElement("b");
        mark.style.color = colour;
        mark.textContent = sign;
        entry.append(mark, text);
        return entry;
      }),
    );
  }

  // Return the document of the pin under the mouse; null without one.
  rowAt(event) {
    const box = this.box.getBoundingClientRect();
    const [x, y] = [event.clientX - box.left, event.clientY - box.top];
    let best = [PIN_REACH_PX, null];
    for (const pin of this.pins ?? []) {
      const gap = Math.hypot(pin.x - x, pin.y - y);
      if (gap < best[0]) best = [gap, pin.row];
    }
    return best[1];
  }

  tell(row) {
    if (row === this.told) return;
    this.told = row;
    document.dispatchEvent(new CustomEvent("frontier:hover", { detail: { row, from: "map" } }));
  }

  light(row, elsewhere) {
    this.hot = row;
    this.pulse = elsewhere;
    this.lit();
  }

  lit() {
    for (const group of this.svg.querySelectorAll(".document")) {
      const hot = this.hot !== null && this.hot !== undefined && group.dataset.row === String(this.hot);
      group.classList.toggle("hot", hot);
      group.classList.toggle("pulse", hot && this.pulse);
      // SVG has no z-index: the last element is drawn on top.
      if (hot) group.parentNode.appendChild(group);
    }
  }

  // Return the overlay as plotly traces, for a picture that is saved.
  traces() {
    const marks = (name, rows, marker) => {
      const places = rows.map((row) => this.placeOf(row)).filter(Boolean);
      const [x, y, hovertext] = [0, 1, 2].map((axis) => places.map((place) => place[axis]));
      return { type: "scatter", mode: "markers", name, x, y, hovertext, hoverinfo: "text+name", marker, showlegend: true };
    };
    const words = (x, y, text, more) => ({
      ...{ type: "scatter", mode: "text", x, y, text, hoverinfo: "skip", showlegend: false },
      ...more,
    });
    const column = (index) => this.data.clusters.map((cluster) => cluster[index]);
    const star = { symbol: "star-diamond", size: 13, color: this.ink };
    return [
      words(column(0), column(1), column(3).map((name) => name.replace(/[<&$]/g, "")), {}),
      marks("relevant", [...this.relevant], { symbol: "circle", size: 6, color: this.ink }),
      ...this.sets.map((set, i) => {
        const look = { symbol: `${set.symbol}-open`, size: 9 + 4 * i, color: this.colourOf(set), line: { width: 2 } };
        return marks(set.title, set.rows, look);
      }),
      ...(this.data.place && !this.data.isUnlabelled ? [this.data.place] : []).map(([x, y]) =>
        words([x], [y], ["query"], { mode: "markers+text", textposition: "top center", marker: star }),
      ),
    ];
  }

  end() {
    this.listeners.abort();
    for (const part of [this.style, this.svg, this.legend]) part.remove();
  }
}

