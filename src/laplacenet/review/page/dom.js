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
export const percent = (share) => `${Math.round(100 * share)} %`;
export const color = (label) => (label === null || label === undefined ? "#8a8f98"
  : label < 0 ? "#5b5f66" : `hsl(${(label * 137.508 + 215) % 360} 62% ${label % 2 ? 42 : 52}%)`);

let fading;
export function say(text) {
  const status = byId("status");
  status.textContent = text;
  clearTimeout(fading);
  fading = setTimeout(() => { status.textContent = ""; }, 4000);
}
