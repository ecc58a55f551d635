// Handles on a plot: a level with a veil under it, and a dot along a curve. A drag needs no server; its end is reported.
// The layout's meta declares the handles.

import { announce } from "./parts.js";

const STYLE = `
.frontier-level { position: absolute; height: 12px; margin-top: -6px; cursor: ns-resize; touch-action: none; }
.frontier-level span { position: absolute; left: 4px; bottom: -12px; padding: 0 6px; font-size: 12px; line-height: 18px;
  border-radius: 9px; white-space: nowrap; background: var(--st-text-color, #222);
  color: var(--st-background-color, #fff); }
.frontier-level:focus-visible { outline: none; }
.frontier-level:focus-visible span, .frontier-scrub input:focus-visible { outline: 2px solid var(--st-primary-color); }
.frontier-dot { position: absolute; left: 0; top: 0; width: 14px; height: 14px; margin: -7px 0 0 -7px;
  border-radius: 50%; border: 3px solid var(--st-background-color, #fff); box-sizing: border-box; pointer-events: none;
  outline: 2px solid var(--st-text-color, #222); }
.frontier-dot.outside { opacity: .5; outline-style: dotted; }
.frontier-scrub { display: flex; flex-wrap: wrap; align-items: center; gap: 4px 12px; font-size: 14px; padding: 4px 0; }
.frontier-scrub input { flex: 1 1 160px; min-width: 120px; height: 24px; }
.frontier-scrub output { font-variant-numeric: tabular-nums; min-width: 15em; }
`;
const KEY_PAUSE_MS = 400; // after the last key, before the level is reported

export class Controls {
  constructor(chart) {
    this.chart = chart;
    this.parts = [];
  }

  show(meta) {
    this.meta = meta;
    const host = this.chart.div.parentElement;
    if (!this.style && (meta.level || meta.curve)) {
      host.style.position = "relative";
      this.style = this.add("style", host);
      this.style.textContent = STYLE;
    }
    if (meta.level && !this.level) this.makeLevel(host);
    if (meta.curve && !this.scrub) this.makeCurve(host);
    // A handle that is held stays under the pointer, whatever the page redraws.
    if (this.level && !this.held) this.value = meta.level?.value;
    if (this.scrub && !this.held) this.turnTo(meta.curve);
    this.place();
  }

  add(name, host) {
    const element = document.createElement(name);
    host.appendChild(element);
    this.parts.push(element);
    return element;
  }

  report(name, value) {
    this.chart.component.setTriggerValue("adjusted", { name, value });
  }

  // The plot's area in pixels, from the corner of its container.
  area() {
    const { div } = this.chart;
    const { xaxis, yaxis, _size } = div._fullLayout;
    return { xaxis, yaxis, left: div.offsetLeft + _size.l, top: div.offsetTop + _size.t, width: _size.w, height: _size.h };
  }

  makeLevel(host) {
    const level = (this.level = this.add("div", host));
    level.className = "frontier-level";
    level.tabIndex = 0;
    level.setAttribute("role", "slider");
    level.setAttribute("aria-orientation", "vertical");
    level.appendChild(document.createElement("span"));
    level.addEventListener("pointerdown", (event) => {
      level.setPointerCapture(event.pointerId);
      this.held = true;
      event.preventDefault();
      level.focus();
    });
    level.addEventListener("pointermove", (event) => {
      if (!this.held || !level.hasPointerCapture(event.pointerId)) return;
      const { yaxis, top } = this.area();
      const y = event.clientY - this.chart.div.parentElement.getBoundingClientRect().top - top;
      this.raise(yaxis.p2d(y));
    });
    const drop = () => {
      if (!this.held) return;
      this.held = false;
      if (this.value !== this.meta.level.value) this.report("level", this.value);
    };
    level.addEventListener("pointerup", drop);
    level.addEventListener("pointercancel", drop);
    level.addEventListener("keydown", (event) => {
      const step = { ArrowUp: 1, ArrowRight: 1, ArrowDown: -1, ArrowLeft: -1, PageUp: 5, PageDown: -5 }[event.key];
      if (!step) return;
      event.preventDefault();
      this.raise(this.value + step * this.meta.level.step);
      clearTimeout(this.waiting);
      this.waiting = setTimeout(() => this.report("level", this.value), KEY_PAUSE_MS);
    });
  }

