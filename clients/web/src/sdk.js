/*
 * All that the package takes from the Firebase SDK, and how it reads the SDK's snapshots and times.
 * Other files import only types from the SDK: one import makes a smaller bundle than one per file.
 */
export {
  collection,
  deleteDoc,
  doc,
  FieldPath,
  getAggregateFromServer,
  getDoc,
  getDocFromCache,
  increment,
  onSnapshot,
  serverTimestamp,
  setDoc,
  sum,
  waitForPendingWrites,
} from 'firebase/firestore';

/** @import { DocumentReference, DocumentSnapshot, Firestore, Timestamp } from 'firebase/firestore' */
/** @import { Micros } from './coverage.js' */

/**
 * What is not public of a snapshot, a reference and a Firestore instance.
 *
 * @typedef {{ timestamp?: unknown }} Version
 * @typedef {object} Internal
 * @property {{ version?: Version, createTime?: Version, hasCommittedMutations?: boolean }} [_document]
 * @property {unknown} [_key]
 * @property {Client} [_firestoreClient]
 *
 * @typedef {{ _offlineComponents: { localStore: LocalStore } }} Client
 * @typedef {{ version: Version, isValidDocument: () => boolean, isFoundDocument: () => boolean }} Stored
 * @typedef {object} LocalStore
 * @property {{ remoteDocumentCache: { getEntry: (transaction: unknown, key: unknown) => Stored } }} localDocuments
 * @property {{
 *   runTransaction: <T>(name: string, mode: string, read: (transaction: unknown) => T) => Promise<T>,
 *   getTargetCache: () => { getLastRemoteSnapshotVersion: (transaction: unknown) => Version },
 * }} persistence
 */

/**
 * What the SDK gives for a reference, such as a document by getDoc or getDocFromCache; null: it gives
 * nothing.
 *
 * @template Ref, Given
 * @param {(ref: Ref) => Promise<Given>} get
 * @param {Ref} ref
 * @returns {Promise<Given | null>}
 */
export async function orNull(get, ref) {
  try {
    return await get(ref);
  } catch {
    return null; // the SDK throws at once if the app has terminated it
  }
}

/**
 * The id of the user whose token the SDK sends; null: no user is signed in; undefined: this SDK does
 * not tell. No public API of firebase/firestore does, and this only words a message.
 *
 * @param {Firestore} db
 */
export async function userOf(db) {
  /** @type {{ _authCredentials?: { getToken?: () => Promise<{ user?: { uid?: string } } | null> } }} */
  const { _authCredentials: credentials } = /** @type {any} */ (db);
  const token = await credentials?.getToken?.().catch(() => undefined);
  return token && token.user?.uid;
}

/**
 * The version of a document without pending writes, as the server told the SDK: its update time.
 * Undefined if the SDK does not tell. No public API of the browser's SDK does, so this reads a
 * field that is the same in all of its versions from 10.9 to 12; the tests compare it with the
 * update time that the server tells.
 *
 * @param {DocumentSnapshot} snapshot
 */
export const versionOf = (snapshot) => timeOf(snapshot, 'version');

/**
 * When a document without pending writes was created, likewise. Undefined if the SDK does not tell,
 * or not before it has heard more of the server.
 *
 * @param {DocumentSnapshot} snapshot
 */
export const createdAt = (snapshot) =>
  /** @type {Internal} */ (/** @type {unknown} */ (snapshot))._document?.hasCommittedMutations
    ? undefined
    : timeOf(snapshot, 'createTime');

/** @type {(snapshot: DocumentSnapshot, name: 'version' | 'createTime') => Micros | undefined} */
function timeOf(snapshot, name) {
  return microsOf(/** @type {Internal} */ (/** @type {unknown} */ (snapshot))._document?.[name]?.timestamp);
}

/** @type {(timestamp: unknown) => Micros | undefined} */
function microsOf(timestamp) {
  return isTimestamp(timestamp) && timestamp.seconds > 0 ? micros(timestamp) : undefined;
}

/**
 * What the server has told the SDK's cache of a document, whatever writes are on their way: whether
 * the cache knows it, whether it is there, and at which version. The version of one that was deleted
 * is the time of that, or a little later; of one that is not known, the time up to which listeners
 * have caught up. No public API tells these, so this asks the SDK's own objects, which are the same
 * from 10.9 to 12, too. Undefined if they do not answer.
 *
 * @param {DocumentReference} ref
 * @returns {Promise<{ known: boolean, there: boolean, version: Micros | undefined } | undefined>}
 */
export async function stored(ref) {
  const { _firestoreClient: client } = /** @type {Internal} */ (/** @type {unknown} */ (ref.firestore));
  const { _key: key } = /** @type {Internal} */ (/** @type {unknown} */ (ref));
  try {
    const { persistence, localDocuments } = /** @type {Client} */ (client)._offlineComponents.localStore;
    /** @type {<T>(read: (transaction: unknown) => T) => Promise<T>} */
    const run = (read) => persistence.runTransaction('read document', 'readonly', read);

    const document = await run((t) => localDocuments.remoteDocumentCache.getEntry(t, key));
    const known = document.isValidDocument();
    const version = known
      ? document.version
      : await run((t) => persistence.getTargetCache().getLastRemoteSnapshotVersion(t));
    return { known, there: document.isFoundDocument(), version: microsOf(version.timestamp) };
  } catch {
    return undefined;
  }
}

/** @type {(value: unknown) => value is Timestamp} */
export function isTimestamp(value) {
  const { seconds, nanoseconds } = /** @type {Partial<Timestamp>} */ (value ?? {});
  return typeof seconds === 'number' && typeof nanoseconds === 'number';
}

/** Firestore's times are whole microseconds. @param {Timestamp} time */
export function micros({ seconds, nanoseconds }) {
  return seconds * 1e6 + Math.floor(nanoseconds / 1e3);
}
