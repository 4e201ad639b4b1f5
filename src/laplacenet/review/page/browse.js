// Views in which pictures are looked through: by class, by name, by likeness, on the map, where people disagree.
import { h, color, say } from "./dom.js";
import { get, post, tried } from "./api.js";
import { Tiles } from "./tiles.js";

class Browser {
  constructor(app, via) {
    this.app = app;
    this.via = via;
    this.seen = 0;
    this.computed = -1;
    this.tiles = new Tiles({ nameOf: (label) => app.nameOf(label), onOpen: (picture) => app.findSimilar(picture.number) });
    this.chosen = h("span", { class: "count", "aria-live": "polite" });
    this.tiles.onSelection = () => {
      const n = this.tiles.selected.size;
      this.chosen.textContent = n ? `${n} selected: press a class key or drag them to a class` : "";
    };
    this.total = h("p", { class: "count" });
    this.isShown = false;
  }

  hide() { this.isShown = false; this.app.showGuesses([]); }

  fill(content) {
    this.seen = content.seen;
    const shown = content.pictures.length;
    this.total.textContent = content.total > shown ? `${shown} of ${content.total} pictures` : `${content.total} pictures`;
    this.tiles.show(content.pictures);
  }

  targets() {
    if (this.tiles.selected.size) return [...this.tiles.selected];
    const focused = this.tiles.focusedNumber();
    return focused === null ? [] : [focused];
  }

  async give(what) {
    const pictures = this.targets();
    if (!pictures.length) { say("Select pictures first"); return; }
    const sent = await tried(post("/api/answer", { ...what, pictures, via: this.via, seen: this.seen }));
    if (!sent) return;
    this.tiles.select([]);
    say(`${pictures.length} ${pictures.length === 1 ? "picture" : "pictures"}: ${what.name || (what.answer === "label" ? this.app.nameOf(what.class) : what.answer)}`);
    await this.load();
  }

  enter() {}
  showAgain() { this.load(); }
  focused() { return this.targets()[0] ?? null; }
  selectAll() { this.tiles.select(this.tiles.pictures.map((picture) => picture.number)); }
  clear() { this.tiles.select([]); }
  update(summary) {
    if (!this.isShown || this.computed === summary.computed) return;
    this.computed = summary.computed;
    if (!this.tiles.selected.size) this.load();
  }
}

export class ClassesView extends Browser {
  constructor(app) { super(app, "class"); this.label = null; this.order = "surest"; this.offset = 0; }

  show(root) {
    this.isShown = true;
    this.choice = h("select", { "aria-label": "Class", onchange: () => { this.label = Number(this.choice.value); this.offset = 0; this.load(); } });
    this.orders = [["surest", "Surest"], ["doubtful", "Doubtful"], ["suspects", "Suspects"], ["answered", "Given by you"]].map(([order, text]) => h("button", {
      type: "button", class: "mode", "data-order": order, onclick: () => { this.order = order; this.offset = 0; this.load(); },
    }, text));
    this.rename = h("input", { type: "text", maxLength: 80, "aria-label": "New name", placeholder: "new name" });
    this.into = h("select", { "aria-label": "Merge into" });
    const change = (content, text) => async () => {
      const done = await tried(post("/api/classes", { class: this.label, ...content() }));
      if (done) { say(text); this.rename.value = ""; this.offset = 0; if (text === "Merged") this.label = Number(this.into.value); await this.refresh(); }
    };
    this.more = h("button", { type: "button", onclick: () => { this.offset += 60; this.load(); } }, "Next page");
    root.replaceChildren(
      h("div", { class: "head" }, h("h2", {}, "Classes"), this.choice, h("div", { class: "row", role: "group", "aria-label": "Which pictures" }, ...this.orders), this.chosen),
      h("div", { class: "head" }, this.rename,
        h("button", { type: "button", id: "rename", onclick: change(() => ({ action: "rename", name: this.rename.value }), "Renamed") }, "Rename"),
        this.into, h("button", { type: "button", id: "merge", onclick: change(() => ({ action: "merge", into: Number(this.into.value) }), "Merged") }, "Merge into it"),
        h("button", { type: "button", id: "remove", onclick: change(() => ({ action: "remove" }), "Removed") }, "Remove if empty")),
      this.total, this.tiles.element, this.more);
    this.refresh();
  }

