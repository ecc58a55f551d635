// The frontier of a page without a server, as SVG: curves as wide as they are sure to keep the budget, its line, which
// can be dragged, and a dot on each curve where a slider stands.

import { BudgetLevel, isSameWindow, STYLE as LEVEL_STYLE, widenForBudget } from "./budget_level.js";
import { counted, make, nearest, number, setting } from "./parts.js";

const MARGIN = { left: 62, right: 12, top: 10, bottom: 46 };
const N_TICKS = 8;

// Round values inside a range, four to eight of them, with their texts.
export function ticks(low, high) {
  const raw = (high - low) / N_TICKS, power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((candidate) => candidate >= raw);
  const digits = Math.max(0, -Math.floor(Math.log10(step) + 1e-9)), values = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + 1e-9 * step; i++) values.push([i * step, (i * step).toFixed(digits)]);
  return values;
}

export class LiveFrontier {
  // component: setTriggerValue is told of the end of a drag.
  constructor(parent, data, component) {
    Object.assign(this, { data, window: data.window });
    const report = (...event) => {
      component.setTriggerValue(...event);
      this.place();
    };
    this.component = { setTriggerValue: report };
    this.host = make(parent, "div", "frontier-chart");
    make(this.host, "style", "", { text: LEVEL_STYLE });
    const legend = make(this.host, "p", "legend");
    for (const { sign, title, light, dark } of data.series) {
      const entry = make(legend, "span");
      make(entry, "i", "series", { text: sign, "aria-hidden": true, style: `--light:${light};--dark:${dark}` });
      entry.append(` ${title}`);
    }
    this.div = make(this.host, "div", "frontier-plot", { role: "figure", "aria-label": `${data.titles[1]} against ${data.titles[0]}` });
    this.svg = make(this.div, "svg", "frontier-svg", { "aria-hidden": true });
    this.controls = { place: () => this.place() };
    this.values = {};
    if (data.level) {
      this.level = new BudgetLevel(this, this.host);
      this.level.show(data.level);
    }
    this.sizes = new ResizeObserver(() => this.draw());
    this.sizes.observe(this.div);
  }

  draw() {
    const { clientWidth: width, clientHeight: height } = this.div, { window: view } = this;
    if (!width || !height) return;
    const across = width - MARGIN.left - MARGIN.right, up = height - MARGIN.top - MARGIN.bottom;
    const x = (value) => ((value - view.x[0]) / (view.x[1] - view.x[0])) * across;
    const y = (value) => (1 - (value - view.y[0]) / (view.y[1] - view.y[0])) * up;
    const back = (pixels) => view.y[0] + (1 - pixels / up) * (view.y[1] - view.y[0]);
    this.frame = {
      method: null, xaxis: { l2p: x, d2p: x }, yaxis: { d2p: y, p2d: back },
      left: MARGIN.left, top: this.div.offsetTop + MARGIN.top, width: across, height: up,
    };
    this.svg.textContent = "";
    this.drawAxes(width, height);
    // What lies outside of the window is cut at the plot's edges.
    const plot = make(this.svg, "svg", "plot", { x: MARGIN.left, y: MARGIN.top, width: across, height: up });
    const { envelope } = this.data;
    if (envelope) make(plot, "path", "envelope", { d: this.trace(envelope, (x, y) => `V${y}H${x}`) }); // in steps, as on Trade-off
    this.drawn = this.data.series.flatMap((series) => this.drawSeries(plot, series));
    this.dots = Object.fromEntries(Object.entries(this.data.dots).map(([key, dot]) => [key, this.makeDot(plot, dot)]));
    // The lines are new, so their widths are computed again.
    if (this.level) this.level.faded = null;
    this.place();
    this.turn(this.values, this.touched);
  }

