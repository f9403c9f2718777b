import { Own } from './coverage.js';
import { Observers } from './observers.js';
import {
  createdAt,
  deleteDoc,
  getDocFromCache,
  onSnapshot,
  orNull,
  setDoc,
  stored,
  versionOf,
  waitForPendingWrites,
} from './sdk.js';

/** @import { DocumentReference, DocumentSnapshot, Unsubscribe } from 'firebase/firestore' */
/** @import { Micros } from './coverage.js' */
/** @import { Observer } from './observers.js' */
/** @import { SavedEntries } from './saved.js' */
/** @import { Totals } from './total.js' */

/** @typedef {ReturnType<typeof ownLike>} OwnLike */

/** The id of what is kept of a like. */
const KEY = 'like';

/** A listener tells a roll-up within so many microseconds. So one that it tells after an acknowledgement
 * was not written longer before. */
const DELAY = 10e6;

/** If nothing else comes for so many ms, what the SDK has told is taken. */
const MOMENT = 1_000;

/**
 * A user's own like, which is a document that is there or not: what this page does to it, and what a
 * listener tells of it. Its changes are entries of an Own, by which the total corrects itself.
 *
 * The time of commit of a like is when its document was created, as the listener tells. Of one that
 * is taken back, the SDK's cache knows a time at or soon after the commit; if it does not, that
 * was some seconds after the next roll-up at the latest.
 *
 * @param {DocumentReference} ref
 * @param {Totals} totals the total that counts it
 * @param {SavedEntries} saved
 */