  options() {
    const classes = this.app.summary.classes;
    const option = (one) => h("option", { value: String(one.class) }, one.name);
    const none = h("option", { value: "-1" }, "None of these");
    const valid = [-1, ...classes.map((one) => one.class)];
    if (!valid.includes(this.label)) this.label = classes.length ? classes[0].class : -1;
    this.choice.replaceChildren(...classes.map(option), none);
    this.choice.value = String(this.label);
    const before = this.into.value;
    this.into.replaceChildren(...classes.filter((one) => one.class !== this.label).map(option));
    if ([...this.into.options].some((one) => one.value === before)) this.into.value = before;
  }

  async refresh() { this.app.take(await get("/api/summary")); await this.load(); }

  async load() {
    if (!this.isShown) return;
    this.options();
    for (const button of this.orders) button.setAttribute("aria-pressed", String(button.dataset.order === this.order));
    const content = await tried(get(`/api/class/${this.label}?order=${this.order}&offset=${this.offset}`));
    if (!content || !this.isShown) return;
    if (this.offset && !content.pictures.length) { this.offset = 0; await this.load(); return; }
    this.more.hidden = this.offset + content.pictures.length >= content.total;
    this.fill(content);
  }
}

export class SearchView extends Browser {
  constructor(app) { super(app, "search"); this.like = null; this.text = ""; }

  show(root) {
    this.isShown = true;
    this.field = h("input", { type: "search", "aria-label": "File name", placeholder: "part of a file name", value: this.text, maxLength: 200 });
    let waiting;
    this.field.addEventListener("input", () => {
      clearTimeout(waiting);
      waiting = setTimeout(() => { this.text = this.field.value; this.like = null; this.load(); }, 150);
    });
    const similar = h("button", { type: "button", onclick: () => { const number = this.focused(); if (number !== null) this.findSimilar(number); else say("Select a picture first"); } }, "Similar to the selected one (F)");
    root.replaceChildren(h("div", { class: "head" }, h("h2", {}, "Search"), this.field, similar, this.chosen), this.total, this.tiles.element);
    this.load();
    if (this.like === null) this.field.focus();
  }

  findSimilar(number) { this.like = number; this.tiles.select([]); if (this.isShown) this.load(); }

  async load() {
    if (!this.isShown) return;
    const content = await tried(get(this.like === null ? `/api/search?text=${encodeURIComponent(this.text)}` : `/api/similar/${this.like}`));
    if (content && this.isShown) this.fill(content);
  }
}

export class DisagreementsView extends Browser {
  constructor(app) { super(app, "disagreement"); }

  show(root) {
    this.isShown = true;
    this.list = h("ul", {});
    root.replaceChildren(h("div", { class: "head" }, h("h2", {}, "Where people disagree"), this.chosen),
      h("p", {}, "Two people answered without seeing each other's answer. The later one counts until somebody decides: select the picture and give it its class."),
      this.list, this.tiles.element);
    this.load();
  }

  async load() {
    if (!this.isShown) return;
    const content = await tried(get("/api/disagreements"));
    if (!content || !this.isShown) return;
    const word = (said) => (typeof said === "number" ? this.app.nameOf(said) : said);
    this.list.replaceChildren(...content.pictures.map((picture) => h("li", {}, `${picture.name}: ${picture.said.map(word).join(", then ")}`)));
    this.fill(content);
  }
}

export class MapView extends Browser {
  constructor(app) { super(app, "map"); this.content = null; this.path = []; }

