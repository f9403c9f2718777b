// The panel of the counter that is looked at.

import { bars, steps } from './charts.js';
import { age, decimal, integer, plural, rate, text, time, visible } from './format.js';

const span = 120; // seconds of history
const idle = 3; // seconds without a roll-up after which nothing seems to change
const sustained = 1; // writes a second that a document sustains

const template = document.createElement('template');
template.innerHTML = `
<header>
  <div><h2 id="detail-name" tabindex="-1"></h2><p class="field"></p></div>
  <button type="button" class="quiet close" aria-label="Close" aria-keyshortcuts="Escape">×</button>
</header>
<p class="now"><output class="big"></output><span class="at"></span></p>
<figure><figcaption>Total, last two minutes <b class="range"></b></figcaption><svg class="chart total" role="img" aria-label="Total"></svg></figure>
<figure><figcaption>Increments a second <b class="pace"></b></figcaption><svg class="chart rate" role="img" aria-label="Increments a second"></svg></figure>
<section aria-labelledby="detail-shards">
  <h3 id="detail-shards">Shards</h3>
  <p class="heat"></p>
  <figure><figcaption>Writes a second to each <span class="sustained">1, what a document sustains</span></figcaption><svg class="chart writes" role="img" aria-label="Writes a second to each shard"></svg><div class="axis" aria-hidden="true"></div></figure>
  <figure><figcaption>Count of each</figcaption><svg class="chart counts" role="img" aria-label="Count of each shard"></svg><div class="axis" aria-hidden="true"></div></figure>
  <details class="each"><summary>As a table</summary><div class="scroll" tabindex="0" role="region" aria-label="Shards"><table><thead><tr><th scope="col">Shard</th><th scope="col">Count</th><th scope="col">Writes a second</th></tr></thead><tbody></tbody></table></div></details>
</section>
<dl class="facts">
  <div><dt>Roll-up</dt><dd class="rollup"></dd></div>
  <div class="database"><dt>Database</dt><dd></dd></div>
  <div><dt>As of</dt><dd class="asof"></dd></div>
  <div><dt>Shards counted</dt><dd class="numshards"></dd></div>
  <div><dt>Sum of the shards now</dt><dd class="now-sum"></dd></div>
  <div><dt>Route</dt><dd class="route"></dd></div>
</dl>
<p class="cost">While this is open, each write to one of these shards bills one read.</p>`;

export class Detail {
  #panel;
  #source = null;
  row = null; // the counter, unless the panel is closed
  #told = null; // the last message
  #drawn = null; // the message that the charts show

