// The heading of a setting beside a chart: its name and its means. It follows the dot that is dragged along a curve.

import { listen, make, styled } from "./parts.js";

class Setting {
  constructor(parent) {
    this.root = make(document.createDocumentFragment(), "div", "verdict setting");
    styled(parent, "verdict.css", this.root);
    const heading = make(this.root, "p");
    this.sign = make(heading, "i", "sign");
    this.name = make(heading, "strong");
    this.means = make(this.root, "p", "facts");
    this.stop = listen("along", ({ setting, means }) => this.show(setting, means));
  }

  update({ data }) {
    const { look: { sign, light, dark }, setting, means } = data;
    this.sign.textContent = sign;
    this.root.style.setProperty("--own", data.dark ? dark : light);
    this.show(setting, means);
  }

  show(setting, means) {
    this.name.textContent = setting;
    this.means.textContent = means;
  }

  end() {
    this.stop();
    this.root.remove();
  }
}

export const mount = (parent) => new Setting(parent);
