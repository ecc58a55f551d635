// Names on a chart, which were placed for a wide one.

const LIFT = 0.75; // share of a name's height by which it moves up where it cannot stand beside its mark

// Move the names that the plot's right edge would cut inside, and hide those that cover an earlier one.
// taken: boxes that no name may cover; lines: heights of level lines over the plot, which would strike names through.
export function arrangeLabels(chart, taken = [], lines = []) {
  const plotArea = chart.querySelector(".nsewdrag").getBoundingClientRect(), visibleBoxes = [...taken];
  for (const label of chart.querySelectorAll(".annotation")) {
    label.style.transform = "";
    // Titles of panels and the like stand outside of the plot.
    const isInside = chart._fullLayout.annotations[label.dataset.index].xref === "x";
    const edge = isInside ? plotArea : chart.getBoundingClientRect();
    let box = label.getBoundingClientRect();
    const isCut = box.right > edge.right, across = isCut ? edge.right - box.right : 0;
    let up = isCut ? LIFT * box.height : 0;
    const line = isInside ? lines.find((y) => box.top - up < y && y < box.bottom - up) : undefined;
    if (line !== undefined) up = box.bottom - line + 1;
    if (across || up) {
      label.style.transform = `translate(${across}px, ${-up}px)`;
      box = label.getBoundingClientRect();
    }
    const isClear = (other) =>
      box.right <= other.left || other.right <= box.left || box.bottom <= other.top || other.bottom <= box.top;
    const fits = box.left >= edge.left && visibleBoxes.every(isClear);
    label.style.visibility = fits ? "visible" : "hidden";
    if (fits) visibleBoxes.push(box);
  }
}
