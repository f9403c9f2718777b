/*
 * All that the package takes from the Firebase SDK, and how it reads the SDK's snapshots and times.
 * Other files import only types from the SDK: one import makes a smaller bundle than one per file.
 */
export {
  collection,
  doc,
  FieldPath,
  getAggregateFromServer,
  getDoc,
  getDocFromCache,
  increment,
  onSnapshot,
  setDoc,
  sum,
  waitForPendingWrites,
} from 'firebase/firestore';

/** @import { DocumentReference, DocumentSnapshot, Firestore, getDoc, Timestamp } from 'firebase/firestore' */
/** @import { Micros } from './coverage.js' */

/**
 * A document as getDoc or getDocFromCache gives it; null: it gives none.
 *
 * @param {typeof getDoc} read
 * @param {DocumentReference} ref
 * @returns {Promise<DocumentSnapshot | null>}
 */
export async function orNull(read, ref) {
  try {
    return await read(ref);
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
 * @returns {Micros | undefined}
 */
export function versionOf(snapshot) {
  /** @type {{ _document?: { version?: { timestamp?: unknown } } }} */
  const { _document } = /** @type {any} */ (snapshot);
  const timestamp = _document?.version?.timestamp;
  return isTimestamp(timestamp) && timestamp.seconds > 0 ? micros(timestamp) : undefined;
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

/**
 * The vote that a user's document says: 1 or 0.
 *
 * @param {DocumentSnapshot | null} snapshot
 * @param {string} field
 */
export function voteOf(snapshot, field) {
  return Number(snapshot?.data()?.[field] === 1);
}
