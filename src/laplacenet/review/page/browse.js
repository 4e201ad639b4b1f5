// Views in which pictures are looked through: by class, by name, by likeness, on the map, where people disagree.
import { h, announce, color, count, counted, say } from "./dom.js";
import { get, post, tried } from "./api.js";
import { Tiles } from "./tiles.js";

class Browser {
  constructor(app, via, { hasNames = false } = {}) {
    this.app = app;
    this.via = via;
    this.seen = 0;
    this.asked = null;
    this.nAsked = 0;
    this.tiles = new Tiles({ nameOf: (label) => app.nameOf(label), hasNames, onOpen: (picture) => this.enlarge(picture.number) });
    this.chosen = h("span", { class: "count", "aria-live": "polite" });
    this.tiles.onSelection = () => {
      const n = this.tiles.selected.size ? this.targets().length : 0;
      if (this.hint) this.hint.hidden = n > 0;
      this.chosen.textContent = n ? `${count(n)} selected: press a class key, choose a class, or drag them to one` : "";
    };
    this.total = h("p", { class: "count" });
    this.isShown = false;
  }

  hide() { this.isShown = false; this.app.showGuesses([]); }

  // What the server says; nothing where the view was left, or something newer was asked for, meanwhile.
  async ask(path) {
    const number = this.nAsked += 1;
    this.asked = this.version(this.app.summary);
    const content = await tried(get(path));
    return this.isShown && number === this.nAsked ? content : null;
  }

  fill(content) {
    this.seen = content.seen;
    const shown = content.pictures.length;
    const first = (content.offset || 0) + 1;
    this.total.textContent = content.total > shown ? `${count(first)} to ${count(first + shown - 1)} of ${counted(content.total, "picture")}`
      : counted(content.total, "picture");
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
    await this.giveTo(pictures, what);
  }

  async giveTo(pictures, what) {
    const sent = await tried(post("/api/answer", { ...what, pictures, via: this.via, seen: this.seen }));
    if (!sent) return;
    this.tiles.select([]);
    say(`${counted(pictures.length, "picture")}: ${what.name || (what.answer === "label" ? this.app.nameOf(what.class) : what.answer)}`);
    await this.load();
  }

  enter() { if (this.tiles.focusedNumber() === null) this.tiles.focusFirst(); else this.enlarge(); }

  enlarge(number = this.focused()) {
    const numbers = this.tiles.pictures.map((picture) => picture.number);
    if (numbers.length) this.app.large.open(numbers, number ?? numbers[0]);
  }

