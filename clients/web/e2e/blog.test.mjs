// examples/blog as a newcomer meets it: `npm start` and nothing else, and browsers of three people.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { launch } from './browser.mjs';
import { patience, root, until, within } from './stack.mjs';

const cdn = 'https://www.gstatic.com/firebasejs';
const timeout = 300_000;
let blog, ended, browser, address, firestore;
let output = '';

before(
  async () => {
    const { FIRESTORE_EMULATOR_HOST: _, ...env } = process.env;
    const ports = ['firestore', 'functions', 'dashboard'].map((server) => `--${server}-port=0`);
    blog = spawn('npm', ['start', '--', ...ports], {
      cwd: join(root, 'examples/blog'),
      env: { ...env, PORT: '0' },
      stdio: ['ignore', 'pipe', 'pipe'],
      detached: true, // a group of its own, as a terminal makes, for Ctrl-C
    });
    ended = new Promise((resolve) => blog.once('close', resolve));
    for (const stream of [blog.stdout, blog.stderr]) stream.on('data', (data) => (output += data));
    await until(
      () => (address = /The blog is at (\S+)/.exec(output)?.[1]),
      () => output,
    );
    firestore = Number(/^ +Firestore +127\.0\.0\.1:(\d+),/m.exec(output)[1]);
    browser = await launch();
  },
  { timeout }, // the tally command is built, too
);

after(async () => {
  await browser?.close();
  process.kill(-blog.pid, 'SIGINT');
  await within(patience, ended, () => `the blog does not end:\n${output}`);
});

/** Opens the blog as a user. */
async function open(user, options = {}) {
  const context = await browser.newContext(options);
  // The SDK of Google's CDN, from the npm package, which has the same files.
  await context.route(`${cdn}/**`, (route) => {
    const file = new URL(route.request().url()).pathname.split('/').at(-1);
    return route.fulfill({ path: join(root, 'clients/web/node_modules/firebase', file) });
  });
  // The emulator is at a port of this test's own.
  await context.route('**/blog.js', async (route) => {
    const response = await route.fetch();
    const body = (await response.text()).replace("'127.0.0.1', 8080", `'127.0.0.1', ${firestore}`);
    return route.fulfill({ response, body });
  });
  const page = await context.newPage();
  page.setDefaultTimeout(patience);
  await page.goto(`${address}/?user=${user}`);
  return page;
}

/** Waits until an element of the page has the text. */
async function shows(page, selector, want) {
  const text = () => page.locator(selector).allInnerTexts();
  await until(
    async () => (await text()).join('|') === want,
    async () =>
      `${selector}: got ${await text()}, want ${want}; ${await page.locator('#problem').innerText()}\n${output}`,
  );
}

/** What the rules answer to a user who sets a field of a document, by REST. */
async function set(user, path, field, value) {
  const encode = (part) => Buffer.from(JSON.stringify(part)).toString('base64url');
  const token = `${encode({ alg: 'none', type: 'JWT' })}.${encode({ sub: user, user_id: user })}.`;
  const url = `http://127.0.0.1:${firestore}/v1/projects/demo-blog/databases/(default)/documents/${path}`;
  const answer = await fetch(`${url}?updateMask.fieldPaths=${field}`, {
    method: 'PATCH',
    headers: { Authorization: `Bearer ${token}`, 'Content-Type': 'application/json' },
    body: JSON.stringify({ fields: { [field]: value } }),
  });
  return answer.status;
}

test('likes, approved comments, trending and karma', { timeout }, async () => {
  const [ann, bob] = await Promise.all([open('ann'), open('bob')]);
  await shows(ann, '#posts', 'Nobody has written a post yet.');
  await ann.fill('[name=title]', 'Tea');
  await ann.click('#publish button');
  await shows(bob, '.title', 'Tea');
  await shows(bob, '#authors li', 'ann: 0');

  await bob.click('.like');
  for (const page of [ann, bob]) {
    await shows(page, '.likes', '1');
    await shows(page, '.trending', '1');
    await shows(page, '#authors li', 'ann: 1');
  }
  await bob.waitForSelector('.like[aria-pressed=true]');

  await bob.fill('[name=text]', 'With milk?');
  await bob.click('article form button');
  await shows(ann, 'article li', 'bob: With milk? Approve');
  await shows(bob, 'article li', ''); // it waits
  await shows(bob, '.comments', '0');
  await ann.click('article li button');
  await shows(bob, 'article li', 'bob: With milk?');
  await shows(bob, '.comments', '1');

  await bob.click('.like');
  for (const [selector, want] of Object.entries({ '.likes': '0', '.trending': '0', '#authors li': 'ann: 0' })) {
    await shows(ann, selector, want);
  }
  await bob.waitForSelector('.like[aria-pressed=false]');
  assert.equal(await ann.locator('#problem').innerText(), '');
  assert.equal(await bob.locator('#problem').innerText(), '');
});

