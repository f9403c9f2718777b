// The dashboard in a real Chromium, on the real stack: the tally command, Google's emulator, the functions, events.

import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import { after, before, test } from 'node:test';
import { browser, build, dashboard, dev, holdPort, increment, rollUp } from './stack.js';

const { source: axe } = createRequire(import.meta.url)('axe-core');
const timeout = 120_000; // of a wait; the machine may be slow

let tally, stack, chromium;

before(async () => {
  tally = build();
  stack = await dev(tally.binary);
  chromium = await browser();
});

after(async () => {
  await chromium?.close();
  await stack?.stop();
  tally?.remove();
});

/** Opens the page. What goes wrong on it, or leaves this machine, fails the test at close. */
async function open(t, url, options = {}) {
  const context = await chromium.newContext({ viewport: { width: 1280, height: 800 }, ...options });
  const page = await context.newPage();
  page.setDefaultTimeout(timeout);
  const wrong = [];
  page.on('pageerror', (error) => wrong.push(String(error)));
  page.on('console', (message) => message.type() === 'error' && !message.text().includes('ERR_CONNECTION_REFUSED') && !message.text().includes('ERR_INCOMPLETE') && wrong.push(message.text()));
  page.on('request', (request) => request.url().startsWith(url) || wrong.push(`request to ${request.url()}`));
  t.after(async () => {
    await context.close();
    assert.deepEqual(wrong, []);
  });
  await page.goto(url);
  return page;
}

/** The rows in the document as { name: total }. */
const totals = (page) =>
  page.$$eval('#rows .row:not([hidden])', (rows) => Object.fromEntries(rows.map((row) => [row.children[0].textContent, row.children[1].textContent])));

/** The names of the rows in the document, from the top. */
const names = (page) =>
  page.$$eval('#rows .row:not([hidden])', (rows) => rows.sort((a, b) => a.getAttribute('aria-rowindex') - b.getAttribute('aria-rowindex')).map((row) => row.children[0].textContent));

const awaitTotal = (page, name, total) =>
  page.waitForFunction(
    ([name, total]) => [...document.querySelectorAll('#rows .row:not([hidden])')].some((row) => row.children[0].textContent === name && row.children[1].textContent === total),
    [name, total],
    { timeout },
  );

/** Waits until the rows from the top are the counters of these ids. */
const awaitNames = (page, ids) =>
  page.waitForFunction(
    (ids) =>
      [...document.querySelectorAll('#rows .row:not([hidden])')]
        .sort((a, b) => a.getAttribute('aria-rowindex') - b.getAttribute('aria-rowindex'))
        .map((row) => row.children[0].textContent.replace('counters/', ''))
        .join() === ids,
    ids,
    { timeout },
  );

const awaitText = (page, selector, pattern) =>
  page.waitForFunction(([selector, pattern]) => new RegExp(pattern).test(document.querySelector(selector).textContent), [selector, pattern], { timeout });

test('totals move live, with what they cost', async (t) => {
  const page = await open(t, stack.url);
  await increment(stack.host, stack.project, 'likes', 0, 3);
  await awaitTotal(page, 'counters/likes', '3');
  await increment(stack.host, stack.project, 'likes', 1, 1234);
  await awaitTotal(page, 'counters/likes', '1,237');
  await awaitText(page, '#link-text', '^Live$');
  await awaitText(page, '#events', '[1-9]');
  await awaitText(page, '#billed-more', '[1-9].* reads?, [1-9].* writes?');
  await awaitText(page, '#watching-more', '[1-9].* reads?');
  await awaitText(page, '#rate', '[1-9]');
  await awaitText(page, '#sum', '1,237');
  assert.match(await page.textContent('#place'), /demo-tally.*emulator/);

  // The shards of the counter that is looked at.
  await page.click('#rows .row');
  await awaitText(page, '.heat', '^2 shards');
  await increment(stack.host, stack.project, 'likes', 7, -7);
  await awaitText(page, '.heat', '^3 shards; the hottest takes [01].[0-9] writes a second: 7$');
  await awaitText(page, '.big', '^1,230$');
  await awaitText(page, '.now-sum', '^1,230, as rolled up$');
  await page.click('summary');
  await page.waitForSelector('tbody tr:nth-child(3)');
  assert.deepEqual(await page.$$eval('tbody tr', (rows) => rows.map((row) => [row.cells[0].textContent, row.cells[1].textContent])), [['0', '3'], ['1', '1,234'], ['7', '-7']]);
  for (const chart of ['.total .line', '.rate .line', '.writes .cool', '.counts .cool']) {
    assert.match(await page.getAttribute(`.detail ${chart}`, 'd'), /^M/, chart);
  }
});

