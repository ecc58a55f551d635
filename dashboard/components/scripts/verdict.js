// The verdict in words, its two choices with a hundred squares each, the slider of the budget, and a table of every
// decoder's best setting. All follow the budget that is dragged, on the chart or by the slider; a row that is pointed at
// makes its decoder's lines wider.

import { announce, listen, make, styled } from "./parts.js";

const N_SQUARES = 100;
const KEY_PAUSE_MS = 400; // after the last key on the slider, before the budget is reported
const KEPT = 2; // column of the table with the share that is kept
const format = (value) => `${Number(value.toFixed(1))}%`;

class Verdict {
  constructor(parent) {
    this.root = make(document.createDocumentFragment(), "div", "verdict");
    styled(parent, "verdict.css", this.root);
    this.sentences = [0, 1, 2].map(() => make(this.root, "p", "sentence"));
    this.sentences[0].setAttribute("aria-live", "polite");
    this.cards = make(this.root, "div", "cards");
    this.choices = ["Sure", "Bet"].map((role) => this.makeChoice(role));
    this.makeSlider();
    this.table = make(this.root, "table", "best");
    this.stop = listen("budget", ({ value }) => this.turn(value));
  }

  makeSlider() {
    this.budget = make(this.root, "label", "budget");
    this.title = make(this.budget, "span");
    this.reading = make(this.budget, "output");
    this.input = make(this.budget, "input", "", { type: "range" });
    this.input.addEventListener("input", () => announce("budget", { value: Number(this.input.value) }));
    this.input.addEventListener("change", () => {
      // Every key press is a change; only the last of a series is reported.
      clearTimeout(this.resting);
      // A page that is drawn anew by itself meanwhile sets the slider back.
      const value = Number(this.input.value);
      this.resting = setTimeout(() => this.component.setTriggerValue("budget", value), KEY_PAUSE_MS);
    });
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
    const topic = make(card, "span", "topic");
    const outcome = make(card, "span", "outcome");
    card.addEventListener("click", () => this.component.setTriggerValue("opened", card.dataset.label));
    return { card, role, title, name, facts, squares, chance, topic, outcome };
  }

  update(component) {
    this.component = component;
    const { part, budget } = component.data;
    for (const line of this.sentences) line.hidden = part !== "headline";
    this.cards.hidden = part !== "choices";
    this.budget.hidden = part !== "budget";
    this.table.hidden = part !== "table";
    if (part === "table") this.fillTable();
    if (part === "budget") this.fillSlider();
    this.turn(budget);
  }

  fillSlider() {
    const { low, high, step, title } = this.component.data;
    Object.assign(this.input, { min: low, max: high, step });
    this.title.textContent = title;
  }

  fillTable() {
    const { columns } = this.component.data;
    this.table.replaceChildren();
    const titles = make(make(this.table, "thead"), "tr");
    this.body = make(this.table, "tbody");
    this.heads = columns.map(({ title, help }) => make(titles, "th", "", { text: title, title: help, scope: "col" }));
    this.rows = [];
  }

  makeRow({ label, look, cells, interval }) {
    const { dark, certainty } = this.component.data;
    const row = make(document.createDocumentFragment(), "tr", "", { style: `--own:${dark ? look.dark : look.light}` });
    const [name, ...facts] = cells;
    const button = make(make(row, "th", "", { scope: "row" }), "button", "", { type: "button" });
    make(button, "i", "sign", { text: look.sign });
    make(button, "span", "", { text: name });
    facts.splice(certainty - 1, 0, "");
    const nodes = facts.map((fact) => make(row, "td", "", { text: fact }));
    nodes[KEPT - 1].title = interval;
    const emphasise = (method) => () => announce("emphasis", { method });
    row.onpointerenter = button.onfocus = emphasise(look.name);
    row.onpointerleave = button.onblur = emphasise(null);
    row.onclick = () => this.component.setTriggerValue("opened", label);
    return { row, chance: nodes[certainty - 1] };
  }

