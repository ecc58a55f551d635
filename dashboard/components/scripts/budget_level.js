// The budget on a plot: a line that can be dragged, a veil below it, and marks at its two choices, sure and bet.
// It lies above the plot, as Plotly takes a fifth of a second to move a shape. Lines and points change in place.

import { announce, listen, make } from "./parts.js";

export const STYLE = `
.frontier-frame { position: absolute; overflow: hidden; pointer-events: none; }
.frontier-frame * { position: absolute; box-sizing: border-box; }
.frontier-frame .veil { inset-inline: 0; bottom: 0; background: var(--st-text-color, #222); opacity: .05; }
.frontier-frame .line { inset-inline: 0; height: 0; border-top: 1px dashed var(--st-text-color, #222); }
.frontier-frame .strip { width: 2px; margin-left: -1px; opacity: .9; background: var(--own); }
.frontier-frame .strip::after { content: ""; position: absolute; left: -4px; width: 10px; height: 2px; background: var(--own); }
.frontier-frame .kept::after { top: -1px; }
.frontier-frame .missed::after { bottom: -1px; }
.frontier-frame .ring { width: 21px; height: 21px; margin: -10.5px 0 0 -10.5px; border: 3px solid var(--own); border-radius: 50%;
  z-index: 1; box-shadow: 0 0 0 2px color-mix(in srgb, var(--st-background-color, #fff) 85%, transparent); }
.frontier-choice { position: absolute; left: 0; top: 0; padding: 0 3px; font-size: 13px; line-height: 16px; white-space: nowrap;
  pointer-events: none; color: var(--st-text-color, #222);
  background: color-mix(in srgb, var(--st-background-color, #fff) 75%, transparent); }
.frontier-choice i { position: absolute; left: 0; top: 0; height: 1px; transform-origin: 0 0; background: currentColor; opacity: .6; }
.frontier-level { position: absolute; height: 12px; margin-top: -6px; cursor: ns-resize; touch-action: none; }
.frontier-level span { position: absolute; right: 4px; bottom: -12px; padding: 0 6px; font-size: 12px; line-height: 18px;
  border-radius: 9px; white-space: nowrap; background: var(--st-text-color, #222);
  color: var(--st-background-color, #fff); }
.frontier-level:focus-visible { outline: none; }
.frontier-level:focus-visible span { outline: 2px solid var(--st-primary-color); }
`;
const KEY_PAUSE_MS = 400; // after the last key, before the level is reported
const MIN_WIDTH = 1, WIDTH_RANGE = 2; // as dashboard/charts/frontier.py draws them
const EMPHASIS_PX = 2; // added to the lines of a decoder that is pointed at in a table
const MIN_UNSEEN_CHANCE = 0.5; // as engine/evaluation/loss_model.py has it
const ROLES = ["sure", "bet"];
const MIN_NAMED_PX = 400; // a narrower plot has no room for the settings' names, which the page says beside it
const LABEL_GAP_PX = 14, LABEL_PX = 18; // from a mark to its name, and the height of one
const LABEL_TOPS_PX = [-22, 6, -42, 26, -62, 46]; // from a mark to the tops that its name may have, the best first
const MIN_LEADER_PX = 8; // from a name to its mark; a shorter line would say nothing
const WINDOW_MARGIN = 0.08; // beyond what a window must hold, as a share of its size
const MARK_PX = 12; // half the width of a ring, and of the room that a whisker needs

// The distribution of Student's t, by Wallace's approximation of its normal score and a logistic one of the normal's.
function studentCdf(t, degrees) {
  const score = Math.sign(t) * ((8 * degrees + 1) / (8 * degrees + 3)) * Math.sqrt(degrees * Math.log1p((t * t) / degrees));
  return 1 / (1 + Math.exp(-1.5976 * score - 0.07056 * score ** 3));
}

// The score that Student's t stays below with a chance from 1/2 on.
function studentScore(chance, degrees) {
  let [low, high] = [0, 100];
  for (let i = 0; i < 40; i++) {
    const middle = (low + high) / 2;
    if (studentCdf(middle, degrees) < chance) low = middle;
    else high = middle;
  }
  return low;
}

