// A grid of pictures that can be selected: by mouse, by touch, and with arrows and Space.
import { h, percent, color } from "./dom.js";

const MARKS = { gone: "file is gone", changed: "file has changed", unreadable: "cannot be read" };

export class Tiles {
  constructor({ nameOf, onOpen = null, isWrong = false, hasNames = false }) {
    this.hasNames = hasNames;
    this.nameOf = nameOf;
    this.onOpen = onOpen;
    this.isWrong = isWrong;
    this.selected = new Set();
    this.pictures = [];
    this.lastClicked = null;
    this.element = h("ul", { class: isWrong ? "tiles wrong-able" : "tiles", "aria-label": isWrong ? "Pictures; press those that are wrong" : "Pictures" });
    this.element.addEventListener("keydown", (event) => this.onKey(event));
    this.element.addEventListener("focusin", (event) => this.makeReachable(event.target));
    this.onSelection = () => {};
  }

  show(pictures) {
    const focused = this.focusedNumber();
    this.pictures = pictures;
    const numbers = new Set(pictures.map((picture) => picture.number));
    for (const number of [...this.selected]) if (!numbers.has(number)) this.selected.delete(number);
    this.element.replaceChildren(...pictures.map((picture) => this.tile(picture)));
    if (focused !== null) {
      const again = this.buttons().find((button) => Number(button.dataset.number) === focused) || this.buttons()[0];
      if (again) again.focus();
    }
    this.makeReachable(this.buttons().find((button) => Number(button.dataset.number) === focused) || this.buttons()[0]);
    this.onSelection();
  }

  // Tab leads to one picture and then on past all of them; arrows lead from one to the next.
  makeReachable(reached) {
    for (const button of this.buttons()) button.tabIndex = button === reached ? 0 : -1;
  }

  tile(picture) {
    const label = picture.class === null ? "no label yet" : this.nameOf(picture.class);
    const sure = picture.given ? "given" : picture.class === null ? null : percent(picture.p);
    const mark = MARKS[picture.status];
    const text = picture.text || (this.isWrong ? null : [label, sure].filter(Boolean).join(" · "));
    const button = h("button", {
      type: "button", class: "tile", draggable: !this.isWrong, title: picture.name,
      "aria-pressed": String(this.selected.has(picture.number)),
      "aria-label": [picture.name, label, sure, picture.text, mark].filter(Boolean).join(", "),
      onclick: (event) => this.click(event, picture.number),
      ondblclick: () => this.onOpen && this.onOpen(picture),
      ondragstart: (event) => {
        if (!this.selected.has(picture.number)) this.select([picture.number]);
        event.dataTransfer.setData("text/plain", "pictures");
        event.dataTransfer.effectAllowed = "move";
      },
    },
    picture.status === "unreadable" || picture.status === "gone" ? h("span", { class: "blank" })
      : h("img", { src: `/pictures/${picture.number}/small`, alt: "", loading: this.isWrong ? "eager" : "lazy", draggable: false }),
    this.hasNames ? h("bdi", { class: "text" }, picture.name) : null,
    mark || text ? h("span", { class: mark ? "text mark" : "text" }, mark || text) : null);
    button.dataset.number = picture.number;
    button.style.borderLeftColor = picture.class === null ? "" : color(picture.class);
    return h("li", {}, button);
  }

  recolor() {
    this.buttons().forEach((button, place) => {
      const picture = this.pictures[place];
      button.style.borderLeftColor = picture.class === null ? "" : color(picture.class);
    });
  }

  focusFirst() { const first = this.buttons()[0]; if (first) first.focus(); }

  buttons() { return [...this.element.querySelectorAll("button.tile")]; }

  focusedNumber() {
    const active = document.activeElement;
    return active && this.element.contains(active) ? Number(active.dataset.number) : null;
  }

  click(event, number) {
    if (event.shiftKey && this.lastClicked !== null) {
      const order = this.pictures.map((picture) => picture.number);
      const [from, to] = [order.indexOf(this.lastClicked), order.indexOf(number)].sort((a, b) => a - b);
      order.slice(Math.max(0, from), to + 1).forEach((one) => this.selected.add(one));
    } else if (this.selected.has(number)) this.selected.delete(number);
    else this.selected.add(number);
    this.lastClicked = number;
    this.mark();
  }

  select(numbers) { this.selected = new Set(numbers); this.mark(); }

  mark() {
    for (const button of this.buttons()) {
      button.setAttribute("aria-pressed", String(this.selected.has(Number(button.dataset.number))));
    }
    this.onSelection();
  }

  onKey(event) {
    const buttons = this.buttons();
    const place = buttons.indexOf(document.activeElement);
    if (place < 0 || event.ctrlKey || event.metaKey || event.altKey) return;
    const top = buttons[0].offsetTop;
    const below = buttons.findIndex((button) => button.offsetTop > top);
    const across = below < 0 ? buttons.length : below;
    if (event.key === "Home" || event.key === "End") {
      event.preventDefault();
      buttons[event.key === "Home" ? 0 : buttons.length - 1].focus();
      return;
    }
    const step = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: across, ArrowUp: -across }[event.key];
    if (step === undefined) return;
    event.preventDefault();
    const next = buttons[Math.min(buttons.length - 1, Math.max(0, place + step))];
    next.focus();
  }
}
