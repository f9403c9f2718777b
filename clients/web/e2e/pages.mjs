// Pages that show a counter in a real browser, with the real SDK, the real emulator with rules
// enforced and the real functions, for the tests of one file. The rules are firestore.rules with the
// blocks of docs/recipes.md for likes that show at once, of posts, and there is a route for those, too.
import assert from 'node:assert/strict';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, afterEach, before } from 'node:test';
import { launch, servePage, startLine } from './browser.mjs';
import { patience, root, startStack, until } from './stack.mjs';

const routes = [
  'counters/{counter}/shards/{shard} -> rollups/{counter} : count',
  'posts/{post}/likes/{user} -> posts/{post} : count() as likes : existing',
];

/** The newest and the oldest firebase that the package is for, as package.json names them. */
export const versions = ['firebase', 'firebase-oldest'];

/** Set before the first test. */
export let stack, browser, line;
const sites = {};

/** What pages threw that nothing caught, since the test began. */
let thrown = [];

before(async () => {
  [stack, browser] = await Promise.all([start(), launch()]);
  line = await startLine(stack.port);
  for (const version of versions) sites[version] = await servePage(version);
});

afterEach(async (t) => {
  line.restore();
  stack.resume();
  for (const context of browser.contexts()) await context.close();

  const errors = thrown;
  thrown = [];
  for (const error of errors) t.diagnostic(`a page threw ${error}`); // even if the test failed by something else
  assert.deepEqual(errors, []);
});

after(async () => {
  await browser?.close();
  for (const site of Object.values(sites)) await site.close();
  await line?.close();
  await stack?.stop();
});

