/*
 * The choice of a shard. The shard's version tells a write's exact time of commit only if no other
 * write was on its way to that shard. So the choice avoids shards with a write on its way.
 */

/** @import { CounterDocument } from './document.js' */

/** The number of shards to use when it is not known: that of Firebase's documentation. */
const DEFAULT_SHARDS = 10;

/**
 * How many shards there are. If the app's code fixes it, the counter's document can only lower it.
 *
 * @param {CounterDocument} document
 * @param {number} [fixed]
 */
export async function numberOfShards(document, fixed) {
  const known = fixed === undefined ? await document.shards() : Math.min(fixed, document.knownShards || fixed);
  return known || DEFAULT_SHARDS;
}

/**
 * Returns one of so many shards: `now` if it is one of them; else at random one that is not busy,
 * if there is any.
 *
 * @param {number} number
 * @param {string | null} now
 * @param {Set<string | null>} busy
 */
export function choose(number, now, busy) {
  if (now !== null && Number(now) < number) return now;

  const all = Array.from({ length: number }, (_, n) => String(n));
  const free = all.filter((shard) => !busy.has(shard));
  const from = free.length > 0 ? free : all;
  return from[Math.floor(Math.random() * from.length)] ?? '0';
}
