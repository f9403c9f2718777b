import { getDoc, isTimestamp, micros, onSnapshot } from './sdk.js';

/** @import { DocumentData, DocumentReference, DocumentSnapshot, Timestamp, Unsubscribe } from 'firebase/firestore' */
/** @import { Coverage } from './coverage.js' */
/** @import { Total } from './index.js' */
/** @import { Writes } from './writes.js' */

/**
 * Somebody to whom the total is shown.
 *
 * @typedef {{ next: (total: Total<any>) => void, error: (error: unknown) => void }} Observer
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
  #writes;
  #ready;
  /** @type {Set<Observer>} */ #observers = new Set();
  /** @type {Unsubscribe | null} Ends the listener. */ #stop = null;
  /** Whether the server has said last that there is no such document. */ #missing = false;
  /** @type {Timestamp | null} */ #asOf = null;
  /** @type {Timestamp | null | undefined} The total, if the roll-up says that it is not a number. */ #other;
  /** @type {string | null} What the observers were told last. */ #told = null;

  /**
   * @param {DocumentReference} ref the roll-up document
   * @param {string} name the total's name there
   * @param {Coverage} coverage
   * @param {Writes} writes
   * @param {() => Promise<unknown>} ready resolves when earlier pages' writes are in the total
   */
  constructor(ref, name, coverage, writes, ready) {
    this.#ref = ref;
    this.#name = name;
    this.#coverage = coverage;
    this.#writes = writes;
    this.#ready = ready;
  }

  /** Whether the total is shown to anybody. */
  get watched() {
    return this.#observers.size > 0;
  }

  /**
   * Adds an observer, and returns a function that removes it. The observer is told the total as
   * soon as that is known, and then whenever it changes.
   *
   * @param {Observer} observer
   */
  observe(observer) {
    this.#observers.add(observer);
    if (this.#stop) {
      queueMicrotask(() => this.#observers.has(observer) && this.#tell(observer));
    } else {
      this.#told = null; // a read may have had the same total
      // The SDK throws at once if the app has terminated it.
      const fail = (/** @type {unknown} */ error) => this.fail(error);
      this.#ready()
        .then(() => this.#listen())
        .catch(fail);
    }

    return () => {
      this.#observers.delete(observer);
      if (!this.watched) this.#quit();
    };
  }

  /** Listens to the roll-up, if there are observers. */
  #listen() {
    if (!this.watched || this.#stop) return;

    this.#stop = onSnapshot(
      this.#ref,
      (snapshot) => this.take(snapshot),
      (error) => this.fail(error),
    );
  }

  #quit() {
    this.#stop?.();
    this.#stop = null;
  }

  /** Ends all subscriptions with an error. @param {unknown} error */
  fail(error) {
    this.#quit();
    const observers = [...this.#observers];
    this.#observers.clear();
    for (const observer of observers) outside(() => observer.error(error));
  }

  /** Reads the roll-up once, and returns the total. */
  async read() {
    await this.#ready();
    return this.take(await getDoc(this.#ref));
  }

  /** Takes a snapshot of the roll-up, and returns the total. @param {DocumentSnapshot} snapshot */
  take(snapshot) {
    // Offline, the SDK says that a document is missing if its cache has dropped it.
    const missing = !snapshot.exists();
    const dropped = missing && snapshot.metadata.fromCache;
    if (!dropped) this.#missing = missing;
    if (!dropped || this.#coverage.shown === null) this.#rollUp(snapshot.data() ?? {});

    this.show();
    return this.#total(this.#coverage.shown ?? 0);
  }

  /** @param {DocumentData} data */
  #rollUp(data) {
    /** @type {unknown} */
    const total = data[this.#name];
    /** @type {{ as_of?: unknown, totals?: unknown }} */
    const { as_of: asOf, totals } = data['tally'] ?? {};

    // as_of speaks only for the totals that are listed next to it.
    this.#asOf = Array.isArray(totals) && totals.includes(this.#name) && isTimestamp(asOf) ? asOf : null;
    this.#other = total === null || isTimestamp(total) ? total : undefined;

    const time = this.#asOf && micros(this.#asOf);
    this.#writes.rollUp(time);
    this.#coverage.rollUp({ total: typeof total === 'number' ? total : 0, asOf: time });
  }

  /** Tells all observers the total, if it is news. */
  show() {
    const { shown } = this.#coverage;
    if (shown === null) return;

    const news = Object.values(this.#total(shown)).join();
    if (news === this.#told) return;

    this.#told = news;
    for (const observer of [...this.#observers]) this.#tell(observer);
  }

  /** @param {Observer} observer */
  #tell(observer) {
    const { shown } = this.#coverage;
    if (shown !== null) outside(() => observer.next(this.#total(shown)));
  }

  /** @param {number} shown */
  #total(shown) {
    const total = this.#other === undefined ? shown : this.#other;
    return { total, asOf: this.#asOf, pending: this.#writes.pending, missing: this.#missing };
  }
}

/** Calls the app's code. An error there is not the client's. @param {() => void} call */
function outside(call) {
  try {
    call();
  } catch (error) {
    queueMicrotask(() => {
      throw error;
    });
  }
}
