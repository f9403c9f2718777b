// Takes the pictures of docs/operations.md, in light and dark: `npm run screenshot`. An app counts for two minutes on the real stack.

import { setTimeout as sleep } from 'node:timers/promises';
import { browser, build, dev, increment } from './stack.js';

const docs = new URL('../../../../docs/', import.meta.url).pathname;
const seconds = 130; // a little more than the charts show

/** What the app counts: so much at the start, and increments a second. */
const counters = {
  comments: [420, 3],
  downloads: [180, 2.5],
  likes: [90, 2.7],
  'checkout-2026': [10, 2.2],
  'page-views': [60, 2.5],
  signups: [40, 1.2],
  'votes-north': [35, 1.6],
  'votes-south': [20, 1.4],
  newsletter: [30, 0.8],
  'watching-now': [500, -0.9],
};

/** Numbers from 0 to 1 that are the same in each picture: https://en.wikipedia.org/wiki/Linear_congruential_generator */
let seed = 1;
const random = () => (seed = (seed * 48271) % 2147483647) / 2147483647;

/** A shard of ten. One of checkout-2026 is hotter than the others, as that of an app that picks badly. */
const shardOf = (counter) => (counter === 'checkout-2026' && random() < 0.5 ? 0 : Math.floor(random() * 10));

const tally = build();
const stack = await dev(tally.binary);
const chromium = await browser();
try {
  for (const [counter, [start]] of Object.entries(counters)) await increment(stack.host, stack.project, counter, 1, start);
  const open = async (colorScheme) => {
    const page = await chromium.newPage({ colorScheme, viewport: { width: 1280, height: 810 }, deviceScaleFactor: 1.5 });
    await page.goto(stack.url);
    await page.click('#rows tr:has-text("checkout-2026")');
    await page.mouse.move(0, 0); // so that no row is lit
    return page;
  };
  const [light, dark] = [await open('light'), await open('dark')];

  for (let second = 0; second < seconds; second++) {
    const next = sleep(1000);
    for (const [counter, [, rate]] of Object.entries(counters)) {
      const times = Math.floor(Math.abs(rate) * 2 * random() + random());
      for (let i = 0; i < times; i++) await increment(stack.host, stack.project, counter, shardOf(counter), Math.sign(rate));
    }
    await next;
  }
  await light.screenshot({ path: `${docs}dashboard.png` });
  await dark.screenshot({ path: `${docs}dashboard-dark.png` });
} finally {
  await chromium.close();
  await stack.stop();
  tally.remove();
}
