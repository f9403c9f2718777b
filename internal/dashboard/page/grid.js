// The table of counters. Only the rows in view, and some above and below, are in the document. The
// row that the keyboard is at is named by aria-activedescendant, so the focus stays where it is while
// rows come and go.

import { age, decimal, integer, rate, text, visible } from './format.js';

const spare = 20; // rows beyond the edges, so that scrolling shows no gap before they are there
const pause = 5000; // milliseconds without a hand on pointer, keys or wheel after which rows may move

const grid = document.getElementById('grid');
const rows = document.getElementById('rows');
const template = document.getElementById('row').content.firstElementChild;
const height = parseFloat(getComputedStyle(grid).getPropertyValue('--row'));

/** Ids of the row that the keyboard is at, and of the row that is open. */
export const at = { active: '', open: '' };

let index = -1; // of the active row
let state = { rows: [], first: 0, shown: 0 }; // the last answer
let elements = new Map(); // by id of the row
let used = -Infinity; // when the pointer, a key or the wheel was last used
for (const type of ['pointermove', 'keydown', 'scroll']) {
  document.addEventListener(type, () => (used = performance.now()), { capture: true, passive: true });
}

const room = () => grid.clientHeight - rows.offsetTop;

/** The rows that the page has to have. */
export function view() {
  const first = Math.max(0, Math.floor(grid.scrollTop / height) - spare);
  return { first, count: Math.ceil(room() / height) + 1 + 2 * spare };
}

/** Whether somebody points at a row, or is at one by keyboard, and did something a moment ago. */
export function held() {
  return performance.now() - used < pause && (rows.matches(':hover') || grid.matches(':focus-visible'));
}

/** The keys that are for the table, and how far each moves, in pages and in rows. */
const keys = {
  ArrowDown: [0, 1], ArrowUp: [0, -1], PageDown: [1, 0], PageUp: [-1, 0], Home: [0, -Infinity], End: [0, Infinity],
  Enter: null, ' ': null,
};
export const takes = (key) => key in keys;

/** Does what a key is for: moves, for which it may ask for rows, or opens the active row. */
export async function press(key, { ask, open }) {
  const [pages, lines] = keys[key] ?? [0, 0];
  const page = Math.max(1, Math.floor(room() / height) - 1);
  if (keys[key] || at.active === '') await move(index + pages * page + lines, ask);
  if (!keys[key] && at.active !== '') open(at.active, true);
}

/** Moves the keyboard to the row at an index, or the nearest that there is. */
async function move(to, ask) {
  grid.focus({ preventScroll: true });
  const there = Math.min(Math.max(to, 0), state.shown - 1), top = there * height;
  grid.scrollTop = Math.max(Math.min(grid.scrollTop, top), top + height - room());
  if (!state.rows[there - state.first]) await ask();
  at.active = state.rows[there - state.first]?.id ?? '';
  index = there;
  draw(state);
}

/** Focuses the table, which has an active row then. */
export function focus(ask) {
  grid.focus();
  if (index < 0) return move(0, ask);
}

/** Draws an answer. It tells where the row is that was active when it was asked for. */
export function draw(answer, active) {
  state = answer;
  if (active === at.active) index = state.active;
  rows.style.height = `${state.shown * height}px`;
  grid.setAttribute('aria-rowcount', state.shown + 1);
  grid.classList.toggle('one', new Set(state.rows.map((r) => r.label[0])).size < 2);
  grid.removeAttribute('aria-activedescendant');
  const before = elements;
  elements = new Map();
  state.rows.forEach((r, i) => {
    const element = before.get(r.id) ?? rows.appendChild(document.importNode(template, true));
    before.delete(r.id);
    elements.set(r.id, element);
    fill(element, r, state.first + i);
  });
  for (const element of before.values()) element.remove();
}

function fill(element, r, index) {
  element.counter = r.id;
  element.id = `row-${index}`;
  element.style.transform = `translateY(${index * height}px)`;
  element.ariaRowIndex = index + 2;
  element.ariaSelected = r.id === at.open;
  element.classList.toggle('active', r.id === at.active);
  if (r.id === at.active) grid.setAttribute('aria-activedescendant', element.id);
  const [name, total, pace, old, shards] = element.children;
  const label = r.label.map(visible);
  name.title = label.join('');
  label.forEach((part, i) => text(name.children[i], part));
  total.classList.toggle('fresh', r.fresh);
  text(total, decimal(r.total));
  text(pace.firstElementChild, rate(r.rate));
  text(old, age((state.now - r.as_of) / 1e6));
  text(shards, integer(r.shards));
  const share = Math.abs(r.rate) / (state.fastest || 1);
  pace.lastElementChild.style.transform = `scaleX(${share < 0.05 ? 0 : share})`; // a shorter one is a dot
}
