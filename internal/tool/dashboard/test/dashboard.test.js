// The dashboard in a real Chromium, on the real stack: the tally command, Google's emulator, the functions, events.

import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import { after, before, test } from 'node:test';
import { browser, build, commit, dashboard, dev, holdPort, increment, rollUp } from './stack.js';

const { source: axe } = createRequire(import.meta.url)('axe-core');
const timeout = Number(process.env.T ?? 180_000); // of a wait; the machine may be slow

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
  await context.addInitScript(() => {
    /** The rows as [counter, total], from the top. */
    globalThis.list = () =>
      [...document.querySelectorAll('#rows tr')].map((row) => [row.cells[0].textContent.trim().replace('counters/', ''), row.cells[1].textContent]);
    globalThis.order = () => list().map(([name]) => name).join();
  });
  const page = await context.newPage();
  page.setDefaultTimeout(timeout);
  const wrong = [];
  page.on('pageerror', (error) => wrong.push(String(error)));
  page.on('console', (message) => message.type() === 'error' && !/ERR_CONNECTION_REFUSED|ERR_CONNECTION_RESET|ERR_EMPTY_RESPONSE|ERR_INCOMPLETE/.test(message.text()) && wrong.push(message.text()));
  page.on('request', (request) => request.url().startsWith(url) || wrong.push(`request to ${request.url()}`));
  t.after(async () => {
    await context.close();
    assert.deepEqual(wrong, []);
  });
  await page.goto(url);
  return page;
}

/** Opens the page of a project of its own that has these roll-ups. */
async function openProject(t, project, rollUps) {
  await rollUp(stack.host, project, rollUps);
  const board = await dashboard(tally.binary, stack.host, project);
  t.after(board.stop);
  return open(t, board.url);
}

/** Opens the page of a project of its own where shops have three totals each, of two routes. */
async function openShops(t, project, options) {
  const routes = `orders/{order} by shop -> shops/{shop} : count() as orders, latest(at) as last : existing
reviews/{review} by shop -> shops/{shop} : count() as reviews : existing`;
  const names = { arrayValue: { values: ['orders', 'last', 'reviews'].map((stringValue) => ({ stringValue })) } };
  const now = { timestampValue: new Date().toISOString() };
  const tallyField = { mapValue: { fields: { as_of: now, num_shards: { integerValue: 716 }, totals: names } } };
  const fields = { orders: { integerValue: 445 }, last: now, reviews: { integerValue: 271 }, tally: tallyField };
  await commit(stack.host, project, (documents) =>
    ['berlin', 'the-shop-with-the-longest-name-of-all-in-town'].map((id) => ({ update: { name: `${documents}/shops/${id}`, fields } })),
  );
  const board = await dashboard(tally.binary, stack.host, project, 0, ['--routes', routes]);
  t.after(board.stop);
  return open(t, board.url, options);
}

const awaitTotal = (page, name, total) => page.waitForFunction(([name, total]) => list().some((row) => row[0] === name && row[1] === total), [name, total]);

/** Waits until the rows from the top are the counters of these ids. */
const awaitNames = (page, ids) => page.waitForFunction((ids) => order() === ids, ids);

const awaitText = (page, selector, pattern) =>
  page.waitForFunction(([selector, pattern]) => new RegExp(pattern).test(document.querySelector(selector)?.textContent), [selector, pattern]);

/** Notes from now on what a place shows: a rate falls back to 0 within seconds, and this machine may be slow. */
const note = (page, selector) =>
  page.evaluate((selector) => {
    const shown = new Set();
    const look = () => shown.add(document.querySelector(selector)?.textContent);
    new MutationObserver(look).observe(document, { subtree: true, childList: true, characterData: true });
    globalThis.noted = { ...globalThis.noted, [selector]: shown };
  }, selector);

/** Waits until a place shows a text, or has shown it since it was noted. */
const awaitNoted = (page, selector, pattern) =>
  page.waitForFunction(([selector, pattern]) => [...noted[selector]].some((text) => new RegExp(pattern).test(text)), [selector, pattern]);