  drawAxes(width, height) {
    const { width: across, height: up, xaxis, yaxis } = this.frame, { left, top } = MARGIN, { window: view } = this, { titles, suffix } = this.data;
    for (const [value, text] of ticks(...view.x)) {
      const at = left + xaxis.d2p(value);
      make(this.svg, "line", "grid", { x1: at, x2: at, y1: top, y2: top + up });
      make(this.svg, "text", "tick", { x: at, y: top + up + 18, "text-anchor": "middle", text });
    }
    for (const [value, text] of ticks(...view.y)) {
      const at = top + yaxis.d2p(value);
      make(this.svg, "line", "grid", { x1: left, x2: left + across, y1: at, y2: at });
      make(this.svg, "text", "tick", { x: left - 8, y: at + 4, "text-anchor": "end", text: text + suffix });
    }
    make(this.svg, "text", "title", { x: left + across, y: height - 6, "text-anchor": "end", text: `${titles[0]} →` });
    make(this.svg, "text", "title", { transform: `translate(14 ${top}) rotate(-90)`, "text-anchor": "end", text: `${titles[1]} →` });
  }

  trace({ x, y }, draw = (right, up) => `L${right},${up}`) {
    const { xaxis, yaxis } = this.frame, [across, up] = [x.map((value) => xaxis.d2p(value).toFixed(1)), y.map((value) => yaxis.d2p(value).toFixed(1))];
    return across.map((pixels, i) => (i ? draw(pixels, up[i]) : `M${pixels},${up[i]}`)).join("");
  }

  // Return what BudgetLevel widens and fades: nodes with the facts from which it computes chances.
  drawSeries(plot, { method, sign, light, dark, lines, points }) {
    const group = make(plot, "g", "series", { style: `--light:${light};--dark:${dark}` }), drawn = [];
    for (const line of lines) drawn.push({ method, keep: line.keep, lines: [make(group, "path", line.isExact ? "line" : "line join", { d: this.trace(line) })], points: [] });
    const { xaxis, yaxis } = this.frame;
    const marks = points.x.map((x, i) => {
      const mark = make(group, "text", "point", { x: xaxis.d2p(x), y: yaxis.d2p(points.y[i]), text: sign });
      make(mark, "title", "", { text: points.cards[i] });
      return mark;
    });
    if (points.keep) drawn.push({ method, keep: points.keep, lines: [], points: marks });
    return drawn;
  }

  makeDot(plot, { sign, light, dark }) {
    const dot = make(plot, "g", "dot", { style: `--light:${light};--dark:${dark}` });
    make(dot, "text", "", { text: sign });
    return dot;
  }

  fadingParts() {
    return (this.drawn ?? []).filter(({ keep }) => keep);
  }

  place() {
    if (!this.frame) return;
    // A line that is held stays under the pointer: the window follows once it is released.
    if (this.level && !this.level.isHeld && this.fitWindow()) this.draw();
    else this.level?.place([this.frame]);
  }

  // Widen the first window until it holds the budget and its choices; return whether it has changed.
  fitWindow() {
    const next = widenForBudget(this.data.window, this.level), isChanged = !isSameWindow(next, this.window);
    this.window = next;
    return isChanged;
  }

  // Move the dots to the values of the sliders, by decoder; return what the touched decoder reaches, in words.
  turn(values, touched) {
    Object.assign(this, { values, touched });
    for (const [key, mark] of Object.entries(this.dots ?? {})) {
      const dot = this.data.dots[key], index = nearest(dot.values, values[key]);
      mark.classList.toggle("touched", key === touched);
      mark.setAttribute("transform", `translate(${this.frame.xaxis.d2p(dot.x[index]).toFixed(1)} ${this.frame.yaxis.d2p(dot.y[index]).toFixed(1)})`);
    }
    return this.data.dots[touched] ? this.describe(this.data.dots[touched], values[touched]) : "";
  }

  describe({ title, symbol, values, x, y }, value) {
    const index = nearest(values, value), { unit, names, base, queries } = this.data;
    const share = base ? `, ${number(y[index], 1)}% of ${base}'s` : "";
    const means = `${names[1]} ${number(y[index] / unit)}${share}, ${names[0]} ${number(x[index])}`;
    return `${title}${symbol ? ` · ${symbol} ${setting(values[index])}` : ""}, mean of ${counted(queries, "labelled query", "labelled queries")}: ${means}`;
  }
}
