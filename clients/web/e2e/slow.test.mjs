// The package with a cadence of a minute: events are deferred, and no one but the user's own page has
// their increments meanwhile.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { until } from './stack.mjs';

process.env.TALLY_CADENCE = '60s';
process.env.TALLY_BURST = '1'; // or the first changes would show at once
const pages = await import('./pages.mjs');
const { endsAt, newCounter, open, placesOf, rolledUp, saved, shown, tap } = pages;

/** The count that the roll-up document says. */
async function count(path) {
  const { rollUp, total } = placesOf(path);
  return Number((await pages.stack.rest('GET', `/${rollUp}`)).fields[total].integerValue);
}

test('own increments are in the total for a minute, also after a reload, until a roll-up covers them', async () => {
  const path = newCounter();
  const [ann, bob] = [await open(path), await open(path, { uid: 'bob' })];
  await tap(ann);
  await rolledUp(path, 1);
  await endsAt(path, 1, ann, bob);

  for (let total = 2; total <= 9; total++) assert.equal(await tap(ann), total);
  assert.equal(await tap(bob, 3), 4, 'a page knows only its own');
  await saved(ann, path, 8);
  await ann.load();
  await until(
    async () => (await shown(ann)).last?.total === 9,
    async () => `after a reload: ${JSON.stringify(await shown(ann))}`,
  );
  assert.equal(await tap(ann), 10);
  assert.equal(await count(path), 1, 'the roll-up is due in a minute');

  await until(
    async () => (await count(path)) === 13,
    async () => `no roll-up: ${await count(path)}\n${pages.stack.output()}`,
  );
  await endsAt(path, 13, ann, bob);
});
