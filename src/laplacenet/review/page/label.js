// The queue: one picture at a time, or a grid of similar ones. The next question is fetched while this one is shown.
import { h, announce, byId, counted, percent, say } from "./dom.js";
import { get, post, tried, Unreachable } from "./api.js";
import { Tiles } from "./tiles.js";

const MARKS = { gone: "this file is gone", changed: "this file has changed since the review began", unreadable: "cannot be read" };

export class LabelView {
  constructor(app) {
    this.app = app;
    this.mode = localStorage.getItem("mode") === "grid" ? "grid" : "single";
    this.question = null;
    this.ahead = null;
    this.generation = 0;
    this.tiles = null;
    this.computed = -1;
    this.isShown = false;
  }

  show(root) {
    this.isShown = true;
    this.body = h("div", { class: "question" });
    this.modes = ["single", "grid"].map((mode) => h("button", {
      type: "button", class: "mode", "data-mode": mode, onclick: () => this.setMode(mode),
    }, mode === "single" ? "One by one" : "Grid"));
    this.heading = h("h2", {}, "What is this?");
    this.action = h("div", { class: "action" });
    root.replaceChildren(h("div", { class: "head sticky" }, this.heading, this.action,
      h("div", { class: "row modes", role: "group", "aria-label": "How to be asked" }, ...this.modes)), this.body);
    this.markMode();
    if (this.question) this.render();
    else this.advance();
  }

  hide() { this.isShown = false; this.app.showGuesses([]); }

  markMode() {
    for (const button of this.modes) button.setAttribute("aria-pressed", String(button.dataset.mode === this.mode));
  }

  setMode(mode) {
    if (this.mode === mode) return;
    this.mode = mode;
    localStorage.setItem("mode", mode);
    this.markMode();
    this.restart();
    say(mode === "grid" ? "Grids of similar pictures" : "One picture at a time");
  }

  restart() {
    this.generation += 1;
    this.question = null;
    this.ahead = null;
    this.advance();
  }

  fetchNext(holding) {
    return post("/api/next", { mode: this.mode, holding });
  }

  // Show the question that was fetched ahead, and fetch another behind it.
  async advance() {
    const generation = this.generation;
    const coming = this.ahead || this.fetchNext([]);
    this.ahead = null;
    this.question = null;
    this.tiles = null;
    if (this.isShown) this.body.setAttribute("aria-busy", "true");
    const question = await coming.catch((error) => {
      if (!(error instanceof Unreachable)) say(error.message);
      return { kind: error instanceof Unreachable ? "unreachable" : "wait", pictures: [] };
    });
    if (generation !== this.generation) return;
    this.question = question;
    this.render();
    if (this.isShown) window.scrollTo(0, 0);
    if (["wait", "unreachable"].includes(this.question.kind)) {
      setTimeout(() => { if (generation === this.generation && this.question === question) this.advance(); }, 700);
    } else if (this.question.kind !== "done") this.prefetch();
  }

  prefetch() {
    const holding = this.question.pictures.map((picture) => picture.number);
    const ahead = this.fetchNext(holding);
    this.ahead = ahead;
    ahead.then((question) => question.pictures.forEach((picture) => {
      new Image().src = `/pictures/${picture.number}/${question.kind === "grid" ? "small" : "large"}`;
    })).catch(() => { if (this.ahead === ahead) this.ahead = null; });
  }

  render() {
    if (!this.isShown) return;
    const question = this.question;
    this.body.removeAttribute("aria-busy");
    this.body.dataset.kind = question.kind;
    this.app.showGuesses([]);
    if (question.kind === "single") this.renderSingle(question);
    else if (question.kind === "grid") this.renderGrid(question);
    else this.renderNothing(question.kind);
  }

