/*
 * Own writes of earlier pages, which localStorage has kept. Code that shows a total or sends a
 * write calls restored() first.
 */
import { isLater } from './coverage.js';
import { doc, getDocFromCache, orNull, versionOf } from './sdk.js';
import { settle } from './settle.js';

/** @import { Saved } from './saved.js' */
/** @import { State } from './state.js' */

/**
 * Takes over the own increments of earlier pages, from localStorage. Resolves when they
 * are in the total. The first call does it. That call must come before this page sends a write,
 * because it takes every saved write for one of an earlier page.
 *
 * @param {State} state
 */
export function restored(state) {
  const { saved } = state;
  // A broken entry, such as one with an impossible shard, must not hide the others.
  return (state.restored ??= Promise.all(
    saved.all().map((entry) => restore(state, entry).catch(() => saved.remove(entry.id))),
  ));
}

/**
 * @param {State} state
 * @param {Saved} entry
 */
async function restore(state, entry) {
  const { after, by, shard } = entry;
  const snapshot = await orNull(getDocFromCache, doc(state.shards, shard));

  // A write outlives its page only in a persistent cache. Then its shard is in the cache: with a
  // write pending, or with a version that is later than the tap. If it is not, the write has died
  // with its page, or its page still lives and deals with it.
  if (by === null) {
    if (!snapshot?.exists()) return;
    if (!snapshot.metadata.hasPendingWrites && !isLater(versionOf(snapshot) ?? null, after)) return;
  }

  state.writes.restore(entry);
  if (by === null) await settle(state, shard);
}