  show(root) {
    this.isShown = true;
    this.canvas = h("canvas", { width: 1200, height: 900, tabIndex: 0, role: "img", "aria-label": "Map of the pictures: similar ones lie together. Draw around some to select them." });
    for (const [kind, handler] of [["pointerdown", "down"], ["pointermove", "move"], ["pointerup", "up"], ["pointercancel", "up"]]) {
      this.canvas.addEventListener(kind, (event) => this[handler](event));
    }
    root.replaceChildren(h("div", { class: "head" }, h("h2", {}, "Map"), h("span", { class: "count" }, "Draw around pictures to select them, then give them a class."), this.chosen),
      this.canvas, this.total, this.tiles.element);
    this.total.textContent = "";
    this.load();
  }

  async load() {
    if (!this.isShown) return;
    const content = await tried(get("/api/map"));
    if (!content || !this.isShown) return;
    this.content = content;
    this.seen = content.seen;
    this.draw();
  }

  place(index) { return [this.content.x[index] * 1140 + 30, this.content.y[index] * 840 + 30]; }

  draw() {
    const context = this.canvas.getContext("2d");
    const style = getComputedStyle(document.documentElement);
    context.clearRect(0, 0, 1200, 900);
    const inside = new Set(this.inside || []);
    this.content.numbers.forEach((number, index) => {
      const [x, y] = this.place(index);
      context.globalAlpha = inside.size && !inside.has(number) ? 0.25 : 0.85;
      context.fillStyle = color(this.content.classes[index]);
      context.beginPath();
      context.arc(x, y, this.content.given[index] ? 6 : 3.5, 0, 7);
      context.fill();
      if (this.content.given[index]) { context.strokeStyle = style.getPropertyValue("--ink"); context.lineWidth = 1.5; context.stroke(); }
    });
    context.globalAlpha = 1;
    if (this.path.length > 1) {
      context.strokeStyle = style.getPropertyValue("--accent");
      context.lineWidth = 2;
      context.beginPath();
      this.path.forEach(([x, y], place) => (place ? context.lineTo(x, y) : context.moveTo(x, y)));
      context.stroke();
    }
  }

  point(event) {
    const box = this.canvas.getBoundingClientRect();
    return [(event.clientX - box.left) * 1200 / box.width, (event.clientY - box.top) * 900 / box.height];
  }

  down(event) { this.canvas.setPointerCapture(event.pointerId); this.isDrawing = true; this.inside = null; this.path = [this.point(event)]; }
  move(event) { if (this.isDrawing) { this.path.push(this.point(event)); if (this.content) this.draw(); } }

  up() {
    if (!this.isDrawing || !this.content) return;
    this.isDrawing = false;
    const inside = this.content.numbers.filter((_, index) => this.path.length > 2 && within(this.place(index), this.path));
    this.path = [];
    this.inside = inside;
    this.draw();
    const index = new Map(this.content.numbers.map((number, place) => [number, place]));
    this.tiles.show(inside.slice(0, 200).map((number) => ({
      number, name: `picture ${number}`, class: this.content.classes[index.get(number)], p: 0, given: Boolean(this.content.given[index.get(number)]), status: "ok",
    })));
    this.all = inside;
    this.tiles.select(inside.slice(0, 200));
    this.total.textContent = `${inside.length} pictures inside${inside.length > 200 ? "; the first 200 are shown, all are selected" : ""}`;
  }

  targets() {
    const shown = super.targets();
    const unseen = this.all && this.tiles.selected.size ? this.all.slice(200) : [];
    return [...shown, ...unseen];
  }

  async give(what) { await super.give(what); this.inside = null; this.all = null; this.tiles.show([]); this.total.textContent = ""; if (this.content) this.draw(); }
}

function within([x, y], path) {
  let isInside = false;
  for (let i = 0, j = path.length - 1; i < path.length; j = i, i += 1) {
    const [[xi, yi], [xj, yj]] = [path[i], path[j]];
    if (yi > y !== yj > y && x < ((xj - xi) * (y - yi)) / (yj - yi) + xi) isInside = !isInside;
  }
  return isInside;
}
