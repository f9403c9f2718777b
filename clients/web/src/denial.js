import { TallyError, UNRULED, denied, failure } from './errors.js';
import { userOf } from './sdk.js';

/** @import { Firestore } from 'firebase/firestore' */

/**
 * Waits for a write. Its error says what to do. Firestore does not tell why security rules refuse,
 * so the message gives the most likely reason.
 *
 * @param {Firestore} db
 * @param {string} call
 * @param {Promise<void>} write
 * @param {(signedOut: boolean) => string | undefined} [reason] a likelier one than the user
 */
export async function written(db, call, write, reason) {
  try {
    await write;
  } catch (error) {
    if (!denied(error)) throw failure(error);

    const user = await userOf(db);
    const signedOut = user === null;
    const known = reason?.(signedOut);
    const unruled = `no rule lets the user ${user ?? 'of this page'} do that. ${UNRULED}`;
    const ofUser = signedOut ? 'no user is signed in. Sign a user in first.' : unruled;
    const code = signedOut && !known ? 'not-signed-in' : 'permission-denied';
    throw new TallyError(code, `${call} was refused: ${known ?? ofUser}`, error);
  }
}
