// The page: a stream of what changes, drawn at most once a frame.

import { steps } from './charts.js';
import { Counters } from './counters.js';
import { Detail } from './detail.js';
import { decimal, dollars, integer, plural, rate, text } from './format.js';
import { Grid } from './grid.js';

const beat = 3000; // milliseconds between two orders of the rows

const $ = (id) => document.getElementById(id);
const counters = new Counters();
const grid = new Grid($('grid'), $('rows'), counters, { open, draw });
const detail = new Detail($('detail'), { close, draw });

let about = null;
let last = null; // the last message
let offset = 0; // Firestore's time less the page's, in microseconds
let came = false; // rows have come or gone
let moved = false; // and what others are sorted by has changed
let ordered = -Infinity; // when the rows were last put in order
const past = []; // [seconds, rate, roll-ups] of the last two minutes

/** Firestore's time now, in microseconds. */
const micros = () => performance.now() * 1000 + offset;

// Drawing

let drawing = false;

function draw() {
  if (drawing) return;
  drawing = true;
  requestAnimationFrame((now) => {
    drawing = false;
    // Rows that move about cannot be read or pointed at, so they are put in order every few seconds, and not while somebody points at
    // them or goes from one to the next.
    if ((came || moved) && now - ordered > beat && !grid.held) order(false);
    else if (came) order(true);
    grid.draw(micros(), now);
    detail.draw(micros());
  });
}

function order(keep) {
  came = false;
  if (!keep) {
    moved = false;
    ordered = performance.now();
  }
  counters.order(keep);
  const { shown, filter, gone } = counters, size = counters.rows.size - (counters.all ? 0 : gone);
  text($('counters'), integer(size));
  $('gone').hidden = gone === 0;
  text($('gone-text'), `Show ${integer(gone)} that ${gone === 1 ? 'is' : 'are'} gone`);
  $('grid').classList.toggle('one', counters.prefixes.size < 2);
  $('shown').textContent = shown.length === size ? plural(size, 'counter') : `${integer(shown.length)} of ${plural(size, 'counter')}`;
  $('empty').hidden = shown.length > 0;
  $('empty').textContent = !last?.ready ? 'Waiting for Firestore.' : size === 0 ? 'No roll-ups yet. A counter is here once it was rolled up.' : `No counter matches “${filter}”.`;
}

setInterval(draw, 500); // counters age

// What comes from the stream

let stream = null;

function connect() {
  stream?.close();
  stream = new EventSource('counters');
  stream.onmessage = (e) => receive(JSON.parse(e.data));
  stream.onerror = () => {
    linked('broken', 'Disconnected, trying again');
    if (stream.readyState === EventSource.CLOSED) setTimeout(() => document.hidden || connect(), 2000); // refused, so the browser gives up
  };
}

function receive(message) {
  const now = performance.now();
  offset = message.now - now * 1000;
  if (message.about) begin(message.about);
  const before = counters.rows.size;
  for (const row of message.rows ?? []) counters.put(row, now);
  const grown = message.about || counters.rows.size > before;
  for (const id of message.removed ?? []) counters.remove(id);
  came ||= Boolean(grown || message.removed || message.ready !== last?.ready);
  moved ||= Boolean(message.rows);
  last = message;
  if (grown || message.removed) follow();
  linked(message.problems ? 'broken' : message.ready ? 'live' : 'connecting', message.problems ? 'Not live' : message.ready ? 'Live' : 'Waiting for Firestore');
  figures(message);
  problems(message.problems ?? []);
  draw();
}

/** What a stream begins with: everything is sent anew. */
function begin(to) {
  about = to;
  counters.clear(to.databases.length > 1);
  $('place').replaceChildren(about.project);
  if (about.emulator) {
    const chip = document.createElement('span');
    chip.className = 'chip';
    chip.textContent = `emulator ${about.emulator}`;
    $('place').append(' ', chip);
  }
  document.title = `Tally · ${about.project}`;
  for (const small of document.querySelectorAll('.window')) small.textContent = `mean of ${plural(about.window, 'second')}`;
}

function linked(state, words) {
  if ($('link').dataset.state === state && $('link-text').textContent === words) return;
  const was = $('link').dataset.state;
  $('link').dataset.state = state;
  text($('link-text'), words);
  if (state === 'broken' || (was === 'broken' && state === 'live')) say(words);
}

function figures(m) {
  text($('sum'), `sum of totals ${decimal(counters.sum())}`);
  text($('rate'), rate(m.rate));
  text($('rollups'), rate(m.rollups));
  bill('watching', m.watching);
  if (m.functions) {
    text($('events'), integer(m.functions.events));
    text($('events-more'), `${integer(m.functions.redelivered)} redelivered, ${integer(m.functions.waiting)} on the way`);
    bill('billed', m.functions.billed);
  } else if (!about.functions) {
    text($('events-more'), 'known only to tally dev');
    text($('billed-more'), 'known only to tally dev');
  }
  const to = m.now / 1e6;
  if (past.length === 0 || to - past.at(-1)[0] >= 1 || to < past.at(-1)[0]) {
    past.push([to, m.rate, m.rollups]);
    if (past.length > 121) past.shift();
    steps($('rate-line'), past.map(([t, v]) => [t, v]), past[0][0], to, true);
    steps($('rollups-line'), past.map(([t, , v]) => [t, v]), past[0][0], to, true);
  }
}