// What a setting keeps beyond a share, in standard errors; by its mean change and error, as loss_model.py scores it.
function scoreOf([mean, error, skewLoss, largestLoss], share, degrees, atStake) {
  const excess = mean + 1 - share - skewLoss;
  const root = excess > 0 ? Math.sqrt(error ** 2 + 8 * skewLoss * excess) : error;
  let score = (2 * excess) / (error + root);
  if (!(error > 0)) score = excess >= -1e-9 ? Infinity : -Infinity;
  const unseenLoss = 1 - largestLoss;
  if (score <= 0 || unseenLoss <= 1e-9) return score;
  // Larger losses than any that was seen are possible, on queries that were not seen.
  const brokenShare = Math.min(1, Math.max(0, (1 - share / (1 + Math.max(mean, 0))) / unseenLoss));
  const chance = Math.max(MIN_UNSEEN_CHANCE, 1 - (1 - brokenShare) ** atStake);
  return studentCdf(score, degrees) <= chance ? score : studentScore(chance, degrees);
}

// The chance that a setting keeps a share; calibrated as choice_calibration.py does.
export function chanceOf(facts, share, degrees, sureScore, [scale, shift], atStake = degrees + 1) {
  const plain = scoreOf(facts, share, degrees, atStake), score = plain > 0 ? scale * plain : plain;
  const stretched = ((score - shift) * sureScore) / (sureScore - shift);
  return studentCdf(score < shift ? score - shift : score < sureScore ? stretched : score, degrees);
}

// Take the budget's shapes and the choices' labels out of a layout, and return them: downloads add them again.
export function takeShapes(layout) {
  const isDrawnHere = ({ name }) => /^(veil|budget|(sure|bet) )/.test(name ?? "");
  const taken = {};
  for (const list of layout.meta?.level ? ["shapes", "annotations"] : []) {
    taken[list] = layout[list] ?? [];
    layout[list] = taken[list].filter((part) => !isDrawnHere(part));
  }
  return taken;
}

// Widen a window, the ranges of both axes, until it holds a budget and its choices; return it as it is if it does.
// share: of the window's size, the margin beyond what it must hold
export function widenForBudget({ x, y }, level, share = WINDOW_MARGIN) {
  const choices = level.chosen().filter(Boolean);
  const widen = ([low, high], values) => {
    const margin = (high - low) * share, [least, most] = [Math.min(low, ...values), Math.max(high, ...values)];
    return [least < low ? least - margin : low, most > high ? most + margin : high];
  };
  return { x: widen(x, choices.map((option) => option.x)), y: widen(y, [level.value, ...choices.map((option) => option.y)]) };
}

export const isSameWindow = (first, second) => ["x", "y"].every((axis) => first[axis].every((end, i) => end === second[axis][i]));

// Boxes are {left, top, width, height} in pixels.
function overlap(box, other) {
  const isApart = (start, size) => box[start] + box[size] <= other[start] || other[start] + other[size] <= box[start];
  return !isApart("left", "width") && !isApart("top", "height");
}

function isCrowded(frames) {
  return frames.length > 1 || frames[0]?.width < MIN_NAMED_PX;
}

export class BudgetLevel {
  constructor(chart, host) {
    this.chart = chart;
    this.host = host;
    this.panels = [];
    this.widths = {}; // of labels in pixels, by their text
    this.emphasised = null; // the method whose lines are wider
    this.marks = ROLES.map((role) => this.makeMark(role));
    const stops = [
      listen("emphasis", ({ method }) => {
        this.emphasised = method;
        this.fade();
      }),
      // The slider beside the chart moves the line as well.
      listen("budget", ({ value }) => this.level && this.moveTo(value)),
    ];
    // Names are measured again when a typeface has come in place of the browser's.
    const measureAgain = () => {
      this.widths = {};
      this.chart.controls?.place();
    };
    document.fonts.addEventListener("loadingdone", measureAgain);
    stops.push(() => document.fonts.removeEventListener("loadingdone", measureAgain));
    this.stop = () => stops.forEach((stop) => stop());
  }

