// One plot that stays: made once, its traces and layout replaced afterwards, so that zoom, lasso and hover survive.

let library = null;

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
const MOST_BACKDROPS = 4;

function backdrop(url) {
  if (!url) return Promise.resolve([]);
  if (!backdrops.has(url)) {
    const request = fetch(url).then((answer) => {
      if (!answer.ok) throw new Error(`${answer.status} for ${url}`);
      return answer.json();
    });
    request.catch(() => backdrops.delete(url));
    backdrops.set(url, request);
    while (backdrops.size > MOST_BACKDROPS) backdrops.delete(backdrops.keys().next().value);
  }
  return backdrops.get(url);
}

// Charts stand on the page's own ground and take its ink.
function themed(layout, element) {
  const style = getComputedStyle(element);
  const property = (name, otherwise) => style.getPropertyValue(name).trim() || otherwise;
  const ink = property("--st-text-color", style.color);
  const ground = property("--st-background-color", "#ffffff");
  const faint = `color-mix(in srgb, ${ink} 15%, ${ground})`;
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
    hoverlabel: { bgcolor: ground, bordercolor: grid, font: { color: ink } },
    modebar: { bgcolor: "rgba(0,0,0,0)", color: grid, activecolor: ink },
    ...layout,
    font: { family: property("--st-font", "sans-serif"), color: ink, size: 13, ...layout.font },
  };
  const names = Object.keys(layout).filter((name) => /^[xy]axis\d*$/.test(name));
  for (const name of new Set(["xaxis", "yaxis", ...names])) page[name] = { ...axis, ...layout[name] };
  return { layout: page, ground };
}

function luminance(colour) {
  const brush = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  brush.fillStyle = colour;
  brush.fillRect(0, 0, 1, 1);
  const [r, g, b] = brush.getImageData(0, 0, 1, 1).data;
  return (0.2126 * r + 0.7152 * g + 0.0722 * b) / 255;
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
    this.div = document.createElement("div");
    this.div.className = "frontier-plot";
    this.div.setAttribute("role", "figure");
    parent.appendChild(this.div);
    this.drawing = false;
  }

  want(component) {
    this.component = component;
    this.stale = true;
    if (!this.drawing) this.draw();
  }

  async draw() {
    this.drawing = true;
    try {
      // Of the updates that came in during a drawing only the last counts.
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
    this.traces = [...below, ...data.figure.data];
    this.layout = layout;
    this.ground = ground;
    this.div.style.height = `${layout.height ?? 430}px`;
    this.div.setAttribute("aria-label", data.label);
    const mode = `${data.select} ${data.scroll}`;
    if (this.mode === mode) {
      // Without a config: with one that differs, if only in its functions, plotly makes the plot anew.
      await Plotly.react(this.div, this.traces, layout);
    } else {
      const before = this.mode;
      this.mode = mode;
      if (before === undefined) this.div.textContent = "";
      await Plotly.newPlot(this.div, this.traces, layout, this.config(Plotly, data));
      this.listen();
    }
    this.div.dataset.version = data.version;
    // The server chose the colours of what is drawn for a page that may have become dark since, or light.
    const dark = luminance(ground) < 0.5;
    if (dark !== data.dark && this.reportedDark !== dark) this.component.setStateValue("dark", dark);
    this.reportedDark = dark;
  }

  config(Plotly, data) {
    const figure = () => ({ data: this.traces, layout: { ...this.zoomed(), paper_bgcolor: this.ground } });
    const name = () => this.component.data.file;
    const size = () => ({ width: this.div.clientWidth, height: this.div.clientHeight, filename: name() });
    const image = (format, scale) => () => Plotly.downloadImage(figure(), { format, scale, ...size() });
    const html = async () => {
      const source = await (await fetch(data.library)).text();
      const shown = JSON.stringify(figure()).replaceAll("<", "\\u003c");
      const title = name().replace(/[^\w .-]/g, "_");
      save(
        `<!doctype html><html lang="en"><head><meta charset="utf-8"><title>${title}</title></head>` +
          `<body style="margin:0;background:${this.ground}"><div id="chart"></div><script>${source}</script>` +
          `<script>Plotly.newPlot("chart", {...${shown}, config: {displaylogo: false, responsive: true}})</script>` +
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
    const layout = { ...this.layout };
    for (const name of Object.keys(layout).filter((key) => /^[xy]axis\d*$/.test(key))) {
      const now = this.div.layout[name];
      if (now?.range) layout[name] = { ...layout[name], range: now.range, autorange: false };
    }
    return layout;
  }

  listen() {
    const report = (name, value) => this.component.setStateValue(name, value);
    this.div.on("plotly_click", (event) => {
      const [id] = idsOf(event);
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
  }

  end() {
    this.gone = true;
    if (this.mode !== undefined) window.Plotly?.purge(this.div);
    this.div.remove();
  }
}

const charts = new WeakMap();

export default function (component) {
  const parent = component.parentElement;
  if (!charts.has(parent)) charts.set(parent, new Chart(parent));
  charts.get(parent).want(component);
  return () => {
    charts.get(parent)?.end();
    charts.delete(parent);
  };
}