test('totals move live, with what they cost', async (t) => {
  const page = await open(t, stack.url);
  await note(page, '#rate');
  await note(page, '.heat');
  await increment(stack.host, stack.project, 'likes', 0, 3);
  await awaitTotal(page, 'likes', '3');
  await increment(stack.host, stack.project, 'likes', 1, 1234);
  await awaitTotal(page, 'likes', '1,237');
  await awaitText(page, '#link', '^Live$');
  await awaitText(page, '#events', '[1-9]');
  await awaitText(page, '#billed-more', '[1-9].* reads?, [1-9].* writes?');
  await awaitText(page, '#watching-more', '[1-9].* reads?');
  await awaitNoted(page, '#rate', '[1-9]');
  assert.match(await page.textContent('#place'), /demo-tally.*emulator/);

  // The shards of the counter that is looked at.
  await page.click('#rows tr');
  await awaitText(page, '.heat', '^2 shards');
  await increment(stack.host, stack.project, 'likes', 7, -7);
  await awaitNoted(page, '.heat', '^3 shards; the hottest takes [01].[0-9] writes a second: 7$');
  await awaitText(page, '.big', '^1,230$');
  await awaitText(page, '.now-sum', '^1,230, as rolled up$');
  assert.deepEqual(await page.$$eval('#shards tbody tr', (rows) => rows.map((row) => [row.cells[0].textContent, row.cells[1].textContent])), [['0', '3'], ['1', '1,234'], ['7', '-7']]);
  for (const chart of ['figure:nth-of-type(1) .chart path', 'figure:nth-of-type(2) .chart path', '#shards .bar path']) {
    assert.match(await page.getAttribute(`#detail ${chart}`, 'd'), /^M/, chart);
  }
});

test('integers beyond 2^53 are shown as they are', async (t) => {
  const page = await openProject(t, 'demo-large', [['large', '9007199254740993', new Date(), 1]]);
  await awaitTotal(page, 'large', '9,007,199,254,740,993');
  await awaitText(page, '#events-more', 'known only to tally dev');
});

test('filter, sort and keyboard', async (t) => {
  const now = Date.now();
  const page = await openProject(t, 'demo-keys', [
    ['a10', 5, new Date(now - 3000), 1],
    ['a9', 50, new Date(now - 9000), 3],
    ['b1', 500, new Date(now - 6000), 2],
    ['b2', 5, new Date(now - 1000), 9],
  ]);
  await awaitNames(page, 'a9,a10,b1,b2'); // equally busy; numbers in names by value

  // On a fresh page, without a click.
  const awaitActive = (name) => page.waitForFunction((name) => document.activeElement.closest('#rows') && document.activeElement.textContent === name, `counters/${name}`);
  await page.keyboard.press('ArrowDown');
  await awaitActive('a9');
  await page.keyboard.press('ArrowDown');
  await awaitActive('a10');
  await page.keyboard.press('Escape');
  assert.equal(await page.evaluate(() => document.activeElement === document.body), true);
  await page.reload();
  await awaitNames(page, 'a9,a10,b1,b2');
  await page.keyboard.press('T');
  await awaitNames(page, 'b1,a9,a10,b2');
  await page.keyboard.press('Enter');
  await awaitText(page, '#detail-name', '^counters/b1$');
  await page.keyboard.press('Escape');
  await page.waitForSelector('#detail', { state: 'detached' });
  await page.focus('thead button');
  await page.keyboard.press('Enter'); // a button's own
  await awaitNames(page, 'a9,a10,b1,b2');
  assert.equal(await page.isVisible('#detail'), false);
  await page.focus('#theme');
  await page.keyboard.press('t');
  await page.keyboard.press('ArrowDown'); // a choice's own
  assert.equal(await page.inputValue('#theme'), 'light');
  assert.equal(await page.evaluate(() => order()), 'a9,a10,b1,b2');
  await page.reload();
  await awaitNames(page, 'a9,a10,b1,b2');

  for (const [column, once, twice] of [
    ['total', 'b1,a9,a10,b2', 'a10,b2,a9,b1'], // equal totals in the order of their names, either way
    ['age', 'b2,a10,b1,a9', 'a9,b1,a10,b2'],
    ['name', 'a9,a10,b1,b2', 'b2,b1,a10,a9'],
  ]) {
    const head = page.locator(`thead button[data-view*=${column}]`);
    await head.click();
    await awaitNames(page, once);
    await head.click();
    await awaitNames(page, twice);
    assert.equal(await page.$$eval('[aria-sort]', (cells) => cells.length), 1);
  }

  // By keyboard alone.
  await page.keyboard.press('/');
  await page.keyboard.type('S/A');
  await awaitNames(page, 'a10,a9');
  await awaitText(page, '#shown', '^2 of 4 totals$');
  assert.equal(await page.getAttribute('#shown', 'role'), 'status'); // it is said, too
  await page.keyboard.press('ArrowDown');
  await awaitActive('a10');
  await page.keyboard.press('End');
  await awaitActive('a9');
  await page.keyboard.press('t');
  await awaitNames(page, 'a9,a10');
  await awaitActive('a9'); // the row stays, wherever it moves
  await page.keyboard.press('Enter');
  await awaitText(page, '#detail-name', '^counters/a9$');
  await page.waitForFunction(() => document.activeElement.id === 'detail-name');
  assert.equal(await page.$eval('#rows [aria-current]', (row) => row.rowIndex), 1);
  await page.keyboard.press('Escape');
  await page.waitForSelector('#detail', { state: 'detached' });
  await awaitActive('a9');
  await page.keyboard.press('/');
  await page.keyboard.type('zebra');
  await awaitText(page, '#empty', 'No name matches');
  await awaitNames(page, '');
});