  makeMark(role) {
    const parts = ["strip kept", "strip missed", "ring"].map((name) => make(document.createDocumentFragment(), "div", `${role} ${name}`));
    const label = make(this.host, "div", `frontier-choice ${role}`);
    const [name, leader] = ["span", "i"].map((tag) => make(label, tag));
    return { role, parts, label, name, leader };
  }

  // level: of the layout's meta, undefined for none.
  show(level) {
    this.level = level;
    // The handle is hidden without a level, so that nothing tells of its end.
    if (!level) this.isHeld = false;
    // A handle that is held stays under the pointer, and one that keys have moved where it is until that is reported,
    // whatever the page redraws.
    else if (!this.isHeld && !this.waiting) this.value = this.reported = level.value;
  }

  makePanel() {
    const box = make(this.host, "div", "frontier-frame");
    const panel = { box, veil: make(box, "div", "veil"), line: make(box, "div", "line") };
    const handle = (panel.handle = make(this.host, "div", "frontier-level"));
    // Of several panels the first one has the slider for the keyboard and its text.
    if (!this.panels.length) {
      this.slider = handle;
      for (const [name, value] of Object.entries({ role: "slider", "aria-orientation": "vertical", "aria-label": "Budget" }))
        handle.setAttribute(name, value);
      handle.tabIndex = 0;
      make(handle, "span");
      handle.addEventListener("keydown", (event) => this.takeKey(event));
    } else handle.setAttribute("aria-hidden", "true");
    handle.addEventListener("pointerdown", (event) => {
      handle.setPointerCapture(event.pointerId);
      this.isHeld = true;
      event.preventDefault();
      this.slider.focus({ preventScroll: true });
    });
    handle.addEventListener("pointermove", (event) => {
      if (!this.isHeld || !handle.hasPointerCapture(event.pointerId)) return;
      const y = event.clientY - this.host.getBoundingClientRect().top - panel.frame.top;
      this.raise(panel.frame.yaxis.p2d(y));
    });
    const drop = () => {
      if (!this.isHeld) return;
      this.isHeld = false;
      // The page may not have drawn what was last reported.
      if (this.value !== this.reported) this.report();
    };
    handle.addEventListener("pointerup", drop);
    handle.addEventListener("pointercancel", drop);
    return panel;
  }

  takeKey(event) {
    const step = { ArrowUp: 1, ArrowRight: 1, ArrowDown: -1, ArrowLeft: -1, PageUp: 5, PageDown: -5 }[event.key];
    if (!step) return;
    event.preventDefault();
    this.raise(this.value + step * this.level.step);
    clearTimeout(this.waiting);
    this.waiting = setTimeout(() => this.report(), KEY_PAUSE_MS);
  }

  report() {
    clearTimeout(this.waiting);
    this.waiting = null;
    this.reported = this.value;
    this.chart.component.setTriggerValue("adjusted", { name: "level", value: this.value });
  }

  raise(value) {
    const { low, high, step } = this.level;
    const next = Math.min(high, Math.max(low, Math.round(value / step) * step));
    if (next === this.value) return;
    announce("budget", { value: next });
  }

  moveTo(value) {
    if (value === this.value) return;
    this.value = value;
    // A line that is held stays under the pointer: the window follows once it is released.
    if (this.isHeld || !this.chart.controls.widenForBudget?.()) this.chart.controls.place();
  }

  // The sure setting and the bet at the budget, with what both are sure to keep; undefined where there is none.
  chosen() {
    const { choices, options, sureEnds, low, step } = this.level;
    const position = Math.round((this.value - low) / step);
    return (choices?.[position] ?? []).map((index, i) => options[index] && { ...options[index], low: sureEnds[position][i] });
  }

