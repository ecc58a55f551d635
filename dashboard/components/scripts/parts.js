// Shared parts of the views: elements, numbers and colours, events between views, and a query's sets along a slider.

const SVG = new Set(["svg", "path", "circle", "text", "g", "line", "polyline", "polygon", "title"]);

// Append an element to a parent. name: its classes; attributes: "text" is its content.
export function make(parent, kind, name = "", attributes = {}) {
  const node = SVG.has(kind) ? document.createElementNS("http://www.w3.org/2000/svg", kind) : document.createElement(kind);
  if (name) node.setAttribute("class", name);
  for (const [key, value] of Object.entries(attributes)) key === "text" ? (node.textContent = value) : node.setAttribute(key, value);
  parent.appendChild(node);
  return node;
}

export const number = (value, digits = 3) => (value === null ? "–" : value.toFixed(digits).replace("-", "−"));

export function signed(value, digits = 3) {
  const text = Math.abs(value).toFixed(digits);
  return Number(text) ? (value < 0 ? "−" : "+") + text : "±0";
}

// The difference of two figures as they are printed: unrounded ones would not add up for a reader.
export const changed = (value, base, digits) => signed(Number(value.toFixed(digits)) - Number(base.toFixed(digits)), digits);

export const counted = (count, singular, plural = `${singular}s`) => `${count} ${count === 1 ? singular : plural}`;

// A value of a slider with all its digits.
export const setting = (value) => String(value).replace("-", "−");

const CIVIDIS = ["00224e", "123570", "3b496c", "575d6d", "707173", "8a8678", "a59c74", "c3b369", "e1cc55", "fee838"];
// The 256 colours of similarities from 0 to 1, linear between the ten of the scale.
const HEAT = Array.from({ length: 256 }, (_, i) => {
  const position = (i / 255) * 9, low = Math.min(8, Math.floor(position)), part = position - low;
  return [0, 2, 4].map((channel) => {
    const [a, b] = [low, low + 1].map((n) => parseInt(CIVIDIS[n].slice(channel, channel + 2), 16));
    return Math.round(a + (b - a) * part);
  });
});
const shade = (cosine) => Math.max(0, Math.min(255, Math.round(cosine * 255)));
export const heat = (cosine) => HEAT[shade(cosine)];

// The same colours as pixels: an image's bytes are red, green, blue and opacity, whatever the order of a word's bytes.
const PIXELS = new Uint32Array(Uint8Array.from(HEAT.flatMap((colour) => [...colour, 255])).buffer);

// The similarities between the documents of a set as k × k pixels, for the next call to overwrite. The diagonal and
// ranks without a document are transparent.
let pixels = new Uint32Array(0);
export function similarityPixels(set, k) {
  const n = set.ids.length;
  if (pixels.length !== k * k) pixels = new Uint32Array(k * k);
  pixels.fill(0);
  for (let i = 1; i < n; i++)
    for (let j = 0; j < i; j++) pixels[i * k + j] = pixels[j * k + i] = PIXELS[shade(set.cosine(i, j))];
  return pixels;
}

// Draw the similarities between the documents of a set, a pixel for each pair.
export function thumbnail(canvas, set, k) {
  const picture = new ImageData(k, k);
  new Uint32Array(picture.data.buffer).set(similarityPixels(set, k));
  canvas.getContext("2d").putImageData(picture, 0, 0);
}

// Load the style sheet that lies beside the modules. The view is hidden until it has arrived.
// A page without a server brings the sheets along, as texts by their names (bundle.py).
export function styled(parent, name, root) {
  const text = hub.sheets?.[name];
  if (text !== undefined) {
    make(parent, "style", "", { text });
    parent.append(root);
    return;
  }
  const sheet = document.createElement("link");
  sheet.rel = "stylesheet";
  sheet.href = new URL(name, import.meta.url).href;
  root.style.visibility = "hidden";
  sheet.onload = sheet.onerror = () => (root.style.visibility = "");
  parent.append(sheet, root);
}

