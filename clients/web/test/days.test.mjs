import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { test } from 'node:test';
import { dayId, monthId, weekId } from '../src/days.js';

// The ids that Tally's functions make, which a test in rollup/route writes.
const made = JSON.parse(await readFile(new URL('days.json', import.meta.url), 'utf8'));

test('ids are those that Tally makes: around moved clocks, new years, and in the years 1 and 9999', () => {
  assert.ok(made.length > 100);
  const idOf = (make, at, zone) => {
    try {
      return make(new Date(at), zone);
    } catch (error) {
      assert.ok(error instanceof RangeError, error);
      return '';
    }
  };
  const ids = made.map((row) => ({
    ...row,
    day: idOf(dayId, row.at, row.zone),
    week: idOf(weekId, row.at, row.zone),
    month: idOf(monthId, row.at, row.zone),
  }));
  assert.deepEqual(ids, made);
  assert.ok(made.filter(({ again }) => again).length >= 10, 'of these the day is not the date that clocks show');
});

test('the zone is UTC by default, and a Timestamp of the SDK will do', () => {
  const at = new Date('2026-11-30T23:30:00Z');
  assert.equal(dayId(at), '2026-11-30');
  assert.equal(weekId(at), '2026-W49');
  assert.equal(monthId(at), '2026-11');
  assert.equal(dayId({ toDate: () => at }, 'Europe/Berlin'), '2026-12-01');
  assert.equal(weekId({ toDate: () => new Date('2027-01-03T23:30:00Z') }, 'Europe/Berlin'), '2027-W01');
  assert.equal(monthId({ toDate: () => at }, 'Europe/Berlin'), '2026-12');
});

test('a zone that there is not is named, and so is a time', () => {
  assert.throws(() => dayId(new Date(), 'Europe/Berln'), { name: 'RangeError', message: /Europe\/Berln/ });
  assert.throws(() => monthId(new Date('+010000-01-01')), {
    name: 'RangeError',
    message: '+010000-01-01T00:00:00.000Z: the month in UTC is not within the years 1 to 9999',
  });
});
