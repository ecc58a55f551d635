// Small multiples of the frontier on a phone: two panels a row, in place of the three that the server arranges.

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