export const stillness = matchMedia("(prefers-reduced-motion: reduce)");

// State that the views of a page share: `shown` holds the sets that are drawn now. Events tell of changes.
// A bundle names its own (bundle.py), so that each widget of a notebook has one, with a `root` that its events stay in.
export const hub = typeof frontierHub === "undefined" ? (globalThis.frontier ??= { shown: null }) : frontierHub;

// What events of the views are sent to, and whose keys they follow.
export const stage = hub.root ?? document;

export function announce(name, detail) {
  stage.dispatchEvent(new CustomEvent(`frontier:${name}`, { detail }));
}

// Call a function with the detail of each event of this name; return the function that ends it.
export function listen(name, callback) {
  const handler = (event) => callback(event.detail);
  stage.addEventListener(`frontier:${name}`, handler);
  return () => stage.removeEventListener(`frontier:${name}`, handler);
}

// The luminance of a colour, from 0 to 1. The canvas understands every colour that CSS does.
export function luminance(colour) {
  const brush = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  brush.fillStyle = colour;
  brush.fillRect(0, 0, 1, 1);
  const [r, g, b] = brush.getImageData(0, 0, 1, 1).data;
  return (0.2126 * r + 0.7152 * g + 0.0722 * b) / 255;
}

// A query's sets along a slider, as the server packed them: unpacked once, read in every frame of a drag.

const MAX_PATHS = 64;
const paths = (hub.paths ??= new Map());
const fetches = (hub.fetches ??= new Map()), needs = (hub.needs ??= new Map());
const PRECISION = 100000;
export const MIN_RELEVANCE_SHARE = 0.95;
const ROUNDING = 1e-9;

// A floor, of the engine, is the relevance of the last document on the query's topic; below it a document is off-topic.
export const isOnTopic = (relevance, floor) => (floor ?? null) === null || relevance === null || relevance >= floor;

// A set of documents and its figures. ids: positions in the document lists of `answers`, in rank order.
class Answer {
  constructor(answers, ids) {
    const { packed, near } = answers;
    this.answers = answers;
    this.ids = ids;
    this.rows = ids.map((id) => packed.rows[id]);
    this.key = [...this.rows].sort((a, b) => a - b).join();
    this.found = ids.filter((id) => answers.right.has(id)).length;
    this.duplicates = 0;
    this.relevance = ids.length ? ids.reduce((sum, id) => sum + packed.relevance[id], 0) / ids.length : null;
    const pairs = (ids.length * (ids.length - 1)) / 2;
    this.pairs = pairs;
    this.diversity = null;
    // Of too many documents the server sends no cosines.
    if (!packed.near) return;
    let sum = 0;
    // The server rounds cosines down, so half a unit is added to each for the mean.
    ids.forEach((a, i) => {
      for (let j = 0; j < i; j++) {
        const cosine = near(a, ids[j]);
        sum += cosine + 0.5 / PRECISION;
        this.duplicates += cosine >= packed.duplicate;
      }
    });
    this.diversity = pairs ? 1 - sum / pairs : null;
  }

  document(rank) {
    const { packed, right } = this.answers, id = this.ids[rank];
    const score = packed.scores ? packed.scores[id] : packed.relevance[id];
    const row = packed.rows[id], name = packed.names[id], tooltip = packed.tooltips[row] ?? name;
    return { row, name, tooltip, relevance: packed.relevance[id], score, right: right.has(id) };
  }

  // The number of documents on topic: judged relevant, or as relevant as the floor; all where no floor is known.
  onTopic(floor) {
    const { packed, right } = this.answers;
    return this.ids.filter((id) => right.has(id) || isOnTopic(packed.relevance[id], floor)).length;
  }

  cosine(i, j) {
    return this.answers.near(this.ids[i], this.ids[j]);
  }

  // The rank and the cosine of the most similar document above `rank`; rank −1 for the first one.
  closestAbove(rank) {
    let best = -1, maxCosine = -Infinity;
    for (let i = 0; i < rank; i++) if (this.cosine(rank, i) > maxCosine) maxCosine = this.cosine(rank, (best = i));
    return { rank: best, cosine: maxCosine };
  }