  // Each decoder at its best setting for the budget; a row is made once and moved.
  turnTable(value) {
    const { budget, columns, options, budgets, certainty, low, step } = this.component.data;
    const rows = budgets[Math.round((value - low) / step)];
    if (!rows) return;
    this.heads[certainty].textContent = value === budget ? columns[certainty].title : `Keeps ${format(value)}`;
    const nodes = rows.map(([number, text, isChosen]) => {
      const { row, chance } = (this.rows[number] ??= this.makeRow(options[number]));
      if (chance.textContent !== text) chance.textContent = text;
      row.classList.toggle("chosen", isChosen);
      return row;
    });
    // A row that stays where it is keeps the focus.
    if (nodes.length !== this.body.childNodes.length || nodes.some((row, i) => row !== this.body.childNodes[i])) this.body.replaceChildren(...nodes);
  }

  turn(value) {
    const { part, low, high, step, budgets, options } = this.component.data;
    if (part === "budget") {
      this.input.value = value;
      this.input.style.setProperty("--at", (value - low) / (high - low));
      this.reading.textContent = format(value);
    }
    if (part === "table") {
      this.turnTable(value);
      return;
    }
    // What the server drew around the sentences is about its budget, and steps aside until it has drawn this one.
    if (part === "headline")
      this.root.getRootNode().host?.closest(".st-key-tradeoff-verdict")?.toggleAttribute("data-turned", value !== this.component.data.budget);
    const budget = budgets?.[Math.round((value - low) / step)];
    if (!budget) return;
    // Another split was asked about the budget that the server knows.
    this.denial = value === this.component.data.budget ? this.component.data.denial : "";
    this.sentences[0].classList.toggle("denied", Boolean(this.denial));
    this.sentences.forEach((line, i) => (line.textContent = budget.sentences[i] ?? ""));
    // Only a verdict on passages has a third sentence, at every budget: the others have no room for it.
    this.sentences[2].hidden = part !== "headline" || !this.sentences[2].textContent;
    const { confirmations = [] } = this.component.data;
    this.choices.forEach((choice, i) => {
      const confirmation = value === this.component.data.budget ? confirmations[i] : null;
      this.fill(choice, options[budget.choices[i]], budget.chances[i], budget.sureShares[i], value, confirmation);
    });
  }

  fill({ card, role, title, name, facts, squares, chance, topic, outcome }, option, n, sureShare, value, confirmation) {
    card.hidden = !option;
    if (!option) return;
    card.dataset.label = option.label;
    card.style.setProperty("--own", this.component.data.dark ? option.dark : option.light);
    const isDenied = role === "Sure" && this.denial;
    title.textContent = isDenied ? this.denial[0].toUpperCase() + this.denial.slice(1) : role;
    card.classList.toggle("denied", Boolean(isDenied));
    name.textContent = ` ${option.name}`;
    name.prepend(make(document.createDocumentFragment(), "i", "sign", { text: option.sign }));
    facts.textContent = `${option.facts}, ${sureShare}`;
    facts.title = option.interval;
    squares.style.setProperty("--filled", n);
    squares.childNodes.forEach((square, i) => square.classList.toggle("kept", i < n));
    // An interval and a chance of the same percentage must not read as two claims on one number.
    // Once other queries were asked, the squares are still those of the queries that chose.
    const origin = confirmation ? this.component.data.origin : "";
    card.classList.toggle("refuted", Boolean(confirmation?.isDenied));
    // "100.9% of Top-k's Recall" beside "42 in 100 to keep 100%" reads as a contradiction without its reason.
    const why = 100 * option.kept >= value && n < N_SQUARES / 2 ? ", lowered as the best of many looks better than it is" : "";
    chance.textContent = `chance${origin} to keep ${Number(value.toFixed(1))}% of ${this.component.data.metric}: ${n} in ${N_SQUARES}${why}`;
    // Counted of the choices that are set: of others it is not known.
    topic.hidden = !option.offTopic;
    topic.textContent = option.offTopic;
    topic.title = "Documents that are neither judged relevant nor among the 5% most relevant of the corpus, on average";
    outcome.classList.toggle("refuted", Boolean(confirmation?.isDenied));
    outcome.hidden = !confirmation;
    outcome.textContent = confirmation?.text ?? "";
    outcome.title = confirmation?.help ?? "";
    squares.setAttribute("aria-label", chance.textContent);
    squares.title = `Coloured: in how many of ${N_SQUARES} samples of such queries it is expected to keep that`;
  }

  end() {
    this.stop();
    clearTimeout(this.resting);
    this.root.remove();
  }
}

export const mount = (parent) => new Verdict(parent);
