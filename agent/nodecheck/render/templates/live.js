// Keeps the page as new as what the daemon has. Without it the page is whole, to be reloaded by hand.

const ANSWER_MS = 30_000; // the daemon gives up earlier by itself
const BACK_OFF_MOST = 8; // times the interval

const main = document.querySelector("main");
let name = document.title;
let served = main.innerHTML; // as it came: what the script adds counts for no change
let etag = null;
let failures = 0;
let trouble = ""; // why nothing comes
let heard = new Date(); // when something came last
let ahead = 0; // of this clock, the node's: ms
let pending = null; // what came and is not shown yet
let timer = 0;
let asking = false;

class Refused extends Error {}

const part = (id, within = document) => within.querySelector(`#${id}`);

function intervalMs() {
  return 1000 * (Number(part("verdict").dataset.intervalSeconds) || 15);
}

function again() {
  clearTimeout(timer);
  timer = setTimeout(ask, intervalMs() * Math.min(2 ** failures, BACK_OFF_MOST));
}

async function ask() {
  if (asking || document.hidden) return; // whoever looks again is answered at once
  asking = true;
  try {
    const headers = etag ? { "If-None-Match": etag } : {};
    const signal = AbortSignal.timeout(ANSWER_MS);
    const answer = await fetch("/", { headers, signal, cache: "no-store" });
    if (!answer.ok && answer.status !== 304) throw new Refused(`answers with ${answer.status}`);
    const text = answer.status === 304 ? null : await answer.text();
    const now = Date.parse(answer.headers.get("Date") || "");
    if (now) ahead = now - Date.now();
    if (text !== null) take(text, answer.headers.get("ETag"));
    [failures, trouble, heard] = [0, "", new Date()];
  } catch (error) {
    failures += 1;
    trouble = error instanceof Refused ? error.message : "does not answer";
  } finally {
    asking = false;
    show();
    again();
  }
}

function take(text, tag) {
  const fresh = new DOMParser().parseFromString(text, "text/html");
  const content = fresh.querySelector("main");
  if (!content || !part("verdict", content)) throw new Refused("answers with another page");
  etag = tag;
  if (content.innerHTML === served) return;
  served = content.innerHTML;
  pending = fresh;
}

// The verdict at once; the rest when no text is selected in it, so that a command can be copied.
function show() {
  if (pending) {
    say(part("verdict", pending));
    if (isSelecting()) {
      note("newer", "There is a newer report: it is shown when you select no more text here.");
    } else {
      swap(pending);
      pending = null;
    }
  }
  if (!pending) note("newer", "");
  note("silence", trouble && `OLD. The daemon ${trouble}: this page is of ${clock(heard)}.`);
  main.classList.toggle("old", trouble !== "");
  const word = part("verdict").querySelector("p:not([data-note]) strong");
  document.title = `${trouble ? "OLD" : word ? word.textContent : ""} · ${name}`;
  age();
}

// A time as the page tells them all: in UTC, by the node's clock.
function clock(time) {
  return new Date(time.getTime() + ahead).toISOString().slice(0, 19).replace("T", " ") + "Z";
}

// Readers hear what changes in the verdict: it is left alone where it says the same.
function say(fresh) {
  const verdict = part("verdict");
  verdict.dataset.intervalSeconds = fresh.dataset.intervalSeconds;
  const told = [...verdict.children].filter((each) => !each.dataset.note);
  const next = copies(fresh.children);
  const source = (elements) => elements.map((each) => each.outerHTML).join();
  if (source(told) === source(next)) return;
  told.forEach((each) => each.remove());
  verdict.append(...next);
}

// A sentence above the verdict, read aloud with it.
function note(key, words) {
  const verdict = part("verdict");
  let found = verdict.querySelector(`[data-note=${key}]`);
  if (!words) return found?.remove();
  if (!found) {
    found = document.createElement("p");
    found.dataset.note = key;
    found.className = "verdict unknown";
    verdict.prepend(found);
  }
  if (found.textContent !== words) found.textContent = words;
}

function isSelecting() {
  const selection = getSelection();
  return !selection.isCollapsed && part("rest").contains(selection.anchorNode);
}

// What is open stays open, what is read stays where it is, what has the focus keeps it.
function swap(fresh) {
  name = fresh.title;
  const header = document.querySelector("header");
  header.replaceChildren(...copies(fresh.querySelector("header").children));
  const rest = part("rest");
  const folds = [...rest.querySelectorAll("details")];
  const open = new Map(folds.map((each) => [each.dataset.key, each.open]));
  const wide = [...rest.querySelectorAll(".wide")];
  const moved = new Map(wide.map((each) => [labelOf(each), each.scrollLeft]));
  const focused = rest.contains(document.activeElement) ? nameOf(document.activeElement) : null;
  const mark = anchor(rest);
  const next = document.importNode(part("rest", fresh), true);
  for (const each of next.querySelectorAll("details")) {
    each.open = open.get(each.dataset.key) ?? each.open;
  }
  rest.replaceWith(next);
  for (const each of next.querySelectorAll(".wide")) each.scrollLeft = moved.get(labelOf(each)) ?? 0;
  const again = focused && focusable(next).find((each) => nameOf(each) === focused);
  if (again) again.focus({ preventScroll: true });
  hold(next, mark);
}

const copies = (elements) => [...elements].map((each) => document.importNode(each, true));
const labelOf = (element) => element.getAttribute("aria-label");

function focusable(within) {
  return [...within.querySelectorAll("summary, a, [tabindex]")];
}

function nameOf(element) {
  const within = element.closest("details")?.dataset.key;
  return [element.tagName, within, labelOf(element), element.getAttribute("href")].join("|");
}

// The first heading that is seen, and how far down the screen.
function anchor(rest) {
  if (scrollY === 0) return null;
  const seen = headings(rest).find((each) => each.getBoundingClientRect().bottom > 0);
  return seen ? { text: seen.textContent, top: seen.getBoundingClientRect().top } : null;
}

function headings(within) {
  return [...within.querySelectorAll("h2, h3, h4")].filter((each) => each.getClientRects().length);
}

function hold(rest, mark) {
  const there = mark && headings(rest).find((each) => each.textContent === mark.text);
  if (there) scrollBy(0, there.getBoundingClientRect().top - mark.top);
}

// How long ago the node was checked, by its own clock.
function age() {
  const checked = document.querySelector("#rest time");
  if (!checked) return;
  const seconds = Math.max(0, (Date.now() + ahead - Date.parse(checked.dateTime)) / 1000);
  const [per, unit] = seconds < 120 ? [1, "s"] : seconds < 7200 ? [60, "min"] : [3600, "h"];
  let told = checked.nextElementSibling;
  if (told?.className !== "age") {
    told = document.createElement("span");
    told.className = "age";
    checked.after(told);
  }
  told.textContent = ` (${Math.round(seconds / per)} ${unit} ago)`;
}

function lookAgain() {
  if (document.hidden) return;
  failures = 0;
  clearTimeout(timer);
  ask();
}

document.addEventListener("visibilitychange", lookAgain);
addEventListener("online", lookAgain);
document.addEventListener("selectionchange", () => {
  if (pending && !isSelecting()) show();
});
setInterval(age, 5000);
show();
again();
