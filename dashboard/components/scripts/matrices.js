// Heat maps of a figure in a grid that fits the chart: four a row at most, one a row on a phone.

const MAX_COLUMNS = 4, MAX_CELLS_PX = 400, PHONE_PX = 640;
const TITLE_PX = 44, TICKS_PX = 24, GAP_PX = 30;
const COLOURS_PX = 62; // right of the heat maps, for the bar of their colours

// Set the domains, titles and height of a layout with `meta.matrices` heat maps for a chart of this width. The n-th
// axes and the n-th annotation are of the n-th heat map.
export function arrangeMatrices(layout, width) {
  const n = layout.meta?.matrices;
  if (!n || !width) return;
  const columns = width < PHONE_PX ? 1 : Math.min(n, MAX_COLUMNS), rows = Math.ceil(n / columns);
  const { l, r, t, b } = layout.margin, across = width - l - r - COLOURS_PX;
  const side = Math.min(MAX_CELLS_PX, (across - GAP_PX * (columns - 1)) / columns);
  const down = rows * (TITLE_PX + side + TICKS_PX);
  layout.height = down + t + b;
  // Plotly makes room for the bar itself, unless the margin has it.
  layout.margin = { ...layout.margin, r: r + COLOURS_PX, autoexpand: false };
  for (let i = 0; i < n; i++) {
    const left = (i % columns) * (side + GAP_PX), top = Math.floor(i / columns) * (TITLE_PX + side + TICKS_PX) + TITLE_PX;
    const axis = i ? String(i + 1) : "";
    layout[`xaxis${axis}`] = { ...layout[`xaxis${axis}`], domain: [left / across, (left + side) / across] };
    layout[`yaxis${axis}`] = { ...layout[`yaxis${axis}`], domain: [1 - (top + side) / down, 1 - top / down] };
    layout.annotations[i] = { ...layout.annotations[i], x: (left + side / 2) / across, y: 1 - top / down };
  }
}
