// Elements, numbers and colours of the views.

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
