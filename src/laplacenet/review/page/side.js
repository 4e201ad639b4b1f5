// Classes with their keys, the field to type a class, progress, estimate and curve.
import { h, byId, color, count, counted, percent } from "./dom.js";

const rounded = (n) => Number(n.toPrecision(2)); // it is an extrapolation: more digits would mean nothing

const MOST_OPTIONS = 8;
const wordStart = (text) => new RegExp(`[\\s_./()-]${text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")}`, "u");

export class Side {
  constructor(app) {
    this.app = app;
    this.rows = new Map();
    this.guesses = [];
    this.option = -1;
    this.isUnasked = false; // whether the field has the focus although the person did not go there: digits are keys then
    const entry = byId("class-entry");
    entry.addEventListener("input", () => { this.option = -1; this.showOptions(); });
    entry.addEventListener("keydown", (event) => this.onKey(event));
    entry.addEventListener("pointerdown", () => { this.isUnasked = false; });
    entry.addEventListener("blur", () => { this.isUnasked = false; setTimeout(() => { if (document.activeElement !== entry) this.closeOptions(); }, 150); });
    byId("none").addEventListener("click", () => app.give({ answer: "none" }));
    byId("cannot-tell").addEventListener("click", () => app.give({ answer: "cannot tell" }));
    byId("skip").addEventListener("click", () => app.give({ answer: "skip" }));
  }

  askForName() {
    const entry = byId("class-entry");
    if (document.activeElement === entry) return;
    entry.focus({ preventScroll: true });
    this.isUnasked = true;
  }

  render(summary) {
    this.renderClasses(summary);
    byId("legend").hidden = !summary.classes.length;
    byId("none-count").textContent = this.counts(summary.none);
    byId("answered").textContent = `${count(summary.answered)} of ${counted(summary.pictures, "picture")} ${summary.answered === 1 ? "has" : "have"} your answer${foundText(summary)}.`;
    byId("brief").textContent = briefText(summary);
    const isEmbedding = summary.embedded < summary.files || summary.embedding_error;
    byId("embedding").hidden = !isEmbedding;
    byId("embedding-text").textContent = summary.embedding_error ? `Reading the pictures failed: ${summary.embedding_error}`
      : `Reading the pictures: ${count(summary.embedded)} of ${count(summary.files)}`;
    byId("embedding-bar").value = summary.embedded / summary.files;
    byId("accuracy").replaceChildren(...(isAnswered(summary) ? [ownText(summary)] : accuracyText(summary.estimate)));
    byId("goals").replaceChildren(...Object.entries(isAnswered(summary) ? {} : summary.goals).map(([goal, n]) => h("li", {},
      n === 0 ? `${goal.replace("%", " %")} right: reached` : `${goal.replace("%", " %")} right: about ${count(rounded(n))} more answers`)));
    const notes = summary.unreadable ? [summary.unreadable === 1 ? "1 file cannot be read as a picture" : `${count(summary.unreadable)} files cannot be read as pictures`, ...summary.notes] : summary.notes;
    byId("notes").replaceChildren(...notes.map((note) => h("li", {}, note)));
    byId("curve").replaceChildren(...curve(summary.curve));
    const disagreements = byId("disagreements-button");
    disagreements.hidden = !summary.disagreements;
    disagreements.textContent = `Disagreements (${summary.disagreements})`;
  }

  counts(counted) { return counted.given || counted.found ? `${count(counted.given)} + ${count(counted.found)}` : ""; }

  renderClasses(summary) {
    const list = byId("class-list");
    const present = new Set(summary.classes.map((one) => one.class));
    for (const [label, row] of this.rows) if (!present.has(label)) { row.item.remove(); this.rows.delete(label); }
    for (const one of summary.classes) {
      const row = this.rows.get(one.class) || this.newRow(one.class);
      row.key.textContent = one.key ?? "·";
      row.name.textContent = one.name;
      row.count.textContent = this.counts(one);
      row.button.setAttribute("aria-label", `${one.name}, ${one.key ? `key ${one.key}, ` : ""}${one.given} given, ${one.found} found`);
      if (row.item.parentNode !== list) {
        const after = [...list.children].find((item) => Number(item.dataset.label) > one.class) || null;
        list.insertBefore(row.item, after);
      }
    }
    this.showGuesses(this.guesses);
  }

