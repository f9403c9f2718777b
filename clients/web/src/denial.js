import { TallyError } from './errors.js';

/** @import { CounterDocument } from './document.js' */

/**
 * The error for a write that the security rules refused. Firestore does not tell the reason, so the
 * message gives the most likely one.
 *
 * @param {unknown} cause
 * @param {string} what
 * @param {number | undefined} n the amount of an increment; undefined: a vote
 * @param {CounterDocument} document as it was read after the refusal
 * @param {string | null | undefined} user who is signed in; null: no user; undefined: not known
 */
export function denial(cause, what, n, document, user) {
  const signedOut = user === null && !document.frozen;
  const why = signedOut ? 'no user is signed in. Sign a user in first.' : reason(n, document, user);
  return new TallyError(signedOut ? 'not-signed-in' : 'permission-denied', `${what} was refused: ${why}`, cause);
}

/** @type {(n: number | undefined, document: CounterDocument, user: string | null | undefined) => string} */
function reason(n, { frozen, oncePerUser }, user) {
  if (frozen) return "the counter's document says frozen: true. tally unfreeze ends that.";

  if (n === undefined) {
    if (!oncePerUser) {
      return "the counter's document has no once_per_user: true. Set it from a server, or use increment().";
    }
  } else if (oncePerUser) {
    return "the counter's document says once_per_user: true. Use vote() and unvote().";
  } else if (n !== 1) {
    return 'the shipped firestore.rules let an increment add 1 and nothing else. Change mayAdd there.';
  }

  const who = user ?? 'of this page';
  return `no rule lets the user ${who} do that. Compare firestore.rules with the paths given to counter(), and check App Check.`;
}
