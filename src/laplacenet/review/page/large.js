// One picture as large as the window, from a list that can be gone through.
import { byId, percent } from "./dom.js";
import { get } from "./api.js";

const MARKS = { gone: "this file is gone", changed: "this file has changed since the review began", unreadable: "cannot be read" };

export class Large {
  constructor(app) {
    this.app = app;
    this.dialog = byId("large");
    this.numbers = [];
    this.place = 0;
    byId("large-previous").addEventListener("click", () => this.step(-1));
    byId("large-next").addEventListener("click", () => this.step(1));
    byId("large-close").addEventListener("click", () => this.dialog.close());
    byId("large-similar").addEventListener("click", () => this.similar());
  }

  get isOpen() { return this.dialog.open; }

  open(numbers, number) {
    this.numbers = numbers;
    this.place = Math.max(0, numbers.indexOf(number));
    this.dialog.showModal();
    byId("large-close").focus();
    this.show();
  }

  async show() {
    const number = this.numbers[this.place];
    byId("large-image").src = `/pictures/${number}/large`;
    byId("large-previous").disabled = this.place === 0;
    byId("large-next").disabled = this.place === this.numbers.length - 1;
    const picture = await get(`/api/picture/${number}`).catch(() => null);
    if (!picture || this.numbers[this.place] !== number) return;
    byId("large-image").alt = `Picture ${picture.name}`;
    byId("large-name").textContent = picture.name;
    byId("large-label").textContent = picture.class === null ? "no label yet"
      : `${this.app.nameOf(picture.class)}, ${picture.given ? "given" : percent(picture.p)}`;
    byId("large-mark").textContent = MARKS[picture.status] || "";
  }

  step(by) {
    const place = Math.min(this.numbers.length - 1, Math.max(0, this.place + by));
    if (place !== this.place) { this.place = place; this.show(); }
  }

  close() { this.dialog.close(); }

  similar() {
    this.dialog.close();
    this.app.findSimilar(this.numbers[this.place]);
  }

  async give(what) {
    await this.app.view.giveTo([this.numbers[this.place]], what);
    if (!this.isOpen) return;
    if (this.place < this.numbers.length - 1) this.step(1);
    else this.show();
  }

  onKey(event, label) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const keys = {
      ArrowLeft: () => this.step(-1), ArrowRight: () => this.step(1), f: () => this.similar(), v: () => this.dialog.close(),
      u: () => { this.dialog.close(); this.app.undo(false); },
      0: () => this.give({ answer: "none" }), c: () => this.give({ answer: "cannot tell" }),
    };
    const action = label ? () => this.give({ answer: "label", class: label.class }) : keys[event.key];
    if (action) { event.preventDefault(); action(); }
  }
}