async function start() {
  const [rules, recipes] = await Promise.all(
    ['firestore.rules', 'docs/recipes.md'].map((name) => readFile(join(root, name), 'utf8')),
  );
  const blocks = ['Likes', "Totals in the app's own documents"].map((heading) => {
    const section = recipes.split(/^##+ /m).find((section) => section.startsWith(`${heading}\n`));
    return /^```js\n(match .*?)^```/ms.exec(section)[1];
  });
  const place = 'match /rollups/{counter}';
  assert.equal(rules.split(place).length, 2);
  const get = /(match \/shards\/\{shard\} \{\s+allow get: if )[^;]+/;
  assert.match(rules, get);

  const dir = await mkdtemp(join(tmpdir(), 'tally-pages-'));
  const file = join(dir, 'firestore.rules');
  try {
    await writeFile(
      file,
      // A counter whose document says closed: true shows no shard.
      rules.replace(place, () => `${blocks.join('\n')}\n${place}`).replace(get, "$1!declared('closed', false)"),
    );
    return await startStack({ flags: ['--rules', file], env: { TALLY_ROUTES: routes.join('; ') } });
  } finally {
    await rm(dir, { recursive: true });
  }
}

let counters = 0;

/** A path of a counter that no other test uses. */
export const newCounter = () => `counters/c${++counters}`;

/** A path of the likes of a post that no other test uses. The post exists. */
export async function newLikes() {
  const path = newLikesOfNoPost();
  await stack.set(placesOf(path).rollUp, { likes: 0 });
  return path;
}

/** A path of the likes of a post that no other test uses, and that does not exist. */
export const newLikesOfNoPost = () => `posts/p${++counters}/likes`;

/**
 * Where the documents of the counter at a path are, and their field; null: they are counted. And the
 * roll-up, and the total in it.
 */
export function placesOf(path) {
  const [, id, likes] = path.split('/');
  return likes
    ? { documents: path, field: null, rollUp: `posts/${id}`, total: 'likes' }
    : { documents: `${path}/shards`, field: 'count', rollUp: `rollups/${id}`, total: 'count' };
}

/**
 * A page that shows a counter, in a context of its own unless one is given. It has shown a total,
 * unless `wait` is false: the emulator tells a listener nothing of a commit that falls into its
 * beginning.
 */
export async function open(path, options = {}) {
  const { version = 'firebase', context, init, options: ofCounter, show = true, wait = true, ...ofTally } = options;
  const page = await (context ?? (await browser.newContext())).newPage();
  page.setDefaultTimeout(patience);
  page.on('pageerror', (error) => thrown.push(error.stack));
  if (init) await page.addInitScript(init);
  page.load = async () => {
    await page.goto(`http://127.0.0.1:${sites[version].port}/`);
    await page.evaluate((o) => tally.open(o), { project: stack.project, port: line.port, uid: 'ann', ...ofTally });
    if (show) await page.evaluate(([path, options]) => tally.show(path, options), [path, ofCounter]);
  };
  await page.load();
  if (show && wait) await showsSome(page);
  return page;
}

/**
 * Restores the line, and tells pages so, as browsers do: the SDK begins new sessions at once and sends
 * again what was not answered. Only for likes: a plain increment that is on its way then counts
 * twice, as without this package.
 */
export async function online(...pages) {
  line.restore();
  for (const page of pages) await page.evaluate(() => dispatchEvent(new Event('online')));
}

/**
 * Restores the line. No roll-up is written until each page has heard from the server what its
 * counter's roll-up is: the emulator tells a listener nothing of a commit that falls into its
 * beginning.
 */
export async function reconnect(...counters) {
  stack.pause();
  line.restore();
  const heard = ({ path, page }) =>
    page.evaluate((rollUp) => {
      const { doc, onSnapshot } = tally.firestore;
      return new Promise((resolve, reject) => {
        const next = ({ metadata }) => metadata.fromCache || resolve();
        onSnapshot(doc(tally.db(), rollUp), { includeMetadataChanges: true }, next, reject);
      });
    }, placesOf(path).rollUp);
  await Promise.all(counters.map(heard));
  stack.resume();
}

/** What a page has shown. */
export const shown = (page) =>
  page.evaluate(() => ({ calls: shown.calls, frames: shown.frames, last: shown.last, error: shown.error }));

/** Taps n times in a row; the outcomes are waited for if `wait`. */
export function tap(page, n = 1, wait = true) {
  return page.evaluate(
    async ([n, wait]) => {
      const taps = Array.from({ length: n }, () => shown.counter.increment());
      if (wait) await Promise.all(taps);
      return shown.last?.total;
    },
    [n, wait],
  );
}

/**
 * Calls a method of the like or the counter that a page shows: its value, "done", or the code of its error, of
 * which an unexpected one says what it was.
 */
export function call(page, method) {
  return page.evaluate(async (method) => {
    try {
      return (await (shown.like ?? shown.counter)[method]()) ?? 'done';
    } catch (error) {
      const { code, message, cause } = error;
      return code === 'failed' ? `${code}: ${cause?.code}: ${message}` : code;
    }
  }, method);
}

/** Waits until a page shows a total. */
export function showsSome(page) {
  return until(
    async () => (await shown(page)).last,
    () => `nothing is shown\n${stack.output()}`,
  );
}

/** Waits until a page shows a certain total of which nothing is pending. */
export function shows(page, total) {
  const is = async () => {
    const { last } = await shown(page);
    return last?.total === total && last.pending === 0;
  };
  return until(is, async () => `${total} is not shown: ${JSON.stringify(await shown(page))}\n${stack.output()}`);
}

/** Waits until the roll-up document says a total. */
export function rolledUp(path, total) {
  const { rollUp, total: name } = placesOf(path);
  const read = async () => (await stack.rest('GET', `/${rollUp}`))?.fields[name].integerValue;
  return until(
    async () => (await read()) === String(total),
    async () => `no roll-up of ${total}: ${await read()}\n${stack.output()}`,
  );
}

/**
 * Waits until roll-up and page agree on a total that the shards add up to, and that nothing was
 * shown that fell.
 */
export async function endsAt(path, total, ...pages) {
  await rolledUp(path, total);
  assert.equal(await sum(path), total);
  for (const page of pages) {
    await shows(page, total);
    await saved(page, path, 0); // all is covered
    await neverFell(page);
  }
}

async function neverFell(page) {
  const { calls, frames, error } = await shown(page);
  assert.equal(error, null);
  for (const totals of [calls, frames]) {
    const fell = totals.findIndex((total, i) => i > 0 && total < totals[i - 1]);
    assert.equal(fell, -1, `fell: ${totals.join(' ')}`);
  }
}

/** The sum of a counter's documents at the server, or how many likes there are. */
export function sum(path) {
  const { documents, field } = placesOf(path);
  return stack.sum(path, documents, field);
}

/**
 * Waits until the SDK of a page has writes to n shards of a counter in its queue, and the page has
 * saved them: as many, unless there are more to a shard.
 */
export async function queued(page, path, n, writes = n) {
  const pending = () =>
    page.evaluate(async (documents) => {
      const { collection, getDocsFromCache } = tally.firestore;
      const { docs } = await getDocsFromCache(collection(tally.db(), documents));
      return docs.filter((doc) => doc.metadata.hasPendingWrites).length;
    }, placesOf(path).documents);
  await until(
    async () => (await pending()) === n && (await entries(page, path)).length === writes,
    () => 'not queued',
  );
}

/** Waits until a page has n own increments of a counter saved. */
export function saved(page, path, n) {
  return until(
    async () => (await entries(page, path)).length === n,
    async () => `saved, want ${n}: ${JSON.stringify(await entries(page, path))}`,
  );
}

/** The own increments of a counter that a page has saved. */
export function entries(page, path) {
  return page.evaluate((path) => {
    const keys = Object.keys({ ...localStorage }).filter(
      (key) => key.startsWith('tally:') && key.includes(`"${path}"`),
    );
    return keys.map((key) => JSON.parse(localStorage.getItem(key)));
  }, path);
}

export const micros = (time) => {
  const [, seconds, fraction = ''] = /^([^.Z]*)\.?(\d*)Z$/.exec(time);
  return (Date.parse(`${seconds}Z`) / 1000) * 1e6 + Number(fraction.padEnd(6, '0'));
};
