// Names on a chart, which were placed for a wide one.

const LIFT = 0.75; // share of a name's height by which it moves up where it cannot stand beside its mark
const N_STEPS = 3; // heights of a name that it moves up or down at most, to stand clear of another

// Move the names that the plot's right edge would cut inside, move those that cover an earlier one up or down, and hide
// those that fit nowhere.
// taken: boxes that no name may cover; lines: heights of level lines over the plot, which would strike names through.
export function arrangeLabels(chart, taken = [], lines = []) {
  const plotArea = chart.querySelector(".nsewdrag").getBoundingClientRect(), visibleBoxes = [...taken];
  for (const label of chart.querySelectorAll(".annotation")) {
    // A line that leads to a mark is part of the annotation, and stays.
    const name = label.querySelector(".annotation-text-g") ?? label;
    name.style.transform = "";
    // Titles of panels and the like stand outside of the plot.
    const isInside = chart._fullLayout.annotations[label.dataset.index].xref === "x";
    const edge = isInside ? plotArea : chart.getBoundingClientRect();
    const start = name.getBoundingClientRect();
    const isCut = start.right > edge.right, across = isCut ? edge.right - start.right : 0;
    let up = isCut ? LIFT * start.height : 0;
    const line = isInside ? lines.find((y) => start.top - up < y && y < start.bottom - up) : undefined;
    if (line !== undefined) up = start.bottom - line + 1;
    const shifted = (rise) => ({ left: start.left + across, right: start.right + across, top: start.top - rise, bottom: start.bottom - rise });
    const isFree = (box) =>
      visibleBoxes.every((other) => box.right <= other.left || other.right <= box.left || box.bottom <= other.top || other.bottom <= box.top);
    const isWithin = (box) => box.left >= edge.left && (!isInside || (box.top >= edge.top && box.bottom <= edge.bottom && lines.every((y) => y <= box.top || box.bottom <= y)));
    const steps = [0];
    for (let step = 1; isInside && step <= 2 * N_STEPS; step++) steps.push((step / 2) * start.height, (-step / 2) * start.height);
    // Where it was placed it may also reach over the plot's upper or lower edge.
    const rise = steps.map((step) => up + step).find((value, i) => isFree(shifted(value)) && (i === 0 ? shifted(value).left >= edge.left : isWithin(shifted(value))));
    label.style.visibility = rise === undefined ? "hidden" : "visible";
    if (rise === undefined) continue;
    if (across || rise) name.style.transform = `translate(${across}px, ${-rise}px)`;
    visibleBoxes.push(shifted(rise));
  }
}
