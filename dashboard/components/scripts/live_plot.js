// A plot that is created once. Later its traces and layout are replaced, so that zoom, lasso and hover survive.

import { takeShapes } from "./budget_level.js";
import { fitHoverTexts } from "./hover_lines.js";
import { MapOverlay, fitMapHeight, withGutters } from "./map_overlay.js";
import { arrangeMatrices } from "./matrices.js";
import { arrangePanels } from "./panels.js";
import { luminance } from "./parts.js";
import { Controls, widenRanges } from "./plot_controls.js";

let library = null;

// All charts of a page share one copy of the library; after a failure the next chart tries again.
function plotly(url) {
  if (window.Plotly) return Promise.resolve(window.Plotly);
  library ??= new Promise((resolve, reject) => {
    const script = document.createElement("script");
    script.src = url;
    script.onload = () => resolve(window.Plotly);
    script.onerror = () => {
      library = null;
      reject(new Error(`no chart library at ${url}`));
    };
    document.head.appendChild(script);
  });
  return library;
}

const backdrops = new Map();
const MAX_BACKDROPS = 4;
const TOOLS_PX = 28; // right of the plot, for the upright bar of tools, which covers nothing there
// Until the library has come, a chart is a grey box of its height. A phone has no tools, as it has no pointer.
const STYLE = `
@media (min-width: 641px) { .frontier-plot { margin-right: ${TOOLS_PX}px; } }
/* At the foot, as controls of a map stand at its head. */
.frontier-plot .modebar { inset: auto -${TOOLS_PX}px 0 auto !important; max-height: none !important; }
.frontier-plot:empty { border-radius: 6px; background: color-mix(in srgb, var(--st-text-color, #222) 9%, transparent);
  animation: frontier-empty 1ms .2s backwards; }
@keyframes frontier-empty { from { background: none; } }
`;

function backdrop(url) {
  if (!url) return Promise.resolve([]);
  if (!backdrops.has(url)) {
    const request = fetch(url).then((answer) => {
      if (!answer.ok) throw new Error(`${answer.status} for ${url}`);
      return answer.json();
    });
    request.catch(() => backdrops.delete(url));
    backdrops.set(url, request);
    // Maps iterate in the order of insertion, so the oldest backdrop goes first.
    while (backdrops.size > MAX_BACKDROPS) backdrops.delete(backdrops.keys().next().value);
  }
  return backdrops.get(url);
}

// Add the page's colours and font to a layout. Values of the layout itself win.
function themed(layout, element) {
  const style = getComputedStyle(element);
  const property = (name, fallback) => style.getPropertyValue(name).trim() || fallback;
  const ink = property("--st-text-color", style.color);
  const ground = property("--st-background-color", "#ffffff");
  const faint = `color-mix(in srgb, ${ink} 15%, ${ground})`;
  // Plotly does not understand color-mix(), so the browser computes the colour on a helper element.
  const line = document.createElement("i");
  line.style.color = faint;
  element.appendChild(line);
  const grid = getComputedStyle(line).color.replace(/color\(srgb ([^)]+)\)/, (_, rest) => {
    const [r, g, b] = rest.trim().split(/\s+/).map((v) => Math.round(255 * Number(v)));
    return `rgb(${r}, ${g}, ${b})`;
  });
  line.remove();
  const axis = { gridcolor: grid, zerolinecolor: grid, linecolor: grid, automargin: true };
  const page = {
    paper_bgcolor: "rgba(0,0,0,0)",
    plot_bgcolor: "rgba(0,0,0,0)",
    hoverlabel: { bgcolor: ground, bordercolor: grid, align: "left", font: { family: property("--st-font", "sans-serif"), color: ink } },
    modebar: { orientation: "v", bgcolor: "rgba(0,0,0,0)", color: grid, activecolor: ink },
    ...layout,
    font: { family: property("--st-font", "sans-serif"), color: ink, size: 13, ...layout.font },
  };
  const names = Object.keys(layout).filter((name) => /^[xy]axis\d*$/.test(name));
  for (const name of new Set(["xaxis", "yaxis", ...names])) page[name] = { ...axis, ...layout[name] };
  return { layout: page, ground };
}

const idOf = (point) => {
  const id = Array.isArray(point.customdata) ? point.customdata[0] : point.customdata;
  return id === undefined || id === null ? null : String(id);
};

function idsOf(event) {
  const ids = new Set();
  for (const point of event?.points ?? []) {
    const id = idOf(point);
    if (id !== null) ids.add(id);
  }
  return [...ids];
}

