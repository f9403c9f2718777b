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
 * A vote is a document that says 1 or 0. Its entry adds the new value less the old one. The user's
 * other devices write the same document, so such an amount may be wrong. Also, a write that changes
 * nothing leaves the document its version. But the total counts the document as it was at asOf: as
 * 1 or 0. So all entries of one voter together add between v-1 and v, where v is the value now.
 */

/** A server time in microseconds since 1970, exact until the year 2255. @typedef {number} Micros */

/**
 * An own increment, or a vote given or taken back.
 *
 * @typedef {object} Entry
 * @property {string} id
 * @property {number} n The amount.
 * @property {Micros | null} after It was committed later than this; null: nothing is known.
 * @property {Micros | null} by It was committed at or before this; null: not known.
 * @property {string | null} voter Whose vote it is; null: an increment.
 */

/**
 * A roll-up: the total, and the time up to which it is complete; null: it covers nothing.
 *
 * @typedef {{ total: number, asOf: Micros | null }} RollUp
 */

export class Coverage {
  /** @type {Map<string, number>} The votes that are known, 1 or 0, by voter. */
  votes = new Map();

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
   * A tap: an increment made now, on this page, or a move of a voter's vote.
   *
   * @param {string} id
   * @param {number} n
   * @param {string | null} [voter]
   */
  tap(id, n, voter = null) {
    /** @type {Entry} */
    const entry = { id, n, after: this.newest, by: null, voter };
    if (this.shown !== null) this.shown += n;
    this.restore(entry);
    return entry;
  }

  /** An entry of an earlier page that may not be covered yet. @param {Entry} entry */
  restore(entry) {
    this.#entries.set(entry.id, entry);
    this.#settle();
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
    this.#settle();
    return this.#entries.has(id);
  }

  /**
   * The entry was refused, or never sent: its amount is taken out of the number shown. But a later
   * move of the same vote then starts where the refused one did, so it takes the amount over.
   *
   * @param {string} id
   */
  refuse(id) {
    const entry = this.#entries.get(id);
    if (!entry) return;
    const later = this.entries.slice(this.entries.indexOf(entry) + 1);
    const next = later.find(({ voter }) => voter !== null && voter === entry.voter);
    this.#entries.delete(id);

    if (next) next.n += entry.n;
    else if (this.shown !== null) this.shown -= entry.n;
    this.#settle();
  }

  /** Forgets an entry without a change of the number shown now. @param {string} id */
  forget(id) {
    this.#entries.delete(id);
  }

  /** A roll-up was read. @param {RollUp} rollUp */
  rollUp(rollUp) {
    this.#rollUp = rollUp;
    if (isLater(rollUp.asOf, this.newest)) this.newest = rollUp.asOf;
    this.#settle();
  }

  /** Drops what is covered, and moves the number shown into the range of what it can be. */
  #settle() {
    if (!this.#rollUp) return;
    const { total, asOf } = this.#rollUp;
    let lo = total;
    let hi = total;
    /** @type {Map<string, [lo: number, hi: number]>} */
    const votes = new Map();
    for (const entry of this.entries) {
      const { id, n, after, by, voter } = entry;
      if (asOf !== null && by !== null && asOf >= by) {
        this.#entries.delete(id);
        this.#onCovered?.(entry);
        continue;
      }
      const uncovered = asOf === null || (after !== null && asOf <= after);
      const least = uncovered ? n : Math.min(n, 0);
      const most = uncovered ? n : Math.max(n, 0);
      if (voter === null) {
        lo += least;
        hi += most;
      } else {
        const [l, h] = votes.get(voter) ?? [0, 0];
        votes.set(voter, [l + least, h + most]);
      }
    }
    for (const [voter, [l, h]] of votes) {
      const vote = this.votes.get(voter) ?? 0;
      lo += clamp(l, vote - 1, vote);
      hi += clamp(h, vote - 1, vote);
    }
    this.shown = this.shown === null ? lo : clamp(this.shown, lo, hi);
  }
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

/** @type {(x: number, lo: number, hi: number) => number} */
const clamp = (x, lo, hi) => Math.min(Math.max(x, lo), hi);
