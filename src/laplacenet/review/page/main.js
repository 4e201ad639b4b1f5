// The page as a whole: views, keys, what the server says has changed.
import { byId, counted, isDark, say } from "./dom.js";
import { get, post, tried } from "./api.js";
import { LabelView } from "./label.js";
import { ClassesView, DisagreementsView, MapView, SearchView } from "./browse.js";
import { Large } from "./large.js";
import { Side } from "./side.js";

class App {
  constructor(summary) {
    this.side = new Side(this);
    this.large = new Large(this);
    this.views = { label: new LabelView(this), classes: new ClassesView(this), map: new MapView(this), search: new SearchView(this), disagreements: new DisagreementsView(this) };
    this.take(summary);
    for (const button of document.querySelectorAll("nav button")) button.addEventListener("click", () => this.open(button.dataset.view));
    byId("undo").addEventListener("click", () => this.undo(false));
    byId("redo").addEventListener("click", () => this.undo(true));
    byId("write").addEventListener("click", () => this.write());
    byId("theme").addEventListener("click", () => this.switchTheme());
    byId("help").addEventListener("click", () => byId("keys").showModal());
    document.addEventListener("keydown", (event) => this.onKey(event));
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.recolor());
    // After a click Enter means the question again, not the button.
    document.addEventListener("click", (event) => {
      const button = event.target.closest("button");
      if (event.detail && button && this.view === this.views.label && !button.closest("dialog, .tile")) byId("view").focus({ preventScroll: true });
    }, true);
    document.addEventListener("visibilitychange", () => this.listen());
    this.open("label");
    this.listen();
  }

  open(name) {
    if (this.view) this.view.hide();
    this.view = this.views[name];
    for (const button of document.querySelectorAll("nav button")) {
      if (button.dataset.view === name) button.setAttribute("aria-current", "page");
      else button.removeAttribute("aria-current");
    }
    byId("skip").hidden = name !== "label";
    byId("view").focus({ preventScroll: true });
    window.scrollTo(0, 0);
    this.view.show(byId("view"));
  }

  // Also in the moment before the first one comes back from the program.
  get hasClasses() { return this.hasNamed || this.summary.classes.length > 0; }

  findSimilar(number) {
    this.views.search.findSimilar(number);
    this.open("search");
  }

  nameOf(label) {
    if (label === null) return "no label yet";
    if (label < 0) return "none of these";
    const found = this.summary.classes.find((one) => one.class === label);
    return found ? found.name : "a class that was merged";
  }

  give(what) { this.view.give(what); }
  showGuesses(guesses) { this.side.showGuesses(guesses); }

  take(summary) {
    this.summary = summary;
    byId("title").textContent = summary.title || "Review";
    document.title = summary.title ? `${summary.title} · LaplaceNet review` : "LaplaceNet review";
    this.side.render(summary);
  }

  async undo(isRedo) {
    const undone = await tried(post("/api/undo", { redo: isRedo }));
    if (!undone) return;
    say(isRedo ? "Done again" : "Undone");
    if (isRedo && this.view === this.views.label) this.view.restart();
    else this.view.showAgain(undone);
  }

  async write() {
    byId("write").disabled = true;
    const written = await tried(post("/api/write", {}));
    byId("write").disabled = false;
    if (written) say(`${counted(written.n_labels, "label")} written to ${written.folder}`);
  }

  switchTheme() {
    const theme = isDark() ? "light" : "dark";
    document.documentElement.dataset.theme = theme;
    localStorage.setItem("theme", theme);
    this.recolor();
  }

  recolor() {
    this.side.recolor();
    if (this.view.recolor) this.view.recolor();
  }

  // A browser has few connections to one place: a page that nobody sees holds none, and asks again when it is seen.
  listen() {
    if (this.source) this.source.close();
    if (document.hidden) return;
    const source = new EventSource("/api/events");
    this.source = source;
    source.addEventListener("message", (event) => {
      byId("connection").hidden = true;
      this.take(JSON.parse(event.data));
      this.view.update(this.summary);
      document.documentElement.dataset.computed = this.summary.computed;
      document.documentElement.dataset.n = this.summary.n;
    });
    source.addEventListener("error", () => {
      byId("connection").hidden = false;
      byId("connection").textContent = "The program does not answer. Every answer that was confirmed is saved; this page reconnects by itself.";
      if (source.readyState === EventSource.CLOSED) setTimeout(() => { if (this.source === source) this.listen(); }, 2000);
    });
  }

  onKey(event) {
    if (byId("keys").open) return;
    const entry = byId("class-entry");
    const label = /^[1-9]$/.test(event.key) ? this.summary.classes.find((one) => one.key === Number(event.key)) : null;
    if (this.large.isOpen) { this.large.onKey(event, label); return; }
    const isTyping = ["INPUT", "SELECT", "TEXTAREA"].includes(document.activeElement.tagName);
    if ((event.ctrlKey || event.metaKey) && !isTyping) {
      if (event.key === "z" || event.key === "y") { event.preventDefault(); this.undo(event.key === "y" || event.shiftKey); }
      return;
    }
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
    const isEmptyEntry = document.activeElement === entry && !entry.value && this.side.isUnasked;
    if (label && (!isTyping || isEmptyEntry)) { event.preventDefault(); this.give({ answer: "label", class: label.class }); return; }
    if (isTyping) {
      if (event.key === "Escape") byId("view").focus();
      return;
    }
    const isButton = document.activeElement.tagName === "BUTTON" && !document.activeElement.classList.contains("tile");
    const keys = {
      0: () => this.give({ answer: "none" }), c: () => this.give({ answer: "cannot tell" }),
      s: () => this.view === this.views.label && this.give({ answer: "skip" }),
      u: () => this.undo(false), r: () => this.undo(true), "/": () => entry.focus(),
      g: () => this.view === this.views.label && this.view.setMode(this.view.mode === "grid" ? "single" : "grid"),
      h: () => byId("keys").showModal(), l: () => this.open("label"), k: () => this.open("classes"), m: () => this.open("map"), q: () => this.open("search"),
      a: () => this.view.selectAll && this.view.selectAll(), Escape: () => this.view.clear && this.view.clear(),
      v: () => this.view.enlarge(),
      f: () => { const number = this.view.focused(); if (number !== null && number !== undefined) this.findSimilar(number); },
      Enter: isButton ? null : () => this.view.enter(),
    };
    const action = keys[event.key.length === 1 ? event.key.toLowerCase() : event.key];
    if (action) { event.preventDefault(); action(); }
  }
}

const theme = localStorage.getItem("theme");
if (theme) document.documentElement.dataset.theme = theme;
get("/api/summary").then((summary) => { window.reviewApp = new App(summary); }).catch((error) => say(error.message));
