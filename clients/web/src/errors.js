/** @import { TallyErrorCode } from './index.js' */

/** What to do where no rule allows it. */
export const UNRULED = 'Compare firestore.rules with the path, and check App Check.';

export class TallyError extends Error {
  /** @override */
  name = 'TallyError';

  /**
   * @param {TallyErrorCode} code
   * @param {string} message
   * @param {unknown} [cause]
   */
  constructor(code, message, cause) {
    super(message, { cause });
    this.code = code;
  }
}

/** Whether Firestore refused for want of permission. @param {unknown} error */
export function denied(error) {
  return codeOf(error) === 'permission-denied';
}

/** The counter's error for one of Firestore's. @param {unknown} error */
export function failure(error) {
  if (error instanceof TallyError) return error;
  const text = error instanceof Error ? error.message : String(error);
  switch (codeOf(error)) {
    case 'permission-denied':
      return new TallyError('permission-denied', `Firestore refused: ${text} ${UNRULED}`, error);
    case 'unavailable': {
      const what = 'Firestore cannot be reached, and the SDK has no copy. Try again when online.';
      return new TallyError('unavailable', `${what} ${text}`, error);
    }
    default:
      return new TallyError('failed', text, error);
  }
}

/** What an app is told of an error that it does not take. @type {(error: unknown) => never} */
export function fail(error) {
  throw failure(error);
}

/** Firestore's code of an error, such as "permission-denied". @param {unknown} error */
function codeOf(error) {
  return error instanceof Error && 'code' in error ? error.code : undefined;
}