test('integers beyond 2^53 are shown as they are', async (t) => {
  const project = 'demo-large';
  await rollUp(stack.host, project, [['large', '9007199254740993', new Date(), 1]]);
  const board = await dashboard(tally.binary, stack.host, project);
  t.after(board.stop);
  const page = await open(t, board.url);
  await awaitTotal(page, 'counters/large', '9,007,199,254,740,993');
  await awaitText(page, '#sum', '9,007,199,254,740,993$');
  await awaitText(page, '#events-more', 'known only to tally dev');
});

test('filter, sort and keyboard', async (t) => {
  const project = 'demo-keys', now = Date.now();
  await rollUp(stack.host, project, [
    ['a10', 5, new Date(now - 3000), 1],
    ['a9', 50, new Date(now - 9000), 3],
    ['b1', 500, new Date(now - 6000), 2],
    ['b2', 5, new Date(now - 1000), 9],
  ]);
  const board = await dashboard(tally.binary, stack.host, project);
  t.after(board.stop);
  const page = await open(t, board.url);
  await awaitTotal(page, 'counters/b2', '5');
  const awaitOrder = (ids) => awaitNames(page, ids);
  await awaitOrder('a9,a10,b1,b2'); // equally busy; numbers in names by value

  // On a fresh page, without a click.
  const active = () => page.evaluate(() => document.getElementById(document.getElementById('grid').getAttribute('aria-activedescendant'))?.children[0].textContent);
  const awaitActive = (name) =>
    page.waitForFunction((name) => document.getElementById(document.getElementById('grid').getAttribute('aria-activedescendant'))?.children[0].textContent === name, name, { timeout });
  await page.keyboard.press('ArrowDown');
  await awaitActive('counters/a9');
  await page.keyboard.press('ArrowDown');
  await awaitActive('counters/a10');
  await page.keyboard.press('Escape');
  assert.equal(await page.evaluate(() => document.activeElement === document.body), true);
  await page.reload();
  await awaitOrder('a9,a10,b1,b2');
  await page.keyboard.press('T');
  await awaitOrder('b1,a9,a10,b2');
  await page.keyboard.press('Enter');
  await awaitText(page, '#detail-name', '^counters/b1$');
  await page.keyboard.press('Escape');
  assert.equal(await page.isVisible('#detail'), false);
  await page.focus('#theme');
  await page.keyboard.press('Enter'); // a button's own
  assert.equal(await page.textContent('#theme'), 'Theme: light');
  assert.equal(await page.isVisible('#detail'), false);
  await page.reload();
  await awaitOrder('a9,a10,b1,b2');

  for (const [column, once, twice] of [
    ['total', 'b1,a9,a10,b2', 'a10,b2,a9,b1'], // equal totals in the order of their names, either way
    ['age', 'b2,a10,b1,a9', 'a9,b1,a10,b2'],
    ['shards', 'b2,a9,b1,a10', 'a10,b1,a9,b2'],
    ['name', 'a9,a10,b1,b2', 'b2,b1,a10,a9'],
  ]) {
    await page.click(`[data-sort=${column}]`);
    await awaitOrder(once);
    await page.click(`[data-sort=${column}]`);
    await awaitOrder(twice);
    assert.equal(await page.$$eval('[aria-sort]', (cells) => cells.length), 1);
  }

  // By keyboard alone.
  await page.keyboard.press('/');
  await page.keyboard.type('A');
  await awaitOrder('a10,a9');
  await awaitText(page, '#shown', '^2 of 4 counters$');
  await awaitText(page, '#said', '^2 of 4 counters$');
  await page.keyboard.press('ArrowDown');
  await awaitActive('counters/a10');
  await page.keyboard.press('End');
  await awaitActive('counters/a9');
  await page.keyboard.press('s');
  await awaitOrder('a9,a10');
  assert.equal(await active(), 'counters/a9'); // the row stays, wherever it moves
  await page.keyboard.press('Enter');
  await awaitText(page, '#detail-name', '^counters/a9$');
  assert.equal(await page.evaluate(() => document.activeElement.id), 'detail-name');
  assert.equal(await page.getAttribute('#rows .row[aria-selected=true]', 'aria-rowindex'), '2');
  await page.keyboard.press('Escape');
  assert.equal(await page.isVisible('#detail'), false);
  assert.equal(await page.evaluate(() => document.activeElement.id), 'grid');
  await page.keyboard.press('/');
  await page.keyboard.type('zebra');
  await awaitText(page, '#empty', 'No counter matches');
  assert.deepEqual(await names(page), []);
});

