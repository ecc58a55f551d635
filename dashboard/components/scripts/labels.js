// Names on a chart, which were placed for a wide one.

const LIFT = 0.75; // share of a name's height by which it moves up where it cannot stand beside its mark

// Move the names that the plot's right edge would cut inside, and hide those that cover an earlier one.
// taken: boxes that no name may cover.
export function arrangeLabels(chart, taken = []) {
  const plotArea = chart.querySelector(".nsewdrag").getBoundingClientRect(), visibleBoxes = [...taken];
  for (const label of chart.querySelectorAll(".annotation")) {
    label.style.transform = "";
    // Titles of panels and the like stand outside of the plot.
    const isInside = chart._fullLayout.annotations[label.dataset.index].xref === "x";
    const edge = isInside ? plotArea : chart.getBoundingClientRect();
    let box = label.getBoundingClientRect();
    if (box.right > edge.right) {
      label.style.transform = `translate(${edge.right - box.right}px, ${-LIFT * box.height}px)`;
      box = label.getBoundingClientRect();
    }
    const isClear = (other) =>
      box.right <= other.left || other.right <= box.left || box.bottom <= other.top || other.bottom <= box.top;
    const fits = box.left >= edge.left && visibleBoxes.every(isClear);
    label.style.visibility = fits ? "visible" : "hidden";
    if (fits) visibleBoxes.push(box);
  }
}
