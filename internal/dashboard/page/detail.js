// The panel of the counter that is open.

import { bars, steps } from './charts.js';
import { age, decimal, integer, plural, rate, text, time, visible } from './format.js';

const span = 120; // seconds of history
const idle = 3; // seconds without a roll-up after which nothing seems to change
const sustained = 1; // writes a second that a document sustains

const panel = document.getElementById('detail');
const find = (selector) => panel.querySelector(selector);

/** Draws a counter at a time in microseconds. */
export function draw(r, now) {
  const facts = {
    h2: visible(r.name),
    '.field': `field ${visible(r.field)}`,
    '.rollup': visible(r.rollup),
    '.database dd': r.database,
    '.route': r.route,
    '.big': decimal(r.total),
    '.at': `${age((now - r.as_of) / 1e6)} old`,
    '.asof': time(r.as_of, now),
    '.numshards': integer(r.shards),
    '.pace': rate(r.rate),
    '.now-sum': r.sum === '' ? '–' : `${decimal(r.sum)}${difference(r.sum, r.total)}`,
  };
  for (const [selector, value] of Object.entries(facts)) text(find(selector), value);
  find('.database').hidden = r.database === '';
  history(r, now / 1e6);
  shards(r);
}

function history(r, to) {
  const points = r.history.map(([t, v]) => [t / 1e6, Number(v)]).filter(([, v]) => Number.isFinite(v));
  const from = to - span;
  steps(find('.chart.total'), points, from, to, false);
  // Of the time between two roll-ups the mean is known.
  const rates = points.slice(1).map(([t, v], i) => [points[i][0], (v - points[i][1]) / (t - points[i][0])]);
  const end = points.at(-1)?.[0] ?? from;
  if (to - end > idle) rates.push([end, 0]);
  steps(find('.chart.rate'), rates, from, to, true);
  const seen = points.filter(([t]) => t >= from);
  const gained = seen.length > 0 ? seen.at(-1)[1] - (points.at(-seen.length - 1) ?? seen[0])[1] : 0;
  text(find('.range'), `${gained >= 0 ? '+' : '−'}${decimal(String(Math.abs(gained)))}`);
  say('.total', `Total over the last two minutes: ${plural(seen.length, 'roll-up')}, changed by ${gained}`);
  say('.rate', `Increments a second over the last two minutes: now ${rate(r.rate)}`);
}

const say = (chart, words) => find(`.chart${chart}`).setAttribute('aria-label', words);

function shards({ parts, sum, problem }) {
  const heat = find('.heat');
  heat.classList.toggle('problem', problem !== '');
  const there = parts?.length > 0;
  for (const e of panel.querySelectorAll('section figure, .each')) e.hidden = !there;
  if (problem || !there) {
    text(heat, problem || (parts ? 'There are no shards.' : 'Waiting for the shards.'));
    return;
  }
  const writes = parts.map((s) => s.writes), counts = parts.map((s) => finite(s.count));
  const hottest = parts.reduce((a, b) => (b.writes > a.writes ? b : a));
  const many = sum === '' ? `The first ${integer(parts.length)} shards` : plural(parts.length, 'shard');
  const heats = `the hottest takes ${rate(hottest.writes)} writes a second: ${visible(hottest.id)}`;
  const summary = `${many}; ${hottest.writes > 0 ? heats : 'none was written to in the last ten seconds.'}`;
  text(heat, summary);
  bars(find('.writes'), writes, (v) => (v > sustained ? 'hot' : v > sustained / 2 ? 'warm' : 'cool'), sustained);
  bars(find('.counts'), counts, () => 'cool');
  say('.writes', `Writes a second to each shard: ${summary}`);
  say('.counts', `Count of each shard: from ${integer(Math.min(...counts))} to ${integer(Math.max(...counts))}`);
  const ids = (parts.length <= 20 ? parts : [parts[0], parts.at(-1)]).map((s) => visible(s.id));
  for (const axis of panel.querySelectorAll('.axis')) {
    axis.classList.toggle('each-bar', ids.length === parts.length);
    fill(axis, ids, 'span', (span, id) => text(span, id));
  }
  if (!find('details').open) return;
  fill(find('tbody'), parts, 'tr', (row, s) => {
    fill(row, [visible(s.id), s.count === '' ? 'no number' : decimal(s.count), rate(s.writes)], 'td', text);
  });
}

const finite = (count) => (Number.isFinite(Number(count)) ? Number(count) : 0);

/** Gives an element one child for each value, and has each show its value. */
function fill(element, values, tag, show) {
  while (element.children.length > values.length) element.lastElementChild.remove();
  while (element.children.length < values.length) element.append(document.createElement(tag));
  values.forEach((value, i) => show(element.children[i], value));
}

/** By how much the shards are ahead of the roll-up. */
function difference(sum, total) {
  if (!/^-?\d+$/.test(sum) || !/^-?\d+$/.test(total)) return '';
  const d = BigInt(sum) - BigInt(total);
  return d === 0n ? ', as rolled up' : `, ${d > 0n ? '+' : '−'}${decimal(String(d > 0n ? d : -d))} not rolled up yet`;
}
