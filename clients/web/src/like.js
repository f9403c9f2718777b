import { written } from './denial.js';
import { TallyError, fail, failure } from './errors.js';
import { ownLike } from './own.js';
import { totalOf } from './places.js';
import { SavedEntries } from './saved.js';
import { doc, serverTimestamp } from './sdk.js';
import { shared } from './shared.js';
import { totalsOf } from './total.js';

/** @import { Firestore } from 'firebase/firestore' */
/** @import { Like, LikeOptions } from './index.js' */

/**
 * The public entry of a user's like. It is part of its total from here on, if the user is known.
 *
 * @type {(db: Firestore, path: string, options: LikeOptions) => Like}
 */
export function like(db, path, options) {
  const { uid, data = { at: serverTimestamp() } } = options;
  const place = totalOf(path, options);

  /** The like of the user who is signed in now. */
  function own() {
    const user = typeof uid === 'function' ? uid() : uid;
    if (!user) throw new TallyError('not-signed-in', 'The option uid of like() names no user. Sign a user in first.');

    const { rollUp, total } = place;
    return shared(db, [path, user, rollUp, total], (db, name) => {
      const totals = totalsOf(db, rollUp, total);
      const like = ownLike(doc(db, path, user), totals, new SavedEntries(name));
      totals.likes.add(like);
      return like;
    });
  }

  /** @type {(call: string, to: object | null) => Promise<void>} */
  async function write(call, to) {
    try {
      const { ref, write } = own();
      await written(ref.firestore, `${call} of ${path} as ${ref.id}`, write(to));
    } catch (error) {
      fail(error);
    }
  }

  try {
    void own().watch();
  } catch {
    // Nobody is signed in yet.
  }

  return {
    set: () => write('set()', data),
    unset: () => write('unset()', null),

    onLiked(callback, onError = fail) {
      const error = (/** @type {unknown} */ cause) => onError(failure(cause));
      try {
        return own().observe({ next: callback, error });
      } catch (cause) {
        error(cause);
        return () => {};
      }
    },
  };
}
