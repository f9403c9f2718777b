import { doc, onSnapshot, waitForPendingWrites } from 'firebase/firestore';
import { Coverage, isLater } from './coverage.js';
import { CounterDocument } from './document.js';
import { TallyError } from './errors.js';
import { SavedEntries } from './saved.js';
import { fromCache, isTimestamp, micros, versionOf } from './sdk.js';

/** @import { DocumentData, DocumentSnapshot, Firestore, Timestamp, Unsubscribe } from 'firebase/firestore' */
/** @import { Entry, Micros } from './coverage.js' */
/** @import { Total } from './index.js' */
/** @import { Saved } from './saved.js' */

/**
 * Where the documents of a counter are, the field that counts, and the name of the total in the
 * roll-up. `shards` is the collection of shards, or that of the users' documents; then `counter` is
 * null, because no document says anything about such a counter.
 *
 * @typedef {{ counter: string | null, shards: string, rollUp: string, field: string, total: string }} Places
 */

/**
 * Somebody to whom the total is shown.
 *
 * @typedef {{ next: (total: Total<any>) => void, error: (error: unknown) => void }} Observer
 */

/**
 * An own increment whose time of commit is not known yet. Its shard is null until it is chosen. An
 * orphan is of an earlier page: no promise tells what becomes of it, only the SDK's cache.
 *
 * @typedef {{ entry: Entry, shard: string | null, acknowledged: boolean, orphan: boolean }} Write
 */

/** So many settled increments are remembered while nobody is shown the total. */
const REMEMBERED = 100;

/**
 * What all counters of one path on a page share: the roll-up, one's own increments, the counter's
 * document.
 */
export class State {
  /** @readonly */
  document;
  #coverage;
  #saved;
  /** @type {Map<string, Promise<void>>} By uid: what resolves when the vote is known. */
  #ballots = new Map();
  /** @type {Set<Write>} */ #writes = new Set();
  /** @type {Map<string, Unsubscribe>} */ #watched = new Map();
  /** @type {Set<string>} The shards that #settleLater cares for. */ #later = new Set();
  /** @type {Set<Observer>} */ #observers = new Set();
  /** @type {Timestamp | null} */ #asOf = null;
  /** @type {Timestamp | null | undefined} The total, if the roll-up says that it is no number. */ #other;
  /** @type {Total<any> | null} */ #told = null;
  /** @type {Unsubscribe | null} */ #stop = null;
  /** @type {Promise<unknown> | null} */ #restored = null;

