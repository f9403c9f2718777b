import { collection, getAggregateFromServer, getDoc, increment, setDoc, sum, FieldPath } from 'firebase/firestore';
import { TallyError, denied, failure } from './errors.js';
import { stateOf } from './state.js';

/** @import { Firestore } from 'firebase/firestore' */
/** @import { Counter, CounterOptions } from './index.js' */
/** @import { State, Write } from './state.js' */

/** The number of shards to use when it is not known: that of Firebase's documentation. */
const DEFAULT_SHARDS = 10;

/** @type {(db: Firestore, path: string, options?: CounterOptions) => Counter} */
export function counter(db, path, options = {}) {
  checkPath('path', path, 0);
  const segments = path.split('/');
  const {
    field = 'count',
    rollUp = [...segments.slice(0, -2), 'rollups', segments.at(-1)].join('/'),
    collection = `${path}/shards`,
    shards,
    uid,
  } = options;
  checkPath('option rollUp', rollUp, 0);
  checkPath('option collection', collection, 1);
  if (shards !== undefined && !(Number.isInteger(shards) && shards > 0)) {
    throw new TallyError('invalid-argument', `option shards is ${shards}: want a whole number above 0`);
  }
  const user = typeof uid === 'string' ? () => uid : uid;
  return new SharedCounter(stateOf(db, { counter: path, shards: collection, rollUp, field }), shards, user);
}

/**
 * Throws if a path is not one of a document, or with an odd number of segments that of a
 * collection.
 *
 * @param {string} what
 * @param {string} path
 * @param {0 | 1} odd
 */
function checkPath(what, path, odd) {
  const segments = path.split('/');
  if (segments.length % 2 === odd && !segments.includes('')) return;
  const want = odd ? 'a collection, such as "counters/likes/shards"' : 'a document, such as "counters/likes"';
  throw new TallyError('invalid-argument', `${what} is ${JSON.stringify(path)}: want the path of ${want}`);
}

/** @implements {Counter} */
class SharedCounter {
  #state;
  #fixedShards;
  #uid;

  /**
   * @param {State} state
   * @param {number | undefined} fixedShards
   * @param {(() => string | null | undefined) | undefined} uid
   */
  constructor(state, fixedShards, uid) {
    this.#state = state;
    this.#fixedShards = fixedShards;
    this.#uid = uid;
  }

  async increment(n = 1) {
    if (!Number.isSafeInteger(n) || n === 0) {
      throw new TallyError('invalid-argument', `increment(${n}): want a whole number that is not 0`);
    }
    const state = this.#state;
    const write = state.tap(n);
    try {
      await this.#send(write);
      state.acknowledged(write);
    } catch (error) {
      state.refused(write);
      throw denied(error) ? this.#denial(error, `increment(${n})`, n) : failure(error);
    }
  }

