// A wall of squares, a button for each query: the similarities within a set of its documents.

import { counted, make, number, styled, thumbnail } from "./parts.js";

const NAMING_PAUSE_MS = 200; // after the last change, before the squares' names follow

export class Wall {
  // titles: of the queries; open: called with the position of the square that is clicked
  constructor(parent, label, titles, open) {
    const wall = document.createElement("div");
    wall.className = "frontier-wall";
    wall.setAttribute("role", "group");
    wall.setAttribute("aria-label", label);
    styled(parent, "wall.css", wall);
    this.squares = titles.map((title, position) => {
      const button = make(wall, "button", "", { type: "button" });
      button.onclick = () => open(position);
      return { title, button, canvas: make(button, "canvas"), note: make(button, "span") };
    });
    this.node = wall;
  }

  mark(current) {
    this.squares.forEach(({ button }, position) => button.setAttribute("aria-pressed", position === current));
  }

  // sets: one for each query, undefined while it is unknown. A square whose set stays is not drawn again.
  draw(sets, k) {
    let isChanged = false;
    this.squares.forEach((square, position) => {
      const set = sets[position];
      if (!set || square.set === set) return;
      square.set = set;
      isChanged = true;
      if (square.canvas.width !== k) Object.assign(square.canvas, { width: k, height: k });
      thumbnail(square.canvas, set, k);
      // Pairs of documents whose cosines are unknown are not counted.
      const note = set.pairs && set.diversity === null ? "–" : String(set.duplicates);
      if (square.note.textContent !== note) square.note.textContent = note;
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
  }
}
