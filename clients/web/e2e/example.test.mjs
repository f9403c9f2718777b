// A page with all calls of the client, as people use it: several browsers, the rules, the
// functions. TALLY_SCREENSHOTS=DIR keeps pictures of the page; a test that fails leaves some in any
// case, and says where.
import assert from 'node:assert/strict';
import { mkdtemp, readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, afterEach, before, test } from 'node:test';
import { launch, startLine } from './browser.mjs';
import { serveExample } from './example/serve.mjs';
import { patience, root, startStack, until } from './stack.mjs';

const timeout = 300_000;
const cdn = 'https://www.gstatic.com/firebasejs';
let stack, site, address, browser;

let pages = [];

before(
  async () => {
    stack = await startStack({ project: 'demo-example' });
    site = await serveExample({ projectId: stack.project, host: stack.host, port: stack.port }, 0);
    address = `http://127.0.0.1:${site.address().port}`;
    browser = await launch();
  },
  { timeout: 300_000 }, // the tally command is built, too
);

after(async () => {
  await browser?.close();
  site?.close();
  await stack?.stop();
});

afterEach(async (t) => {
  if (t.error || t.passed === false) {
    const dir = await mkdtemp(join(tmpdir(), 'tally-page-failed-'));
    for (const [n, page] of pages.entries()) await page.screenshot({ path: join(dir, `${n}.png`), fullPage: true });
    t.diagnostic(`screenshots are in ${dir}`);
  }
  await Promise.all(pages.map((page) => page.context().close()));
  pages = [];
});

/**
 * Opens the page in a browser profile of its own, or in that of another page, and waits for its
 * totals. With a line, it reaches Firestore through that.
 */
async function open(query, { contextOf, line, ...options } = {}) {
  const context = contextOf?.context() ?? (await browser.newContext(options));
  // The SDK of Google's CDN, from the npm package, which has the same files.
  await context.route(`${cdn}/**`, (route) => {
    const file = new URL(route.request().url()).pathname.split('/').at(-1);
    return route.fulfill({ path: join(root, 'clients/web/node_modules/firebase', file) });
  });
  const page = await context.newPage();
  page.setDefaultTimeout(patience);
  pages.push(page);
  page.errors = [];
  if (line) {
    await page.route('**/config.json', async (route) => {
      const response = await route.fetch({ maxRetries: 3 }); // the server may just close an idle connection
      await route.fulfill({ response, json: { ...(await response.json()), port: line.port } });
    });
  }
  page.on('pageerror', (error) => page.errors.push(error));
  await page.addInitScript(() => {
    // What each animation frame that follows a change finds on the page, without repetitions.
    window.painted = { likes: [], vote: [] };
    const frame = () => {
      for (const [id, seen] of Object.entries(window.painted)) {
        const shown = document.querySelector(`#${id} data`)?.getAttribute('value');
        if (shown != null && seen.at(-1) !== Number(shown)) seen.push(Number(shown));
      }
    };
    new MutationObserver(() => requestAnimationFrame(frame)).observe(document, {
      attributeFilter: ['value'],
      childList: true,
      subtree: true,
    });
  });
  await page.goto(`${address}/${query}`);
  await until(
    async () => (await total(page, 'likes')) !== null && (await total(page, 'vote')) !== null,
    () => page.locator('main').innerText(),
  );
  return page;
}

/** The total that the page shows; null: none yet. */
async function total(page, id) {
  const value = await page.locator(`#${id} data`).getAttribute('value');
  return value === null ? null : Number(value);
}

const text = (page, selector) => page.locator(selector).innerText();
const tap = (page, id) => page.locator(`#${id} .act`).click();
const label = (page) => text(page, '#vote .act');

async function untilTotal(page, id, want) {
  await until(
    async () => (await total(page, id)) === want,
    async () => `${id} is ${await total(page, id)}, want ${want}: ${await text(page, 'main')}`,
  );
}

/** Waits until nothing of the page's own is on the way. */
async function untilSent(page, id) {
  await until(
    async () => (await text(page, `#${id} .pending`)) === '',
    async () =>
      `${id}: ${await text(page, `#${id} .pending`)}; the shards' sum is ${await stack.sum(`counters/example-${id}`)}`,
  );
}