function bill(id, { reads, writes, deletes, dollars: price }) {
  text($(id), dollars(price));
  const parts = [plural(reads, 'read'), writes > 0 && plural(writes, 'write'), deletes > 0 && plural(deletes, 'delete')];
  text($(`${id}-more`), parts.filter(Boolean).join(', '));
}

function problems(list) {
  text($('problems'), list.join('\n\n'));
  $('problems').hidden = list.length === 0;
}

/** Says something to a screen reader. What moves all the time is not said. */
function say(words) {
  $('said').textContent = words;
}

// The panel

const narrow = matchMedia('(max-width: 60rem)');

function open(row, byKeyboard) {
  if (grid.selected !== row.key) {
    grid.selected = row.key;
    detail.open(row, about);
  }
  cover();
  if (byKeyboard || narrow.matches) detail.find('h2').focus();
  draw();
}

function close() {
  if (grid.selected === null) return;
  grid.selected = null;
  detail.close();
  cover();
  grid.focus();
  draw();
}

/** Keeps to the counter that is looked at: after a reconnection it is another object, and it may be gone. */
function follow() {
  if (grid.selected === null) return;
  const row = [...counters.rows.values()].find((r) => r.key === grid.selected);
  if (row && row !== detail.row) detail.open(row, about);
  else if (!row && last.ready) {
    close();
    say('The counter is gone');
  }
}

/** On a narrow screen the panel covers the list. */
function cover() {
  $('list').inert = narrow.matches && grid.selected !== null;
}
narrow.addEventListener('change', cover);

// Sorting and filtering

function sortBy(column) {
  counters.descending = counters.column === column ? !counters.descending : column === 'total' || column === 'rate' || column === 'shards';
  counters.column = column;
  for (const button of document.querySelectorAll('[data-sort]')) {
    const cell = button.parentElement;
    if (button.dataset.sort === column) cell.setAttribute('aria-sort', counters.descending ? 'descending' : 'ascending');
    else cell.removeAttribute('aria-sort');
  }
  order(false);
  say(`Sorted by ${document.querySelector(`[data-sort=${column}]`).textContent}, ${counters.descending ? 'descending' : 'ascending'}`);
  draw();
}

for (const button of document.querySelectorAll('[data-sort]')) button.addEventListener('click', () => sortBy(button.dataset.sort));

let saying = 0;

$('filter').addEventListener('input', () => {
  counters.filter = $('filter').value.trim();
  order(false);
  $('grid').scrollTop = 0;
  clearTimeout(saying);
  saying = setTimeout(() => say($('shown').textContent), 600); // once the typing pauses
  draw();
});

$('all').addEventListener('change', () => {
  counters.all = $('all').checked;
  order(false);
  draw();
});

$('filter').addEventListener('keydown', (e) => {
  if (e.key === 'ArrowDown' || e.key === 'Enter') grid.focus();
  else if (e.key === 'Escape' && $('filter').value === '') grid.focus();
  else return;
  e.preventDefault();
  e.stopPropagation();
  draw();
});

const letters = { n: 'name', t: 'total', p: 'rate', a: 'age', s: 'shards' };

document.addEventListener('keydown', (e) => {
  if (e.ctrlKey || e.metaKey || e.altKey || e.target === $('filter')) return;
  const free = e.target === document.body || e.target === $('grid'); // no button, and nothing that scrolls
  if (e.key === '/') $('filter').select();
  else if (e.key === 'Escape') grid.selected === null ? document.activeElement.blur() : close();
  else if (letters[e.key.toLowerCase()]) sortBy(letters[e.key.toLowerCase()]);
  else if (!free || !grid.key(e.key)) return;
  e.preventDefault();
  draw();
});

// Light and dark

const themes = ['system', 'light', 'dark'];

function theme(step) {
  const now = document.documentElement.dataset.theme ?? 'system';
  const next = themes[(themes.indexOf(now) + step) % themes.length];
  if (next === 'system') {
    delete document.documentElement.dataset.theme;
    localStorage.removeItem('tally-theme');
  } else {
    document.documentElement.dataset.theme = next;
    localStorage.setItem('tally-theme', next);
  }
  $('theme').textContent = { system: 'Theme: system', light: 'Theme: light', dark: 'Theme: dark' }[next];
}

$('theme').addEventListener('click', () => theme(1));
theme(0);

// A page that nobody sees is sent nothing, and its counter's shards bill nothing.
document.addEventListener('visibilitychange', () => {
  if (document.hidden) {
    stream?.close();
    detail.leave();
  } else connect();
});
if (!document.hidden) connect();