test('the busiest are first, and rows stay under the hand', async (t) => {
  const project = 'demo-busy';
  const totals = { a: 0, b: 0, c: 0 };
  let second = Date.now() / 1000 + 3600; // recent, however slow the machine is
  const add = (id, n) => rollUp(stack.host, project, [[id, (totals[id] = (totals[id] ?? 0) + n), new Date(++second * 1000), 1]]);
  for (const id of Object.keys(totals)) await add(id, 0);
  const board = await dashboard(tally.binary, stack.host, project);
  t.after(board.stop);
  const page = await open(t, board.url);
  await page.clock.install();
  await page.reload();
  await awaitNames(page, 'a,b,c');
  assert.equal(await page.getAttribute('[aria-sort]', 'aria-sort'), 'descending');
  // When the order changes.
  await page.evaluate(() => {
    globalThis.orders = [];
    let last = '';
    const frame = (now) => {
      const order = [...document.querySelectorAll('#rows .row:not([hidden])')].sort((a, b) => a.getAttribute('aria-rowindex') - b.getAttribute('aria-rowindex')).map((row) => row.children[0].textContent).join();
      if (order !== last) orders.push(now);
      last = order;
      requestAnimationFrame(frame);
    };
    requestAnimationFrame(frame);
  });
  await add('b', 100);
  await awaitNames(page, 'b,a,c');
  await add('c', 10_000);
  await awaitNames(page, 'c,b,a');
  const bars = await page.$$eval('#rows .row:not([hidden]) .bar', (bars) => bars.map((bar) => Number(bar.style.transform.match(/scaleX\((.*)\)/)[1])));
  assert.deepEqual(bars.sort(), [0, 0, 1]); // a hundredth is a bar of a dot: none
  await add('a', 1e5);
  await awaitNames(page, 'a,c,b');
  const orders = await page.evaluate(() => orders);
  assert.ok(orders.slice(2).every((at, i) => at - orders[i + 1] > 2900), `in order at ${orders}`);

  // While somebody points at them they stay, until the pointer leaves or rests; what is new comes after them.
  await page.clock.pauseAt(Date.now() + 60_000);
  const added = async (id, n) => {
    await add(id, n);
    const came = (n) => {
      const text = document.getElementById('rate').textContent.replaceAll(',', '');
      return parseFloat(text) * ({ M: 1e6, B: 1e9 }[text.at(-1)] ?? 1) > n / 11; // a mean of ten seconds
    };
    await page.waitForFunction(came, n, { timeout });
  };
  const after = async (ms, ids) => {
    await page.clock.runFor(ms);
    assert.equal((await names(page)).join().replaceAll('counters/', ''), ids);
  };
  const row = await page.locator('#rows .row').first().boundingBox();
  await page.mouse.move(row.x + 20, row.y + 20);
  await add('b', 1e6);
  await added('d', 1e7);
  await after(4000, 'a,c,b,d');
  await page.mouse.move(1, 1);
  await after(600, 'd,b,a,c');
  await page.mouse.move(row.x + 20, row.y + 20);
  await added('c', 1e8);
  await after(4000, 'd,b,a,c');
  await page.mouse.move(row.x + 30, row.y + 20);
  await after(4000, 'd,b,a,c');
  await after(1600, 'c,d,b,a');
  // And while they go from row to row.
  await page.mouse.move(1, 1);
  await page.keyboard.press('ArrowDown');
  await added('a', 1e9);
  await after(4000, 'c,d,b,a');
  await page.keyboard.press('ArrowDown');
  await after(4000, 'c,d,b,a');
  await after(1600, 'a,c,d,b');
  await page.keyboard.press('ArrowDown');
  await added('b', 1e10);
  await after(4000, 'a,c,d,b');
  await page.keyboard.press('Escape');
  await after(600, 'b,a,c,d');
});

