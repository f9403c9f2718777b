// The page asks the server for what it shows, four times a second and whenever something else is in
// view, and draws each answer.

import { steps } from './charts.js';
import * as detail from './detail.js';
import { decimal, dollars, integer, plural, rate, text } from './format.js';
import * as grid from './grid.js';

const pause = 250; // milliseconds between two questions
const retry = 1000; // after one without an answer
const beat = 3000; // milliseconds between two orders of the rows: rows that move about cannot be read or pointed at

const $ = (id) => document.getElementById(id);

// What is asked

const page = String(Math.random());
let column = 'rate', down = true;
let anew = true; // the rows are to be put in order now
let ordered = -Infinity; // when they were
let asking = null; // settles when no question is open
let again = false; // there is more to ask
let timer = 0;

/** Asks anew. It is done when there is an answer to a question that was asked after the call. */
function ask() {
  clearTimeout(timer);
  again = true;
  return (asking ??= questions());
}

async function questions() {
  await null; // so that asking is this promise
  let answered;
  while (again && !document.hidden) {
    again = false;
    answered = await question();
  }
  asking = null;
  // A page that nobody sees asks nothing, and its counter's shards bill nothing.
  if (!document.hidden) timer = setTimeout(ask, answered ? pause : retry);
}

/** Asks once, and reports whether there was an answer. */
async function question() {
  const keep = !anew && (performance.now() - ordered < beat || grid.held());
  anew = false;
  if (!keep) ordered = performance.now();
  let state;
  const view = { page, sort: column, down, filter: $('filter').value, gone: $('all').checked, keep, ...grid.view(), ...grid.at };
  try {
    const response = await fetch(`state?view=${encodeURIComponent(JSON.stringify(view))}`, { signal: AbortSignal.timeout(10_000) });
    if (!response.ok) throw new Error(await response.text());
    state = await response.json();
  } catch (e) {
    anew ||= !keep;
    linked('broken', e.message.startsWith('tally: ') ? e.message : 'Disconnected, trying again');
    return false;
  }
  receive(state, view);
  return true;
}

document.addEventListener('visibilitychange', ask);

// What is answered

function receive(state, view) {
  grid.draw(state, view.active);
  figures(state);
  lists(state, view);
  text($('problems'), state.problems.join('\n\n'));
  $('problems').hidden = state.problems.length === 0;
  if (state.problems.length > 0) linked('broken', 'Not live');
  else if (state.ready) linked('live', 'Live');
  else linked('connecting', 'Waiting for Firestore');
  if (view.open !== grid.at.open || view.open === '') return;
  if (state.open) {
    $('detail').hidden = false;
    detail.draw(state.open, state.now);
  } else if (state.ready) {
    close();
    say('The counter is gone');
  }
}

function linked(state, words) {
  const was = $('link').dataset.state;
  if (was === state && $('link-text').textContent === words) return;
  $('link').dataset.state = state;
  text($('link-text'), words);
  if (state === 'broken' || (was === 'broken' && state === 'live')) say(words);
}

/** Says something to a screen reader. What moves all the time is not said. */
function say(words) {
  $('said').textContent = words;
}

function lists({ ready, counters, gone, shown }, { filter }) {
  text($('counters'), integer(counters));
  $('gone').hidden = gone === 0;
  text($('gone-text'), `Show ${integer(gone)} that ${gone === 1 ? 'is' : 'are'} gone`);
  text($('shown'), shown === counters ? plural(counters, 'counter') : `${integer(shown)} of ${plural(counters, 'counter')}`);
  $('empty').hidden = shown > 0;
  if (!ready) text($('empty'), 'Waiting for Firestore.');
  else text($('empty'), counters === 0 ? 'No roll-ups yet. A counter is here once it was rolled up.' : `No counter matches “${filter.trim()}”.`);
}

const past = []; // [seconds, rate, roll-ups] of the last two minutes