  renderNothing(kind) {
    const { embedding_error: error, unreadable, files } = this.app.summary;
    const [heading, text] = kind === "done" ? ["Every picture has an answer", "Look at the classes and their suspects, or stop the program with Ctrl-C: labels.csv is written then."]
      : kind === "unreachable" ? ["Waiting for the program…", "It does not answer. Start it again with the same command: this page goes on by itself. What it had not confirmed is asked again."]
      : error ? ["The pictures cannot be read", error]
      : unreadable === files ? ["Nothing to label", `None of the ${counted(files, "file")} can be read as a picture.`]
      : ["Reading the pictures…", "The first question comes in a moment."];
    this.heading.textContent = heading;
    this.action.replaceChildren();
    this.body.replaceChildren(h("p", {}, text));
  }

  renderSingle(question) {
    const picture = question.pictures[0];
    this.heading.textContent = "What is this?";
    const image = h("img", { src: `/pictures/${picture.number}/large`, alt: `Picture ${picture.name}` });
    image.addEventListener("error", () => {
      image.replaceWith(h("p", { class: "mark" }, "This picture is gone or cannot be read. Skip it with S."));
    });
    this.guessRow = h("div", { class: "guesses", role: "group", "aria-label": "Guesses" });
    this.action.replaceChildren(this.guessRow);
    this.hint = h("p", { class: "hint" }, "Type what the picture shows and press Enter. That makes the first class; from then on its key is enough.");
    this.body.replaceChildren(this.hint, h("figure", {},
      h("div", { class: "stage" }, image),
      h("figcaption", {}, h("bdi", { class: "file" }, picture.name),
        MARKS[picture.status] ? h("span", { class: "mark" }, MARKS[picture.status]) : null,
        question.via === "audit" ? h("span", { class: "check" }, "random check, to measure the accuracy") : null)));
    this.hint.hidden = this.app.hasClasses;
    this.body.dataset.number = picture.number;
    this.renderGuesses(picture.guesses);
    const guess = this.guessList[0];
    announce(`${picture.name}${question.via === "audit" ? ", random check" : ""}${guess ? `, perhaps ${this.app.nameOf(guess.class)}, ${percent(guess.p)}` : ""}`);
    if (!this.app.hasClasses) this.app.side.askForName();
  }

  renderGuesses(guesses) {
    const known = guesses.filter((guess) => guess.p >= 0.005);
    this.guessRow.replaceChildren(...known.slice(0, 3).map((guess, place) => h("button", {
      type: "button", onclick: () => this.give(guess.class < 0 ? { answer: "none" } : { answer: "label", class: guess.class }),
    }, place === 0 ? h("kbd", {}, "Enter") : null, h("bdi", {}, this.app.nameOf(guess.class)), h("span", { class: "count" }, percent(guess.p)))));
    this.app.showGuesses(known);
    this.guessList = known;
  }

  renderGrid(question) {
    const name = this.app.nameOf(question.class);
    this.heading.textContent = `These ${question.pictures.length} look like ${name}`;
    this.tiles = new Tiles({ nameOf: (label) => this.app.nameOf(label), isWrong: true });
    this.tiles.onOpen = () => this.enlarge();
    this.tiles.show(question.pictures);
    const confirm = h("button", { type: "button", class: "primary", onclick: () => this.confirm() });
    const tell = () => {
      const n = this.tiles.selected.size;
      this.heading.textContent = `These ${question.pictures.length} look like ${name}`;
      confirm.replaceChildren(n ? `Confirm all but ${n}` : `All are ${name}`, h("kbd", {}, "Enter"));
    };
    this.tiles.onSelection = tell;
    tell();
    this.action.replaceChildren(confirm);
    this.body.replaceChildren(h("p", {}, "Click the wrong ones", h("span", { class: "keyed" }, ", or move with the arrows and press Space"), ". They are asked for one by one next."),
      this.tiles.element);
    const first = this.tiles.buttons()[0];
    announce(this.heading.textContent);
    if (first && !["INPUT", "SELECT"].includes(document.activeElement.tagName)) first.focus({ preventScroll: true });
  }