test('counters that are gone are hidden until they are asked for', async (t) => {
  const project = 'demo-gone', now = new Date();
  await rollUp(stack.host, project, [['left', 0, now, 3], ['odd', 1, now, 0], ['gone1', 0, now, 0], ['gone2', 0, now, 0]]);
  const board = await dashboard(tally.binary, stack.host, project);
  t.after(board.stop);
  const page = await open(t, board.url);
  await awaitNames(page, 'left,odd');
  assert.equal(await page.innerText('#gone-text'), 'Show 2 that are gone');
  assert.equal(await page.textContent('#counters'), '2');
  await page.check('#all');
  await awaitNames(page, 'gone1,gone2,left,odd');
  await awaitText(page, '#shown', '^4 counters$');
  await page.uncheck('#all');
  await awaitNames(page, 'left,odd');
  await rollUp(stack.host, project, [['gone1', 1, new Date(now.getTime() + 1000), 1], ['gone2', 1, new Date(now.getTime() + 1000), 1]]);
  await awaitText(page, '#shown', '^4 counters$');
  assert.equal(await page.isVisible('#gone'), false);
});

test('a line begins with two samples, and is as wide as its chart', async (t) => {
  const project = 'demo-lines';
  await rollUp(stack.host, project, [['a', 1, new Date(), 1]]);
  const board = await dashboard(tally.binary, stack.host, project);
  t.after(board.stop);
  const page = await open(t, board.url);
  await page.waitForSelector('#rows .row:not([hidden])');
  const line = (selector) => page.$eval(selector, (svg) => svg.querySelector('.line')?.getAttribute('d') ?? '');
  await page.click('#rows .row');
  await awaitText(page, '.heat', 'no shards');
  assert.equal(await line('.chart.total'), '');
  assert.equal(await line('.chart.rate'), '');
  await page.reload();
  await page.evaluate(() => {
    globalThis.lines = new Set();
    new MutationObserver((all) => all.forEach(({ target }) => target.closest('.spark') && lines.add(target.getAttribute('d')))).observe(document.body, { subtree: true, attributeFilter: ['d'] });
  });
  await page.waitForFunction(() => [...lines].some((d) => d.includes('H')), null, { timeout });
  for (const d of await page.evaluate(() => [...lines])) assert.match(d, /^$|^M0\.0 .*V.*H300/);
});

test('ids of any script and with any characters leave the page as it is', async (t) => {
  const project = 'demo-ids';
  const ids = { turned: 'a\u202egnp.exe', broken: 'b\n\u0007\u2028c', hebrew: '!שלום', markup: '<img src=x onerror=alert(1)>' };
  const shown = { turned: 'counters/a\\u202egnp.exe', broken: 'counters/b\\u000a\\u0007\\u2028c', hebrew: 'counters/!שלום', markup: `counters/${ids.markup}` };
  await rollUp(stack.host, project, Object.values(ids).map((id) => [id, 1, new Date(), 1]));
  for (const id of Object.values(ids)) await increment(stack.host, project, id, `s${id}`);
  const board = await dashboard(tally.binary, stack.host, project);
  t.after(board.stop);
  const page = await open(t, board.url);
  await awaitText(page, '#shown', '^4 counters$');
  assert.deepEqual((await names(page)).sort(), Object.values(shown).sort());
  for (const name of Object.values(shown)) {
    const row = page.locator('#rows .row', { has: page.getByText(name.replace('counters/', ''), { exact: true }) });
    // Each part of a name has the direction of its own script.
    const [mark, letter] = await row.locator('.last').evaluate(({ firstChild }) =>
      [0, 1].map((at) => {
        const range = document.createRange();
        range.setStart(firstChild, at);
        range.setEnd(firstChild, at + 1);
        return range.getBoundingClientRect().left;
      }),
    );
    assert.equal(mark > letter, name === shown.hebrew, name);
    await row.click();
    await awaitText(page, '.heat', '^1 shard');
    const texts = await page.$$eval('#detail h2, #detail .rollup, #detail .heat, #detail .axis span', (elements) => elements.map((e) => e.textContent));
    texts.push(await row.locator('.name').getAttribute('title'), ...(await page.$$eval('[aria-label]', (elements) => elements.map((e) => e.getAttribute('aria-label')))));
    assert.equal(texts[0], name);
    for (const text of texts) assert.doesNotMatch(text, /[\p{Cc}\p{Zl}\p{Zp}\p{Bidi_Control}]/u);
  }
  assert.equal(await page.$$eval('main img', (images) => images.length), 0);
});

