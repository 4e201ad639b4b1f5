// Elements from names, properties and children; texts are always text, never markup.
export function h(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "class") element.className = value;
    else if (name in element && !name.startsWith("aria")) element[name] = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

export const byId = (id) => document.getElementById(id);
export const count = (n) => n.toLocaleString("en-US").replaceAll(",", "\u202f");
export const counted = (n, noun) => `${count(n)} ${noun}${n === 1 ? "" : "s"}`;
export const percent = (share) => `${Math.round(100 * share)}\u00a0%`;
export const isDark = () => {
  const theme = document.documentElement.dataset.theme;
  return theme ? theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
};

// One hue a class; the lightness of the theme, so that every color can be told from the ground.
export function color(label) {
  const [one, other] = isDark() ? [0.76, 0.68] : [0.56, 0.48];
  if (label === null || label === undefined || label < 0) return `oklch(${isDark() ? 0.65 : 0.55} 0.01 260)`;
  return `oklch(${label % 2 ? one : other} 0.15 ${(label * 137.508 + 255) % 360})`;
}

let fading;
export function say(text) {
  const status = byId("status");
  status.textContent = text;
  clearTimeout(fading);
  fading = setTimeout(() => { status.textContent = ""; }, 4000);
}

// For screen readers alone: what is asked next.
export function announce(text) { byId("announcer").textContent = text; }