test('offline, the first post and a like are shown at once, and are sent later', { timeout }, async () => {
  const bob = await open('bob');
  await shows(bob, '.title', 'Tea');
  await bob.waitForSelector('.like[aria-pressed]'); // Offline, nobody knows whether he likes it.
  await bob.context().setOffline(true);
  await bob.fill('[name=title]', 'Milk');
  await bob.click('#publish button');
  await shows(bob, '.title', 'Milk|Tea');
  assert.equal(await bob.inputValue('[name=title]'), '');
  const like = bob.locator('article:has-text("Tea") .like');
  await like.click();
  await shows(bob, 'article:has-text("Tea") .likes', '1');
  const look = () =>
    like.evaluate((e) => [getComputedStyle(e).backgroundColor, getComputedStyle(e, '::before').content]);
  assert.deepEqual(await look(), ['rgb(207, 31, 86)', '"♥ "'], 'under the pointer');

  await bob.context().setOffline(false);
  const ann = await open('ann');
  await shows(ann, '#authors li:has-text("bob")', 'bob: 0');
  await shows(ann, 'article:has-text("Tea") .likes', '1');
  await like.click();
  await shows(bob, 'article:has-text("Tea") .likes', '0');
  assert.deepEqual((await look())[1], '"♡ "');
  await shows(ann, '#authors li:has-text("ann")', 'ann: 0');
  assert.equal(await bob.locator('#problem').innerText(), '');
});

test('everybody can use it, in the light and in the dark', { timeout }, async () => {
  const axe = await readFile(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
  for (const colorScheme of ['light', 'dark']) {
    const page = await open('bob', { colorScheme, viewport: { width: 320, height: 800 } });
    await page.click('.like[aria-pressed]');
    const found = await page.evaluate(`${axe}; axe.run().then(({ violations }) => violations)`);
    assert.deepEqual(
      found.map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html).join(' ')}`),
      [],
      colorScheme,
    );
    const sideways = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
    assert.ok(sideways <= 0, `${colorScheme}: ${sideways} pixels too wide`);
    await page.context().close();
  }
});

test('no one raises a total but by what it counts', { timeout }, async () => {
  const eve = await open('eve');
  await eve.fill('[name=title]', 'Coffee');
  await eve.click('#publish button');
  await shows(eve, '#authors li:has-text("eve")', 'eve: 0');
  await eve.selectOption('#order', 'at');
  await shows(eve, '.title', 'Coffee|Milk|Tea');
  await eve.click('article:has-text("Coffee") .like');
  await shows(eve, '#problem', 'Sorry, that isn’t allowed.'); // her own post

  const post = await eve.evaluate(async () => {
    const { collection, getDocs, getFirestore, limit, query } = await import('firebase/firestore');
    const { docs } = await getDocs(query(collection(getFirestore(), 'posts'), limit(10)));
    return docs.find((post) => post.get('author') === 'ann').id;
  });
  const many = { integerValue: '1000' };
  assert.equal(await set('eve', 'authors/eve', 'karma', many), 403);
  assert.equal(await set('ann', `posts/${post}`, 'likes', many), 403);
  assert.equal(await set('ann', `posts/${post}`, 'author', { stringValue: 'eve' }), 403);

  await eve.fill('article:has-text("Tea") [name=text]', 'No milk');
  await eve.click('article:has-text("Tea") form button');
  const ann = await open('ann');
  await shows(ann, 'article:has-text("Tea") li:has(button)', 'eve: No milk Approve');
  const comment = await ann.evaluate(async (post) => {
    const { collection, getDocs, getFirestore, limit, query } = await import('firebase/firestore');
    const { docs } = await getDocs(query(collection(getFirestore(), 'posts', post, 'comments'), limit(10)));
    return docs.find((comment) => comment.get('by') === 'eve').ref.path;
  }, post);
  assert.equal(await set('eve', comment, 'approved', { booleanValue: true }), 403);
  assert.equal(await set('ann', comment, 'text', { stringValue: 'Much milk' }), 403);
  assert.equal(await set('ann', comment, 'approved', { booleanValue: true }), 200);
  await shows(eve, 'article:has-text("Tea") .comments', '2');
});