async function untilText(page, selector, want) {
  await until(
    async () => want.test(await text(page, selector)),
    async () => `${selector} says ${JSON.stringify(await text(page, selector))}, want ${want}`,
  );
}

/**
 * Wants everything to say the number: the page, the sum of the shards past the rules and, of likes,
 * by the page's button, and the roll-up.
 */
async function wantExact(page, id, want) {
  assert.equal(await total(page, id), want);
  if (id === 'likes') {
    await page.locator('#likes .exact').click();
    await untilText(page, '#likes .check [role=status]', new RegExp(`^${want} at `));
  }
  assert.equal(await stack.sum(`counters/example-${id}`), want);
  await until(
    async () => rolledUp(await stack.rest('GET', `/rollups/example-${id}`)) === want,
    async () => JSON.stringify(await stack.rest('GET', `/rollups/example-${id}`)),
  );
}

/** Wants nothing on the page that only a developer understands. */
async function plain(page) {
  const said = await page.evaluate(() => {
    const labelled = [...document.querySelectorAll('[placeholder], [aria-label]')];
    return [document.title, document.body.innerText, ...labelled.flatMap((e) => [e.placeholder, e.ariaLabel])].join(
      '\n',
    );
  });
  assert.doesNotMatch(said, /shard|roll|document|firestore|emulator|project|rules|option|uid/i);
}

const rolledUp = (document) => Number(document?.fields.count.integerValue ?? 0);

const ascends = (numbers) => numbers.every((n, i) => i === 0 || n > numbers[i - 1]);

test('two browsers see each other’s likes, and no number ever decreases', { timeout }, async () => {
  const [alice, bob] = [await open('?user=alice'), await open('?user=bob')];
  const start = await total(alice, 'likes');
  const taps = 30;
  // As fast as frames are painted; each tap must show before the page does anything else.
  const tapping = [alice, bob].map((page) =>
    page.evaluate(async (taps) => {
      const number = document.querySelector('#likes data');
      const button = document.querySelector('#likes .act');
      let late = 0;
      for (let i = 0; i < taps; i++) {
        const before = Number(number.value);
        button.click();
        if (Number(number.value) !== before + 1) late++;
        await new Promise(requestAnimationFrame);
      }
      return late;
    }, taps),
  );
  assert.deepEqual(await Promise.all(tapping), [0, 0], 'taps that did not show at once');
  for (const page of [alice, bob]) await untilSent(page, 'likes');
  // On a busy machine the SDK's stream may break. Then the SDK sends up to ten writes again, of
  // which the server may have done some: see "What it does not do" in the README.
  const sum = await stack.sum('counters/example-likes');
  const [least, most] = [start + 2 * taps, start + 2 * (taps + 10)];
  assert.ok(least <= sum && sum <= most, `${sum} likes were counted, want ${least}`);
  for (const page of [alice, bob]) {
    await untilTotal(page, 'likes', sum);
    const { likes } = await page.evaluate(() => window.painted);
    assert.ok(ascends(likes), `it decreased: ${likes}`);
    assert.ok(likes.length > taps / 2, `hardly sampled: ${likes}`);
    await wantExact(page, 'likes', sum);
    assert.match(await text(page, '#likes .age'), /^Counted /);
    assert.equal(await text(page, '#problem'), '');
    assert.deepEqual(page.errors, []);
  }
});

