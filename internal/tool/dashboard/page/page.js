// Four times a second, and whenever its view changes, the page asks the server how it should look.
// The answer is a whole page, and this page changes only where it differs.

const pause = 250; // milliseconds between two questions
const retry = 1000; // after one without an answer
const beat = 3000; // milliseconds for which rows keep their order: who reads or points needs them to stand still
const rest = 5000; // rows may move once pointer, keys and wheel were left alone for so many milliseconds

const $ = (id) => document.getElementById(id);

// Questions and answers

const view = { sort: 'rate', down: true, from: 0, open: '' };
let last = ''; // the rows that were asked for last
let ordered = -Infinity; // when the rows last got a new order
let asked = 0; // how many questions
let timer = 0;

/** Asks once, and shows the answer unless there is a later question. Then it goes on asking. */
async function ask() {
  clearTimeout(timer);
  if (document.hidden) return; // a hidden page asks nothing, and its counter's shards bill nothing
  const question = ++asked;
  const rows = { ...view, filter: $('filter').value, gone: $('all').checked, open: '' };
  const answer = await answerTo({ ...rows, open: view.open }).catch(() => null);
  if (question !== asked) return;
  timer = setTimeout(ask, answer ? pause : retry);
  if (answer) {
    show(answer, JSON.stringify(rows));
  } else {
    $('link').className = 'broken';
    $('link').textContent = 'Disconnected, trying again';
  }
}

async function answerTo(view) {
  const response = await fetch(`state?view=${encodeURIComponent(JSON.stringify(view))}`, { signal: AbortSignal.timeout(10_000) });
  if (!response.ok) throw new Error(response.statusText);
  return new DOMParser().parseFromString(await response.text(), 'text/html');
}
document.addEventListener('visibilitychange', ask);

/** Shows an answer. `rows` says which rows were asked for. */
function show(answer, rows) {
  if (rows === last && (performance.now() - ordered < beat || held())) keepOrder(answer);
  else ordered = performance.now();
  last = rows;
  const focused = document.activeElement.id;
  become(document.body, answer.body);
  if (document.activeElement === document.body && focused) $(focused)?.focus({ preventScroll: true }); // an element that is moved loses the focus
}

/** Gives the rows of an answer the order that they have on the page. New rows come last. */
function keepOrder(answer) {
  const kept = [...$('rows').children].map(({ id }) => answer.getElementById(id)).filter(Boolean);
  answer.getElementById('rows').prepend(...kept);
}

/**
 * Makes an element equal to another. An element with an id stays the same one wherever it moves,
 * and equal parts are left alone. So focus, selections and scroll positions survive.
 */
function become(element, other) {
  for (const { name } of [...element.attributes]) if (!other.hasAttribute(name)) element.removeAttribute(name);
  for (const { name, value } of other.attributes) if (element.getAttribute(name) !== value) element.setAttribute(name, value);
  const children = [...other.childNodes];
  children.forEach((child, i) => {
    const there = element.childNodes[i] ?? null;
    let node = child.id ? $(child.id) : there;
    if (node?.nodeName !== child.nodeName || node.id !== child.id) node = child;
    if (node !== there) element.insertBefore(node, there);
    if (node === child) return;
    if (child.nodeType === Node.ELEMENT_NODE) become(node, child);
    else if (node.data !== child.data) node.data = child.data;
  });
  while (element.childNodes.length > children.length) element.lastChild.remove();
}

let used = -Infinity; // when the pointer, a key or the wheel was last used
for (const type of ['pointermove', 'keydown', 'scroll']) {
  document.addEventListener(type, () => (used = performance.now()), { capture: true, passive: true });
}

/** Whether somebody points at a row, or focused one by keyboard, and was active a moment ago. */
function held() {
  return performance.now() - used < rest && document.querySelector('#rows:hover, #rows :focus-visible') !== null;
}

// What changes the view

document.addEventListener('click', async (e) => {
  const control = e.target.closest('[data-view]');
  if (!control) return;
  const before = view.open;
  Object.assign(view, JSON.parse(control.dataset.view));
  if (control.closest('thead, nav')) $('grid').scrollTo(0, 0);
  await ask();
  if (view.open === before) return;
  $('detail')?.scrollTo(0, 0);
  if (view.open === '') $(before)?.focus();
  else if (e.detail === 0 || matchMedia('(max-width: 60rem)').matches) $('detail-name')?.focus(); // opened by keyboard, or it covers the list
});

$('filter').addEventListener('input', () => {
  view.from = 0;
  ask();
});
$('all').addEventListener('change', ask);

// Keys

const moves = { ArrowDown: 1, ArrowUp: -1, PageDown: 10, PageUp: -10, Home: -Infinity, End: Infinity };

/** Focuses the row so many below the focused one, or below the open one if none is focused. */
function move(by) {
  const rows = [...$('rows').querySelectorAll('button')];
  const focused = rows.indexOf(document.activeElement);
  const from = focused >= 0 ? focused : rows.indexOf($(view.open));
  const row = rows.at(Math.max(0, Math.min(from + by, rows.length - 1)));
  row?.focus();
  return row;
}

document.addEventListener('keydown', (e) => {
  if (e.ctrlKey || e.metaKey || e.altKey || e.target === $('theme')) return;
  const filter = $('filter');
  if (e.target === filter) {
    if (e.key !== 'ArrowDown' && e.key !== 'Enter' && (e.key !== 'Escape' || filter.value !== '')) return;
    ask().then(() => move(-Infinity)); // to the rows of what was typed
  } else {
    const free = e.target === document.body || $('rows').contains(e.target); // not a control that uses the keys itself
    const key = CSS.escape(e.key.length === 1 ? e.key.toUpperCase() : e.key);
    const control = document.querySelector(`[aria-keyshortcuts="${key}"]:enabled`);
    if (control === filter) filter.select();
    else if (control) control.click();
    else if (e.key === 'Escape') document.activeElement.blur();
    else if (free && moves[e.key]) move(moves[e.key]);
    else if (e.target === document.body && e.key === 'Enter') move(-Infinity)?.click();
    else return;
  }
  e.preventDefault();
});

// Light and dark

const root = document.documentElement.dataset;
$('theme').value = root.theme;
$('theme').addEventListener('change', () => {
  root.theme = $('theme').value;
  localStorage.setItem('tally-theme', root.theme);
});
ask();
