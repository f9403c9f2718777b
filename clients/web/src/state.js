import { Coverage } from './coverage.js';
import { CounterDocument } from './document.js';
import { restored } from './earlier.js';
import { Feed } from './feed.js';
import { SavedEntries } from './saved.js';
import { collection, doc } from './sdk.js';
import { Writes } from './writes.js';

/** @import { Firestore } from 'firebase/firestore' */
/** @import { Places } from './places.js' */
/** @import { Ballot } from './votes.js' */

/**
 * The state that all counters at the same places on a page share. This class only puts the parts
 * together. The functions of increments.js, votes.js, settle.js and earlier.js work on it.
 */
export class State {
  /** @type {Map<string, Promise<Ballot>>} By uid: votes.js waits for it before a vote. */ ballots = new Map();
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
    this.document = new CounterDocument(counter === null ? null : doc(db, counter));
    /** The votes that are known, 1 or 0, by uid. */
    this.votes = coverage.votes;
    this.saved = new SavedEntries(name);
    this.writes = new Writes(this.shards, coverage, this.saved, fail);
    this.feed = new Feed(doc(db, rollUp), total, coverage, this.writes, () => restored(this));
  }
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
  // The namespaced API's Firestore wraps one that tells its database.
  const { firestore } = collection(db, places.shards);
  /** @type {{ databaseId?: { database?: string } }} */
  const { databaseId } = firestore.toJSON();
  const { counter, shards, rollUp, field, total } = places;
  const { name: app, options } = firestore.app;
  const name = JSON.stringify([app, options.projectId, databaseId?.database, counter, shards, rollUp, field, total]);

  /** @type {Map<string, State>} */
  const ofDb = states.get(firestore) ?? new Map();
  states.set(firestore, ofDb);

  const state = ofDb.get(name) ?? new State(firestore, places, name);
  ofDb.set(name, state);
  return state;
}