  // frames: the areas of the plot or of its panels, each with its axes.
  place(frames) {
    const shown = this.level ? frames : [];
    while (this.panels.length < shown.length) this.panels.push(this.makePanel());
    this.panels.forEach((panel, i) => this.placePanel(panel, shown[i]));
    const options = this.level ? this.chosen() : [];
    // Names come last: each keeps off the rings and whiskers of both choices, and off the other name.
    const marked = this.marks.map((mark, i) => this.placeMark(mark, options[i], shown));
    if (!this.level) return;
    const text = this.level.label.replace("{}", `${Number(this.value.toFixed(1))}%`);
    // In the first of several panels, and on a phone, the full sentence would cover the curve.
    this.slider.firstChild.textContent = isCrowded(frames) ? text.split(" of ")[0] : text;
    const { low, high } = this.level;
    for (const [name, value] of Object.entries({ valuenow: this.value, valuemin: low, valuemax: high, valuetext: text }))
      this.slider.setAttribute(`aria-${name}`, value);
    const boxes = [...marked.flatMap((place) => place?.boxes ?? []), ...this.tagBoxes()];
    this.marks.forEach((mark, i) => marked[i] && this.placeName(mark, marked[i], boxes, isCrowded(frames)));
    if (this.value !== this.faded) this.fade();
  }

  // Plotly draws for the budget that the server knows, without emphasis.
  redrawn() {
    this.faded = this.emphasised ? null : this.level?.value;
  }

  placePanel(panel, frame) {
    const { box, veil, line, handle } = panel;
    panel.frame = frame;
    for (const node of [box, handle]) node.style.display = frame ? "" : "none";
    if (!frame) return;
    const position = frame.yaxis.d2p(this.value), isInside = position >= 0 && position <= frame.height;
    // A line that is held does not leave the plot: it waits at the edge beyond which it is.
    const y = this.isHeld ? Math.min(Math.max(position, 0), frame.height - 1) : position;
    for (const [name, value] of Object.entries({ left: frame.left, top: frame.top, width: frame.width, height: frame.height }))
      box.style[name] = `${value}px`;
    veil.style.top = `${Math.max(0, y)}px`;
    line.style.top = `${y}px`;
    // A handle that is hidden loses the pointer, so one that is held may leave the plot.
    handle.style.display = isInside || this.isHeld ? "" : "none";
    Object.assign(handle.style, { left: `${frame.left}px`, width: `${frame.width}px`, top: `${frame.top + y}px` });
  }

  placeMark({ role, parts, label }, option, frames) {
    for (const node of [...parts, label]) node.style.display = option ? "" : "none";
    if (!option) return null;
    const index = Math.max(0, frames.findIndex(({ method }) => method === option.method));
    const { xaxis, yaxis, left, top, width, height } = frames[index], { box } = this.panels[index];
    const [x, y] = [xaxis.l2p(option.x), yaxis.d2p(option.y)];
    const [low, high] = [yaxis.d2p(option.low), yaxis.d2p(option.high)];
    const middle = Math.min(Math.max(yaxis.d2p(this.value), high), low);
    const [kept, missed, ring] = parts;
    if (ring.parentNode !== box) box.append(...parts);
    for (const part of parts) part.style.left = `${x}px`;
    // A whisker without a grey part ends in the choice's colour.
    for (const part of parts) part.style.setProperty("--own", part === missed && low > middle ? "#8a8a8a" : option.colour);
    Object.assign(kept.style, { top: `${high}px`, height: `${middle - high}px` });
    Object.assign(missed.style, { top: `${middle}px`, height: `${low - middle}px` });
    ring.style.top = `${y}px`;
    const at = { left: left + x - MARK_PX, width: 2 * MARK_PX };
    const boxes = [{ ...at, top: top + y - MARK_PX, height: 2 * MARK_PX }, { ...at, top: top + high, height: low - high }];
    const isVisible = x >= 0 && x <= width && y >= 0 && y <= height;
    return { option, boxes, isVisible, x: left + x, y: top + y, left, right: left + width, top, bottom: top + height };
  }

