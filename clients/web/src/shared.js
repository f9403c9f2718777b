import { doc } from './sdk.js';

/** @import { Firestore } from 'firebase/firestore' */

/** @type {WeakMap<Firestore, Map<string, unknown>>} */
const all = new WeakMap();

/**
 * What a page has once for each Firestore instance and key. Its name tells it from what other
 * instances have, also of other apps and databases.
 *
 * @template T
 * @param {Firestore} db
 * @param {string[]} key
 * @param {(db: Firestore, name: string) => T} make
 * @returns {T}
 */
export function shared(db, key, make) {
  // The namespaced API's Firestore wraps one that tells its database.
  const { firestore } = doc(db, 'a/b');
  /** @type {{ databaseId?: { database?: string } }} */
  const { databaseId } = firestore.toJSON();
  const { name: app, options } = firestore.app;
  const name = JSON.stringify([app, options.projectId, databaseId?.database, ...key]);

  /** @type {Map<string, unknown>} */
  const ofDb = all.get(firestore) ?? new Map();
  all.set(firestore, ofDb);
  const found = /** @type {T | undefined} */ (ofDb.get(name)) ?? make(firestore, name);
  ofDb.set(name, found);
  return found;
}