test('the busiest are first, and rows stay under the hand', async (t) => {
  const project = 'demo-busy';
  const totals = { a: 0, b: 0, c: 0 };
  let second = Date.now() / 1000 + 3600; // recent, however slow the machine is
  const next = (id, n) => [id, (totals[id] = (totals[id] ?? 0) + n), new Date(++second * 1000), 1];
  const page = await openProject(t, project, Object.keys(totals).map((id) => next(id, 0)));
  await page.clock.install();
  await page.reload();
  await awaitNames(page, 'a,b,c');
  assert.equal(await page.getAttribute('[aria-sort]', 'aria-sort'), 'descending');
  await page.evaluate(() => {
    globalThis.orders = []; // when the order changed
    let last = order();
    new MutationObserver(() => {
      if (order() !== last) orders.push(performance.now());
      last = order();
    }).observe(document.getElementById('rows'), { subtree: true, childList: true, characterData: true });
  });

  // From here on time is the test's. It stands still while a question is open.
  await page.clock.pauseAt(Date.now() + 60_000);
  await page.evaluate(() => {
    globalThis.questions = { asked: 0, answered: 0 }; // the page knows at once; the browser may tell later
    const ask = fetch;
    globalThis.fetch = async (...question) => {
      questions.asked++;
      const answer = await ask(...question);
      const text = await answer.text();
      questions.answered++;
      return new Response(text, answer);
    };
  });
  const answers = async (n) => {
    const now = () => page.evaluate(() => questions);
    for (const until = (await now()).answered + n; ; ) {
      const { asked, answered } = await now();
      if (answered >= until) return;
      if (asked === answered) await page.clock.runFor(50);
    }
  };
  /** Adds n to a counter, and waits until the server's rate tells so: a mean of ten seconds. */
  const add = async (id, n) => {
    await rollUp(stack.host, project, [next(id, n)]);
    const view = encodeURIComponent('{"sort":"name"}');
    const rate = async () => /id="rate">([^<]*)</.exec(await (await fetch(`${page.url()}state?view=${view}`)).text())[1];
    while (Number((await rate()).replaceAll(',', '')) < n / 11);
  };
  const until = async (ids) => {
    while ((await page.evaluate(() => order())) !== ids) await answers(1);
  };
  const after = async (ms, ids) => {
    await page.clock.runFor(ms);
    await answers(2); // the second was asked when the first was shown
    assert.equal(await page.evaluate(() => order()), ids);
  };
  await add('b', 100);
  await until('b,a,c');
  await add('c', 10_000);
  await until('c,b,a');
  const bars = await page.$$eval('#rows .bar', (bars) => bars.map((bar) => bar.firstChild.getBBox().width / bar.viewBox.baseVal.width));
  assert.deepEqual(bars.map((share) => share.toFixed(2)), ['1.00', '0.01', '0.00']);
  await add('a', 1e5);
  await until('a,c,b');
  const orders = await page.evaluate(() => orders);
  assert.equal(orders.length, 3);
  assert.ok(orders.slice(1).every((at, i) => at - orders[i] > 2900), `in order at ${orders}`);

  // While somebody points at them they stay, until the pointer leaves or rests; what is new comes after them.
  const row = await page.locator('#rows').boundingBox();
  const point = (x) => page.mouse.move(row.x + x, row.y + 20);
  const leave = () => page.mouse.move(1, 1);
  await point(20);
  await add('b', 1e6);
  await add('d', 1e7);
  await after(4000, 'a,c,b,d');
  await leave();
  await after(600, 'd,b,a,c');
  await point(20);
  await add('c', 1e8);
  await after(4000, 'd,b,a,c');
  await point(21);
  await after(4000, 'd,b,a,c');
  await after(1600, 'c,d,b,a');
  // And while they go from row to row.
  await leave();
  await page.keyboard.press('ArrowDown');
  await add('a', 1e9);
  await after(4000, 'c,d,b,a');
  await page.keyboard.press('ArrowDown');
  await after(4000, 'c,d,b,a');
  await after(1600, 'a,c,d,b');
  await page.keyboard.press('ArrowDown');
  await add('b', 1e10);
  await after(4000, 'a,c,d,b');
  await page.keyboard.press('Escape');
  await after(3000, 'b,a,c,d');
});