  /** @type {Counter['onTotal']} */
  onTotal(callback, onError) {
    return this.#state.observe({
      next: callback,
      error: (error) => {
        if (!onError) throw failure(error);
        onError(failure(error));
      },
    });
  }

  async total() {
    await this.#state.restored();
    return this.#state.take(await getDoc(this.#state.rollUp).catch(fail));
  }

  async exact() {
    const { db, document, places } = this.#state;
    const spec = { total: sum(new FieldPath(places.field)) };
    try {
      const snapshot = await getAggregateFromServer(collection(db, places.shards), spec);
      return snapshot.data().total;
    } catch (error) {
      if (denied(error)) await document.read();
      if (!denied(error) || !document.oncePerUser) throw failure(error);
      const why = 'its shards are votes, which only a server may list. Use total().';
      throw new TallyError('permission-denied', `exact() of ${places.counter} was refused: ${why}`, error);
    }
  }

  vote() {
    return this.#vote(1);
  }

  unvote() {
    return this.#vote(0);
  }

  async hasVoted() {
    const state = this.#state;
    const uid = this.#user();
    const before = state.votes.get(uid);
    const snapshot = await getDoc(state.shard(uid)).catch(fail);
    // What was done here meanwhile knows better.
    if (state.votes.get(uid) === before) state.votes.set(uid, state.voteOf(snapshot));
    return state.votes.get(uid) === 1;
  }

  /** @param {0 | 1} vote */
  async #vote(vote) {
    const state = this.#state;
    const uid = this.#user();
    await state.ballot(uid);
    // Nothing waits between the two, or another vote comes between.
    const before = state.votes.get(uid) ?? 0;
    state.votes.set(uid, vote);
    // The write is sent also if it seems to change nothing: another device may have voted since.
    const write = vote === before ? null : state.tap(vote - before, uid);
    if (write) state.sending(write, uid);
    try {
      await setDoc(state.shard(uid), { [state.places.field]: vote });
      if (write) state.acknowledged(write);
    } catch (error) {
      state.votes.set(uid, before);
      if (write) state.refused(write);
      if (!denied(error)) throw failure(error);
      await state.document.read();
      throw this.#denial(error, vote ? 'vote()' : 'unvote()');
    }
  }

  #user() {
    const uid = this.#uid?.();
    if (uid) return uid;
    throw new TallyError('not-signed-in', `Nobody is signed in, as far as the option uid says. Sign a user in first.`);
  }

  async #shards() {
    const { document } = this.#state;
    const fixed = this.#fixedShards;
    const shards = fixed === undefined ? await document.shards() : Math.min(fixed, document.knownShards || fixed);
    return shards || DEFAULT_SHARDS;
  }

  /** Sends an increment; if refused, again to a shard that the server has now. @param {Write} write */
  async #send(write) {
    const state = this.#state;
    // Nothing waits between the choice of a shard and the write, or another increment chooses the
    // same.
    const shard = state.free(await this.#shards(), write.shard);
    try {
      await this.#sendTo(shard, write);
    } catch (error) {
      if (!denied(error)) throw error;
      await state.document.read();
      const now = state.free(await this.#shards(), shard);
      if (now === shard) throw error;
      await this.#sendTo(now, write);
    }
  }

  /** @type {(shard: string, write: Write) => Promise<void>} */
  #sendTo(shard, write) {
    const state = this.#state;
    state.sending(write, shard);
    return setDoc(state.shard(shard), { [state.places.field]: increment(write.entry.n) }, { merge: true });
  }

  /**
   * Says which rule most likely refused an increment, of which n is the amount, or a vote. The
   * counter's document was read after the refusal.
   *
   * @param {unknown} cause
   * @param {string} call
   * @param {number} [n]
   */
  #denial(cause, call, n) {
    const { document, places } = this.#state;
    const what = `${call} of ${places.counter} was refused`;
    if (this.#uid && !this.#uid()) {
      const why = 'nobody is signed in, as far as the option uid says. Sign a user in first.';
      return new TallyError('not-signed-in', `${what}: ${why}`, cause);
    }
    let why =
      'most likely nobody is signed in, or App Check is enforced and the app has no token. ' +
      'Else compare firestore.rules with what the app writes.';
    if (document.frozen) {
      why = `the counter's document says frozen: true. tally unfreeze opens it again.`;
    } else if (n === undefined && !document.oncePerUser) {
      why =
        "the counter's document has no once_per_user: true. Set it, from a server or the console, or use increment().";
    } else if (n !== undefined && document.oncePerUser) {
      why = `the counter's document says once_per_user: true. Use vote() and unvote().`;
    } else if (n !== undefined && n !== 1) {
      why =
        'as shipped, firestore.rules let an increment add 1 and nothing else. ' +
        'Add 1 at a time, or change mayAdd there.';
    }
    return new TallyError('permission-denied', `${what}: ${why}`, cause);
  }
}

/** @type {(error: unknown) => never} */
function fail(error) {
  throw failure(error);
}