  // For each rank the lowest rank of its group: near-duplicates of near-duplicates are in one group (union-find).
  groups() {
    const group = this.ids.map((_, i) => i), root = (i) => (group[i] === i ? i : root(group[i]));
    this.ids.forEach((_, i) => {
      for (let j = 0; j < i; j++) if (this.cosine(i, j) >= this.answers.packed.duplicate) group[Math.max(root(i), root(j))] = Math.min(root(i), root(j));
    });
    return group.map((_, i) => root(i));
  }
}

// One query's own rule: the most diverse set with as many documents and relevant ones as the baseline's, and at least
// 95 % of its mean relevance. candidates: objects with a `set`; return one, null if none is more diverse than `base`.
export function findMostDiverse(candidates, base) {
  // The unit of the packed cosines, so that one set in two orders ties with itself.
  const diversity = (set) => Math.round(set.diversity * PRECISION);
  // Of a mean of 0 or less there is no share to give away: a share of −0.2 would be more than it.
  const minRelevance = Math.min(base.relevance, MIN_RELEVANCE_SHARE * base.relevance) - ROUNDING;
  const beats = (set, other) => diversity(set) - diversity(other) || set.found - other.found || set.relevance - other.relevance;
  let best = null;
  for (const candidate of candidates) {
    const { set } = candidate;
    // One document alone has no diversity.
    if (set.diversity === null || set.ids.length < base.ids.length) continue;
    if (set.found < base.found || set.relevance < minRelevance || diversity(set) <= diversity(base)) continue;
    if (!best || beats(set, best.set) > 0) best = candidate;
  }
  return best;
}

// The piece of a slider whose set is best among those with at least this diversity: at the largest value of a weight of
// relevance; of other parameters the set with the most documents, then the most relevant one. Undefined if none has it.
export function findAtDiversity(pieces, level, isWeight) {
  const reached = pieces.filter(({ set }) => set.diversity !== null && set.diversity >= level - ROUNDING);
  if (isWeight) return reached.at(-1);
  const beats = (one, other) => one.set.ids.length - other.set.ids.length || one.set.relevance - other.set.relevance;
  return reached.reduce((best, piece) => (best && beats(best, piece) >= 0 ? best : piece), undefined);
}

export class Answers {
  constructor(packed) {
    this.packed = packed;
    this.right = new Set(packed.right);
    const n = packed.near ? packed.rows.length : 0, cosines = new Float64Array(n * n).fill(NaN);
    let next = 0;
    // A pair is packed once, where it first occurs in the sets: this loop is in the order of the server's.
    for (const ids of packed.near ? packed.sets : [])
      ids.forEach((a, i) => {
        for (let j = 0; j < i; j++) {
          const cell = a * n + ids[j];
          if (Number.isNaN(cosines[cell])) cosines[cell] = cosines[ids[j] * n + a] = packed.near[next++] / PRECISION;
        }
      });
    this.near = (a, b) => (n ? cosines[a * n + b] : NaN);
    this.sets = packed.sets.map((ids) => new Answer(this, ids));
    this.of = packed.which.map((which) => this.sets[which]);
  }
}

// The sets along a slider: exact at every value, or known only at sampled positions.
export class Path extends Answers {
  constructor(packed) {
    super(packed);
    this.stops = packed.stops;
    this.low = this.stops[0];
    this.high = this.stops[this.stops.length - 1];
    this.exact = packed.ends !== null;
    this.start = packed.start ?? this.low; // a path of ratios begins above 0
    this.why = packed.why;
    this.within = packed.within || ""; // names the documents that were searched, "" for all
    this.apart = new Map(packed.apart ?? []);
    if (this.exact) this.of.length = packed.ends.length + 1;
    // Between two samples the set is unknown: a piece is drawn to halfway, but `at` returns it at its sample only.
    const ends = packed.ends ?? this.stops.slice(1).map((stop, i) => (this.stops[i] + stop) / 2);
    this.pieces = this.of.map((set, i) => ({
      set,
      from: i ? ends[i - 1] : this.start,
      to: ends[i] ?? this.high,
      at: this.exact ? null : this.stops[i],
    }));
    for (const [value, ranking] of this.apart) this.apart.set(value, this.sets[packed.which[ranking]]);
  }