for (const colorScheme of ['light', 'dark']) {
  for (const [size, viewport] of Object.entries({ wide: { width: 1280, height: 800 }, narrow: { width: 390, height: 844 } })) {
    test(`accessible: ${colorScheme}, ${size}`, async (t) => {
      await increment(stack.host, stack.project, 'likes', 0);
      const page = await open(t, stack.url, { colorScheme, viewport, reducedMotion: 'reduce' });
      await page.waitForSelector('#rows .row:not([hidden])');
      const check = async (where) => {
        await page.evaluate(axe); // not as a script of the page, which its policy refuses
        const { violations, passes } = await page.evaluate(() => globalThis.axe.run());
        assert.ok(passes.length > 10, 'axe checked something');
        assert.deepEqual(violations.map((v) => `${v.impact} ${v.id}: ${v.nodes.map((n) => `${n.html} ${n.failureSummary}`).join('; ')}`), [], where);
      };
      await check('the list');
      assert.deepEqual(await page.$$eval('.head button', (buttons) => buttons.filter((b) => b.offsetParent && b.scrollWidth > b.offsetWidth).map((b) => b.textContent)), []);
      await page.click('#rows .row');
      await awaitText(page, '.heat', '^[1-9].* shard');
      await check('the panel');
    });
  }
}

test('the theme can be chosen, and stays', async (t) => {
  const page = await open(t, stack.url, { colorScheme: 'light' });
  const background = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  const light = await background();
  await page.click('#theme');
  await page.click('#theme');
  assert.equal(await page.textContent('#theme'), 'Theme: dark');
  const dark = await background();
  assert.notEqual(dark, light);
  await page.reload();
  assert.equal(await background(), dark);
  await page.emulateMedia({ colorScheme: 'dark' });
  await page.click('#theme'); // the system's
  assert.equal(await background(), dark);
});

