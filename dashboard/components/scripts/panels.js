// Small multiples of the frontier. On a phone they stand two a row, in place of the three that the server arranges; and
// their titles follow a budget that is dragged.

const PHONE_PX = 560, COLUMNS = 2;
const TITLE_PX = 40, PLOT_PX = 130, TICKS_PX = 26, FOOT_PX = 44; // the foot has the last row's numbers and its title
const GAP_SHARE = 0.05, TOP_PX = 24, Y_TITLE_SHIFT_PX = 4;

// Set the domains, titles and height of a layout with `meta.panels` for a narrow chart; return true if it is one. The
// n-th axes and the n-th annotation are of the n-th panel.
export function arrangePanels(layout, width) {
  const n = layout.meta?.panels?.length;
  if (!n || !width || width >= PHONE_PX) return false;
  const columns = Math.min(n, COLUMNS), rows = Math.ceil(n / columns), down = rows * (TITLE_PX + PLOT_PX + TICKS_PX);
  const across = (1 - GAP_SHARE * (columns - 1)) / columns, axisOf = (letter, i) => `${letter}axis${i ? i + 1 : ""}`;
  layout.height = TOP_PX + down + FOOT_PX - TICKS_PX;
  layout.margin = { ...layout.margin, t: TOP_PX };
  const title = layout[axisOf("x", n - 1)].title;
  layout.annotations = layout.annotations.map((annotation, i) => {
    if (i >= n) return annotation.name === "y title" ? { ...annotation, yshift: Y_TITLE_SHIFT_PX } : annotation;
    const column = i % columns, left = column * (across + GAP_SHARE);
    const top = Math.floor(i / columns) * (TITLE_PX + PLOT_PX + TICKS_PX) + TITLE_PX;
    const [x, y] = [axisOf("x", i), axisOf("y", i)];
    layout[x] = { ...layout[x], domain: [left, left + across], title: i + columns < n ? { text: "" } : title };
    layout[y] = { ...layout[y], domain: [1 - (top + PLOT_PX) / down, 1 - top / down], showticklabels: column === 0 };
    // The gain stands below the name: both side by side are wider than a panel.
    const text = annotation.text.replace(/ (?=(<b>)?[+−-]\d)/, "<br>");
    return { ...annotation, text, font: { ...annotation.font, size: 12 }, x: left + across / 2, y: 1 - top / down };
  });
  return true;
}

// Write the titles of panels for the budget that is dragged, in place, as Plotly takes a fifth of a second. What the page
// has marked for another budget, the setting of a title and the chosen panel, is hidden.
// titles: their beginnings, and for each budget their ends and the settings that they speak of; level: a BudgetLevel
export function turnTitles(div, { names, gains, settings }, level) {
  const { low, step, value, choices, options } = level.level;
  const [position, drawn] = [level.value, value].map((share) => Math.round((share - low) / step));
  const findChosen = (at) => (choices?.[at] ?? []).map((index) => options[index]).find(Boolean)?.method;
  const chosen = findChosen(position);
  names.forEach((name, i) => {
    const text = div.querySelector(`.annotation[data-index="${i}"] text`);
    // Titles that Plotly has just drawn are those of the page's budget.
    if (!text || (text.dataset.turned ?? String(drawn)) === String(position)) return;
    text.dataset.turned = position;
    const lines = text.querySelectorAll("tspan.line"), gain = gains[position]?.[i] ?? "";
    if (lines.length > 1) [lines[0].textContent, lines[1].textContent] = [name, gain];
    else text.textContent = gain ? `${name} ${gain}` : name;
    text.style.fontWeight = level.chart.controls.meta.panels[i] === chosen ? "bold" : "";
  });
  for (const node of div.querySelectorAll(".scatterlayer .trace")) {
    const { name, xaxis } = node.__data__?.[0]?.trace ?? {}, i = Number(xaxis?.slice(1) || 1) - 1;
    if (name === "best setting") node.style.visibility = settings[position]?.[i] === settings[drawn]?.[i] ? "" : "hidden";
  }
  const frame = (div.layout.shapes ?? []).findIndex((shape) => shape.name === "chosen");
  const outline = div.querySelector(`.shapelayer path[data-index="${frame}"]`);
  if (outline) outline.style.visibility = chosen === findChosen(drawn) ? "" : "hidden";
}
