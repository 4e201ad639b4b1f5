// Requests to the server. What changes something is sent one after another, in the order in which it was done.
import { say } from "./dom.js";

const WAIT_MS = 500;

// Whether no other tab has this name: a tab that was duplicated begins with the name of the first. A tab that is being
// loaded again gets its own name back as soon as its old page is gone.
function isOurs(name) {
  if (!navigator.locks) return true;
  return new Promise((resolve) => {
    navigator.locks.request(`review ${name}`, { signal: AbortSignal.timeout(WAIT_MS) }, () => { resolve(true); return new Promise(() => {}); })
      .catch(() => resolve(false));
  });
}

async function tabName() {
  let name = sessionStorage.getItem("by");
  if (!name || !(await isOurs(name))) {
    const letters = crypto.getRandomValues(new Uint8Array(6));
    name = "tab-" + [...letters].map((byte) => byte.toString(16).padStart(2, "0")).join("");
    sessionStorage.setItem("by", name);
    await isOurs(name);
  }
  return name;
}
export const by = await tabName();

async function read(response) {
  const content = await response.json().catch(() => ({}));
  if (!response.ok) throw new Error(content.error || `the server answered ${response.status}`);
  return content;
}

// Nobody at the other end: what was sent may or may not have arrived.
export class Unreachable extends Error {
  constructor() { super("the program does not answer"); }
}
const reach = (path, options) => fetch(path, options).catch(() => { throw new Unreachable(); });

export const get = async (path) => read(await reach(path));

let last = Promise.resolve();
export function post(path, content) {
  const sent = last.then(async () => read(await reach(path, {
    method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify({ by, ...content }),
  })));
  last = sent.catch(() => {});
  return sent;
}

export async function tried(promise) {
  try { return await promise; } catch (error) { say(error.message); return null; }
}