test('counters that are gone are hidden until they are asked for', async (t) => {
  const project = 'demo-gone', now = new Date();
  const page = await openProject(t, project, [['left', 0, now, 3], ['odd', 1, now, 0], ['gone1', 0, now, 0], ['gone2', 0, now, 0]]);
  await awaitNames(page, 'left,odd');
  assert.equal((await page.innerText('#gone')).trim(), 'Show 2 that are gone');
  assert.equal(await page.textContent('#counters'), '2');
  await page.check('#all');
  await awaitNames(page, 'gone1,gone2,left,odd');
  await awaitText(page, '#shown', '^4 totals$');
  await page.uncheck('#all');
  await awaitNames(page, 'left,odd');
  await rollUp(stack.host, project, [['gone1', 1, new Date(now.getTime() + 1000), 1], ['gone2', 1, new Date(now.getTime() + 1000), 1]]);
  await awaitText(page, '#shown', '^4 totals$');
  assert.equal(await page.isVisible('#gone'), false);
});

test('counters are documents, and rows are their totals', async (t) => {
  const page = await openShops(t, 'demo-shops');
  await page.waitForSelector('#rows tr');
  assert.equal(await page.textContent('#counters'), '2');
  assert.equal(await page.textContent('#shown'), '6 totals');
  const names = ['shops/berlin · last', 'shops/berlin · orders', 'shops/berlin · reviews'];
  assert.deepEqual((await page.$$eval('#rows th', (cells) => cells.map((cell) => cell.textContent.trim()))).slice(0, 3).sort(), names);
  await page.locator('#rows tr', { hasText: 'berlin · reviews' }).click();
  await awaitText(page, '.heat', '^There are no documents\\.$');
  assert.doesNotMatch(await page.textContent('#detail'), /716/); // of all routes, and the row is of one
});

test('on a phone every name is whole, and a time wraps', async (t) => {
  const page = await openShops(t, 'demo-phone', { viewport: { width: 400, height: 800 } });
  await page.waitForSelector('#rows tr');
  const cut = await page.$$eval('#rows button', (names) => names.filter((name) => name.scrollWidth > name.clientWidth || name.scrollHeight > name.clientHeight).map((name) => name.textContent));
  assert.deepEqual(cut, []);
  const widths = await page.$$eval('#rows th', (cells) => cells.map((cell) => cell.clientWidth));
  assert.ok(Math.min(...widths) >= 100, `widths of names: ${widths}`);
  assert.ok(await page.$eval('#grid', (grid) => grid.scrollWidth <= grid.clientWidth), 'the rows fit');
});

test('a line begins with the first sample, and goes on until now', async (t) => {
  const page = await openProject(t, 'demo-lines', [['a', 1, new Date(), 1]]);
  await page.waitForSelector('#rows tr');
  const line = (nth) => page.getAttribute(`#detail figure:nth-of-type(${nth}) path`, 'd');
  await page.click('#rows tr');
  await awaitText(page, '.heat', 'no shards');
  assert.match(await line(1), /^M-[0-9.]+ 100H-[0-9.]+V50\.0H0V100Z$/);
  await page.waitForFunction(() => document.querySelector('.spark path').getAttribute('d').includes('H'), null, { timeout });
  assert.match(await page.getAttribute('.spark path', 'd'), /^M-[0-9.]+ 100(H-?[0-9.]+V[0-9.]+)+H0V100Z$/);
});

