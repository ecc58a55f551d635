// One ranked list beside a chart. It follows the dot that is dragged along the chart's curve.

import { Lists } from "./lists.js";
import { Answers, announce, hub, listen, make, need, number, path } from "./parts.js";

class Along extends Lists {
  constructor(parent) {
    super(parent);
    this.figures = make(this.root, "p", "reached");
    this.root.prepend(this.figures);
    this.stop.push(listen("along", ({ value }) => this.turn(value)));
  }

  update(component) {
    const { now, base, url, said } = (this.along = component.data.along);
    this.base = new Answers(base).of[0];
    need(this, url ? [url] : []);
    // The answers are requested now, so that the first drag finds them.
    if (url) path(url, () => {});
    super.update(component);
    this.show(new Answers(now).of[0], said);
  }

  // The set at another value of the curve's parameter, while the dot is dragged there.
  turn(value) {
    const { url, judged } = this.along;
    // Until the answers have arrived the list stays at the last value; their arrival calls this again.
    const set = url && path(url, () => this.turn(value))?.at(value);
    if (!set) return;
    const relevance = judged ? `${set.found} of ${judged} relevant` : `Mean relevance ${number(set.relevance)}`;
    this.show(set, `This query: ${relevance} · Diversity (ILAD) ${number(set.diversity)}`);
  }

  show(set, said) {
    const { query, along: { decoder, k } } = this.component.data;
    this.figures.textContent = said;
    hub.shown = { query, k, base: this.base, decoders: [{ ...decoder, set }], touched: decoder.key, sets: [] };
    announce("sets", hub.shown);
  }

  end() {
    need(this, []);
    hub.shown = null;
    super.end();
  }
}

export const mount = (parent) => new Along(parent);
