/*
 * The end of a write that was sent. Either it is refused, or it is acknowledged, and settled once
 * its time of commit is known. After each step the feed shows the change.
 */
import { isLater } from './coverage.js';
import { TallyError } from './errors.js';
import { doc, getDoc, getDocFromCache, orNull, versionOf, waitForPendingWrites } from './sdk.js';

/** @import { State } from './state.js' */
/** @import { Write } from './writes.js' */

/**
 * The server has acknowledged a write. From here on the SDK's cache tells when it was committed, or
 * the server, if the cache has dropped the shard.
 *
 * @param {State} state
 * @param {Write} write
 */
export function acknowledged(state, write) {
  write.acknowledged = true;
  state.feed.show();
  if (write.shard !== null) void settle(state, write.shard);
}

/**
 * The write was refused, or could not be sent: it is out of the total again.
 *
 * @param {State} state
 * @param {Write} write
 */
export function refused(state, write) {
  state.writes.refuse(write);
  state.feed.show();
}

/**
 * Finds out when the writes to a shard were committed: those that are acknowledged, and those of
 * earlier pages. If the SDK cannot tell yet, because a write is pending, this is done again later.
 *
 * @param {State} state
 * @param {string} shard
 */
export async function settle(state, shard) {
  const { feed, writes } = state;
  // A write that is acknowledged while the version is read may be newer than that version.
  const settling = writes.to(shard).filter((write) => write.acknowledged || write.inexact);
  if (settling.length === 0) return;

  const ref = doc(state.shards, shard);
  const cached = await orNull(getDocFromCache, ref);
  // The cache may have dropped the shard at the acknowledgement: see #ended in writes.js.
  const dropped = !cached && settling.some((write) => write.acknowledged);
  if (dropped) for (const write of settling) write.inexact = true;
  const snapshot = dropped ? await orNull(getDoc, ref) : cached;
  if (snapshot?.metadata.hasPendingWrites) return void settleLater(state, shard);

  const version = snapshot?.exists() ? versionOf(snapshot) : null;
  if (version === undefined) {
    const why = 'This firebase does not tell versions of documents. Use one that the README names.';
    feed.fail(new TallyError('unsupported-sdk', why));
    return;
  }

  const waiting = writes.to(shard);
  const alone = waiting.length === 1;
  for (const write of settling) {
    if (!waiting.includes(write)) continue;
    if (!write.acknowledged && !isLater(version, write.entry.after)) {
      refused(state, write);
    } else if (version !== null) {
      writes.commit(write, shard, version, alone);
    }
  }

  if (!feed.watched) writes.forget();
  feed.show();
}

/**
 * Settles once nothing is pending: until then the SDK tells no version.
 *
 * @param {State} state
 * @param {string} shard
 */
async function settleLater(state, shard) {
  const { settling } = state;
  if (settling.has(shard)) return;
  settling.add(shard);

  try {
    await waitForPendingWrites(state.shards.firestore);
  } catch {
    return; // another user has signed in: the writes wait until their own user is back
  } finally {
    settling.delete(shard);
  }

  await settle(state, shard);
}