  recolor() { this.tiles.recolor(); }
  showAgain() { this.load(); }
  focused() { return this.targets()[0] ?? null; }
  selectAll() { this.tiles.select(this.tiles.pictures.map((picture) => picture.number)); }
  clear() { this.tiles.select([]); }
  version(summary) { return `${summary.computed}, ${summary.joined}`; }
  update(summary) {
    if (this.isShown && !this.tiles.selected.size && this.asked !== this.version(summary)) this.load();
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
    this.rename.addEventListener("keydown", (event) => { if (event.key === "Enter" && this.rename.value.trim()) { event.stopPropagation(); rename(); } });
    this.into = h("select", { "aria-label": "Merge into" });
    const change = (content, text) => async () => {
      const done = await tried(post("/api/classes", { class: this.label, ...content() }));
      if (done) { say(text); this.rename.value = ""; this.offset = 0; if (text === "Merged") this.label = Number(this.into.value); await this.refresh(); }
    };
    const rename = change(() => ({ action: "rename", name: this.rename.value }), "Renamed");
    this.more = h("button", { type: "button", onclick: () => { this.offset += 60; this.load(); } }, "Next page");
    root.replaceChildren(
      h("div", { class: "head" }, h("h2", {}, "Classes"), this.choice, h("div", { class: "row", role: "group", "aria-label": "Which pictures" }, ...this.orders), this.chosen),
      h("div", { class: "head" }, this.rename,
        h("button", { type: "button", id: "rename", onclick: rename }, "Rename"),
        h("span", { class: "count" }, "Merge into"), this.into, h("button", { type: "button", id: "merge", onclick: change(() => ({ action: "merge", into: Number(this.into.value) }), "Merged") }, "Merge"),
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
    const content = await this.ask(`/api/class/${this.label}?order=${this.order}&offset=${this.offset}`);
    if (!content) return;
    if (this.offset && !content.pictures.length) { this.offset = 0; await this.load(); return; }
    this.more.hidden = this.offset + content.pictures.length >= content.total;
    for (const picture of content.pictures) {
      if (picture.others !== undefined) picture.text = `similar ones: ${this.app.nameOf(picture.others)}`;
    }
    this.fill(content);
  }
}

export class SearchView extends Browser {
  constructor(app) { super(app, "search", { hasNames: true }); this.like = null; this.text = ""; this.offset = 0; }

  show(root) {
    this.isShown = true;
    this.field = h("input", { type: "search", "aria-label": "File name", placeholder: "part of a file name", value: this.text, maxLength: 200 });
    let waiting;
    this.field.addEventListener("input", () => {
      clearTimeout(waiting);
      waiting = setTimeout(() => { this.text = this.field.value; this.like = null; this.offset = 0; this.load(); }, 150);
    });
    const similar = h("button", { type: "button", onclick: () => { const number = this.focused(); if (number !== null) this.findSimilar(number); else say("Select a picture first"); } }, "Similar to the selected one (F)");
    this.more = h("button", { type: "button", onclick: () => { this.offset += 60; this.load(); } }, "Next page");
    root.replaceChildren(h("div", { class: "head" }, h("h2", {}, "Search"), this.field, similar, this.chosen), this.total, this.tiles.element, this.more);
    this.load();
    if (this.like === null) this.field.focus();
  }

  findSimilar(number) { this.like = number; this.tiles.select([]); if (this.isShown) this.load(); }

  async load() {
    if (!this.isShown) return;
    const found = `/api/search?text=${encodeURIComponent(this.text)}&offset=${this.offset}`;
    const content = await this.ask(this.like === null ? found : `/api/similar/${this.like}`);
    if (!content) return;
    if (this.offset && !content.pictures.length) { this.offset = 0; await this.load(); return; }
    this.more.hidden = this.like !== null || this.offset + content.pictures.length >= content.total;
    this.fill(content);
  }
}

export class DisagreementsView extends Browser {
  constructor(app) { super(app, "disagreement"); }

  show(root) {
    this.isShown = true;
    root.replaceChildren(h("div", { class: "head" }, h("h2", {}, "Where people disagree"), this.chosen),
      h("p", {}, "Two people answered without seeing each other's answer. The later one counts until somebody decides: select the picture and give it its class."),
      this.tiles.element);
    this.load();
  }

  async load() {
    if (!this.isShown) return;
    const content = await this.ask("/api/disagreements");
    if (!content) return;
    const word = (said) => (typeof said === "number" ? this.app.nameOf(said) : said);
    for (const picture of content.pictures) picture.text = picture.said.map(word).join(", then ");
    this.fill(content);
  }
}

const WIDTH = 1200, HEIGHT = 900, MOST_TILES = 200;

export class MapView extends Browser {
  constructor(app) {
    super(app, "map");
    this.content = null;
    this.path = [];
    this.circle = { x: WIDTH / 2, y: HEIGHT / 2, r: 60 };
    this.layer = h("canvas");
  }

  show(root) {
    this.isShown = true;
    this.sharpness = Math.min(3, Math.max(1, window.devicePixelRatio || 1));
    this.canvas = h("canvas", { tabIndex: 0, role: "application",
      "aria-label": "Map of the pictures: similar ones lie together. Arrow keys move a circle, plus and minus change its size, Space selects what is inside." });
    for (const canvas of [this.canvas, this.layer]) {
      canvas.width = WIDTH * this.sharpness;
      canvas.height = HEIGHT * this.sharpness;
      canvas.getContext("2d").scale(this.sharpness, this.sharpness);
    }
    const handlers = { pointerdown: "down", pointermove: "move", pointerup: "up", pointercancel: "up", pointerleave: "leave", keydown: "onKey", focus: "compose", blur: "compose" };
    for (const [kind, handler] of Object.entries(handlers)) this.canvas.addEventListener(kind, (event) => this[handler](event));
    this.peek = h("div", { class: "peek", hidden: true }, h("img", { alt: "" }), h("span", {}));
    this.hint = h("span", { class: "count" }, "Draw around pictures to select them", h("span", { class: "keyed" }, ", or move the circle with the arrow keys and press Space"), ".");
    root.replaceChildren(h("div", { class: "head" }, h("h2", {}, "Map"), this.hint, this.chosen),
    h("div", { class: "map" }, this.canvas, this.peek), this.total, this.tiles.element);
    this.total.textContent = "";
    this.tiles.onSelection();
    this.load();
  }

  async load() {
    if (!this.isShown) return;
    const content = await this.ask("/api/map");
    if (!content) return;
    this.content = content;
    this.seen = content.seen;
    this.draw();
  }

  version(summary) { return `${super.version(summary)}, ${summary.layouts}`; }

  recolor() { this.tiles.recolor(); if (this.content) this.draw(); }

  place(index) { return [this.content.x[index] * (WIDTH - 60) + 30, this.content.y[index] * (HEIGHT - 60) + 30]; }

  // The points are drawn once; what moves is drawn above them.
  draw() {
    const context = this.layer.getContext("2d");
    const ink = getComputedStyle(document.documentElement).getPropertyValue("--ink");
    context.clearRect(0, 0, WIDTH, HEIGHT);
    const inside = new Set(this.inside || []);
    const colors = new Map();
    this.content.numbers.forEach((number, index) => {
      const [x, y] = this.place(index);
      const label = this.content.classes[index];
      if (!colors.has(label)) colors.set(label, color(label));
      context.globalAlpha = inside.size && !inside.has(number) ? 0.25 : 0.9;
      context.fillStyle = colors.get(label);
      context.beginPath();
      context.arc(x, y, this.content.given[index] ? 6 : 3.5, 0, 7);
      context.fill();
      if (this.content.given[index]) { context.strokeStyle = ink; context.lineWidth = 1.5; context.stroke(); }
    });
    this.compose();
  }

  compose() {
    const context = this.canvas.getContext("2d");
    context.clearRect(0, 0, WIDTH, HEIGHT);
    context.drawImage(this.layer, 0, 0, WIDTH, HEIGHT);
    context.strokeStyle = getComputedStyle(document.documentElement).getPropertyValue("--accent");
    context.lineWidth = 2;
    context.beginPath();
    if (this.path.length > 1) this.path.forEach(([x, y], place) => (place ? context.lineTo(x, y) : context.moveTo(x, y)));
    else if (this.canvas.matches(":focus-visible") && !this.isDrawing) context.arc(this.circle.x, this.circle.y, this.circle.r, 0, 7);
    context.stroke();
  }

  point(event) {
    const box = this.canvas.getBoundingClientRect();
    return [(event.clientX - box.left) * WIDTH / box.width, (event.clientY - box.top) * HEIGHT / box.height];
  }

  down(event) {
    this.canvas.setPointerCapture(event.pointerId);
    this.isDrawing = true;
    this.peek.hidden = true;
    this.inside = null;
    this.path = [this.point(event)];
  }

  move(event) {
    if (this.isDrawing) { this.path.push(this.point(event)); this.compose(); } else if (this.content) this.showPeek(this.point(event));
  }

  leave() { this.peek.hidden = true; }

  // The picture below the pointer, small.
  showPeek([x, y]) {
    let best = -1, least = 14 ** 2;
    this.content.numbers.forEach((_, index) => {
      const [px, py] = this.place(index);
      const distance = (px - x) ** 2 + (py - y) ** 2;
      if (distance < least) { best = index; least = distance; }
    });
    this.peek.hidden = best < 0;
    if (best < 0) return;
    const [px, py] = this.place(best);
    this.peek.querySelector("img").src = `/pictures/${this.content.numbers[best]}/small`;
    this.peek.querySelector("span").textContent = this.app.nameOf(this.content.classes[best]);
    this.peek.style.left = `${px < WIDTH / 2 ? 100 * px / WIDTH + 2 : 100 * px / WIDTH - 2}%`;
    this.peek.style.top = `${100 * py / HEIGHT}%`;
    this.peek.dataset.side = px < WIDTH / 2 ? "right" : "left";
  }

  up() {
    if (!this.isDrawing || !this.content) return;
    this.isDrawing = false;
    const path = this.path;
    this.path = [];
    this.choose((index) => path.length > 2 && within(this.place(index), path));
  }

  onKey(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || !this.content) return;
    const by = event.shiftKey ? 6 : 30;
    const step = { ArrowLeft: [-by, 0], ArrowRight: [by, 0], ArrowUp: [0, -by], ArrowDown: [0, by] }[event.key];
    const { x, y, r } = this.circle;
    if (step) this.circle = { x: clamp(x + step[0], WIDTH), y: clamp(y + step[1], HEIGHT), r };
    else if (event.key === "+" || event.key === "=") this.circle.r = Math.min(800, r * 1.25);
    else if (event.key === "-") this.circle.r = Math.max(10, r / 1.25);
    else if (event.key === " ") this.choose((index) => { const [px, py] = this.place(index); return (px - x) ** 2 + (py - y) ** 2 <= r * r; });
    else return;
    event.preventDefault();
    event.stopPropagation();
    this.compose();
  }

  async choose(isInside) {
    const inside = this.content.numbers.filter((_, index) => isInside(index));
    this.inside = inside;
    this.all = inside;
    this.draw();
    this.total.textContent = `${counted(inside.length, "picture")} inside${inside.length > MOST_TILES ? `; the first ${MOST_TILES} are shown, all are selected` : ""}`;
    announce(this.total.textContent);
    const shown = inside.slice(0, MOST_TILES);
    const content = shown.length ? await tried(post("/api/tiles", { numbers: shown })) : { pictures: [] };
    if (!content || this.inside !== inside) return;
    this.tiles.show(content.pictures);
    this.tiles.select(shown);
  }

  targets() {
    const unseen = this.all && this.tiles.selected.size ? this.all.slice(MOST_TILES) : [];
    return [...super.targets(), ...unseen];
  }

  clear() { this.inside = null; this.all = null; this.tiles.show([]); this.tiles.select([]); this.total.textContent = ""; if (this.content) this.draw(); }

  async give(what) {
    if (!this.targets().length) { say("Select pictures first"); return; }
    await super.give(what);
    this.clear();
  }
}

const clamp = (value, most) => Math.min(most, Math.max(0, value));

function within([x, y], path) {
  let isInside = false;
  for (let i = 0, j = path.length - 1; i < path.length; j = i, i += 1) {
    const [[xi, yi], [xj, yj]] = [path[i], path[j]];
    if (yi > y !== yj > y && x < ((xj - xi) * (y - yi)) / (yj - yi) + xi) isInside = !isInside;
  }
  return isInside;
}