function figures(s) {
  document.title = `Tally · ${s.project}`;
  text($('project'), s.project);
  text($('emulator'), `emulator ${s.emulator}`);
  $('emulator').hidden = s.emulator === '';
  for (const small of document.querySelectorAll('.window')) text(small, `mean of ${plural(s.window, 'second')}`);
  text($('sum'), `sum of totals ${decimal(s.sum)}`);
  text($('rate'), rate(s.rate));
  text($('rollups'), rate(s.rollups));
  bill('watching', s.watching);
  if (s.functions) {
    const { events, redelivered, waiting } = s.functions;
    text($('events'), integer(events));
    text($('events-more'), `${integer(redelivered)} redelivered, ${integer(waiting)} on the way`);
    bill('billed', s.billed);
  } else for (const id of ['events-more', 'billed-more']) text($(id), 'known only to tally dev');
  const to = s.now / 1e6;
  if (to - (past.at(-1)?.[0] ?? -Infinity) < 1) return;
  past.push([to, s.rate, s.rollups]);
  if (past.length > 121) past.shift();
  steps($('rate-line'), past.map(([t, v]) => [t, v]), past[0][0], to, true);
  steps($('rollups-line'), past.map(([t, , v]) => [t, v]), past[0][0], to, true);
}

function bill(id, { reads, writes, deletes, dollars: price }) {
  text($(id), dollars(price));
  const parts = [plural(reads, 'read'), writes > 0 && plural(writes, 'write'), deletes > 0 && plural(deletes, 'delete')];
  text($(`${id}-more`), parts.filter(Boolean).join(', '));
}

// The table

$('grid').addEventListener('scroll', ask, { passive: true });
new ResizeObserver(ask).observe($('grid'));

$('rows').addEventListener('click', (e) => {
  const id = e.target.closest('.row')?.counter;
  if (!id) return;
  grid.at.active = id;
  open(id, false);
});

// The panel

const narrow = matchMedia('(max-width: 60rem)');

async function open(id, byKeyboard) {
  grid.at.open = id;
  $('detail').scrollTop = 0;
  cover();
  await ask();
  if ((byKeyboard || narrow.matches) && grid.at.open === id) $('detail-name').focus();
}

function close() {
  if (grid.at.open === '') return;
  grid.at.open = '';
  $('detail').hidden = true;
  cover();
  grid.focus(ask);
  ask();
}
$('close').addEventListener('click', close);

/** On a narrow screen the panel covers the list. */
function cover() {
  $('list').inert = narrow.matches && grid.at.open !== '';
}
narrow.addEventListener('change', cover);

// Sorting and filtering

const columns = [...document.querySelectorAll('[data-sort]')];

/** Has the rows put in order now. */
function reorder() {
  anew = true;
  return ask();
}

function sortBy(to) {
  down = column === to ? !down : ['total', 'rate', 'shards'].includes(to);
  column = to;
  for (const button of columns) {
    button.parentElement.ariaSort = button.dataset.sort !== to ? null : down ? 'descending' : 'ascending';
  }
  say(`Sorted by ${columns.find((button) => button.dataset.sort === to).textContent}, ${down ? 'descending' : 'ascending'}`);
  return reorder();
}

for (const button of columns) button.addEventListener('click', () => sortBy(button.dataset.sort));

let saying = 0;

$('filter').addEventListener('input', () => {
  $('grid').scrollTop = 0;
  reorder();
  clearTimeout(saying);
  saying = setTimeout(() => say($('shown').textContent), 600); // once the typing pauses
});

$('all').addEventListener('change', reorder);

$('filter').addEventListener('keydown', (e) => {
  if (e.key !== 'ArrowDown' && e.key !== 'Enter' && (e.key !== 'Escape' || $('filter').value !== '')) return;
  e.preventDefault();
  e.stopPropagation();
  pressed = pressed.then(ask).then(() => grid.focus(ask));
});

const letters = { n: 'name', t: 'total', p: 'rate', a: 'age', s: 'shards' };
let pressed = Promise.resolve(); // when what the keys so far are for is done: each begins where the one before ended

document.addEventListener('keydown', (e) => {
  if (e.ctrlKey || e.metaKey || e.altKey || e.target === $('filter')) return;
  const free = e.target === document.body || e.target === $('grid'); // no button, and nothing that scrolls
  const sort = letters[e.key.toLowerCase()];
  if (e.key === '/') $('filter').select();
  else if (e.key === 'Escape') grid.at.open === '' ? document.activeElement.blur() : close();
  else if (sort) pressed = pressed.then(() => sortBy(sort));
  else if (free && grid.takes(e.key)) pressed = pressed.then(() => grid.press(e.key, { ask, open }));
  else return;
  e.preventDefault();
});

// Light and dark

const themes = ['system', 'light', 'dark'], root = document.documentElement.dataset;

function theme(to) {
  root.theme = to;
  localStorage.setItem('tally-theme', to);
  $('theme').textContent = `Theme: ${to}`;
}

$('theme').addEventListener('click', () => theme(themes[(themes.indexOf(root.theme) + 1) % themes.length]));
theme(root.theme);
ask();