  /** close is called when the panel was closed, draw when there is something new to draw. */
  constructor(panel, { close, draw }) {
    this.#panel = panel;
    this.changed = draw;
    panel.append(template.content.cloneNode(true));
    this.find('.close').addEventListener('click', close);
    panel.addEventListener('toggle', () => (this.#drawn = null) ?? draw(), true);
  }

  find(selector) {
    return this.#panel.querySelector(selector);
  }

  /** Shows a counter, and follows its shards. */
  open(row, about) {
    this.leave();
    this.row = row;
    this.#told = this.#drawn = null;
    this.#panel.hidden = false;
    this.find('h2').textContent = visible(row.name);
    this.find('.field').textContent = `field ${visible(row.field)}`;
    this.find('.rollup').textContent = visible(row.rollup);
    this.find('.route').textContent = about.routes[row.route];
    this.find('.database').hidden = about.databases.length < 2;
    this.find('.database dd').textContent = row.database;
    this.#panel.scrollTop = 0;
    this.#source = new EventSource(`counters/${row.id}`);
    this.#source.onmessage = (e) => {
      this.#told = JSON.parse(e.data);
      this.changed();
    };
  }

  /** Stops following. What is shown stays. */
  leave() {
    this.#source?.close();
    this.#source = null;
  }

  close() {
    this.leave();
    this.row = null;
    this.#panel.hidden = true;
  }

  draw(micros) {
    const r = this.row;
    if (!r) return;
    text(this.find('.big'), decimal(r.total));
    text(this.find('.at'), `${age((micros - r.asOf) / 1e6)} old`);
    text(this.find('.asof'), time(r.asOf, micros));
    text(this.find('.numshards'), integer(r.shards));
    text(this.find('.pace'), rate(r.rate));
    const told = this.#told;
    if (!told) {
      text(this.find('.heat'), 'Waiting for the shards.');
      text(this.find('.now-sum'), '–');
      for (const svg of this.#panel.querySelectorAll('svg')) svg.replaceChildren();
      return;
    }
    this.#history(told.history, micros);
    if (told !== this.#drawn) this.#shards(told, r);
    this.#drawn = told;
  }

  #history(history, micros) {
    const points = history.map(([t, v]) => [t / 1e6, Number(v)]).filter(([, v]) => Number.isFinite(v));
    const to = micros / 1e6, from = to - span;
    const total = this.find('.chart.total'), pace = this.find('.chart.rate');
    steps(total, points, from, to, false);
    // Of the time between two roll-ups the mean is known.
    const rates = points.slice(1).map(([t, v], i) => [points[i][0], (v - points[i][1]) / (t - points[i][0])]);
    const end = points.at(-1)?.[0] ?? from;
    if (to - end > idle) rates.push([end, 0]);
    steps(pace, rates, from, to, true);
    const seen = points.filter(([t]) => t >= from);
    const gained = seen.length > 0 ? seen.at(-1)[1] - (points[points.length - seen.length - 1] ?? seen[0])[1] : 0;
    text(this.find('.range'), `${gained >= 0 ? '+' : '−'}${decimal(String(Math.abs(gained)))}`);
    total.setAttribute('aria-label', `Total over the last two minutes: ${plural(seen.length, 'roll-up')}, changed by ${gained}`);
    pace.setAttribute('aria-label', `Increments a second over the last two minutes: now ${rate(this.row.rate)}`);
  }

  #shards({ shards, sum, limit, problem }, r) {
    const heat = this.find('.heat');
    heat.classList.toggle('problem', Boolean(problem));
    if (problem || !shards) {
      text(heat, problem ?? 'Waiting for the shards.');
      return;
    }
    for (const e of this.#panel.querySelectorAll('section figure, .each')) e.hidden = shards.length === 0;
    text(this.find('.now-sum'), sum === '' ? '–' : `${decimal(sum)}${difference(sum, r.total)}`);
    if (shards.length === 0) {
      text(heat, 'There are no shards.');
      return;
    }
    const writes = shards.map((s) => s.writes), counts = shards.map((s) => finite(s.count));
    const hottest = shards.reduce((a, b) => (b.writes > a.writes ? b : a), { writes: 0 });
    const many = shards.length >= limit ? `the first ${integer(limit)} shards` : plural(shards.length, 'shard');
    const summary = hottest.writes > 0 ? `${many}; the hottest takes ${rate(hottest.writes)} writes a second: ${visible(hottest.id)}` : `${many}; none was written to in the last ten seconds.`;
    text(heat, summary[0].toUpperCase() + summary.slice(1));
    const kind = (v) => (v > sustained ? 'hot' : v > sustained / 2 ? 'warm' : 'cool');
    bars(this.find('.chart.writes'), writes, kind, sustained);
    bars(this.find('.chart.counts'), counts, () => 'cool');
    this.find('.chart.writes').setAttribute('aria-label', `Writes a second to each shard: ${summary}`);
    this.find('.chart.counts').setAttribute('aria-label', `Count of each shard: from ${integer(Math.min(...counts, Infinity))} to ${integer(Math.max(...counts, -Infinity))}`);
    const ids = shards.length <= 20 ? shards.map((s) => visible(s.id)) : [visible(shards[0].id), visible(shards.at(-1).id)];
    for (const axis of this.#panel.querySelectorAll('.axis')) label(axis, ids, shards.length === ids.length);
    if (this.find('details').open) this.#table(shards);
  }

  #table(shards) {
    const body = this.find('tbody');
    while (body.rows.length > shards.length) body.deleteRow(-1);
    while (body.rows.length < shards.length) {
      const line = body.insertRow();
      for (let i = 0; i < 3; i++) line.insertCell();
    }
    shards.forEach((s, i) => {
      const [id, count, writes] = body.rows[i].cells;
      text(id, visible(s.id));
      text(count, s.count === '' ? 'no number' : decimal(s.count));
      text(writes, rate(s.writes));
    });
  }
}

const finite = (count) => (Number.isFinite(Number(count)) ? Number(count) : 0);

/** By how much the shards are ahead of the roll-up. */
function difference(sum, total) {
  if (!/^-?\d+$/.test(sum) || !/^-?\d+$/.test(total)) return '';
  const d = BigInt(sum) - BigInt(total);
  return d === 0n ? ', as rolled up' : `, ${d > 0n ? '+' : '−'}${decimal(String(d > 0n ? d : -d))} not rolled up yet`;
}

/** Puts names under the bars: one for each, or the first and the last. */
function label(axis, ids, each) {
  if (axis.textContent === ids.join('')) return;
  axis.classList.toggle('each-bar', each);
  axis.replaceChildren(
    ...ids.map((id) => {
      const span = document.createElement('span');
      span.textContent = id;
      return span;
    }),
  );
}