  /**
   * @param {Firestore} db
   * @param {Places} places
   * @param {string} name
   */
  constructor(db, places, name) {
    this.db = db;
    this.places = places;
    this.document = new CounterDocument(places.counter === null ? null : doc(db, places.counter));
    this.#saved = new SavedEntries(name);
    this.#coverage = new Coverage((entry) => {
      this.#saved.remove(entry.id);
    });
  }

  get rollUp() {
    return doc(this.db, this.places.rollUp);
  }

  /** @param {string} shard */
  shard(shard) {
    return doc(this.db, this.places.shards, shard);
  }

  // The number to show.

  /** @param {Observer} observer */
  observe(observer) {
    this.#observers.add(observer);
    if (this.#stop) queueMicrotask(() => this.#observers.has(observer) && this.#tell(observer));
    else void this.restored().then(() => this.#listen());
    return () => {
      this.#observers.delete(observer);
      if (this.#observers.size === 0) this.#quit();
    };
  }

  #listen() {
    if (this.#observers.size === 0 || this.#stop) return;
    this.#stop = onSnapshot(
      this.rollUp,
      (snapshot) => this.take(snapshot),
      (error) => this.#fail(error),
    );
  }

  #quit() {
    this.#stop?.();
    this.#stop = null;
    this.#told = null;
  }

  /** Ends all subscriptions with an error. @param {unknown} error */
  #fail(error) {
    this.#quit();
    const observers = [...this.#observers];
    this.#observers.clear();
    for (const observer of observers) outside(() => observer.error(error));
  }

  /** Takes a snapshot of the roll-up document. @param {DocumentSnapshot} snapshot */
  take(snapshot) {
    // Offline, the SDK says that a document is missing if its cache has dropped it.
    const dropped = !snapshot.exists() && snapshot.metadata.fromCache;
    if (!dropped || this.#coverage.shown === null) this.#rollUp(snapshot.data() ?? {});
    this.#tellAll();
    return this.#total(this.#coverage.shown ?? 0);
  }

  /** @param {DocumentData} data */
  #rollUp(data) {
    const { total: name } = this.places;
    /** @type {unknown} */
    const total = data[name];
    /** @type {{ as_of?: unknown, totals?: unknown }} */
    const { as_of: asOf, totals } = data['tally'] ?? {};
    // It speaks for these totals alone.
    this.#asOf = Array.isArray(totals) && totals.includes(name) && isTimestamp(asOf) ? asOf : null;
    // What is not sent yet will be committed later.
    const time = this.#asOf && micros(this.#asOf);
    for (const { entry, shard } of this.#writes) if (shard === null && isLater(time, entry.after)) entry.after = time;
    this.#other = total === null || isTimestamp(total) ? total : undefined;
    this.#coverage.rollUp({ total: typeof total === 'number' ? total : 0, asOf: time });
  }

  /** @param {number} shown */
  #total(shown) {
    const total = this.#other === undefined ? shown : this.#other;
    return { total, asOf: this.#asOf, pending: [...this.#writes].filter((write) => !write.acknowledged).length };
  }

  /** @param {Observer} observer */
  #tell(observer) {
    const { shown } = this.#coverage;
    if (shown !== null) outside(() => observer.next(this.#total(shown)));
  }

  /** Tells everybody, if there is something new. */
  #tellAll() {
    const { shown } = this.#coverage;
    if (shown === null) return;
    const now = this.#total(shown);
    const told = this.#told;
    if (now.total === told?.total && now.pending === told.pending && now.asOf === told.asOf) return;
    this.#told = now;
    for (const observer of [...this.#observers]) this.#tell(observer);
  }

  // Own increments and votes.

  /**
   * A tap, or a move of a voter's vote: it is in the total when this returns.
   *
   * @param {number} n
   * @param {string | null} [voter]
   */
  tap(n, voter = null) {
    void this.restored();
    const entry = this.#coverage.tap(newId(), n, voter);
    /** @type {Write} */
    const write = { entry, shard: null, acknowledged: false, orphan: false };
    this.#writes.add(write);
    this.#tellAll();
    return write;
  }

  /**
   * The shard for a write: `now` if that is one, else at random one that no other write is on its
   * way to, if there is any.
   *
   * @param {number} shards
   * @param {string | null} now
   */
  free(shards, now) {
    if (now !== null && Number(now) < shards) return now;
    const busy = new Set([...this.#writes].map((write) => write.shard));
    for (const saved of this.#saved.all()) if (saved.by === null) busy.add(saved.shard);
    const all = Array.from({ length: shards }, (_, n) => String(n));
    const free = all.filter((shard) => !busy.has(shard));
    const from = free.length > 0 ? free : all;
    return from[Math.floor(Math.random() * from.length)] ?? '0';
  }

  /**
   * Says that a write is about to be sent to a shard.
   *
   * @param {Write} write
   * @param {string} shard
   */
  sending(write, shard) {
    const before = write.shard;
    write.shard = shard;
    this.#watch(shard);
    if (before !== null) this.#unwatch(before);
    this.#saved.save(write.entry, shard);
  }

  /** Says that the server has acknowledged a write. @param {Write} write */
  acknowledged(write) {
    write.acknowledged = true;
    this.#tellAll();
    if (write.shard !== null) void this.#settle(write.shard);
  }

  /** Says that a write was refused, or could not be sent. @param {Write} write */
  refused(write) {
    this.#done(write);
    this.#saved.remove(write.entry.id);
    this.#coverage.refuse(write.entry.id);
    this.#tellAll();
  }

  /** @param {Write} write */
  #done(write) {
    this.#writes.delete(write);
    if (write.shard !== null) this.#unwatch(write.shard);
  }

  /** @param {string} shard */
  #writesTo(shard) {
    return [...this.#writes].filter((write) => write.shard === shard);
  }

  /**
   * Keeps a shard in the SDK's cache: a memory cache drops a document with the acknowledgement of
   * its last write, unless it is listened to. A listener with source "cache" opens no target at the
   * server and bills nothing.
   *
   * @param {string} shard
   */
  #watch(shard) {
    if (this.#watched.has(shard)) return;
    const stop = onSnapshot(
      this.shard(shard),
      { source: 'cache' },
      () => {},
      (error) => this.#fail(error),
    );
    this.#watched.set(shard, stop);
  }

  /** @param {string} shard */
  #unwatch(shard) {
    if (this.#writesTo(shard).length > 0) return;
    this.#watched.get(shard)?.();
    this.#watched.delete(shard);
  }

  /** Finds out when the acknowledged writes to a shard were committed. @param {string} shard */
  async #settle(shard) {
    // Only those of which it is known before the version is read.
    const settling = this.#writesTo(shard).filter((write) => write.acknowledged || write.orphan);
    if (settling.length === 0) return;
    const snapshot = await fromCache(this.shard(shard));
    if (snapshot?.metadata.hasPendingWrites) return void this.#settleLater(shard);
    const version = snapshot?.exists() ? versionOf(snapshot) : null;
    if (version === undefined) {
      const why = 'This firebase does not tell the versions of documents.';
      const what = 'Use one that the README of @firestore-tally/web names.';
      this.#fail(new TallyError('unsupported-sdk', `${why} ${what}`));
      return;
    }
    const alone = this.#writesTo(shard).length === 1;
    for (const write of settling) {
      if (!this.#writes.has(write)) continue;
      if (write.orphan && !isLater(version, write.entry.after)) {
        this.refused(write);
      } else if (version !== null) {
        this.#committed(write, shard, version, alone);
      }
    }
    if (this.#observers.size === 0) this.#forget();
    this.#tellAll();
  }

  /**
   * The write was committed at or before a version of its shard: exactly then, unless another write
   * to the shard may have come between, of this page, of another tab, or since an earlier page.
   *
   * @param {Write} write
   * @param {string} shard
   * @param {Micros} version
   * @param {boolean} alone no other write of this page is on its way there
   */
  #committed(write, shard, version, alone) {
    const { entry, orphan } = write;
    const others = this.#saved.all().filter((saved) => saved.shard === shard && saved.id !== entry.id);
    const exact = alone && !orphan && others.every(({ by }) => by !== null && by < version);
    this.#done(write);
    if (this.#coverage.commit(entry.id, version, exact)) this.#saved.save(entry, shard);
  }

  /** Settles once nothing is pending: until then the SDK tells no version. @param {string} shard */
  async #settleLater(shard) {
    if (this.#later.has(shard)) return;
    this.#later.add(shard);
    try {
      await waitForPendingWrites(this.db);
    } catch {
      return; // another user is signed in: the writes stay where they are until theirs is again
    } finally {
      this.#later.delete(shard);
    }
    await this.#settle(shard);
  }

  /** Keeps what is remembered bounded while no roll-up is seen that would cover it. */
  #forget() {
    const settled = this.#coverage.entries.filter((entry) => entry.by !== null);
    for (const { id } of settled.slice(0, -REMEMBERED)) {
      this.#coverage.forget(id);
      this.#saved.remove(id);
    }
  }

  /** Resolves when the own increments and votes of earlier pages are in the total. */
  restored() {
    // What is broken, such as the id of a shard, must not keep the others from being shown.
    const restore = (/** @type {Saved} */ saved) => this.#restore(saved).catch(() => this.#saved.remove(saved.id));
    return (this.#restored ??= Promise.all(this.#saved.all().map(restore)));
  }

  /** @param {Saved} entry */
  async #restore(entry) {
    const { n, after, by, voter, shard } = entry;
    const snapshot = await fromCache(this.shard(shard));
    const orphan = by === null;
    // A write outlives its page only in a persistent cache. Then its shard is in there: with a
    // write pending, or with a version from after the tap. Else the write died with its page, or
    // its page lives and cares for it.
    if (orphan) {
      if (!snapshot?.exists()) return;
      if (!snapshot.metadata.hasPendingWrites && !isLater(versionOf(snapshot) ?? null, after)) return;
    }
    if (voter !== null && !this.votes.has(voter)) {
      this.votes.set(voter, snapshot?.exists() ? this.voteOf(snapshot) : Number(n > 0));
    }
    this.#coverage.restore(entry);
    if (!orphan) return;
    this.#writes.add({ entry, shard, acknowledged: false, orphan });
    this.#watch(shard);
    await this.#settle(shard);
  }

  // Votes.

  /** The votes that are known, 1 or 0, by uid. */
  get votes() {
    return this.#coverage.votes;
  }

  /** Resolves, in the order of the calls, when a vote is known; else it is 0. @param {string} uid */
  ballot(uid) {
    const known = this.#ballots.get(uid) ?? this.#readBallot(uid);
    this.#ballots.set(uid, known);
    return known;
  }

  /** @param {string} uid */
  async #readBallot(uid) {
    await this.restored();
    const cached = await fromCache(this.shard(uid));
    if (!this.votes.has(uid)) this.votes.set(uid, this.voteOf(cached));
  }

  /**
   * Takes the vote that its document says, unless one of this page is on its way: that is newer.
   *
   * @param {string} uid
   * @param {DocumentSnapshot} snapshot
   */
  heard(uid, snapshot) {
    if (this.#writesTo(uid).every((write) => write.acknowledged)) this.votes.set(uid, this.voteOf(snapshot));
  }

  /**
   * Tells whether a user has voted, now and whenever that changes, as the SDK has it: with what is
   * on its way.
   *
   * @param {string} uid
   * @param {(voted: boolean) => void} next
   * @param {(error: unknown) => void} error
   */
  observeVote(uid, next, error) {
    /** @type {number | null} */
    let told = null;
    return onSnapshot(
      this.shard(uid),
      (snapshot) => {
        this.heard(uid, snapshot);
        const vote = this.voteOf(snapshot);
        if (vote === told) return;
        told = vote;
        next(vote === 1);
      },
      error,
    );
  }

  /** The vote that its document says. @param {DocumentSnapshot | null} snapshot */
  voteOf(snapshot) {
    return Number(snapshot?.data()?.[this.places.field] === 1);
  }
}

function newId() {
  return Array.from(crypto.getRandomValues(new Uint32Array(4)), (n) => n.toString(36)).join('-');
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
