// Clicks on the header's arrows, counted in the browser: while the server draws a page anew it hears of one of several
// clicks. It is told the position that they lead to, and no direction.

const WAYS = { ".st-key-header-step--1 button": -1, ".st-key-header-step-1 button": 1 };
const WITHIN_MS = 10000; // after which a query that was stepped to is no longer waited for

class HeaderSteps {
  constructor() {
    this.shown = this.target = null; // positions of the query that is shown, and of the one on its way
    this.count = 0;
    this.take = (event) => this.click(event);
    // Before the page's own handlers, which would send the click itself.
    document.addEventListener("click", this.take, true);
  }

  update(component) {
    this.component = component;
    this.shown = component.data.position ?? null;
    if (this.shown === this.target) this.target = null;
  }

  click(event) {
    const way = Object.entries(WAYS).find(([selector]) => event.target.closest?.(selector))?.[1];
    if (!way || this.shown === null) return;
    event.stopPropagation();
    event.preventDefault();
    if (performance.now() > this.clickedAt + WITHIN_MS) this.target = null;
    const from = this.target ?? this.shown;
    // From outside of the list both arrows go to its start.
    this.target = from < 0 ? 0 : from + way;
    this.clickedAt = performance.now();
    this.component.setStateValue("position", [this.target, ++this.count]);
  }

  end() {
    document.removeEventListener("click", this.take, true);
  }
}

export const mount = () => new HeaderSteps();
