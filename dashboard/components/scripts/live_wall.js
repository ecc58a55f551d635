// A square for each query: the similarities within the set of one decoder, wherever its slider stands.

import { counted, make, number, thumbnail } from "./parts.js";

export class LiveWall {
  constructor(parent, titles, open) {
    this.said = make(parent, "p", "note");
    const wall = make(parent, "div", "frontier-wall", { role: "group", "aria-label": "Queries" });
    this.squares = titles.map((title, position) => {
      const button = make(wall, "button", "", { type: "button" });
      button.onclick = () => open(position);
      return { title, button, canvas: make(button, "canvas"), note: make(button, "span") };
    });
  }

  mark(current) {
    this.squares.forEach(({ button }, position) => button.setAttribute("aria-pressed", position === current));
  }

  // sets: one for each query, undefined while it is unknown; of: the decoder and its setting, in words.
  draw(sets, k, of) {
    this.said.textContent = `Each square is a query: the similarities within its ${k} documents by ${of}, dark 0 to yellow 1. The number counts near-duplicate pairs.`;
    this.squares.forEach((square, position) => {
      const set = sets[position];
      if (!set || square.set === set) return;
      square.set = set;
      Object.assign(square.canvas, { width: k, height: k });
      thumbnail(square.canvas, set, k);
      square.note.textContent = set.answers.packed.near ? set.duplicates : "–";
      const words = `${square.title}: ${counted(set.duplicates, "near-duplicate pair")}, diversity ${number(set.diversity)}`;
      square.button.title = words;
      square.button.setAttribute("aria-label", words);
    });
  }
}
