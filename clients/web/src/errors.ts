/** What went wrong, for programs. The README's table says what to do about each. */
export type TallyErrorCode =
  'invalid-argument' | 'not-signed-in' | 'permission-denied' | 'unavailable' | 'unsupported-sdk' | 'failed';

/** The error that every method of a counter fails with. `cause` is Firestore's own, if there is one. */
export class TallyError extends Error {
  override readonly name = 'TallyError';

  constructor(
    readonly code: TallyErrorCode,
    message: string,
    cause?: unknown,
  ) {
    super(message, { cause });
  }
}

/** Whether Firestore refused for want of permission. */
export function denied(error: unknown): boolean {
  return codeOf(error) === 'permission-denied';
}

/** The error of a counter for one of Firestore's that is told nothing more about. */
export function failure(error: unknown): TallyError {
  if (error instanceof TallyError) return error;
  const text = error instanceof Error ? error.message : String(error);
  switch (codeOf(error)) {
    case 'permission-denied':
      return new TallyError(
        'permission-denied',
        `Firestore refused: ${text} Compare firestore.rules with the paths that counter() was given; check App Check.`,
        error,
      );
    case 'unavailable':
      return new TallyError(
        'unavailable',
        `Firestore cannot be reached, and the SDK has no copy. Try again when online. ${text}`,
        error,
      );
    default:
      return new TallyError('failed', text, error);
  }
}

/** Firestore's code of an error, such as "permission-denied". */
function codeOf(error: unknown): unknown {
  return (error as { code?: unknown } | null | undefined)?.code;
}
