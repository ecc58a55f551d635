// The verdict in words, its two choices with a hundred squares each, and a table of every decoder's best setting.
// Words and choices follow the budget that is dragged on the chart; a row that is pointed at makes its decoder's lines wider.

import { announce, listen, make, styled } from "./parts.js";

const N_SQUARES = 100;

class Verdict {
  constructor(parent) {
    this.root = make(document.createDocumentFragment(), "div", "verdict");
    styled(parent, "verdict.css", this.root);
    this.sentences = [0, 1].map(() => make(this.root, "p", "sentence"));
    this.sentences[0].setAttribute("aria-live", "polite");
    this.cards = make(this.root, "div", "cards");
    this.choices = ["Sure", "Bet"].map((role) => this.makeChoice(role));
    this.table = make(this.root, "table", "best");
    this.stop = listen("budget", ({ value }) => this.turn(value));
  }

  makeChoice(role) {
    const card = make(this.cards, "button", "choice");
    card.type = "button";
    const title = make(card, "small", "role", { text: role });
    const name = make(card, "b", "name");
    const facts = make(card, "span", "facts");
    const squares = make(card, "span", "squares");
    squares.setAttribute("role", "img");
    for (let i = 0; i < N_SQUARES; i++) make(squares, "i");
    const chance = make(card, "span", "chance");
    card.addEventListener("click", () => this.component.setTriggerValue("opened", card.dataset.label));
    return { card, role, title, name, facts, squares, chance };
  }

  update(component) {
    this.component = component;
    const { part, budget } = component.data;
    for (const line of this.sentences) line.hidden = part !== "headline";
    this.cards.hidden = part !== "choices";
    this.table.hidden = part !== "table";
    if (part === "table") this.fillTable();
    else this.turn(budget);
  }

  fillTable() {
    const { columns, rows, dark } = this.component.data;
    this.table.replaceChildren();
    const titles = make(make(this.table, "thead"), "tr"), body = make(this.table, "tbody");
    for (const { title, help } of columns) make(titles, "th", "", { text: title, title: help, scope: "col" });
    for (const { label, look, cells } of rows) {
      const row = make(body, "tr", "", { style: `--own:${dark ? look.dark : look.light}` });
      const [name, ...facts] = cells;
      const button = make(make(row, "th", "", { scope: "row" }), "button", "", { type: "button" });
      make(button, "i", "sign", { text: look.sign });
      make(button, "span", "", { text: name });
      for (const fact of facts) make(row, "td", "", { text: fact });
      const emphasise = (method) => () => announce("emphasis", { method });
      row.onpointerenter = button.onfocus = emphasise(look.name);
      row.onpointerleave = button.onblur = emphasise(null);
      row.onclick = () => this.component.setTriggerValue("opened", label);
    }
  }

  turn(value) {
    const { low, step, budgets, options } = this.component.data;
    const budget = budgets?.[Math.round((value - low) / step)];
    if (!budget) return;
    // Another split was asked about the budget that the server knows.
    this.denial = value === this.component.data.budget ? this.component.data.denial : "";
    this.sentences[0].classList.toggle("denied", Boolean(this.denial));
    this.sentences.forEach((line, i) => (line.textContent = budget.sentences[i] ?? ""));
    this.choices.forEach((choice, i) => this.fill(choice, options[budget.choices[i]], budget.chances[i], value));
  }

  fill({ card, role, title, name, facts, squares, chance }, option, share, value) {
    card.hidden = !option;
    if (!option) return;
    card.dataset.label = option.label;
    card.style.setProperty("--own", this.component.data.dark ? option.dark : option.light);
    const isDenied = role === "Sure" && this.denial;
    title.textContent = isDenied ? this.denial[0].toUpperCase() + this.denial.slice(1) : role;
    card.classList.toggle("denied", Boolean(isDenied));
    name.textContent = `${option.sign} ${option.name}`;
    facts.textContent = option.facts;
    const n = Math.min(N_SQUARES - 1, Math.round(N_SQUARES * share));
    squares.style.setProperty("--filled", n);
    squares.childNodes.forEach((square, i) => square.classList.toggle("kept", i < n));
    // An interval and a chance of the same percentage must not read as two claims on one number.
    chance.textContent = `chance to keep ${Number(value.toFixed(1))}% of ${this.component.data.metric}: ${n} in ${N_SQUARES}`;
    squares.setAttribute("aria-label", chance.textContent);
    squares.title = `Coloured: in how many of ${N_SQUARES} samples of such queries it is expected to keep that`;
  }

  end() {
    this.stop();
    this.root.remove();
  }
}

export const mount = (parent) => new Verdict(parent);
