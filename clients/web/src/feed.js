import { Observers } from './observers.js';
import { getDoc, isTimestamp, micros, onSnapshot, versionOf } from './sdk.js';

/** @import { DocumentReference, DocumentSnapshot, Timestamp, Unsubscribe } from 'firebase/firestore' */
/** @import { Coverage, Micros } from './coverage.js' */
/** @import { Total } from './index.js' */
/** @import { Observer } from './observers.js' */

/**
 * The own writes that a total shows before its roll-up does.
 *
 * @typedef {object} Source
 * @property {number} pending How many the server has not acknowledged.
 * @property {() => Promise<unknown>} ready Resolves when earlier pages' writes are in the total.
 * @property {(asOf: Micros | null, version: Micros | undefined) => void} rollUp A roll-up was read:
 *   the time up to which it is complete, and when it was written, if the SDK tells.
 * @property {() => void} watch The total is shown to the first, or to nobody any more.
 */

/**
 * The roll-up's feed: it takes the snapshots of the roll-up document. It shows the total, with the
 * own writes that the roll-up does not cover yet. One listener serves all observers, and runs only
 * while there are some.
 *
 * Code that changes an own write calls show() afterwards. An error in an observer's callback does
 * not come back to that code.
 */
export class Feed {
  #ref;
  #name;
  #coverage;
  #source;
  /** @type {Observers<Total<any>>} */ #observers = new Observers();
  /** @type {Unsubscribe | null} Ends the listener. */ #stop = null;
  /** Whether the server has said last that there is no such document. */ #missing = false;
  /** @type {Timestamp | null} */ #asOf = null;
  /** @type {Timestamp | null | undefined} The total, if the roll-up says that it is not a number. */ #other;

  /**
   * @param {DocumentReference} ref the roll-up document
   * @param {string} name the total's name there
   * @param {Coverage} coverage
   * @param {Source} source
   */
  constructor(ref, name, coverage, source) {
    this.#ref = ref;
    this.#name = name;
    this.#coverage = coverage;
    this.#source = source;
  }

  /** Whether the total is shown to anybody. */
  get watched() {
    return this.#observers.some;
  }

  /**
   * Adds an observer, and returns a function that removes it. The observer is told the total as
   * soon as that is known, and then whenever it changes.
   *
   * @param {Observer<Total<any>>} observer
   */
  observe(observer) {
    this.#observers.add(observer);
    // The SDK throws at once if the app has terminated it.
    this.#source
      .ready()
      .then(() => this.#listen())
      .catch((/** @type {unknown} */ error) => this.fail(error));

    return () => {
      this.#observers.delete(observer);
      if (!this.watched) this.#quit();
    };
  }

  /** Listens to the roll-up, if there are observers. */
  #listen() {
    if (!this.watched) return;
    if (this.#stop) {
      this.show();
      return;
    }

    this.#source.watch();
    this.#stop = onSnapshot(
      this.#ref,
      (snapshot) => this.take(snapshot),
      (error) => this.fail(error),
    );
  }

  #quit() {
    this.#stop?.();
    this.#stop = null;
    this.#source.watch();
  }

  /** Ends all subscriptions with an error. @param {unknown} error */
  fail(error) {
    this.#observers.fail(error);
    this.#quit();
  }

  /** Reads the roll-up once, and returns the total. */
  async read() {
    await this.#source.ready();
    return this.take(await getDoc(this.#ref));
  }

  /** Takes a snapshot of the roll-up, and returns the total. @param {DocumentSnapshot} snapshot */
  take(snapshot) {
    // Offline, the SDK says that a document is missing if its cache has dropped it.
    const missing = !snapshot.exists();
    const dropped = missing && snapshot.metadata.fromCache;
    if (!dropped) this.#missing = missing;
    if (!dropped || this.#coverage.shown === null) this.#rollUp(snapshot);

    this.show();
    return this.#total(this.#coverage.shown ?? 0);
  }

  /** @param {DocumentSnapshot} snapshot */
  #rollUp(snapshot) {
    const data = snapshot.data() ?? {};
    /** @type {unknown} */
    const total = data[this.#name];
    /** @type {{ as_of?: unknown, totals?: unknown }} */
    const { as_of: asOf, totals } = data['tally'] ?? {};

    // as_of speaks only for the totals that are listed next to it.
    this.#asOf = Array.isArray(totals) && totals.includes(this.#name) && isTimestamp(asOf) ? asOf : null;
    this.#other = total === null || isTimestamp(total) ? total : undefined;

    const time = this.#asOf && micros(this.#asOf);
    this.#source.rollUp(time, versionOf(snapshot));
    this.#coverage.rollUp({ total: typeof total === 'number' ? total : 0, asOf: time });
  }

  /** Tells all observers the total, if it is known, and news. */
  show() {
    const { shown } = this.#coverage;
    if (shown === null) return;

    const total = this.#total(shown);
    this.#observers.tell(total, Object.values(total).join());
  }

  /** @param {number} shown */
  #total(shown) {
    const total = this.#other === undefined ? shown : this.#other;
    return { total, asOf: this.#asOf, pending: this.#source.pending, missing: this.#missing };
  }
}