test('ids of any script and with any characters leave the page as it is', async (t) => {
  const project = 'demo-ids';
  const ids = { turned: 'a\u202egnp.exe', broken: 'b\n\u0007\u2028c', hebrew: '!שלום', markup: '<img src=x onerror=alert(1)>' };
  const shown = { turned: 'counters/a\\u202egnp.exe', broken: 'counters/b\\u000a\\u0007\\u2028c', hebrew: 'counters/!שלום', markup: `counters/${ids.markup}` };
  for (const id of Object.values(ids)) await increment(stack.host, project, id, `s${id}`);
  const page = await openProject(t, project, Object.values(ids).map((id) => [id, 1, new Date(), 1]));
  await awaitText(page, '#shown', '^4 totals$');
  assert.deepEqual((await page.$$eval('#rows th', (names) => names.map((name) => name.textContent.trim()))).sort(), Object.values(shown).sort());
  for (const name of Object.values(shown)) {
    const row = page.locator('#rows tr', { has: page.getByText(name.replace('counters/', ''), { exact: true }) });
    // Each part of a name has the direction of its own script.
    const [mark, letter] = await row.locator('bdi:nth-child(2)').evaluate(({ firstChild }) =>
      [0, 1].map((at) => {
        const range = document.createRange();
        range.setStart(firstChild, at);
        range.setEnd(firstChild, at + 1);
        return range.getBoundingClientRect().left;
      }),
    );
    assert.equal(mark > letter, name === shown.hebrew, name);
    await row.click();
    await page.waitForFunction((name) => document.querySelector('#detail h2')?.textContent === name, name);
    await awaitText(page, '.heat', '^1 shard');
    const texts = await page.$$eval('#detail h2, #detail .rollup, #detail .heat, #shards tbody th', (elements) => elements.map((e) => e.textContent));
    texts.push(...(await page.$$eval('[aria-label]', (elements) => elements.map((e) => e.getAttribute('aria-label')))));
    for (const text of texts) assert.doesNotMatch(text, /[\p{Cc}\p{Zl}\p{Zp}\p{Bidi_Control}]/u);
  }
  assert.equal(await page.$$eval('main img', (images) => images.length), 0);
});

for (const colorScheme of ['light', 'dark']) {
  for (const [size, viewport] of Object.entries({ wide: { width: 1280, height: 800 }, narrow: { width: 390, height: 844 } })) {
    test(`accessible: ${colorScheme}, ${size}`, async (t) => {
      await increment(stack.host, stack.project, 'likes', 0);
      const page = await open(t, stack.url, { colorScheme, viewport, reducedMotion: 'reduce' });
      await page.waitForSelector('#rows tr');
      const check = async (where) => {
        await page.evaluate(axe); // not as a script of the page, which its policy refuses
        const { violations, passes } = await page.evaluate(() => globalThis.axe.run());
        assert.ok(passes.length > 10, 'axe checked something');
        assert.deepEqual(violations.map((v) => `${v.impact} ${v.id}: ${v.nodes.map((n) => `${n.html} ${n.failureSummary}`).join('; ')}`), [], where);
      };
      await check('the list');
      assert.deepEqual(await page.$$eval('thead button', (buttons) => buttons.filter((b) => b.offsetParent && b.scrollWidth > b.offsetWidth).map((b) => b.textContent)), []);
      await page.click('#rows tr');
      await awaitText(page, '.heat', '^[1-9].* shard');
      await check('the panel');
    });
  }
}

test('the theme can be chosen, and stays', async (t) => {
  const page = await open(t, stack.url, { colorScheme: 'light' });
  const background = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  const light = await background();
  await page.selectOption('#theme', 'dark');
  const dark = await background();
  assert.notEqual(dark, light);
  await page.reload();
  assert.equal(await background(), dark);
  assert.equal(await page.inputValue('#theme'), 'dark');
  await page.selectOption('#theme', 'system');
  assert.equal(await background(), light);
  await page.emulateMedia({ colorScheme: 'dark' });
  assert.equal(await background(), dark);
});