test('each user has one vote, may take it back and vote again', { timeout }, async () => {
  const [alice, bob] = [await open('?user=alice'), await open('?user=bob')];
  const aliceToo = await open('?user=alice', { contextOf: alice });
  await tap(alice, 'vote');
  assert.equal(await label(alice), 'Take it back');
  for (const page of [alice, bob]) await untilTotal(page, 'vote', 1);
  await untilSent(alice, 'vote');

  // Her other tab does not know of it yet. It counts once all the same.
  assert.equal(await label(aliceToo), 'Vote');
  await tap(aliceToo, 'vote');
  assert.equal(await label(aliceToo), 'Take it back');
  await untilSent(aliceToo, 'vote');
  await untilTotal(aliceToo, 'vote', 1);

  await tap(bob, 'vote');
  for (const page of [alice, aliceToo, bob]) await untilTotal(page, 'vote', 2);
  await untilSent(bob, 'vote');

  await alice.reload();
  await until(
    async () => (await label(alice)) === 'Take it back',
    () => label(alice),
  );
  await tap(alice, 'vote');
  assert.equal(await label(alice), 'Vote');
  for (const page of [alice, bob]) await untilTotal(page, 'vote', 1);
  await untilSent(alice, 'vote');

  await tap(alice, 'vote');
  for (const page of [alice, bob]) await untilTotal(page, 'vote', 2);
  await untilSent(alice, 'vote');
  await wantExact(bob, 'vote', 2);
});

test('a page that is signed out sees all, is refused, and says why', { timeout }, async () => {
  const page = await open('?user=');
  const [likes, votes] = [await total(page, 'likes'), await total(page, 'vote')];
  const logged = page.waitForEvent('console', (message) => message.type() === 'warning');
  await tap(page, 'likes');
  await untilText(page, '#problem', /^Please enter your name below first\.$/);
  assert.match((await logged).text(), /Sign a user in/); // for developers
  await plain(page);
  await untilTotal(page, 'likes', likes);
  await page.reload();
  await untilTotal(page, 'vote', votes);
  assert.equal(await text(page, '#problem'), '');
  await tap(page, 'vote');
  await untilText(page, '#problem', /^Please enter your name/);
  assert.equal(await label(page), 'Vote');
  await wantExact(page, 'likes', likes);
  await wantExact(page, 'vote', votes);

  // The form signs in, and what is done right takes the message away.
  await page.getByLabel('Your name').fill('carol');
  await page.getByRole('button', { name: 'That’s me' }).click();
  await page.waitForURL('**/?user=carol');
  await untilTotal(page, 'likes', likes);
  await tap(page, 'likes');
  await untilSent(page, 'likes');
  await wantExact(page, 'likes', likes + 1);
  assert.equal(await text(page, '#problem'), '');
});

test('a browser profile is one user, another is another', { timeout }, async () => {
  const [one, other] = [await open(''), await open('')];
  const again = await open('', { contextOf: one });
  const user = (page) => page.getByLabel('Your name').inputValue();
  assert.match(await user(one), /^guest-\w{8}$/);
  assert.equal(await user(again), await user(one));
  assert.notEqual(await user(other), await user(one));
});

test('offline, taps count at once and wait; online, they are sent', { timeout }, async () => {
  const [alice, bob] = [await open('?user=alice'), await open('?user=bob')];
  const start = await total(alice, 'likes');
  await alice.context().setOffline(true);
  await untilText(alice, '#connection', /^Offline$/);
  for (let i = 1; i <= 3; i++) {
    await tap(alice, 'likes');
    assert.equal(await total(alice, 'likes'), start + i);
  }
  assert.equal(await text(alice, '#likes .pending'), '3 of yours waiting until you’re back online');
  await plain(alice);
  assert.equal(await stack.sum('counters/example-likes'), start);
  await tap(bob, 'likes');
  await untilTotal(bob, 'likes', start + 1);
  await alice.context().setOffline(false);
  await untilText(alice, '#connection', /^Online$/);
  for (const page of [alice, bob]) await untilTotal(page, 'likes', start + 4);
  await untilSent(alice, 'likes');
  const { likes } = await alice.evaluate(() => window.painted);
  assert.ok(ascends(likes), `it decreased: ${likes}`);
  await wantExact(alice, 'likes', start + 4);
});