  piece(value) {
    if (!this.exact) return nearest(this.stops, value);
    let low = 0, high = this.pieces.length - 1;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.pieces[middle].to < value) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  // The set at a value; undefined between samples and outside the slider's range.
  at(value) {
    if (this.apart.has(value)) return this.apart.get(value);
    if (value < this.start || value > this.high) return undefined;
    const piece = this.pieces[this.piece(value)];
    return this.exact || piece.at === value ? piece.set : undefined;
  }

  // The nearest value to one side whose set differs from the set at `value`; order: a new order counts too.
  change(value, way, order) {
    let index = this.piece(value);
    const current = this.pieces[index].set;
    do index += way;
    while (this.pieces[index] && (order ? this.pieces[index].set === current : this.pieces[index].set.key === current.key));
    const next = this.pieces[index];
    return next && (next.at ?? inside(next.from, next.to));
  }

  // The pieces whose set differs from the one before; a new order alone is no change.
  get changes() {
    return this.pieces.filter((piece, i) => i && piece.set.key !== this.pieces[i - 1].set.key);
  }
}

// The index of the position nearest to a value.
export function nearest(stops, value) {
  let low = 0, high = stops.length - 1;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (stops[middle] <= value) low = middle;
    else high = middle;
  }
  return value - stops[low] <= stops[high] - value ? low : high;
}

// The shortest decimal inside an interval, so that a step lands on a number that people can write down.
export function inside(from, to) {
  for (let digits = 2; digits < 15; digits++) {
    const scale = 10 ** digits, middle = Math.round(((from + to) / 2) * scale), first = Math.floor(from * scale) + 1;
    for (const whole of [middle, first]) {
      const decimal = Number((whole / scale).toFixed(digits));
      if (decimal > from && decimal < to) return decimal;
    }
  }
  return (from + to) / 2;
}

// Answers that a page without a server brings along, as the server would pack them, by the keys that stand for URLs.
export const packedAnswers = (hub.packedAnswers ??= new Map());

function remember(url, answers) {
  paths.set(url, answers);
  // Answers that a page brings along are all looked at: what is dropped would be unpacked again in every frame.
  while (paths.size > MAX_PATHS + packedAnswers.size) paths.delete(paths.keys().next().value);
  return answers;
}

// Return the answers of a slider, requested once; null while they are on their way, then `onArrival` is called.
// build: makes what is kept of the JSON values; onFailure: called if the server has no answer.
export function path(url, onArrival, { build = (packed) => new Path(packed), onFailure } = {}) {
  const cached = paths.get(url);
  if (cached !== undefined) return cached;
  if (packedAnswers.has(url)) return remember(url, new Path(packedAnswers.get(url)));
  remember(url, null);
  const control = new AbortController();
  fetches.set(url, control);
  fetch(url, { signal: control.signal })
    .then((answer) => (answer.ok ? answer.json() : Promise.reject(new Error(answer.status))))
    .then((packed) => (paths.set(url, build(packed)), onArrival()))
    // The next run of the page requests them again, unless a newer request of this URL is on its way already.
    .catch(() => fetches.get(url) === control && (paths.delete(url), onFailure?.()))
    .finally(() => fetches.get(url) === control && fetches.delete(url));
  return null;
}

// Note which URLs a view needs; requests that no view needs any more are ended, so that the server stops computing.
export function need(view, urls) {
  if (urls.length) needs.set(view, urls);
  else needs.delete(view);
  const needed = new Set([...needs.values()].flat());
  for (const [url, control] of fetches) {
    if (needed.has(url)) continue;
    fetches.delete(url);
    paths.delete(url);
    control.abort();
  }
}
