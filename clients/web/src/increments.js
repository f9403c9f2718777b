/*
 * The way of an own increment: it is shown, gets a shard, and is sent; if the rules refuse that
 * shard, it is sent to another. settle.js deals with it after that.
 */
import { restored } from './earlier.js';
import { denied } from './errors.js';
import { doc, increment, setDoc } from './sdk.js';
import { acknowledged, refused } from './settle.js';
import { choose, numberOfShards } from './shards.js';

/** @import { State } from './state.js' */
/** @import { Write } from './writes.js' */

/**
 * Adds n. The total shown has it when this returns. The promise resolves when the server has
 * acknowledged the increment. If it fails, the promise rejects with Firestore's error, and n is out
 * of the total again. If the rules refused it, the counter's document has been read since.
 *
 * @param {State} state
 * @param {number} n
 * @param {number} [shards] how many there are, if the app's code fixes it
 */
export async function add(state, n, shards) {
  void restored(state);
  const write = state.writes.tap(n);
  state.feed.show();

  try {
    await send(state, write, shards);
  } catch (error) {
    refused(state, write);
    throw error;
  }
  acknowledged(state, write);
}

/**
 * Sends an increment. If the rules refuse it, the counter may have fewer shards by now: then this
 * sends it again, to one of these.
 *
 * @param {State} state
 * @param {Write} write
 * @param {number} [shards]
 */
async function send(state, write, shards) {
  // There must be no await between the choice of a shard and the sending: otherwise another
  // increment could choose the same shard.
  const first = choose(await numberOfShards(state.document, shards), null, state.writes.busy);
  try {
    await sendTo(state, write, first);
  } catch (error) {
    if (!denied(error)) throw error;

    await state.document.read();
    const now = choose(await numberOfShards(state.document, shards), first, state.writes.busy);
    if (now === first) throw error;
    await sendTo(state, write, now);
  }
}

/** @type {(state: State, write: Write, shard: string) => Promise<void>} */
function sendTo(state, write, shard) {
  state.writes.send(write, shard);
  return setDoc(doc(state.shards, shard), { [state.field]: increment(write.entry.n) }, { merge: true });
}