export function ownLike(ref, { coverage, feed }, saved) {
  const own = new Own();
  coverage.likes.add(own);

  /** @type {Observers<boolean>} */ const observers = new Observers();
  /** How many writes of this page the server has not answered. */ let writing = 0;
  /** Whether the SDK has such a write, perhaps of another page. */ let pending = false;
  /** Whether it is known if the document is there. */ let known = false;
  /** Whether the listener has caught up with the server. */ let live = false;
  /** Whether the listener has told the document that is there, so the cache keeps what it tells. */ let confirmed = false;
  /** The latest version that the server has acknowledged or told to this page. */ let latest = 0;
  /** Whether this page has written the document, and the listener has not told that yet. */ let fresh = false;
  /** How many snapshots came, and writes of this page began. */ let turn = 0;
  /** @type {Unsubscribe | null} Ends the listener. */ let stop = null;
  /** @type {Promise<void> | undefined} */ let restored;

  /** Resolves when the changes of earlier pages, and what the SDK's cache says, are in the total. */
  const ready = () => (restored ??= restore());

  async function restore() {
    const snapshot = await cached();
    // A write outlives its page only in a cache that outlives it, too.
    for (const change of saved.all()[0]?.changes ?? []) {
      if (change.by === null && !snapshot) break;
      own.push(change);
      known = true;
    }
    await hear(snapshot);
  }

  const cached = () => orNull(getDocFromCache, ref);

  /**
   * Writes the document; null: deletes it. That is in the total when this returns, if it is known
   * whether the document was there, and else as soon as the SDK's cache has told. If it fails, this
   * rejects with Firestore's error, and the like is what it was.
   *
   * @param {object | null} data
   */
  async function write(data) {
    if (!known) await ready();

    known = true;
    turn++;
    writing++;
    take(data !== null, true);
    show();
    try {
      // It is sent even if it seems to change nothing: another device may have changed it since.
      await (data ? setDoc(ref, data) : deleteDoc(ref));
    } catch (error) {
      if (--writing === 0) {
        undo();
        await hear(await cached());
      }
      throw error;
    }

    writing--;
    fresh = data !== null;
    show();
    await settle();
  }

  /**
   * The server has acknowledged what is known here, so this finds out by when.
   *
   * @param {Micros} [otherwise] the time to take if the SDK's cache does not tell
   */
  async function settle(otherwise) {
    const now = turn;
    const base = await stored(ref);
    const old = outdated(base?.there, base?.version);
    if (base?.known) latest = Math.max(latest, base.version ?? 0);
    // What came meanwhile is newer.
    if (now !== turn || writing > 0 || (base && !old && base.there !== own.now)) return;

    pending = false;
    commit(old ? otherwise : (bound(base) ?? otherwise));
    show();
  }

  /** Settles what another page has written, as soon as the server has acknowledged it. */
  async function acknowledged() {
    await orNull(waitForPendingWrites, ref.firestore); // null, too, if another user is signed in
    await settle();
  }

  /**
   * Whether a version of the document is older than what is known of it. A cache that keeps nothing of
   * documents that are gone takes old versions again, as the listener catches up.
   *
   * @param {boolean | undefined} there whether the document was there
   * @param {Micros} [version]
   */
  function outdated(there, version = Infinity) {
    return version < latest || (version === latest && there && !own.now && !pending);
  }

  /**
   * Takes what the listener tells, or the SDK's cache; null: it tells nothing.
   *
   * @param {DocumentSnapshot | null} snapshot
   * @param {boolean} [late] it was told a while ago, and nothing since
   */
  async function hear(snapshot, late = false) {
    const now = ++turn;
    const there = snapshot?.exists() ?? false;
    const base = there ? undefined : await stored(ref);
    // What this page is writing is newer, and so is what came meanwhile.
    if (now !== turn || writing > 0) return;

    const version = snapshot ? versionOf(snapshot) : undefined;
    const gone = base?.there === true && !outdated(true, base.version); // the delete waits
    const waits = snapshot?.metadata.hasPendingWrites || gone;
    // Until it has caught up, the SDK may tell what was before. If a write that waits is refused, that
    // is true again.
    const stale = !waits && outdated(there, version ?? base?.version);
    // While a write is acknowledged, the SDK may tell for a moment what was before.
    if (there !== own.now && !waits && !late && (fresh || pending)) {
      setTimeout(() => now === turn && hear(snapshot, true), MOMENT);
      return;
    }
    // Offline, the SDK says that a document is missing if its cache has dropped it.
    const sure = snapshot ? !snapshot.metadata.fromCache : live;
    if (!stale && (there || base?.known || sure)) {
      fresh = false;
      known = true;
      if (waits && !pending) void acknowledged();
      pending = waits;
      take(there, live);
      const created = snapshot ? createdAt(snapshot) : undefined;
      if (!pending) {
        latest = version ?? latest;
        commit(created ?? version ?? bound(base), created);
      }
      confirmed = !pending && created !== undefined;
    }
    show();
  }

  /** By when the document was deleted. @param {Awaited<ReturnType<typeof stored>>} base */
  function bound(base) {
    return base?.there === own.now && (base.known || confirmed) ? base.version : undefined;
  }

  /**
   * The document is there or not. If that is not what was known, and this page is not writing, then
   * what waited was refused, or somebody else has changed the document. If that is news, it is later
   * than every roll-up that was seen.
   *
   * @param {boolean} there
   * @param {boolean} news
   */
  function take(there, news) {
    if (!writing && there !== own.now) undo();
    if (there === own.now) return;

    confirmed &&= !there;
    const after = news ? coverage.newest : (own.entries.at(-1)?.by ?? null);
    coverage.move(own, news, () => own.push({ n: there ? 1 : -1, after, by: null }));
    save();
  }

  /** What waits was refused, or was never sent. */
  function undo() {
    coverage.move(own, true, () => own.undo());
    save();
  }

  /**
   * All changes were committed at or before a time; if `created` is known, the last one exactly then.
   *
   * @param {Micros | undefined} by
   * @param {Micros} [created]
   */
  function commit(by, created) {
    for (const change of own.entries) change.by ??= by ?? null;
    const last = own.entries.at(-1);
    if (last && created) Object.assign(last, { after: created - 1, by: created });
    coverage.settle();
    save();
  }

  /** Keeps the changes that no roll-up covers over a reload, if a total is shown that needs them. */
  function save() {
    if (own.entries.length === 0) saved.remove(KEY);
    else if (feed.watched) saved.save({ id: KEY, n: 0, after: null, by: null, changes: own.entries }, '');
  }

  /** A roll-up was read that was written at a time. @param {Micros | undefined} version */
  async function rollUp(version) {
    if (own.entries.length === 0) return;

    await Promise.resolve(); // the total takes the roll-up meanwhile
    if (own.entries.at(-1)?.by === null) await settle(version && version + DELAY);
    save();
  }

  /** Shows the total, and tells all observers whether the user likes it, if that is news. */
  function show() {
    feed.show();
    if (known) observers.tell(own.now, String(own.now));
  }

  /**
   * Tells an observer whether the user likes it, now and whenever that changes. Returns a function
   * that ends it.
   *
   * @param {Observer<boolean>} observer
   */
  function observe(observer) {
    observers.add(observer);
    queueMicrotask(show);
    void watch();
    return () => {
      observers.delete(observer);
      void watch();
    };
  }

  /** Listens to the document while there are observers, or somebody is shown the total. */
  async function watch() {
    const wanted = () => observers.some || feed.watched;
    if (!wanted()) {
      stop?.();
      stop = null;
      live = false;
      return;
    }

    try {
      await ready();
      if (wanted()) stop ??= onSnapshot(ref, { includeMetadataChanges: true }, next, fail);
    } catch (error) {
      fail(error);
    }
  }

  /** @param {DocumentSnapshot} snapshot */
  function next(snapshot) {
    void hear(snapshot).then(() => (live = !snapshot.metadata.fromCache));
  }

  /** The SDK has ended the listener. The total goes on without it. @param {unknown} error */
  function fail(error) {
    stop = null;
    observers.fail(error);
  }

  return { ref, ready, write, rollUp, observe, watch, pending: () => writing || Number(pending) };
}