  newRow(label) {
    const row = { key: h("kbd"), name: h("bdi", { class: "name" }), count: h("span", { class: "count", title: "given by you + found by the model" }), bar: h("span", { class: "bar" }) };
    const dot = h("span", { class: "dot" });
    dot.style.background = color(label);
    row.dot = dot;
    row.button = h("button", { type: "button", onclick: () => this.app.give({ answer: "label", class: label }) }, row.key, dot, row.name, row.count, row.bar);
    row.button.addEventListener("dragover", (event) => { event.preventDefault(); row.button.classList.add("target"); });
    row.button.addEventListener("dragleave", () => row.button.classList.remove("target"));
    row.button.addEventListener("drop", (event) => { event.preventDefault(); row.button.classList.remove("target"); this.app.give({ answer: "label", class: label }); });
    row.item = h("li", {}, row.button);
    row.item.dataset.label = label;
    this.rows.set(label, row);
    return row;
  }

  recolor() { for (const [label, row] of this.rows) row.dot.style.background = color(label); }

  showGuesses(guesses) {
    this.guesses = guesses;
    for (const [label, row] of this.rows) {
      const guess = guesses.find((one) => one.class === label);
      row.bar.style.width = guess ? `${100 * guess.p}%` : "0";
    }
  }

  // A name that begins as typed, or one of whose words does, comes before a new class; one that merely holds it, after.
  matches() {
    const text = byId("class-entry").value.trim().toLowerCase();
    if (!text) return { begins: [], holds: [] };
    const found = this.app.summary.classes.map((one) => ({ one, at: ` ${one.name.toLowerCase()}`.search(wordStart(text)), holds: one.name.toLowerCase().includes(text) }));
    const begins = found.filter((match) => match.at >= 0).sort((a, b) => Math.sign(a.at) - Math.sign(b.at)).map((match) => match.one);
    const holds = found.filter((match) => match.at < 0 && match.holds).map((match) => match.one);
    return { begins: begins.slice(0, MOST_OPTIONS), holds: holds.slice(0, Math.max(0, MOST_OPTIONS - begins.length)) };
  }

  showOptions() {
    const entry = byId("class-entry");
    const text = entry.value.trim();
    const { begins, holds } = this.matches();
    const isNew = text && !this.app.summary.classes.some((one) => one.name.toLowerCase() === text.toLowerCase());
    const old = (one) => ({ text: one.name, what: { answer: "label", class: one.class } });
    const choices = [...begins.map(old), ...(isNew ? [{ text: `New class: ${text}`, what: { answer: "label", name: text } }] : []), ...holds.map(old)];
    if (this.option >= choices.length) this.option = choices.length - 1;
    this.choices = choices;
    byId("class-options").replaceChildren(...choices.map((choice, place) => h("li", {
      role: "option", id: `option-${place}`, "aria-selected": String(place === Math.max(0, this.option)),
      onmousedown: (event) => { event.preventDefault(); this.choose(choice); },
    }, choice.text)));
    byId("class-options").hidden = !choices.length;
    entry.setAttribute("aria-expanded", String(choices.length > 0));
    if (choices.length) entry.setAttribute("aria-activedescendant", `option-${Math.max(0, this.option)}`);
    else entry.removeAttribute("aria-activedescendant");
  }

  closeOptions() {
    byId("class-options").hidden = true;
    byId("class-entry").setAttribute("aria-expanded", "false");
  }

  choose(choice) {
    byId("class-entry").value = "";
    this.option = -1;
    this.closeOptions();
    byId("view").focus();
    this.app.give(choice.what);
  }

