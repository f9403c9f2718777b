/**
 * Which of one's own increments a roll-up covers, and the number to show meanwhile. Pure: no
 * Firestore, no clock.
 *
 * A roll-up says `total` and `asOf`: every write committed at or before asOf is in the total, and
 * none after it. So a write committed at T is covered exactly if asOf >= T. T is often known only
 * within bounds, after < T <= by:
 *
 * - `after`: the newest asOf that had been seen when the increment was made, or later before it was
 *   sent. It was committed later.
 * - `by`: the version of its shard once the server has acknowledged the write; null until then.
 *
 * So it is covered if asOf >= by, not covered if asOf <= after, and unknown between. Unknown
 * entries make a range, lo to hi, of what the number can be. A tap adds its amount to the number
 * shown; anything else moves the number only as far as the range asks.
 *
 * Why the number never dips while there are only increments: call it truth what the total would be
 * with one's own increments that it does not cover. A tap raises the number shown and truth alike,
 * and a new roll-up never lowers truth. Truth lies between lo and hi. So the number shown is never
 * above truth, and clamping only ever raises it, to lo.
 *
 * A user's own like is a document that is there or not. Its changes are kept in their order, and the
 * total counts the document as it was at asOf. So the total shown lacks what the like is now less
 * what it was then: see Own.
 */

/** A server time in microseconds since 1970, exact until the year 2255. @typedef {number} Micros */

/**
 * An own increment, or a change of a user's own like.
 *
 * @typedef {object} Entry
 * @property {string} id
 * @property {number} n The amount; of a like 1, and of one that is taken back -1.
 * @property {Micros | null} after It was committed later than this; null: nothing is known.
 * @property {Micros | null} by It was committed at or before this; null: not known.
 */

/**
 * A roll-up: the total, and the time up to which it is complete; null: it covers nothing.
 *
 * @typedef {{ total: number, asOf: Micros | null }} RollUp
 */

export class Coverage {
  /** @type {Set<Own>} The likes that the total counts. */
  likes = new Set();

  /** @type {number | null} The number to show; null before the first roll-up. */
  shown = null;

  /** @type {Micros | null} The newest asOf seen: what is committed now is committed later. */
  newest = null;

  /** @type {Map<string, Entry>} */ #entries = new Map();
  /** @type {RollUp | null} */ #rollUp = null;
  #onCovered;

  /** @param {(entry: Entry) => void} [onCovered] is told each entry that a roll-up covers. */
  constructor(onCovered) {
    this.#onCovered = onCovered;
  }

  /** The entries that are not known to be covered, oldest first. */
  get entries() {
    return [...this.#entries.values()];
  }

  /**
   * A tap: an increment made now, on this page.
   *
   * @param {string} id
   * @param {number} n
   */
  tap(id, n) {
    /** @type {Entry} */
    const entry = { id, n, after: this.newest, by: null };
    if (this.shown !== null) this.shown += n;
    this.restore(entry);
    return entry;
  }

  /**
   * A change of an own like. If it is news, the number shown follows at once. If a roll-up may have it
   * already, the number moves no further than it must.
   *
   * @param {Own} own
   * @param {boolean} news
   * @param {() => void} change
   */
  move(own, news, change) {
    const before = Number(own.now);
    change();
    if (this.shown !== null && news) this.shown += Number(own.now) - before;
    this.settle();
  }

  /** An entry of an earlier page that may not be covered yet. @param {Entry} entry */
  restore(entry) {
    this.#entries.set(entry.id, entry);
    this.settle();
  }

  /**
   * The entry was committed at or before `by`, and exactly then if `exact`. Returns whether it
   * stays, because no roll-up is known to cover it.
   *
   * @param {string} id
   * @param {Micros} by
   * @param {boolean} exact
   */
  commit(id, by, exact) {
    const entry = this.#entries.get(id);
    if (!entry) return false;
    entry.by = by;
    if (exact) entry.after = by - 1;
    this.settle();
    return this.#entries.has(id);
  }

  /** The entry was refused, or never sent: its amount is taken out of the number shown. @param {string} id */
  refuse(id) {
    const entry = this.#entries.get(id);
    if (!entry) return;
    this.#entries.delete(id);
    if (this.shown !== null) this.shown -= entry.n;
    this.settle();
  }

  /** Forgets an entry without a change of the number shown now. @param {string} id */
  forget(id) {
    this.#entries.delete(id);
  }

  /** A roll-up was read. @param {RollUp} rollUp */
  rollUp(rollUp) {
    this.#rollUp = rollUp;
    if (isLater(rollUp.asOf, this.newest)) this.newest = rollUp.asOf;
    this.settle();
  }

  /** Drops what is covered, and moves the number shown into the range of what it can be. */
  settle() {
    if (!this.#rollUp) return;
    const { total, asOf } = this.#rollUp;
    let lo = total;
    let hi = total;
    for (const entry of this.entries) {
      const covered = covers(asOf, entry);
      if (covered) {
        this.#entries.delete(entry.id);
        this.#onCovered?.(entry);
        continue;
      }
      lo += covered === false ? entry.n : Math.min(entry.n, 0);
      hi += covered === false ? entry.n : Math.max(entry.n, 0);
    }
    for (const own of this.likes) {
      const [least, most] = own.lacking(asOf);
      lo += least;
      hi += most;
    }
    this.shown = this.shown === null ? lo : Math.min(Math.max(this.shown, lo), hi);
  }
}

/** A change of a like. @typedef {Omit<Entry, 'id'>} Change */

/** At most so many changes of a like are remembered while no roll-up covers them. */
const REMEMBERED = 20;

/** A user's own like. It comes and goes by turns, so what it is now says what it was before each change. */
export class Own {
  /** Whether it is there now. */
  now = false;

  /** @type {Change[]} Its changes that no roll-up is known to cover, oldest first. */
  entries = [];

  /** It came or went. @param {Change} change */
  push(change) {
    this.now = change.n > 0;
    this.entries = [...this.entries, change].slice(-REMEMBERED);
  }

  /** The changes that nobody has acknowledged did not happen. */
  undo() {
    while (this.entries.at(-1)?.by === null) {
      this.entries.pop();
      this.now = !this.now;
    }
  }

  /**
   * What a total of asOf lacks of the like as it is now: the least and the most that it can be. It
   * forgets the changes that are covered.
   *
   * @param {Micros | null} asOf
   * @returns {[least: number, most: number]}
   */
  lacking(asOf) {
    const now = Number(this.now);
    const states = new Set();
    let then = now;
    for (let i = this.entries.length; i >= 0; i--) {
      const change = this.entries[i - 1];
      const covered = change ? covers(asOf, change) : true;
      if (covered !== false) states.add(then);
      if (covered) {
        this.entries.splice(0, i);
        break;
      }
      then = 1 - then;
    }
    return [now - Math.max(...states), now - Math.min(...states)];
  }
}

/**
 * Whether a roll-up of asOf covers an entry; undefined: it cannot be known.
 *
 * @type {(asOf: Micros | null, entry: Change) => boolean | undefined}
 */
function covers(asOf, { after, by }) {
  if (asOf === null || (after !== null && asOf <= after)) return false;
  return by !== null && asOf >= by ? true : undefined;
}

/**
 * Whether a time is known, and later than another; null as the other is before all times.
 *
 * @param {Micros | null} time
 * @param {Micros | null} after
 */
export function isLater(time, after) {
  return time !== null && (after === null || time > after);
}