test('2,000 counters: a bounded page, and nothing is missed', async (t) => {
  const project = 'demo-many', many = 2000, atOnce = 500;
  const now = Date.now();
  for (let i = 0; i < many; i += atOnce) {
    await rollUp(stack.host, project, Array.from({ length: atOnce }, (_, j) => [`c${i + j}`, i + j, new Date(now - 60_000), 10]));
  }
  const board = await dashboard(tally.binary, stack.host, project);
  t.after(board.stop);
  const page = await open(t, board.url);
  await awaitText(page, '#counters', '^2,000$');
  await page.waitForSelector('#rows tr');
  await page.keyboard.press('n');
  await awaitTotal(page, 'c0', '0');
  await page.evaluate(() => {
    globalThis.tasks = [];
    new PerformanceObserver((list) => tasks.push(...list.getEntries().map((e) => e.duration))).observe({ entryTypes: ['longtask'] });
  });
  // Meanwhile every counter is rolled up again.
  for (let i = 0; i < many; i += atOnce) {
    await rollUp(stack.host, project, Array.from({ length: atOnce }, (_, j) => [`c${i + j}`, (i + j) * 10 + 2, new Date(now + 1000), 10]));
  }

  // Every row is right, on every page.
  for (let first = 0; first < many; first += 100) {
    const want = Array.from({ length: 100 }, (_, i) => [`c${first + i}`, ((first + i) * 10 + 2).toLocaleString('en')]);
    await page.waitForFunction((want) => JSON.stringify(list()) === want, JSON.stringify(want));
    assert.ok((await page.evaluate(() => document.querySelectorAll('*').length)) < 1500);
    if (first === many - 100) break;
    if (first % 200 === 0) await page.click('[aria-label=Next]');
    else await page.keyboard.press('ArrowRight');
  }
  assert.equal(await page.isDisabled('[aria-label=Next]'), true);
  await page.click('[aria-label=Previous]');
  await awaitTotal(page, 'c1800', '18,002');
  await page.keyboard.press('/');
  await page.keyboard.type('c199');
  await awaitText(page, '#shown', '^11 of 2,000 totals$');
  await awaitTotal(page, 'c1999', '19,992');
  assert.equal(await page.isVisible('#pages'), false);
  assert.deepEqual((await page.evaluate(() => globalThis.tasks)).filter((ms) => ms > 2000), []);
});

test('a hidden page is sent nothing', async (t) => {
  const page = await open(t, stack.url);
  await increment(stack.host, stack.project, 'seen', 0);
  await awaitTotal(page, 'seen', '1');
  const see = (hidden) =>
    page.evaluate((hidden) => {
      Object.defineProperty(document, 'hidden', { value: hidden, configurable: true });
      document.dispatchEvent(new Event('visibilitychange'));
    }, hidden);
  const other = await open(t, stack.url);
  await see(true);
  await increment(stack.host, stack.project, 'seen', 0);
  await awaitTotal(other, 'seen', '2');
  assert.deepEqual(await page.evaluate(() => list().find(([name]) => name === 'seen')), ['seen', '1']);
  await see(false);
  await awaitTotal(page, 'seen', '2');
});

test('after a restart of the server the page goes on', async (t) => {
  const project = 'demo-restart';
  const { port, release } = await holdPort();
  t.after(release);
  await rollUp(stack.host, project, [['left', 1, new Date(), 1], ['kept', 1, new Date(), 1]]);
  let board = await dashboard(tally.binary, stack.host, project, port);
  const page = await open(t, board.url);
  await awaitTotal(page, 'kept', '1');
  await page.click('#rows tr');
  await awaitText(page, '#detail-name', '^counters/kept$');
  await board.stop();
  await awaitText(page, '#link', '^Disconnected');
  assert.equal(await page.getAttribute('#link', 'role'), 'status'); // it is said, too
  await rollUp(stack.host, project, [['kept', 41, new Date(), 1]]);
  board = await dashboard(tally.binary, stack.host, project, port);
  t.after(() => board.stop());
  await awaitText(page, '#link', '^Live$');
  await awaitTotal(page, 'kept', '41');
  await awaitText(page, '.big', '^41$');
  await rollUp(stack.host, project, [['kept', 42, new Date(), 1]]);
  await awaitText(page, '.big', '^42$');
  assert.equal(await page.$$eval('#rows tr', (rows) => rows.length), 2);
});
