// What the views share: elements, numbers and colours, what they tell each other, and one query's sets along a slider.

const SVG = new Set(["svg", "path", "circle", "text", "g", "line", "polyline", "polygon"]);

export function make(parent, kind, name = "", more = {}) {
  const made = SVG.has(kind) ? document.createElementNS("http://www.w3.org/2000/svg", kind) : document.createElement(kind);
  if (name) made.setAttribute("class", name);
  for (const [key, value] of Object.entries(more)) key === "text" ? (made.textContent = value) : made.setAttribute(key, value);
  parent.appendChild(made);
  return made;
}

export const number = (value, digits = 3) => (value === null ? "–" : value.toFixed(digits).replace("-", "−"));

export function signed(value, digits = 3) {
  const text = Math.abs(value).toFixed(digits);
  return Number(text) ? (value < 0 ? "−" : "+") + text : "±0";
}

export const counted = (count, singular, plural = `${singular}s`) => `${count} ${count === 1 ? singular : plural}`;

// A value as people set it: never fewer digits than it has.
export const setting = (value) => String(value).replace("-", "−");

const CIVIDIS = ["00224e", "123570", "3b496c", "575d6d", "707173", "8a8678", "a59c74", "c3b369", "e1cc55", "fee838"];
const HEAT = Array.from({ length: 256 }, (_, i) => {
  const at = (i / 255) * 9, low = Math.min(8, Math.floor(at)), part = at - low;
  return [0, 2, 4].map((channel) => {
    const [a, b] = [low, low + 1].map((n) => parseInt(CIVIDIS[n].slice(channel, channel + 2), 16));
    return Math.round(a + (b - a) * part);
  });
});
export const heat = (cosine) => HEAT[Math.max(0, Math.min(255, Math.round(cosine * 255)))];

// Pixels of similarity between the documents of a set, one a pair; the diagonal stays clear.
export function thumbnail(canvas, set, k) {
  const pen = canvas.getContext("2d"), picture = pen.createImageData(k, k);
  for (let i = 0; i < set.ids.length; i++)
    for (let j = 0; j < set.ids.length; j++) if (i !== j) picture.data.set([...heat(set.cosine(i, j)), 255], 4 * (i * k + j));
  pen.putImageData(picture, 0, 0);
}

// One style sheet a view, from beside its module; what stands in the view is hidden until it is there.
export function styled(parent, name, root) {
  const sheet = document.createElement("link");
  sheet.rel = "stylesheet";
  sheet.href = new URL(name, import.meta.url).href;
  root.style.visibility = "hidden";
  sheet.onload = sheet.onerror = () => (root.style.visibility = "");
  parent.append(sheet, root);
}

export const stillness = matchMedia("(prefers-reduced-motion: reduce)");

// What the views of a page tell each other: the sets that are drawn now, and the document under the pointer.
export const hub = (globalThis.frontier ??= { shown: null });

export function announce(name, detail) {
  document.dispatchEvent(new CustomEvent(`frontier:${name}`, { detail }));
}

export function listen(name, heard) {
  const handler = (event) => heard(event.detail);
  document.addEventListener(`frontier:${name}`, handler);
  return () => document.removeEventListener(`frontier:${name}`, handler);
}

// How light a colour is, from 0 to 1.
export function luminance(colour) {
  const brush = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  brush.fillStyle = colour;
  brush.fillRect(0, 0, 1, 1);
  const [r, g, b] = brush.getImageData(0, 0, 1, 1).data;
  return (0.2126 * r + 0.7152 * g + 0.0722 * b) / 255;
}

// One query's sets along a slider, as the server packed them: read once, asked in every frame of a drag.

export const DUPLICATE = 0.9;
const MOST_PATHS = 64;
const paths = (hub.paths ??= new Map());
const PRECISION = 100000;