test('5,000 counters: a bounded page, and nothing is missed', async (t) => {
  const project = 'demo-many', many = 5000, atOnce = 500;
  const now = Date.now();
  for (let i = 0; i < many; i += atOnce) {
    await rollUp(stack.host, project, Array.from({ length: atOnce }, (_, j) => [`c${i + j}`, i + j, new Date(now - 60_000), 10]));
  }
  const board = await dashboard(tally.binary, stack.host, project);
  t.after(board.stop);
  const page = await open(t, board.url);
  await awaitText(page, '#counters', '^5,000$');
  await page.waitForSelector('#rows .row:not([hidden])');
  await page.keyboard.press('n');
  await awaitTotal(page, 'counters/c0', '0');
  await page.evaluate(() => {
    globalThis.seen = { tasks: [], rows: 0, frames: 0, jumps: 0 };
    new PerformanceObserver((list) => seen.tasks.push(...list.getEntries().map((e) => e.duration))).observe({ entryTypes: ['longtask'] });
    const grid = document.getElementById('grid');
    let last = 0;
    // Scrolls on in each frame, and looks at each frame whether rows fill the view.
    const frame = () => {
      const rows = [...document.querySelectorAll('#rows .row:not([hidden])')].map((row) => row.getBoundingClientRect());
      const view = grid.getBoundingClientRect(), head = document.querySelector('.head').getBoundingClientRect();
      const covered = (y) => rows.some((r) => r.top <= y && y <= r.bottom);
      if (!covered(head.bottom + 1) || !covered(view.bottom - 3)) seen.jumps++;
      seen.rows = Math.max(seen.rows, document.querySelectorAll('#rows .row').length);
      seen.frames++;
      last = grid.scrollTop;
      grid.scrollTop += 90; // less than the spare rows
      globalThis.scrolling = requestAnimationFrame(frame);
    };
    frame();
  });
  // Meanwhile every counter is rolled up anew, in ten batches, twice.
  for (const round of [1, 2]) {
    for (let i = 0; i < many; i += atOnce) {
      await rollUp(stack.host, project, Array.from({ length: atOnce }, (_, j) => [`c${i + j}`, (i + j) * 10 + round, new Date(now + round * 1000), 10]));
    }
  }
  await page.waitForFunction((sum) => document.getElementById('sum').textContent.includes(sum), '124,985,000', { timeout }); // Σ 10·i + 2
  await page.waitForFunction(() => seen.frames > 100, null, { timeout });
  const seen = await page.evaluate(() => {
    cancelAnimationFrame(globalThis.scrolling);
    return globalThis.seen;
  });
  assert.ok(seen.rows < 60, `${seen.rows} rows in the document`);
  assert.ok((await page.evaluate(() => document.querySelectorAll('*').length)) < 1000);
  assert.equal(seen.jumps, 0, `of ${seen.frames} frames`);
  assert.deepEqual(seen.tasks.filter((ms) => ms > 2000), []);
  assert.equal(await page.getAttribute('#grid', 'aria-rowcount'), '5001');

  // Every row is right, wherever one looks.
  for (const at of [0, 2500, 4999]) {
    await page.focus('#grid');
    await page.$eval('#grid', (grid, at) => (grid.scrollTop = at * 38), at);
    await awaitTotal(page, `counters/c${at}`, (at * 10 + 2).toLocaleString('en'));
    for (const [name, total] of Object.entries(await totals(page))) {
      assert.equal(total, (Number(name.replace('counters/c', '')) * 10 + 2).toLocaleString('en'), name);
    }
  }
});

test('a page that nobody sees is sent nothing', async (t) => {
  const page = await open(t, stack.url);
  await increment(stack.host, stack.project, 'seen', 0);
  await awaitTotal(page, 'counters/seen', '1');
  const see = (hidden) =>
    page.evaluate((hidden) => {
      Object.defineProperty(document, 'hidden', { value: hidden, configurable: true });
      document.dispatchEvent(new Event('visibilitychange'));
    }, hidden);
  const other = await open(t, stack.url);
  await see(true);
  await increment(stack.host, stack.project, 'seen', 0);
  await awaitTotal(other, 'counters/seen', '2');
  assert.equal((await totals(page))['counters/seen'], '1');
  await see(false);
  await awaitTotal(page, 'counters/seen', '2');
});

test('after a restart of the server the page goes on', async (t) => {
  const project = 'demo-restart';
  const { port, release } = await holdPort();
  t.after(release);
  await rollUp(stack.host, project, [['left', 1, new Date(), 1], ['kept', 1, new Date(), 1]]);
  let board = await dashboard(tally.binary, stack.host, project, port);
  const page = await open(t, board.url);
  await awaitTotal(page, 'counters/kept', '1');
  await page.click('#rows .row');
  await awaitText(page, '#detail-name', '^counters/kept$');
  await board.stop();
  await awaitText(page, '#link-text', '^Disconnected');
  await awaitText(page, '#said', '^Disconnected');
  await rollUp(stack.host, project, [['kept', 41, new Date(), 1]]);
  board = await dashboard(tally.binary, stack.host, project, port);
  t.after(() => board.stop());
  await awaitText(page, '#link-text', '^Live$');
  await awaitText(page, '#said', '^Live$');
  await awaitTotal(page, 'counters/kept', '41');
  await awaitText(page, '.big', '^41$');
  await rollUp(stack.host, project, [['kept', 42, new Date(), 1]]);
  await awaitText(page, '.big', '^42$');
  assert.equal(await page.$$eval('#rows .row:not([hidden])', (rows) => rows.length), 2);
});
