/** @import { Change, Entry } from './coverage.js' */

/**
 * An own increment as it is kept over a reload, or the changes of a user's like. `at` is when it was
 * saved, by this device's clock. It only serves to clear away entries that no page asks for any more.
 *
 * @typedef {Entry & { shard: string, at: number, changes?: Change[] }} Saved
 */

/** An entry is cleared away after so many ms, whatever became of its write. */
const KEPT = 7 * 24 * 60 * 60 * 1000;

/**
 * Keeps own writes of one counter, or of one collection of likes, in localStorage, which all tabs of an origin share. Each
 * entry has a key of its own, so that no tab overwrites another's. Where there is no storage (in a
 * worker, on a server, in a browser that forbids it), it keeps nothing.
 */
export class SavedEntries {
  /** @type {Storage | null} */ #storage = null;
  #prefix;

  /** @param {string} counter */
  constructor(counter) {
    this.#prefix = `tally:${counter}:`;
    this.#attempt(() => (this.#storage = globalThis.localStorage));
  }

  /** All that are kept, of this page and of others, in no order. */
  all() {
    /** @type {Saved[]} */
    const found = [];
    this.#attempt(() => {
      for (const key of Object.keys(this.#storage ?? {})) {
        // No id has a colon, but the name of another counter may begin as this one's key does.
        if (key.slice(0, key.lastIndexOf(':') + 1) !== this.#prefix) continue;
        const saved = parse(this.#storage?.getItem(key));
        const own = saved && this.#prefix + saved.id === key;
        if (own && Math.abs(Date.now() - saved.at) < KEPT) found.push(saved);
        else this.#storage?.removeItem(key);
      }
    });
    return found;
  }

  /** @type {(entry: Entry & { changes?: Change[] }, shard: string) => void} */
  save(entry, shard) {
    try {
      this.#storage?.setItem(this.#prefix + entry.id, JSON.stringify({ ...entry, shard, at: Date.now() }));
    } catch {
      // The storage is full. The entry will not be shown after a reload.
    }
  }

  /** @param {string} id */
  remove(id) {
    this.#attempt(() => this.#storage?.removeItem(this.#prefix + id));
  }

  /** @param {() => void} use */
  #attempt(use) {
    try {
      use();
    } catch {
      this.#storage = null;
    }
  }
}

/** @param {string | null | undefined} text */
function parse(text) {
  try {
    /** @type {Saved} */
    const s = JSON.parse(text ?? '');
    const times = [s.after, s.by].every((time) => time === null || Number.isSafeInteger(time));
    const ok = Number.isSafeInteger(s.n) && typeof s.shard === 'string';
    return ok && times && Number.isFinite(s.at) ? s : null;
  } catch {
    return null;
  }
}