  raise(value) {
    const { low, high, step } = this.meta.level;
    const next = Math.min(high, Math.max(low, Math.round(value / step) * step));
    if (next === this.value) return;
    this.value = next;
    const changes = {};
    (this.chart.div.layout.shapes ?? []).forEach((shape, i) => {
      if (shape.name === "veil" || shape.name === "budget") changes[`shapes[${i}].y1`] = next;
      if (shape.name === "budget") changes[`shapes[${i}].y0`] = next;
    });
    window.Plotly.relayout(this.chart.div, changes);
    this.place();
  }

  makeCurve(host) {
    const row = (this.scrub = this.add("label", host));
    row.className = "frontier-scrub";
    this.name = row.appendChild(document.createElement("span"));
    this.input = row.appendChild(document.createElement("input"));
    this.input.type = "range";
    this.input.min = 0;
    this.said = row.appendChild(document.createElement("output"));
    this.dot = this.add("div", host);
    this.dot.className = "frontier-dot";
    this.input.addEventListener("input", () => {
      this.held = true;
      this.at = Number(this.input.value);
      this.place();
      announce("along", { value: this.meta.curve.values[this.at] });
    });
    this.input.addEventListener("change", () => {
      // Every key press is a change; only the last of a series is reported.
      clearTimeout(this.resting);
      this.resting = setTimeout(() => {
        this.held = false;
        this.report("curve", this.meta.curve.values[this.at]);
      }, 200);
    });
  }

  turnTo(curve) {
    this.scrub.hidden = this.dot.hidden = !curve;
    this.scrub.style.display = curve ? "" : "none";
    if (!curve) return;
    this.name.textContent = curve.name;
    this.input.max = curve.values.length - 1;
    this.input.setAttribute("aria-label", curve.name);
    this.input.style.accentColor = this.dot.style.background = curve.colour;
    this.input.style.colorScheme = this.chart.component.data.dark ? "dark" : "light";
    this.at = curve.at;
    this.input.value = this.at;
  }

  place() {
    if (!this.meta || !this.chart.div._fullLayout?._size) return;
    const { xaxis, yaxis, left, top, width, height } = this.area();
    if (this.level) {
      const { meta, level } = this;
      const y = meta.level ? yaxis.d2p(this.value) : -1;
      level.style.display = y >= 0 && y <= height ? "" : "none";
      level.style.left = `${left}px`;
      level.style.width = `${width}px`;
      level.style.top = `${top + y}px`;
      if (meta.level) {
        const text = meta.level.label.replace("{}", `${Math.round(this.value)}%`);
        level.firstChild.textContent = text;
        for (const [name, value] of Object.entries({ valuenow: this.value, valuemin: meta.level.low,
          valuemax: meta.level.high, valuetext: text, label: "Budget" })) level.setAttribute(`aria-${name}`, value);
      }
    }
    if (this.scrub && this.meta.curve) {
      const { x, y, texts } = this.meta.curve;
      const within = (pixels, maxPixels) => Math.min(maxPixels, Math.max(0, pixels));
      const [x0, y0] = [xaxis.d2p(x[this.at]), yaxis.d2p(y[this.at])];
      const [across, up] = [within(x0, width), within(y0, height)];
      // A dot outside the zoomed range stands hollow at the edge.
      this.dot.classList.toggle("outside", across !== x0 || up !== y0);
      this.dot.style.transform = `translate(${left + across}px, ${top + up}px)`;
      this.said.textContent = texts[this.at];
      this.input.setAttribute("aria-valuetext", texts[this.at]);
    }
    if (this.meta.labels) this.prune();
  }

  // Labels were placed for a wide plot. On a narrow one, hide those that cover an earlier one.
  prune() {
    const visibleBoxes = [];
    const edge = this.chart.div.getBoundingClientRect();
    for (const label of this.chart.div.querySelectorAll(".annotation")) {
      const box = label.getBoundingClientRect();
      const isClear = (other) =>
        box.right <= other.left || other.right <= box.left || box.bottom <= other.top || other.bottom <= box.top;
      const fits = box.left >= edge.left && box.right <= edge.right && visibleBoxes.every(isClear);
      label.style.visibility = fits ? "visible" : "hidden";
      if (fits) visibleBoxes.push(box);
    }
  }

  end() {
    clearTimeout(this.waiting);
    clearTimeout(this.resting);
    for (const part of this.parts) part.remove();
  }
}
