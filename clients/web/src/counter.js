import { written } from './denial.js';
import { TallyError, fail } from './errors.js';
import * as increments from './increments.js';
import { placesOf } from './places.js';
import { getAggregateFromServer, sum, FieldPath } from './sdk.js';
import { stateOf } from './state.js';
import { shownBy } from './total.js';

/** @import { Firestore } from 'firebase/firestore' */
/** @import { Counter, CounterOptions } from './index.js' */

/**
 * A counter's public entry. A method checks what the app gives, hands it to the counter's state, and
 * turns every error into a TallyError. No method uses `this`, so an app may call one without its
 * object.
 *
 * @type {(db: Firestore, path: string, options?: CounterOptions) => Counter}
 */
export function counter(db, path, options = {}) {
  const { shards } = options;
  const places = placesOf(path, options);
  if (shards !== undefined && !(Number.isInteger(shards) && shards > 0)) {
    throw new TallyError('invalid-argument', `option shards is ${shards}: want a whole number above 0`);
  }

  const state = stateOf(db, places);

  return {
    ...shownBy(state.feed),

    async increment(n = 1) {
      const call = `increment(${n})`;
      if (!Number.isSafeInteger(n) || n === 0) {
        throw new TallyError('invalid-argument', `${call}: want a whole number that is not 0`);
      }

      const write = increments.add(state, n, shards);
      await written(state.shards.firestore, `${call} of ${path}`, write, (signedOut) => {
        if (state.document.frozen) {
          return "the counter's document says frozen: true. No client may write until a server sets it to false.";
        }
        if (signedOut || n === 1) return undefined;
        return 'the shipped firestore.rules let an increment add 1 and nothing else. Change mayAdd there.';
      });
    },

    async exact() {
      const spec = { total: sum(new FieldPath(places.field)) };
      try {
        const snapshot = await getAggregateFromServer(state.shards, spec);
        return snapshot.data().total;
      } catch (error) {
        fail(error);
      }
    },
  };
}