  confirm() {
    const question = this.question;
    if (!question || question.kind !== "grid") return;
    const wrong = [...this.tiles.selected];
    const right = question.pictures.map((picture) => picture.number).filter((number) => !this.tiles.selected.has(number));
    const what = question.class < 0 ? { answer: "none" } : { answer: "label", class: question.class };
    this.send({ ...what, pictures: right, rejected: wrong, via: "grid", seen: question.seen });
    say(`${right.length} are ${this.app.nameOf(question.class)}${wrong.length ? `, ${wrong.length} are not` : ""}`);
    if (wrong.length) this.ahead = null; // the wrong ones come first
    this.advance();
  }

  // A class, "none", "cannot tell" or "skip" for what is shown.
  give(what) {
    const question = this.question;
    if (!question || !["single", "grid"].includes(question.kind)) return;
    if (question.kind === "grid") {
      if (what.answer === "skip") {
        this.send({ ...what, pictures: question.pictures.map((picture) => picture.number), via: "grid", seen: question.seen });
        this.advance();
        return;
      }
      const chosen = [...this.tiles.selected];
      if (!chosen.length) { say("Select pictures first, or confirm the grid with Enter"); return; }
      this.giveSome(chosen, what);
      return;
    }
    const picture = question.pictures[0];
    this.send({ ...what, pictures: [picture.number], via: question.via, seen: question.seen });
    if (what.name) this.app.hasNamed = true;
    const said = what.name || (what.answer === "label" ? this.app.nameOf(what.class) : what.answer === "none" ? "none of these" : what.answer);
    say(`${picture.name}: ${said}`);
    this.advance();
  }

  // From the picture as large as the window.
  giveTo(numbers, what) {
    const question = this.question;
    if (question && question.kind === "grid") this.giveSome(numbers, what);
    else { this.app.large.close(); this.give(what); }
  }

  // Some pictures of a grid get another class; the marks on the others stay.
  giveSome(numbers, what) {
    const question = this.question;
    this.send({ ...what, pictures: numbers, via: "queue", seen: question.seen });
    if (what.name) this.app.hasNamed = true;
    question.pictures = question.pictures.filter((picture) => !numbers.includes(picture.number));
    this.tiles.show(question.pictures);
    if (!question.pictures.length) { this.app.large.close(); this.advance(); }
  }

  async send(content) {
    try { await post("/api/answer", content); } catch (error) {
      say(error instanceof Unreachable ? "Not confirmed: the program does not answer" : `Not saved: ${error.message}`);
      this.restart();
    }
  }

  enter() {
    if (!this.question) return;
    if (this.question.kind === "grid") this.confirm();
    else if (this.question.kind === "single" && this.guessList && this.guessList.length) {
      const first = this.guessList[0];
      this.give(first.class < 0 ? { answer: "none" } : { answer: "label", class: first.class });
    }
  }

  // After an undo the picture is shown again.
  showAgain(undone) {
    this.generation += 1;
    this.ahead = null;
    if (undone.pictures.length === 1 && undone.via !== "file") {
      this.question = { kind: "single", via: undone.via === "audit" ? "audit" : "queue", pictures: undone.pictures, seen: undone.seen };
      this.render();
      this.prefetch();
    } else this.restart();
  }

  selectAll() { if (this.tiles) this.tiles.select(this.tiles.pictures.map((picture) => picture.number)); }
  clear() { if (this.tiles) this.tiles.select([]); }

  async update(summary) {
    if (this.hint) this.hint.hidden = this.app.hasClasses;
    if (!this.isShown || !this.question || this.question.kind !== "single" || this.computed === summary.computed) return;
    this.computed = summary.computed;
    const question = this.question;
    const picture = await get(`/api/picture/${question.pictures[0].number}`).catch(() => null);
    if (picture && this.question === question && this.isShown) {
      question.pictures[0] = picture;
      this.renderGuesses(picture.guesses);
    }
  }

  enlarge() {
    if (!this.question || !this.question.pictures.length) return;
    const numbers = this.question.pictures.map((picture) => picture.number);
    this.app.large.open(numbers, this.focused() ?? numbers[0]);
  }

  recolor() { if (this.tiles) this.tiles.recolor(); }

  focused() { return this.question && this.question.kind === "single" ? this.question.pictures[0].number : this.tiles && this.tiles.focusedNumber(); }
}