  onKey(event) {
    const entry = event.target;
    if (event.key === "Escape") { entry.value = ""; this.closeOptions(); byId("view").focus(); event.stopPropagation(); return; }
    if (event.key === "/" && !entry.value) { event.preventDefault(); return; } // the key that leads here
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      const n = (this.choices || []).length;
      if (n) { this.option = (Math.max(0, this.option) + (event.key === "ArrowDown" ? 1 : n - 1)) % n; this.showOptions(); }
    } else if (event.key === "Enter" && entry.value.trim()) {
      event.preventDefault();
      event.stopPropagation();
      const text = entry.value.trim().toLowerCase();
      this.showOptions();
      const exact = this.choices.find((choice) => choice.text.toLowerCase() === text);
      const chosen = this.option >= 0 ? this.choices[this.option] : exact || this.choices[0];
      if (chosen) this.choose(chosen);
    }
  }
}

const found = (summary) => summary.none.found + summary.classes.reduce((total, one) => total + one.found, 0);
const foundText = (summary) => found(summary) ? `, the model labels ${count(found(summary))}` : "";

// Then no random check can come any more, and there is nothing to estimate.
const isAnswered = (summary) => summary.pictures > 0 && summary.answered === summary.pictures;

function ownText(summary) {
  const untold = found(summary); // what is left to the model
  return untold ? `Every label is your own answer, except for ${counted(untold, "picture")} that you marked “cannot tell”.` : "Every label is your own answer.";
}

function briefText(summary) {
  const { audits, value, low, high } = summary.estimate;
  const range = `${Math.floor(100 * low)}–${Math.ceil(100 * high)}\u00a0%`;
  const right = !audits || isAnswered(summary) ? "" : value === null ? ` · ${range} right` : ` · about ${percent(value)} right`;
  return `${count(summary.answered)} of ${count(summary.pictures)} answered${right}`;
}

function accuracyText(estimate) {
  const range = `${Math.floor(100 * estimate.low)}–${Math.ceil(100 * estimate.high)}\u00a0%`;
  if (!estimate.audits) return ["How many labels are right is not known yet: random checks will tell."];
  const figure = (text) => h("strong", { class: "figure" }, text);
  if (estimate.value !== null) return [figure(`About ${percent(estimate.value)}`), ` of all labels are right (95\u00a0% confidence interval ${range}).`];
  return [figure(range), ` of all labels are right, by ${counted(estimate.audits, "random check")}; a single number from 50 on.`];
}

function svg(tag, attributes, text) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  if (text !== undefined) element.textContent = text;
  return element;
}

function curve(points) {
  if (points.length < 2) return [];
  const last = points[points.length - 1];
  const x = (point) => 34 + 256 * point.questions / last.questions;
  const y = (share) => 10 + 90 * (1 - share);
  const picture = svg("svg", { viewBox: "0 0 300 125", role: "img", "aria-label": `Accuracy after ${last.questions} questions: between ${percent(last.low)} and ${percent(last.high)}` });
  for (const share of [0, 0.5, 1]) {
    picture.append(svg("line", { x1: 34, x2: 290, y1: y(share), y2: y(share), class: "axis" }), svg("text", { x: 0, y: y(share) + 4 }, `${100 * share} %`));
  }
  const up = points.map((point) => `${x(point)},${y(point.high)}`);
  const down = points.map((point) => `${x(point)},${y(point.low)}`).reverse();
  picture.append(svg("polygon", { points: [...up, ...down].join(" "), class: "band" }));
  const known = points.filter((point) => point.audits >= 50);
  if (known.length > 1) picture.append(svg("polyline", { points: known.map((point) => `${x(point)},${y(point.value)}`).join(" "), class: "line" }));
  picture.append(svg("text", { x: 290, y: 120, "text-anchor": "end" }, `${last.questions} questions`));
  return [picture];
}