test('with persistence, what waits is still there after a reload', { timeout }, async (t) => {
  const line = await startLine(stack.port);
  t.after(() => line.close());
  const page = await open('?user=alice&persist=1', { line });
  const start = await total(page, 'likes');
  line.cut();
  for (let i = 1; i <= 2; i++) {
    await tap(page, 'likes');
    await untilTotal(page, 'likes', start + i);
  }
  await until(
    async () => (await page.evaluate(queued)) === 2,
    async () => `${await page.evaluate(queued)} writes are queued, want 2`,
  );
  await page.reload();
  await untilTotal(page, 'likes', start + 2);
  assert.equal(await text(page, '#likes .pending'), '2 of yours on the way');
  assert.equal(await stack.sum('counters/example-likes'), start);
  line.restore();
  await untilSent(page, 'likes');
  await wantExact(page, 'likes', start + 2);
  const { likes } = await page.evaluate(() => window.painted);
  assert.ok(ascends(likes), `it decreased: ${likes}`);
});

test('without Google’s servers, the page says so', { timeout }, async (t) => {
  const context = await browser.newContext();
  t.after(() => context.close());
  await context.route(`${cdn}/**`, (route) => route.abort());
  const page = await context.newPage();
  await page.goto(address);
  await untilText(page, '#problem', /^Sorry, part of this page could not be loaded\./);
  await plain(page);
});

/** In a page: how many writes the SDK has in its queue on disk. */
async function queued() {
  const { name } = (await indexedDB.databases()).find(({ name }) => name.startsWith('firestore/'));
  const result = (request) =>
    new Promise((resolve, reject) =>
      Object.assign(request, { onsuccess: () => resolve(request.result), onerror: reject }),
    );
  const db = await result(indexedDB.open(name));
  try {
    return await result(db.transaction('mutations').objectStore('mutations').count());
  } finally {
    db.close();
  }
}

const axe = await readFile(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

/** What axe-core finds wrong with the page as it is. */
async function violations(page) {
  const found = await page.evaluate(`${axe}; axe.run().then(({ violations }) => violations)`);
  return found.map(({ id, impact, nodes }) => `${impact}: ${id}: ${nodes.map(({ html }) => html).join(' ')}`);
}

for (const [colorScheme, width] of [
  ['light', 1000],
  ['dark', 320],
]) {
  test(`${colorScheme}, ${width} pixels wide: everybody can use it`, { timeout }, async () => {
    const user = `${colorScheme}-${width}`;
    const page = await open(`?user=${user}`, {
      colorScheme,
      viewport: { width, height: 800 },
      reducedMotion: 'reduce',
    });
    const focus = () => page.evaluate(() => document.activeElement.closest('section')?.id);
    const tabTo = (id) =>
      until(
        async () => {
          await page.keyboard.press('Tab');
          return (await focus()) === id;
        },
        async () => `the focus is in ${await focus()}, want ${id}`,
      );
    const [likes, votes] = [await total(page, 'likes'), await total(page, 'vote')];
    await tabTo('likes');
    assert.equal(await page.evaluate(() => getComputedStyle(document.activeElement).outlineStyle), 'solid');
    await page.keyboard.press('Enter');
    await page.keyboard.press('Space');
    await untilTotal(page, 'likes', likes + 2);
    await tabTo('vote');
    await page.keyboard.press('Enter');
    await untilTotal(page, 'vote', votes + 1);
    for (const id of ['likes', 'vote']) await untilSent(page, id);
    assert.deepEqual(await violations(page), []);
    await picture(page, user);

    await page.goto(`${address}/?user=`);
    await untilTotal(page, 'likes', likes + 2);
    await tap(page, 'likes');
    await untilText(page, '#problem', /./);
    assert.deepEqual(await violations(page), []);
    const layout = await page.evaluate(() => ({
      sideways: document.documentElement.scrollWidth - innerWidth,
      moves: getComputedStyle(document.querySelector('.act')).transitionDuration,
      lowest: Math.min(...[...document.querySelectorAll('button, a, label')].map((e) => e.offsetHeight)),
    }));
    assert.ok(layout.sideways <= 0 && layout.moves === '0s' && layout.lowest >= 24, JSON.stringify(layout));
    await picture(page, `${user}-refused`);
  });
}

/** Keeps a picture of the page if that is asked for. */
async function picture(page, name) {
  const dir = process.env.TALLY_SCREENSHOTS;
  if (dir) await page.screenshot({ path: join(dir, `${name}.png`), fullPage: true });
}
