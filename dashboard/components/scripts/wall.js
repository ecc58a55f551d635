// A wall of squares, a button for each query: the similarities within a set of its documents.

import { counted, make, number, similarityPixels, styled } from "./parts.js";

const NAMING_PAUSE_MS = 200; // after the last change, before the squares' names follow

// All squares are drawn on one canvas over their buttons: a canvas each would be painted one by one, in every frame.
export class Wall {
  // titles: of the queries; open: called with the position of the square that is clicked
  constructor(parent, label, titles, open) {
    const wall = (this.node = document.createElement("div"));
    wall.className = "frontier-wall";
    wall.setAttribute("role", "group");
    wall.setAttribute("aria-label", label);
    styled(parent, "wall.css", wall);
    this.squares = titles.map((title, position) => {
      const button = make(wall, "button", "", { type: "button" });
      button.onclick = () => open(position);
      return { title, button, place: make(button, "i"), note: make(button, "span") };
    });
    this.canvas = make(wall, "canvas", "", { "aria-hidden": true });
    // The pixels are written by the script, so the canvas belongs into main memory.
    this.pen = this.canvas.getContext("2d", { willReadFrequently: true });
    this.sizes = new ResizeObserver(() => this.measure());
    this.sizes.observe(wall);
  }

  mark(current) {
    this.squares.forEach(({ button }, position) => button.setAttribute("aria-pressed", position === current));
  }

  // Read where the squares lie, in pixels of the screen, and draw all of them there.
  measure() {
    const { canvas, node, squares } = this, ratio = devicePixelRatio || 1;
    const edge = Math.round((squares[0]?.place.offsetWidth ?? 0) * ratio);
    // A wall that is not shown has no size.
    if (!edge) return;
    Object.assign(canvas, { width: Math.round(node.clientWidth * ratio), height: Math.round(node.clientHeight * ratio) });
    this.picture = new ImageData(edge, edge);
    this.screen = new Uint32Array(this.picture.data.buffer);
    for (const square of squares) {
      square.left = Math.round(square.place.offsetLeft * ratio);
      square.top = Math.round(square.place.offsetTop * ratio);
      if (square.set) this.paint(square);
    }
  }

  paint({ set, left, top }) {
    if (left === undefined) return;
    const { screen, k } = this, edge = this.picture.width, cells = similarityPixels(set, k);
    for (let i = 0; i < k; i++) {
      const first = Math.floor((i * edge) / k), end = Math.floor(((i + 1) * edge) / k);
      // A cell is several pixels wide, and its line of the square several pixels high.
      for (let j = 0; j < k && first < end; j++)
        screen.fill(cells[i * k + j], first * edge + Math.floor((j * edge) / k), first * edge + Math.floor(((j + 1) * edge) / k));
      for (let y = first + 1; y < end; y++) screen.copyWithin(y * edge, first * edge, (first + 1) * edge);
    }
    this.pen.putImageData(this.picture, left, top);
  }

  // sets: one for each query, undefined while it is unknown. A square whose set stays is not drawn again.
  draw(sets, k) {
    let isChanged = false;
    this.k = k;
    this.squares.forEach((square, position) => {
      const set = sets[position];
      if (!set || square.set === set) return;
      square.set = set;
      isChanged = true;
      this.paint(square);
      // Pairs of documents whose cosines are unknown are not counted.
      const note = set.pairs && set.diversity === null ? "–" : String(set.duplicates);
      if (square.written !== note) square.note.textContent = square.written = note;
    });
    if (!isChanged) return;
    // Nobody reads the names of hundreds of squares while a slider is dragged: setting them would cost each frame.
    clearTimeout(this.naming);
    this.naming = setTimeout(() => this.name(), NAMING_PAUSE_MS);
  }

  name() {
    for (const square of this.squares) {
      const { set, title, button } = square;
      if (!set || square.named === set) continue;
      square.named = set;
      const groups = set.nGroups ? ` in ${counted(set.nGroups, "group")}` : "";
      const words = `${title}: ${counted(set.duplicates, "near-duplicate pair")}${groups}, diversity ${number(set.diversity)}`;
      button.title = words;
      button.setAttribute("aria-label", words);
    }
  }

  end() {
    clearTimeout(this.naming);
    this.sizes.disconnect();
    this.node.remove();
  }
}