  // The budget's text, which stands at the right of the first panel.
  tagBoxes() {
    const tag = this.slider?.firstChild, handle = this.panels[0]?.handle;
    if (!tag || handle.style.display === "none") return [];
    const left = handle.offsetLeft + tag.offsetLeft, top = handle.offsetTop + tag.offsetTop;
    return [{ left, top, width: tag.offsetWidth, height: tag.offsetHeight }];
  }

  // Write a choice's name at the first side of its mark where it covers nothing; boxes: what is taken, filled here.
  placeName({ role, label, name, leader }, { option, isVisible, x, y, left, right, top, bottom }, boxes, isShort) {
    const isDenied = role === "sure" && this.value === this.level.denied;
    const roleName = isDenied ? "looked sure" : role;
    const text = isShort ? roleName : `${roleName}: ${option.name}`;
    if (name.textContent !== text) name.textContent = text;
    label.style.display = isVisible ? "" : "none";
    if (!isVisible) return;
    const width = (this.widths[text] ??= label.offsetWidth), sides = [x + LABEL_GAP_PX, x - LABEL_GAP_PX - width];
    const places = LABEL_TOPS_PX.flatMap((shift) => sides.map((side) => ({ left: side, top: y + shift, width, height: LABEL_PX })));
    const isInside = (box) => box.left >= left && box.left + width <= right + 8 && box.top >= top && box.top + LABEL_PX <= bottom;
    const isFree = (box) => boxes.every((other) => !overlap(box, other));
    // Where nothing is free the name had better cover something than stand outside.
    const box = places.find((place) => isInside(place) && isFree(place)) ?? places.find(isInside) ?? places[0];
    label.style.transform = `translate(${box.left}px, ${box.top}px)`;
    boxes.push(box);
    // A name that could not stand beside its mark has a line to it.
    const nearX = Math.min(Math.max(x, box.left), box.left + width), nearY = Math.min(Math.max(y, box.top), box.top + LABEL_PX);
    const length = Math.hypot(x - nearX, y - nearY) - MARK_PX;
    leader.style.width = `${length < MIN_LEADER_PX ? 0 : length}px`;
    leader.style.transform = `translate(${nearX - box.left}px, ${nearY - box.top}px) rotate(${Math.atan2(y - nearY, x - nearX)}rad)`;
  }

  labelBoxes() {
    const tag = this.slider && this.panels[0]?.handle.style.display !== "none" ? [this.slider.firstChild] : [];
    const labels = this.marks.map(({ label }) => label).filter((label) => label.style.display !== "none");
    return [...labels, ...tag].map((node) => node.getBoundingClientRect());
  }

  lineHeights() {
    return this.panels.filter(({ frame }) => frame).map(({ line }) => line.getBoundingClientRect().top);
  }

  // Give lines and points the width and opacity of their chance to keep the budget, without drawing them anew.
  fade() {
    const { degrees, atStake, sureScore, calibrations, low, step, minOpacity: usualOpacity } = this.level ?? {};
    if (!degrees) return;
    this.faded = this.value;
    const calibration = calibrations[Math.round((this.value - low) / step)];
    for (const { keep, method, lines, points, minOpacity = usualOpacity } of this.chart.fadingParts()) {
      const chances = keep.map((facts) => (facts ? chanceOf(facts, this.value / 100, degrees, sureScore, calibration, atStake) : 1));
      const opacityOf = (chance) => minOpacity + (1 - minOpacity) * chance;
      const extraWidth = method === this.emphasised ? EMPHASIS_PX : 0;
      for (const line of lines) {
        line.style.strokeWidth = `${MIN_WIDTH + WIDTH_RANGE * chances[0] + extraWidth}px`;
        line.style.strokeOpacity = extraWidth ? 1 : opacityOf(chances[0]);
      }
      points.forEach((point, i) => (point.style.opacity = opacityOf(chances[i])));
    }
  }

  end() {
    this.stop();
    clearTimeout(this.waiting);
    for (const { box, handle } of this.panels) for (const node of [box, handle]) node.remove();
    for (const { label } of this.marks) label.remove();
  }
}
