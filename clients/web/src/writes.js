import { isLater } from './coverage.js';
import { denied } from './errors.js';
import { doc, onSnapshot } from './sdk.js';

/** @import { CollectionReference, Unsubscribe } from 'firebase/firestore' */
/** @import { Coverage, Entry, Micros } from './coverage.js' */
/** @import { Saved, SavedEntries } from './saved.js' */

/**
 * An own increment whose time of commit is not known yet.
 *
 * @typedef {object} Write
 * @property {Entry} entry
 * @property {string | null} shard The id of the shard that it is sent to; null: it is not sent yet.
 * @property {boolean} acknowledged
 * @property {boolean} inexact Only a bound of its time of commit can be known: an earlier page sent
 *   it, and no promise reports on it, or the cache has dropped its shard.
 */

/** At most so many settled writes are remembered while no listener gets the total. */
const REMEMBERED = 100;

/**
 * Own writes that wait. A write waits from the tap until its time of commit is known. Every method
 * keeps three places in agreement: the writes here, their entries in the Coverage, and the saved
 * entries that a reload needs. While a write to a shard waits, the SDK's cache keeps that shard, so
 * that its version can be read once the write is acknowledged; #ended says when it does not.
 *
 * This class sends nothing and shows nothing. Code that changes a write calls the feed's show().
 */
export class Writes {
  #shards;
  #coverage;
  #saved;
  #onError;
  /** @type {Set<Write>} */ #waiting = new Set();
  /** @type {Map<string, Unsubscribe>} The listeners that keep shards in the cache. */ #kept = new Map();

  /**
   * @param {CollectionReference} shards
   * @param {Coverage} coverage
   * @param {SavedEntries} saved
   * @param {(error: unknown) => void} onError is told why the SDK has ended a listener.
   */
  constructor(shards, coverage, saved, onError) {
    this.#shards = shards;
    this.#coverage = coverage;
    this.#saved = saved;
    this.#onError = onError;
  }

  /** How many writes the server has not acknowledged. */
  get pending() {
    return [...this.#waiting].filter((write) => !write.acknowledged).length;
  }

  /** The shards that writes are on their way to, of this page and of other tabs. */
  get busy() {
    const busy = new Set([...this.#waiting].map((write) => write.shard));
    for (const saved of this.#saved.all()) if (saved.by === null) busy.add(saved.shard);
    return busy;
  }

  /** The writes that wait and were sent to a shard. @param {string} shard */
  to(shard) {
    return [...this.#waiting].filter((write) => write.shard === shard);
  }

  /** A tap: it is in the number to show when this returns. @param {number} n */
  tap(n) {
    /** @type {Write} */
    const write = { entry: this.#coverage.tap(newId(), n), shard: null, acknowledged: false, inexact: false };
    this.#waiting.add(write);
    return write;
  }

  /**
   * Takes over what an earlier page has saved. It waits if its time of commit is not known.
   *
   * @param {Saved} saved
   */
  restore(saved) {
    this.#coverage.restore(saved);
    if (saved.by !== null) return;

    this.#waiting.add({ entry: saved, shard: saved.shard, acknowledged: false, inexact: true });
    this.#keep(saved.shard);
  }

  /**
   * The write is about to be sent to a shard, and no longer to the one before, if there was one.
   *
   * @param {Write} write
   * @param {string} shard
   */
  send(write, shard) {
    const before = write.shard;
    write.shard = shard;
    this.#keep(shard);
    if (before !== null) this.#release(before);

    this.#saved.save(write.entry, shard);
  }

  /** The write was refused, or could not be sent. @param {Write} write */
  refuse(write) {
    this.#delete(write);
    this.#saved.remove(write.entry.id);
    this.#coverage.refuse(write.entry.id);
  }

  /**
   * The write was committed at or before a version of its shard. It was committed exactly then if
   * no other write to the shard can have come after it. Such a write may be one of this page or of
   * another tab. If the write is inexact, this is unknown.
   *
   * @param {Write} write
   * @param {string} shard
   * @param {Micros} version
   * @param {boolean} alone No other write of this page waits there.
   */
  commit(write, shard, version, alone) {
    const { entry, inexact } = write;
    const others = this.#saved.all().filter((saved) => saved.shard === shard && saved.id !== entry.id);
    const exact = alone && !inexact && others.every(({ by }) => by !== null && by < version);

    this.#delete(write);
    if (this.#coverage.commit(entry.id, version, exact)) this.#saved.save(entry, shard);
  }

  /**
   * A roll-up was read: a write that is not sent yet will be committed after its asOf.
   *
   * @param {Micros | null} asOf
   */
  rollUp(asOf) {
    for (const { entry, shard } of this.#waiting) {
      if (shard === null && isLater(asOf, entry.after)) entry.after = asOf;
    }
  }

  /** Forgets the oldest settled writes: perhaps this page never reads a roll-up that covers them. */
  forget() {
    const settled = this.#coverage.entries.filter((entry) => entry.by !== null);
    for (const { id } of settled.slice(0, -REMEMBERED)) {
      this.#coverage.forget(id);
      this.#saved.remove(id);
    }
  }

  /** @param {Write} write */
  #delete(write) {
    this.#waiting.delete(write);
    if (write.shard !== null) this.#release(write.shard);
  }

  /**
   * Keeps a shard in the SDK's cache. A memory cache drops a document when its last write is
   * acknowledged, unless somebody listens to it. A listener with source "cache" opens no target at
   * the server and bills nothing.
   *
   * @param {string} shard
   */
  #keep(shard) {
    if (this.#kept.has(shard)) return;

    const ended = (/** @type {unknown} */ error) => this.#ended(shard, error);
    const stop = onSnapshot(doc(this.#shards, shard), { source: 'cache' }, () => {}, ended);
    this.#kept.set(shard, stop);
  }

  /**
   * The SDK has ended a listener. It also ends one on the cache if the rules refuse another listener
   * on the same document, such as one of the app's. A new one would not keep the shard: it keeps only
   * what comes into the cache after it.
   *
   * @param {string} shard
   * @param {unknown} error
   */
  #ended(shard, error) {
    this.#kept.delete(shard);
    if (!denied(error)) this.#onError(error);
  }

  /** Lets the cache drop a shard, if no write to it waits. @param {string} shard */
  #release(shard) {
    if (this.to(shard).length > 0) return;

    this.#kept.get(shard)?.();
    this.#kept.delete(shard);
  }
}

function newId() {
  return crypto.getRandomValues(new Uint32Array(4)).join('-');
}