// A set of documents and its figures. ids number the documents of its own `answers`.
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
    let sum = 0;
    ids.forEach((a, i) => {
      for (let j = 0; j < i; j++) {
        const cosine = near(a, ids[j]);
        sum += cosine + 0.5 / PRECISION;
        this.duplicates += cosine >= DUPLICATE;
      }
    });
    const pairs = (ids.length * (ids.length - 1)) / 2;
    this.pairs = pairs;
    this.diversity = pairs ? 1 - sum / pairs : null;
  }

  document(rank) {
    const { packed, right } = this.answers, id = this.ids[rank];
    const score = packed.scores ? packed.scores[id] : packed.relevance[id];
    return { row: packed.rows[id], name: packed.names[id], relevance: packed.relevance[id], score, right: right.has(id) };
  }

  cosine(i, j) {
    return this.answers.near(this.ids[i], this.ids[j]);
  }

  // The rank of the document above that is most like the one at `rank`, and how like it is.
  closestAbove(rank) {
    let best = -1, most = -Infinity;
    for (let i = 0; i < rank; i++) if (this.cosine(rank, i) > most) most = this.cosine(rank, (best = i));
    return { rank: best, cosine: most };
  }

  // For each rank the lowest rank that a chain of near-duplicates joins it to.
  groups() {
    const group = this.ids.map((_, i) => i), root = (i) => (group[i] === i ? i : root(group[i]));
    this.ids.forEach((_, i) => {
      for (let j = 0; j < i; j++) if (this.cosine(i, j) >= DUPLICATE) group[Math.max(root(i), root(j))] = Math.min(root(i), root(j));
    });
    return group.map((_, i) => root(i));
  }
}

export class Answers {
  constructor(packed) {
    this.packed = packed;
    this.right = new Set(packed.right);
    const n = packed.rows.length, cosines = new Float64Array(n * n).fill(NaN);
    let next = 0;
    for (const ids of packed.sets)
      ids.forEach((a, i) => {
        for (let j = 0; j < i; j++) {
          const cell = a * n + ids[j];
          if (Number.isNaN(cosines[cell])) cosines[cell] = cosines[ids[j] * n + a] = packed.near[next++] / PRECISION;
        }
      });
    this.near = (a, b) => cosines[a * n + b];
    this.sets = packed.sets.map((ids) => new Answer(this, ids));
    this.of = packed.which.map((which) => this.sets[which]);
  }
}

// The answers at every position of a slider: exact between breakpoints, or known at the positions alone.
export class Path extends Answers {
  constructor(packed) {
    super(packed);
    this.stops = packed.stops;
    this.low = this.stops[0];
    this.high = this.stops[this.stops.length - 1];
    this.exact = packed.ends !== null;
    this.start = packed.start ?? this.low; // a path of ratios begins above 0
    this.why = packed.why;
    this.within = packed.within || ""; // of which documents only, where not of all
    this.apart = new Map(packed.apart ?? []);
    if (this.exact) this.of.length = packed.ends.length + 1;
    // Between two samples nothing is known: a piece is drawn to halfway, and answers at its sample alone.
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

  // The set at a value; undefined where it is not known: between samples, or outside.
  at(value) {
    if (this.apart.has(value)) return this.apart.get(value);
    if (value < this.start || value > this.high) return undefined;
    const piece = this.pieces[this.piece(value)];
    return this.exact || piece.at === value ? piece.set : undefined;
  }

  // The nearest value to one side whose set (or whose order too) differs from the set here.
  change(value, way, order) {
    let at = this.piece(value);
    const here = this.pieces[at].set;
    do at += way;
    while (this.pieces[at] && (order ? this.pieces[at].set === here : this.pieces[at].set.key === here.key));
    const found = this.pieces[at];
    return found && (found.at ?? inside(found.from, found.to));
  }

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

// The shortest decimal inside an interval: a step lands on a number that people can write down.
export function inside(from, to) {
  for (let digits = 2; digits < 15; digits++) {
    const scale = 10 ** digits, middle = Math.round(((from + to) / 2) * scale), first = Math.floor(from * scale) + 1;
    for (const whole of [middle, first]) {
      const found = Number((whole / scale).toFixed(digits));
      if (found > from && found < to) return found;
    }
  }
  return (from + to) / 2;
}

// What a slider's answers are, asked once; null while they are on their way.
export function path(url, arrived) {
  const known = paths.get(url);
  if (known !== undefined) return known;
  paths.set(url, null);
  while (paths.size > MOST_PATHS) paths.delete(paths.keys().next().value);
  fetch(url)
    .then((answer) => (answer.ok ? answer.json() : Promise.reject(new Error(answer.status))))
    .then((packed) => (paths.set(url, new Path(packed)), arrived()))
    .catch(() => paths.delete(url)); // the next run of the page asks again
  return null;
}
