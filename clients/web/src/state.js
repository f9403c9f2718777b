import { Coverage } from './coverage.js';
import { CounterDocument } from './document.js';
import { restored } from './earlier.js';
import { Feed } from './feed.js';
import { SavedEntries } from './saved.js';
import { collection, doc } from './sdk.js';
import { shared } from './shared.js';
import { Writes } from './writes.js';

/** @import { Firestore } from 'firebase/firestore' */
/** @import { Places } from './places.js' */

/**
 * The state that all counters at the same places on a page share. This class only puts the parts
 * together. The functions of increments.js, settle.js and earlier.js work on it.
 */
export class State {
  /** @type {Set<string>} The shards that settle.js settles later. */ settling = new Set();
  /** @type {Promise<unknown> | undefined} What earlier.js has begun. */ restored;

  /**
   * @param {Firestore} db
   * @param {Places} places
   * @param {string} name the prefix of its entries in localStorage
   */
  constructor(db, places, name) {
    const { counter, shards, rollUp, field, total } = places;
    const coverage = new Coverage((entry) => this.saved.remove(entry.id));
    const fail = (/** @type {unknown} */ error) => this.feed.fail(error);

    this.field = field;
    this.shards = collection(db, shards);
    this.document = new CounterDocument(doc(db, counter));
    this.saved = new SavedEntries(name);
    this.writes = new Writes(this.shards, coverage, this.saved, fail);
    this.feed = new Feed(doc(db, rollUp), total, coverage, this);
  }

  // What Feed asks of a Source.

  get pending() {
    return this.writes.pending;
  }

  ready() {
    return restored(this);
  }

  /** @param {import('./coverage.js').Micros | null} asOf */
  rollUp(asOf) {
    this.writes.rollUp(asOf);
  }

  watch() {}
}

/**
 * The state of the counter at these places.
 *
 * @param {Firestore} db
 * @param {Places} places
 */
export function stateOf(db, places) {
  const { counter, shards, rollUp, field, total } = places;
  return shared(db, [counter, shards, rollUp, field, total], (db, name) => new State(db, places, name));
}
