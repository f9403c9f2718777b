import { collection, getAggregateFromServer, getDoc, increment, setDoc, sum, FieldPath } from 'firebase/firestore';
import { TallyError, denied, failure } from './errors.js';
import { State } from './state.js';

/** @import { Firestore } from 'firebase/firestore' */
/** @import { Counter, CounterOptions } from './index.js' */
/** @import { Places, Write } from './state.js' */

/** The number of shards to use when it is not known: that of Firebase's documentation. */
const DEFAULT_SHARDS = 10;

/** @type {(db: Firestore, path: string, options?: CounterOptions) => Counter<any>} */
export function counter(db, path, options = {}) {
  const { shards: fixedShards, uid } = options;
  const places = placesOf(path, options);
  if (fixedShards !== undefined && !(Number.isInteger(fixedShards) && fixedShards > 0)) {
    throw new TallyError('invalid-argument', `option shards is ${fixedShards}: want a whole number above 0`);
  }
  const state = stateOf(db, places);
  const { document, votes } = state;
  const signedIn = () => (typeof uid === 'function' ? uid() : uid);

  function user() {
    const user = signedIn();
    if (user) return user;
    throw new TallyError('not-signed-in', `Nobody is signed in, as far as the option uid says. Sign a user in first.`);
  }

  async function shards() {
    const known =
      fixedShards === undefined ? await document.shards() : Math.min(fixedShards, document.knownShards || fixedShards);
    return known || DEFAULT_SHARDS;
  }

  /** Sends an increment; if refused, again to a shard that the server has now. @param {Write} write */
  async function send(write) {
    // Nothing waits between the choice of a shard and the write, or another increment chooses the
    // same.
    const shard = state.free(await shards(), write.shard);
    try {
      await sendTo(shard, write);
    } catch (error) {
      if (!denied(error)) throw error;
      await document.read();
      const now = state.free(await shards(), shard);
      if (now === shard) throw error;
      await sendTo(now, write);
    }
  }

  /** @type {(shard: string, write: Write) => Promise<void>} */
  function sendTo(shard, write) {
    state.sending(write, shard);
    return setDoc(state.shard(shard), { [places.field]: increment(write.entry.n) }, { merge: true });
  }

  /** @param {0 | 1} vote */
  async function cast(vote) {
    const uid = user();
    await state.ballot(uid);
    // Nothing waits between the two, or another vote comes between.
    const before = votes.get(uid) ?? 0;
    votes.set(uid, vote);
    // The write is sent also if it seems to change nothing: another device may have voted since.
    const write = vote === before ? null : state.tap(vote - before, uid);
    if (write) state.sending(write, uid);
    try {
      await setDoc(state.shard(uid), { [places.field]: vote });
      if (write) state.acknowledged(write);
    } catch (error) {
      votes.set(uid, before);
      if (write) state.refused(write);
      if (!denied(error)) throw failure(error);
      await document.read();
      throw denial(error, vote ? 'vote()' : 'unvote()');
    }
  }

  /**
   * Says which rule most likely refused an increment, of which n is the amount, or a vote. The
   * counter's document was read after the refusal.
   *
   * @param {unknown} cause
   * @param {string} call
   * @param {number} [n]
   */
  function denial(cause, call, n) {
    const what = `${call} of ${path} was refused`;
    if (uid !== undefined && !signedIn()) {
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

  return {
    async increment(n = 1) {
      if (!Number.isSafeInteger(n) || n === 0) {
        throw new TallyError('invalid-argument', `increment(${n}): want a whole number that is not 0`);
      }
      if (places.counter === null) {
        const why = 'each user has one document in this collection, and no more. Use vote() and unvote().';
        throw new TallyError('invalid-argument', `increment() of ${path}: ${why}`);
      }
      const write = state.tap(n);
      try {
        await send(write);
        state.acknowledged(write);
      } catch (error) {
        state.refused(write);
        throw denied(error) ? denial(error, `increment(${n})`, n) : failure(error);
      }
    },

    onTotal: (callback, onError = fail) => state.observe({ next: callback, error: (error) => onError(failure(error)) }),

    async total() {
      await state.restored();
      return state.take(await getDoc(state.rollUp).catch(fail));
    },

    async exact() {
      const spec = { total: sum(new FieldPath(places.field)) };
      try {
        const snapshot = await getAggregateFromServer(collection(db, places.shards), spec);
        return snapshot.data().total;
      } catch (error) {
        if (denied(error)) await document.read();
        if (!denied(error) || !document.oncePerUser) throw failure(error);
        const why = 'its documents are votes, which only a server may list. Use total().';
        throw new TallyError('permission-denied', `exact() of ${path} was refused: ${why}`, error);
      }
    },

    vote: () => cast(1),
    unvote: () => cast(0),

    async hasVoted() {
      const uid = user();
      state.heard(uid, await getDoc(state.shard(uid)).catch(fail));
      return votes.get(uid) === 1;
    },

    onVoted(callback, onError = fail) {
      const report = (/** @type {unknown} */ error) => onError(failure(error));
      try {
        return state.observeVote(user(), callback, report);
      } catch (error) {
        report(error);
        return () => {};
      }
    },
  };
}

/**
 * Where the documents are: of a counter with shards at the path of a document, or of one with a
 * document for each user in the collection at the path.
 *
 * @param {string} path
 * @param {CounterOptions} options
 * @returns {Places}
 */
function placesOf(path, options) {
  const segments = path.split('/');
  const name = segments.at(-1) ?? '';
  const ofUsers = segments.length > 1 && segments.length % 2 === 1;
  checkPath('path', path, ofUsers ? 1 : 0);

  const above = segments.slice(0, -1);
  const usual = ofUsers
    ? { field: 'on', rollUp: above, shards: path }
    : { field: 'count', rollUp: [...above.slice(0, -1), 'rollups', name], shards: `${path}/shards` };
  const { field = usual.field, rollUp = usual.rollUp.join('/'), collection: shards = usual.shards } = options;
  const { total = ofUsers ? name : field } = options;
  checkPath('option rollUp', rollUp, 0);
  checkPath('option collection', shards, 1);
  return { counter: ofUsers ? null : path, shards, rollUp, field, total };
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
  const want = odd ? 'a collection, such as "posts/7/likes"' : 'a document, such as "counters/likes"';
  throw new TallyError('invalid-argument', `${what} is ${JSON.stringify(path)}: want the path of ${want}`);
}

/** @type {WeakMap<Firestore, Map<string, State>>} */
const states = new WeakMap();

/**
 * The state of the counter at these places, one for each Firestore instance.
 *
 * @param {Firestore} db
 * @param {Places} places
 */
export function stateOf(db, places) {
  /** @type {{ databaseId?: { database?: string } }} */
  const { databaseId } = db.toJSON();
  const { counter, shards, rollUp, field, total } = places;
  const { name: app, options } = db.app;
  const name = [app, options.projectId, databaseId?.database, counter, shards, rollUp, field, total].join('|');
  /** @type {Map<string, State>} */
  const ofDb = states.get(db) ?? new Map();
  states.set(db, ofDb);
  const state = ofDb.get(name) ?? new State(db, places, name);
  ofDb.set(name, state);
  return state;
}

/** @type {(error: unknown) => never} */
function fail(error) {
  throw failure(error);
}
