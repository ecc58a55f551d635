// Handles on a plot: a budget's level, and a dot along a curve. A drag needs no server; its end is reported.
// The layout's meta declares the handles.

import { BudgetLevel, isSameWindow, STYLE as LEVEL_STYLE, widenForBudget } from "./budget_level.js";
import { arrangeLabels } from "./labels.js";
import { turnTitles } from "./panels.js";
import { announce, make } from "./parts.js";

const STYLE = `
${LEVEL_STYLE}
.frontier-dot { position: absolute; left: 0; top: 0; width: 14px; height: 14px; margin: -7px 0 0 -7px;
  border-radius: 50%; border: 3px solid var(--st-background-color, #fff); box-sizing: border-box; pointer-events: none;
  outline: 2px solid var(--st-text-color, #222); }
.frontier-scrub { display: flex; flex-wrap: wrap; align-items: center; gap: 4px 12px; font-size: 14px; padding: 4px 0; }
.frontier-scrub { --faint: color-mix(in srgb, var(--st-text-color, #222) 24%, var(--st-background-color, #fff)); }
.frontier-scrub input { flex: 1 1 160px; min-width: 120px; height: 24px; appearance: none; background: none; cursor: grab; touch-action: pan-y; }
.frontier-scrub input::-webkit-slider-runnable-track { height: 4px; border-radius: 2px; background: linear-gradient(90deg,
  var(--own) calc(8px + (100% - 16px) * var(--at, 0)), var(--faint) 0); }
.frontier-scrub input::-webkit-slider-thumb { appearance: none; width: 16px; height: 16px; margin-top: -6px; border-radius: 50%;
  background: var(--own); border: 3px solid var(--st-background-color, #fff); box-shadow: 0 0 0 1.5px var(--own); }
.frontier-scrub input::-moz-range-track { height: 4px; border-radius: 2px; background: var(--faint); }
.frontier-scrub input::-moz-range-progress { height: 4px; border-radius: 2px; background: var(--own); }
.frontier-scrub input::-moz-range-thumb { width: 10px; height: 10px; background: var(--own); border: 3px solid var(--st-background-color, #fff); border-radius: 50%; }
.frontier-scrub input:focus-visible { outline: 2px solid var(--st-primary-color); }
.frontier-scrub output { font-variant-numeric: tabular-nums; min-width: 15em; }
`;
const REPORT_PAUSE_MS = 200; // after the last change of the dot
const BUDGET_MARGIN = 0.3; // share of a window that is added at once, as Plotly takes a third of a second for nine panels
const EDGE = 0.04; // room around the dot, as a share of a range that is widened for it

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
    if (meta.level && !this.level) this.level = new BudgetLevel(this.chart, host);
    if (meta.curve && !this.scrub) this.makeCurve(host);
    this.level?.show(meta.level);
    // A handle that is held stays under the pointer, whatever the page redraws.
    if (this.scrub && !this.isHeld) this.turnTo(meta.curve);
    this.place();
  }

  add(name, host) {
    const element = make(host, name);
    this.parts.push(element);
    return element;
  }

  // The areas of the plot's panels in pixels, from the corner of its container, with the method that each one shows.
  frames() {
    const { div } = this.chart;
    return (this.meta.panels ?? [null]).map((method, i) => {
      const [xaxis, yaxis] = ["x", "y"].map((letter) => div._fullLayout[`${letter}axis${i ? i + 1 : ""}`]);
      const [left, top] = [div.offsetLeft + xaxis._offset, div.offsetTop + yaxis._offset];
      return { method, xaxis, yaxis, left, top, width: xaxis._length, height: yaxis._length };
    });
  }

  makeCurve(host) {
    const row = (this.scrub = this.add("label", host));
    row.className = "frontier-scrub";
    this.name = make(row, "span");
    this.input = make(row, "input", "", { type: "range", min: 0 });
    this.said = make(row, "output");
    this.dot = this.add("div", host);
    this.dot.className = "frontier-dot";
    this.input.addEventListener("input", () => {
      this.isHeld = true;
      this.at = Number(this.input.value);
      const { values, settings, means } = this.meta.curve;
      announce("along", { value: values[this.at], setting: settings[this.at], means: means[this.at] });
      if (!this.widen()) this.place();
    });
    this.input.addEventListener("change", () => {
      // Every key press is a change; only the last of a series is reported.
      clearTimeout(this.resting);
      this.resting = setTimeout(() => {
        this.isHeld = false;
        this.chart.component.setTriggerValue("adjusted", { name: "curve", value: this.meta.curve.values[this.at] });
      }, REPORT_PAUSE_MS);
    });
  }

  turnTo(curve) {
    this.scrub.hidden = this.dot.hidden = !curve;
    this.scrub.style.display = curve ? "" : "none";
    if (!curve) return;
    this.name.textContent = curve.name;
    this.input.max = curve.values.length - 1;
    this.input.setAttribute("aria-label", curve.name);
    this.dot.style.background = curve.colour;
    this.input.style.setProperty("--own", curve.colour);
    this.at = curve.at;
    this.input.value = this.at;
  }

  // Zoom out if the dot has left the window, once for the whole curve; return true if the plot is drawn anew.
  widen() {
    const ranges = widenRanges(this.meta.curve, this.at, this.chart.div.layout);
    if (!ranges) return false;
    this.chart.widen(ranges);
    return true;
  }

  // Zoom out if the budget or one of its choices has left the window, unless somebody has zoomed; return true if the
  // plot is drawn anew. The page's next drawing has a window of its own.
  widenForBudget() {
    const { div, layout, zoomedIn } = this.chart;
    if (zoomedIn !== undefined && zoomedIn === layout.uirevision) return false;
    const visible = { x: div.layout.xaxis.range, y: div.layout.yaxis.range }, next = widenForBudget(visible, this.level, BUDGET_MARGIN);
    if (isSameWindow(visible, next)) return false;
    this.chart.widen(next);
    return true;
  }

  // Plotly tells of a drawing before `show` has its meta: what is known then is of the last drawing, whose panels may
  // stand elsewhere.
  redrawn() {
    this.level?.redrawn();
    if (this.meta === this.chart.layout.meta) this.place();
  }

  place() {
    if (!this.meta || !this.chart.div._fullLayout?._size) return;
    const frames = this.frames();
    this.level?.place(frames);
    if (this.meta.titles && this.meta.level) turnTitles(this.chart.div, this.meta.titles, this.level);
    if (this.scrub && this.meta.curve) {
      const { x, y, texts, method } = this.meta.curve;
      const { xaxis, yaxis, left, top } = frames.find((frame) => frame.method === method) ?? frames[0];
      this.dot.style.transform = `translate(${left + xaxis.d2p(x[this.at])}px, ${top + yaxis.d2p(y[this.at])}px)`;
      this.input.style.setProperty("--at", this.at / Math.max(1, x.length - 1));
      this.said.textContent = texts[this.at];
      this.input.setAttribute("aria-valuetext", texts[this.at]);
    }
    if (this.meta.labels) arrangeLabels(this.chart.div, this.level?.labelBoxes() ?? [], this.level?.lineHeights() ?? []);
  }

  end() {
    clearTimeout(this.resting);
    this.level?.end();
    for (const part of this.parts) part.remove();
  }
}

// Ranges of both axes that hold the whole curve; null if the dot at a position of it is inside the ranges that are drawn.
export function widenRanges(curve, position, { xaxis, yaxis }) {
  const isInside = ([low, high], value) => low <= value && value <= high;
  if (!curve || (isInside(xaxis.range, curve.x[position]) && isInside(yaxis.range, curve.y[position]))) return null;
  const around = ([low, high], values) => {
    const [least, greatest] = [Math.min(low, ...values), Math.max(high, ...values)], room = EDGE * (greatest - least);
    return [least < low ? least - room : low, greatest > high ? greatest + room : high];
  };
  return { x: around(xaxis.range, curve.x), y: around(yaxis.range, curve.y) };
}
