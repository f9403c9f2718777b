import { TallyError } from './errors.js';

/** @import { CounterDocument } from './document.js' */

/**
 * The error for a write that the security rules refused. Firestore does not tell the reason, so the
 * message gives the most likely one.
 *
 * @param {unknown} cause
 * @param {string} what
 * @param {boolean} nobody The option uid says that nobody is signed in.
 * @param {number | undefined} n the amount of an increment; undefined: a vote
 * @param {CounterDocument} document as it was read after the refusal
 */
export function denial(cause, what, nobody, n, document) {
  const code = nobody ? 'not-signed-in' : 'permission-denied';
  const why = nobody ? 'the option uid names nobody. Sign a user in first.' : reason(n, document);
  return new TallyError(code, `${what} was refused: ${why}`, cause);
}

/** @type {(n: number | undefined, document: CounterDocument) => string} */
function reason(n, { frozen, oncePerUser }) {
  if (frozen) return "the counter's document says frozen: true. tally unfreeze opens it again.";

  if (n === undefined) {
    if (!oncePerUser) {
      return "the counter's document has no once_per_user: true. Set it from a server or the console, or use increment().";
    }
  } else if (oncePerUser) {
    return "the counter's document says once_per_user: true. Use vote() and unvote().";
  } else if (n !== 1) {
    return 'the shipped firestore.rules let an increment add 1 and nothing else. Change mayAdd there to allow others.';
  }

  return (
    'most likely nobody is signed in, or the app has no App Check token. ' +
    'Else compare firestore.rules with what the app writes.'
  );
}