// The URL is revoked later, as some browsers begin the download after the click.
function save(text, type, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

const PAGE_ICON = {
  width: 24,
  height: 24,
  path: "M14 2H6a2 2 0 0 0-2 2v16a2 2 0 0 0 2 2h12a2 2 0 0 0 2-2V8l-6-6zm4 18H6V4h7v5h5v11zM8 12h8v2H8v-2zm0 4h8v2H8v-2z",
};
const DRAWING_ICON = { width: 24, height: 24, path: "M12 2 2 22h20L12 2zm0 5.5L18.5 20h-13L12 7.5z" };

class Chart {
  constructor(parent) {
    this.box = document.createElement("div");
    this.box.className = "frontier-box";
    this.div = document.createElement("div");
    this.div.className = "frontier-plot";
    this.div.setAttribute("role", "figure");
    this.box.appendChild(document.createElement("style")).textContent = STYLE;
    this.box.appendChild(this.div);
    parent.appendChild(this.box);
    this.drawing = false;
    this.controls = new Controls(this);
    this.sizes = new ResizeObserver(() => this.rearrange());
    this.sizes.observe(this.box);
  }

  // The width that a reader sees of the plot, which may scroll.
  get roomPx() {
    return this.box.clientWidth - parseFloat(getComputedStyle(this.div).marginRight || 0);
  }

  // The lines and points whose width and opacity follow the budget, with the facts from which chances are computed.
  fadingParts() {
    return [...this.div.querySelectorAll(".scatterlayer .trace")].flatMap((node) => {
      const { keep, method, minOpacity } = node.__data__?.[0]?.trace?.meta ?? {};
      if (!keep) return [];
      const points = [];
      // Plotly draws no element for a point outside of the data, so each one names its position.
      for (const point of node.querySelectorAll("path.point")) points[point.__data__.i] = point;
      return [{ keep, method, minOpacity, lines: node.querySelectorAll("path.js-line"), points }];
    });
  }

  want(component) {
    this.component = component;
    this.stale = true;
    const { layout } = component.data.figure;
    if (component.data.overlay) layout.height = fitMapHeight(layout, this.roomPx);
    this.div.style.height = `${layout.height}px`; // before there is a plot in it
    if (!this.drawing) this.draw();
  }

  // Heat maps and panels have as many columns as the chart has room for, and a map has its labels at its edges.
  rearrange() {
    const { figure, overlay } = this.component?.data ?? {};
    const { matrices, panels } = figure?.layout.meta ?? {};
    if (!(matrices || panels || overlay) || this.width === undefined || this.roomPx === this.width) return;
    this.stale = true;
    if (!this.drawing) this.draw();
  }

  async draw() {
    this.drawing = true;
    try {
      // Only the last of the updates that arrived during a drawing counts.
      while (this.stale && !this.gone) {
        this.stale = false;
        await this.once(this.component.data);
      }
    } catch (error) {
      this.mode = undefined; // the plot is gone with what was in it
      this.div.textContent = `This chart cannot be drawn: ${error.message}`;
    } finally {
      this.drawing = false;
    }
  }

  async once(data) {
    const [Plotly, below] = await Promise.all([plotly(data.library), backdrop(data.backdrop)]);
    if (this.gone) return;
    const { layout, ground } = themed(data.figure.layout, this.div.parentElement);
    const ink = layout.font.color;
    if (data.overlay) this.follow(layout);
    const pale = /^#[0-9a-f]{6}$/i.test(ground) ? `${ground}bf` : "rgba(0,0,0,0)";
    for (const label of layout.annotations ?? []) if (/label$/.test(label.name ?? "")) label.bgcolor = pale;
    this.traces = [...below, ...fitHoverTexts(data.figure.data, this.roomPx)];
    this.overlaid = takeShapes(layout);
    this.fit(layout);
    this.width = this.roomPx;
    arrangeMatrices(layout, this.width);
    arrangePanels(layout, this.width);
    this.div.style.height = `${layout.height}px`;
    this.layout = layout;
    this.ground = ground;
    this.div.setAttribute("aria-label", data.label);
    const mode = `${data.select} ${data.scroll}`;
    if (this.mode === mode) {
      // No config is passed: plotly recreates the plot if its config differs, even only in functions.
      await Plotly.react(this.div, this.traces, layout);
      // Plotly follows the window by itself, and not the columns of the page.
      if (this.div.clientWidth !== this.div._fullLayout.width) await Plotly.Plots.resize(this.div);
    } else {
      const previousMode = this.mode;
      this.mode = mode;
      if (previousMode === undefined) this.div.textContent = "";
      await Plotly.newPlot(this.div, this.traces, layout, this.config(Plotly, data));
      this.listen();
    }
    this.controls.show(layout.meta ?? {});
    this.div.dataset.version = data.version;
    if (data.overlay) {
      this.overlay ??= new MapOverlay(this.box, this.div);
      const documents = this.div._fullData.slice(0, below.length).filter((trace) => trace.customdata);
      this.overlay.update(data.overlay, documents, ink, ground);
    }
    // The server chose the traces' colours for a light or a dark page; tell it if the page has changed since.
    const dark = luminance(ground) < 0.5;
    if (dark !== data.dark && this.reportedDark !== dark) this.component.setStateValue("dark", dark);
    this.reportedDark = dark;
  }

  // A map follows its sets until somebody zooms. Plotly keeps a zoom as long as it receives the same ranges.
  follow(layout) {
    if (this.zoomedIn !== layout.uirevision)
      this.ranges = [this.component.data.overlay.isUnlabelled ? layout.xaxis.range : withGutters(layout.xaxis.range, this.roomPx), layout.yaxis.range];
    [layout.xaxis.range, layout.yaxis.range] = this.ranges;
  }

  // Keep the window that was widened for the dot of a curve, until the dot is back in the page's own window.
  fit(layout) {
    const { curve } = layout.meta ?? {};
    if (this.wide?.revision !== layout.uirevision || !widenRanges(curve, curve?.at, layout)) this.wide = null;
    // A dot that starts outside the window widens it too.
    const ranges = this.wide ?? widenRanges(curve, curve?.at, layout);
    if (!ranges) return;
    this.wide = { ...ranges, revision: layout.uirevision };
    for (const name of Object.keys(layout).filter((key) => /^[xy]axis\d*$/.test(key))) layout[name].range = ranges[name[0]];
  }

  widen(ranges) {
    this.wide = { ...ranges, revision: this.layout.uirevision };
    window.Plotly.relayout(this.div, { "xaxis.range": ranges.x, "yaxis.range": ranges.y });
  }

  config(Plotly, data) {
    const figure = () => ({ data: [...this.traces, ...(this.overlay?.traces() ?? [])], layout: { ...this.zoomed(), paper_bgcolor: this.ground } });
    const name = () => this.component.data.file;
    const size = () => ({ width: this.div.clientWidth, height: this.div.clientHeight, filename: name() });
    const image = (format, scale) => () => Plotly.downloadImage(figure(), { format, scale, ...size() });
    const html = async () => {
      const source = await (await fetch(data.library)).text();
      // An escaped "<" cannot end the script element of the page.
      const figureJson = JSON.stringify(figure()).replaceAll("<", "\\u003c");
      const title = name().replace(/[^\w .-]/g, "_");
      save(
        `<!doctype html><html lang="en"><head><meta charset="utf-8"><title>${title}</title>` +
          `<style>#chart { margin-right: ${TOOLS_PX}px; } .modebar { right: -${TOOLS_PX}px !important; }</style></head>` +
          `<body style="margin:0;background:${this.ground}"><div id="chart"></div><script>${source}</script>` +
          `<script>Plotly.newPlot("chart", {...${figureJson}, config: {displaylogo: false, responsive: true}})</script>` +
          "</body></html>",
        "text/html",
        `${name()}.html`,
      );
    };
    const marks = data.select ? ["lasso2d", "select2d"] : [];
    return {
      displaylogo: false,
      displayModeBar: "hover",
      responsive: true,
      scrollZoom: data.scroll,
      modeBarButtons: [
        ["pan2d", "zoom2d", ...marks, "resetScale2d"],
        [
          { name: "png", title: "Download as PNG", icon: Plotly.Icons.camera, click: image("png", 2) },
          { name: "svg", title: "Download as SVG", icon: DRAWING_ICON, click: image("svg", 1) },
          { name: "html", title: "Download as a page (HTML)", icon: PAGE_ICON, click: html },
        ],
      ],
    };
  }

  zoomed() {
    const layout = { ...this.layout, ...this.overlaid };
    for (const name of Object.keys(layout).filter((key) => /^[xy]axis\d*$/.test(key))) {
      const currentAxis = this.div.layout[name];
      if (currentAxis?.range) layout[name] = { ...layout[name], range: currentAxis.range, autorange: false };
    }
    return layout;
  }

  listen() {
    const report = (name, value) => this.component.setStateValue(name, value);
    this.div.on("plotly_click", (event) => {
      const pin = this.overlay?.rowAt(event.event) ?? null;
      const id = pin === null ? idsOf(event)[0] : String(pin);
      if (id !== undefined) this.component.setTriggerValue("clicked", id);
    });
    this.div.on("plotly_selected", (event) => {
      // After a redraw the same selection is reported again.
      const ids = idsOf(event);
      const text = JSON.stringify(ids);
      if (event && text !== this.reportedIds) report("selected", ids);
      this.reportedIds = event ? text : this.reportedIds;
    });
    this.div.on("plotly_deselect", () => {
      this.reportedIds = "[]";
      report("selected", []);
    });
    for (const name of ["plotly_relayouting", "plotly_afterplot"]) this.div.on(name, () => this.overlay?.draw());
    this.div.on("plotly_relayout", (event) => {
      if ("xaxis.range[0]" in event) this.zoomedIn = this.layout.uirevision;
    });
    // A pointer that only passes over points reports none of them.
    let waiting = null;
    this.div.on("plotly_hover", (event) => {
      clearTimeout(waiting);
      const [id] = idsOf(event);
      if (!this.component.data.hover || id === undefined) return;
      waiting = setTimeout(() => {
        if (id !== this.hovered) report("hovered", (this.hovered = id));
      }, 250);
    });
    this.div.on("plotly_unhover", () => clearTimeout(waiting));
    this.div.on("plotly_afterplot", () => this.controls.redrawn());
    this.div.on("plotly_relayouting", () => this.controls.place());
  }

  end() {
    this.gone = true;
    this.sizes.disconnect();
    this.overlay?.end();
    this.controls.end();
    if (this.mode !== undefined) window.Plotly?.purge(this.div);
    this.box.remove();
  }
}

export function mount(parent) {
  const chart = new Chart(parent);
  return { update: (component) => chart.want(component), end: () => chart.end() };
}
