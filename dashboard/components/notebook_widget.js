// The widget of a notebook: a picker of queries, the pages' own tiles and lists, and the text of a document.
// `openViews` stands before this text (notebook_widget.py): it returns the views' modules around a state of their own.

const SETTLING_MS = [0, 300, 1500]; // after a change of the notebook's theme, whose colours may arrive late
const LIGHT = { "--st-text-color": "#31333f", "--st-primary-color": "#4f46e5" };
const DARK = { "--st-text-color": "#e8e8ee", "--st-primary-color": "#a5b4fc" };
const STYLE = `
  :host { display: block; }
  .frontier-notebook { padding: 4px 2px; background: var(--st-background-color); color: var(--st-text-color);
    --st-font: var(--jp-ui-font-family, var(--vscode-font-family, system-ui, sans-serif)); font: 14px/1.35 var(--st-font); }
  .picker { display: flex; gap: 6px; margin-bottom: 6px; }
  .picker select, .picker button { font: inherit; color: inherit; background: transparent; min-height: 30px;
    border: 1px solid color-mix(in srgb, currentColor 28%, transparent); border-radius: 8px; padding: 0 8px; }
  .picker select { flex: 1; min-width: 0; text-overflow: ellipsis; }
  .picker option { color: var(--st-text-color); background: var(--st-background-color); }
  .picker button { min-width: 34px; cursor: pointer; }
  .picker :focus-visible { outline: 2px solid var(--st-primary-color); }
  .waiting { opacity: .55; }
  article { position: relative; margin-top: 8px; padding: 8px 40px 8px 10px; max-height: 240px; overflow: auto; white-space: pre-wrap;
    border: 1px solid color-mix(in srgb, currentColor 20%, transparent); border-radius: 8px; }
  article[hidden] { display: none; }
  article button { position: absolute; top: 6px; right: 6px; font: inherit; color: inherit; background: none; border: 0; cursor: pointer; padding: 4px 8px; }
  .error { color: color-mix(in srgb, #d33 70%, var(--st-text-color)); }`;

// The colour that the notebook shows behind a node, white if nothing has one.
function findGround(node) {
  for (let each = node; each; each = each.parentElement ?? each.getRootNode().host) {
    const colour = getComputedStyle(each).backgroundColor;
    if (colour !== "transparent" && !/^rgba\(.*, 0\)$/.test(colour)) return colour;
  }
  return "#fff";
}

class NotebookView {
  constructor(model, el) {
    this.model = model;
    this.host = document.createElement("div");
    // Lumino, of JupyterLab, would take the arrow keys and letters for its own commands.
    this.host.dataset.lmSuppressShortcuts = "true";
    el.append(this.host);
    const shadow = this.host.attachShadow({ mode: "open" });
    const style = document.createElement("style");
    style.textContent = STYLE;
    this.root = document.createElement("div");
    this.root.className = "frontier-notebook";
    shadow.append(style, this.root);
    this.hub = this.host.frontier = { shown: null, root: this.root };
    const modules = openViews(this.hub);
    this.parts = modules["parts.js"];
    this.build(modules);
    // Other notebooks listen at the document, after the views have taken the key.
    this.root.addEventListener("keydown", (event) => event.ctrlKey || event.metaKey || event.stopPropagation());
    this.watchTheme();
    model.on("change:_view", () => this.update());
    model.on("change:_document", () => this.open());
    model.on("change:_error", () => this.fail());
    this.update();
    this.open();
    this.fail();
  }

  build(modules) {
    const { make } = this.parts;
    const picker = make(this.root, "div", "picker");
    this.select = make(picker, "select", "", { "aria-label": "Query" });
    this.model.get("_queries").forEach(([id, text]) => make(this.select, "option", "", { value: id, text }));
    this.select.onchange = () => this.ask(this.select.value);
    for (const [sign, label, way] of [["‹", "Previous query", -1], ["›", "Next query", 1]])
      make(picker, "button", "", { type: "button", text: sign, "aria-label": label, title: label }).onclick = () => this.step(way);
    this.problem = make(this.root, "p", "error", { role: "alert" });
    this.tiles = modules["tiles.js"].mount(make(this.root, "div"));
    this.lists = modules["lists.js"].mount(make(this.root, "div"));
    this.article = make(this.root, "article", "", { "aria-live": "polite" });
  }

  update() {
    const { tiles, opened } = this.model.get("_view");
    this.hub.packedAnswers.clear();
    for (const [url, packed] of Object.entries(this.model.get("_answers"))) this.hub.packedAnswers.set(url, packed);
    this.select.value = this.model.get("query");
    this.root.classList.remove("waiting");
    const report = { setStateValue: (name, value) => this.commit(value), setTriggerValue: (name, value) => this.report(name, value) };
    this.tiles.update({ data: tiles, ...report });
    this.lists.update({ data: { query: tiles.query, opened, votes: null }, ...report });
  }

  // Tell the kernel what the sliders were released at: the one message of a drag.
  commit(committed) {
    this.model.set("_committed", committed);
    this.model.save_changes();
  }

  report(name, value) {
    if (name === "stepped") return this.step(value);
    if (name !== "opened") return;
    this.model.set("_opened", value.row);
    this.model.save_changes();
  }

  step(way) {
    const { options, selectedIndex } = this.select;
    this.ask(options[(selectedIndex + way + options.length) % options.length].value);
  }

  ask(query) {
    this.select.value = query;
    this.root.classList.add("waiting");
    this.model.set("query", query);
    this.model.save_changes();
  }

  open() {
    const given = this.model.get("_document"), { make } = this.parts;
    this.article.textContent = "";
    this.article.hidden = !given;
    if (!given) return;
    make(this.article, "b", "", { text: given.title || given.id });
    make(this.article, "div", "", { text: given.text });
    make(this.article, "button", "", { type: "button", text: "×", "aria-label": "Close" }).onclick = () => this.report("opened", { row: null });
  }

  fail() {
    this.problem.textContent = this.model.get("_error");
    this.problem.hidden = !this.problem.textContent;
    this.root.classList.remove("waiting"); // an error that is over may come back with the view as it was
  }

  watchTheme() {
    const paint = () => {
      const ground = findGround(this.host.parentElement), isDark = this.parts.luminance(ground) < 0.4;
      if (this.ground === ground) return;
      this.ground = ground;
      this.root.style.colorScheme = isDark ? "dark" : "light";
      for (const [name, value] of Object.entries({ ...(isDark ? DARK : LIGHT), "--st-background-color": ground })) this.root.style.setProperty(name, value);
    };
    const repaint = () => (this.timers = SETTLING_MS.map((delay) => setTimeout(paint, delay)));
    this.observer = new MutationObserver(repaint);
    // The attributes by which JupyterLab, Visual Studio Code, Colab and marimo name their theme.
    for (const node of [document.documentElement, document.body]) this.observer.observe(node, { attributes: true });
    this.scheme = matchMedia("(prefers-color-scheme: dark)");
    this.scheme.addEventListener("change", repaint);
    this.stopTheme = () => (this.observer.disconnect(), this.scheme.removeEventListener("change", repaint), this.timers?.forEach(clearTimeout));
    paint();
    repaint();
  }

  end() {
    this.stopTheme();
    this.tiles.end();
    this.lists.end();
    this.host.remove();
  }
}

export default {
  render({ model, el }) {
    const view = new NotebookView(model, el);
    return () => view.end();
  },
};
