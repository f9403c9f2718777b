import { denial } from './denial.js';
import { TallyError, denied, failure } from './errors.js';
import * as increments from './increments.js';
import { placesOf } from './places.js';
import { getAggregateFromServer, sum, userOf, FieldPath } from './sdk.js';
import { stateOf } from './state.js';
import * as votes from './votes.js';

/** @import { Firestore } from 'firebase/firestore' */
/** @import { Counter, CounterOptions } from './index.js' */

/**
 * The public entry. A method checks what the app gives, hands it to the counter's state, and turns
 * every error into a TallyError. No method uses `this`, so an app may call one without its object.
 *
 * @type {(db: Firestore, path: string, options?: CounterOptions) => Counter<any>}
 */
export function counter(db, path, options = {}) {
  const { shards, uid } = options;
  const places = placesOf(path, options);
  if (shards !== undefined && !(Number.isInteger(shards) && shards > 0)) {
    throw new TallyError('invalid-argument', `option shards is ${shards}: want a whole number above 0`);
  }

  const state = stateOf(db, places);
  const { document, feed } = state;

  function user() {
    const user = typeof uid === 'function' ? uid() : uid;
    if (user) return user;
    throw new TallyError('not-signed-in', 'The option uid of counter() names no user. Sign a user in first.');
  }

  /**
   * Waits for a write. Its error says what to do; n is the amount of an increment.
   *
   * @type {(call: string, write: Promise<void>, n?: number) => Promise<void>}
   */
  async function written(call, write, n) {
    try {
      await write;
    } catch (error) {
      if (!denied(error)) throw failure(error);
      throw denial(error, call, n, document, await userOf(state.shards.firestore));
    }
  }

  /** @type {(vote: 0 | 1) => Promise<void>} */
  async function cast(vote) {
    const voter = user();
    const call = vote ? 'vote()' : 'unvote()';
    await written(`${call} of ${path} as ${voter}`, votes.cast(state, voter, vote));
  }

  return {
    async increment(n = 1) {
      if (!Number.isSafeInteger(n) || n === 0) {
        throw new TallyError('invalid-argument', `increment(${n}): want a whole number that is not 0`);
      }
      if (places.counter === null) {
        const why = 'each user has one document there. Use vote() and unvote().';
        throw new TallyError('invalid-argument', `increment() of ${path}: ${why}`);
      }

      await written(`increment(${n}) of ${path}`, increments.add(state, n, shards), n);
    },

    onTotal: (callback, onError = fail) => feed.observe({ next: callback, error: (error) => onError(failure(error)) }),

    total: () => feed.read().catch(fail),

    async exact() {
      const spec = { total: sum(new FieldPath(places.field)) };
      try {
        const snapshot = await getAggregateFromServer(state.shards, spec);
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
    hasVoted: async () => votes.read(state, user()).catch(fail),

    onVoted(callback, onError = fail) {
      const report = (/** @type {unknown} */ error) => onError(failure(error));
      try {
        return votes.observe(state, user(), callback, report);
      } catch (error) {
        report(error);
        return () => {};
      }
    },
  };
}

/** @type {(error: unknown) => never} */
function fail(error) {
  throw failure(error);
}
