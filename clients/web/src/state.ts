import {
  doc,
  getDoc,
  getDocFromCache,
  onSnapshot,
  waitForPendingWrites,
  type DocumentData,
  type DocumentReference,
  type DocumentSnapshot,
  type Firestore,
  type Timestamp,
  type Unsubscribe,
} from 'firebase/firestore';
import { Coverage, type Entry, type Micros } from './coverage.js';
import { TallyError } from './errors.js';
import { SavedEntries, type Saved } from './saved.js';

/** What a counter is at. */
export interface Total {
  /**
   * The number to show: the roll-up's total, and one's own increments that it does not cover yet. Exact up to 2^53, as
   * whole numbers of JavaScript are.
   */
  readonly total: number;
  /** The server time up to which everybody's increments are in the total; null if there is no roll-up of this total. */
  readonly asOf: Timestamp | null;
  /** How many own increments the server has not acknowledged yet, such as while offline. */
  readonly pending: number;
}

/** Where the documents of a counter are, and the field that counts. */
export interface Places {
  readonly counter: string;
  readonly shards: string;
  readonly rollUp: string;
  readonly field: string;
}

/** Somebody to whom the total is shown. */
export interface Observer {
  next(total: Total): void;
  error(error: unknown): void;
}

/** An own increment whose time of commit is not known yet. */
export interface Write {
  readonly entry: Entry;
  /** Null until it is chosen. */
  shard: string | null;
  acknowledged: boolean;
  /** It is of an earlier page: no promise tells what becomes of it, only the SDK's cache. */
  readonly orphan: boolean;
}

/** The number of shards is read again if it is older than this when it is used, in ms. */
const SHARDS_AGE = 60_000;

/** So long an increment waits, in ms, before it is sent to a shard of a counter whose number of shards is not known. */
const SHARDS_PATIENCE = 1_000;

/** So many settled increments are remembered while nobody is shown the total. */
const REMEMBERED = 100;

/** What all counters of one path on a page share: the roll-up, one's own increments, the number of shards. */
export class State {
  readonly #coverage: Coverage;
  /** By uid: what resolves when the vote is known. */
  readonly #ballots = new Map<string, Promise<unknown>>();
  readonly #saved: SavedEntries;
  readonly #writes = new Set<Write>();
  readonly #watched = new Map<string, Unsubscribe>();
  /** The shards that #settleLater cares for. */
  readonly #later = new Set<string>();
  readonly #observers = new Set<Observer>();
  #asOf: Timestamp | null = null;
  #told: Total | null = null;
  #stop: Unsubscribe | null = null;
  #restored: Promise<unknown> | null = null;

  #counter: DocumentData | null = null;
  #counterRead: Promise<void> | null = null;
  #counterReadAt = -Infinity;

  constructor(
    readonly db: Firestore,
    readonly places: Places,
    name: string,
  ) {
    this.#saved = new SavedEntries(name);
    this.#coverage = new Coverage((entry) => this.#saved.remove(entry.id));
  }

  // The number to show.

  observe(observer: Observer): Unsubscribe {
    this.#observers.add(observer);
    if (this.#stop) queueMicrotask(() => this.#observers.has(observer) && this.#tell(observer));
    else void this.restored().then(() => this.#listen());
    return () => {
      this.#observers.delete(observer);
      if (this.#observers.size === 0) this.#quit();
    };
  }

  #listen(): void {
    if (this.#observers.size === 0 || this.#stop) return;
    this.#stop = onSnapshot(
      this.rollUp,
      (snapshot) => this.take(snapshot),
      (error) => this.#fail(error),
    );
  }

  #quit(): void {
    this.#stop?.();
    this.#stop = null;
    this.#told = null;
  }

  /** Ends all subscriptions with an error. */
  #fail(error: unknown): void {
    this.#quit();
    const observers = [...this.#observers];
    this.#observers.clear();
    for (const observer of observers) outside(() => observer.error(error));
  }

  /** Takes a snapshot of the roll-up document. */
  take(snapshot: DocumentSnapshot): Total {
    if (snapshot.exists() || !snapshot.metadata.fromCache || !this.#total) this.#rollUp(snapshot.data() ?? {});
    // Else the SDK is offline, and its cache does not have the roll-up any more.
    this.#tellAll();
    return this.#total!;
  }

  #rollUp(data: DocumentData): void {
    const { field } = this.places;
    const total: unknown = data[field];
    const { as_of: asOf, totals } = data['tally'] ?? {};
    // It speaks for these totals alone.
    this.#asOf = Array.isArray(totals) && totals.includes(field) && isTimestamp(asOf) ? asOf : null;
    // What is not sent yet will be committed later.
    const time = this.#asOf && micros(this.#asOf);
    for (const { entry, shard } of this.#writes) if (shard === null && isLater(time, entry.after)) entry.after = time;
    this.#coverage.rollUp({ total: typeof total === 'number' ? total : 0, asOf: time });
  }

  /** Null before the first roll-up. */
  get #total(): Total | null {
    const total = this.#coverage.shown;
    if (total === null) return null;
    return { total, asOf: this.#asOf, pending: [...this.#writes].filter((write) => !write.acknowledged).length };
  }

  #tell(observer: Observer): void {
    const total = this.#total;
    if (total) outside(() => observer.next(total));
  }

  /** Tells everybody, if there is something new. */
  #tellAll(): void {
    const now = this.#total;
    const told = this.#told;
    if (now?.total === told?.total && now?.pending === told?.pending && now?.asOf === told?.asOf) return;
    this.#told = now;
    for (const observer of [...this.#observers]) this.#tell(observer);
  }

  // Own increments and votes.

  /** A tap, or a move of a voter's vote: it is in the total when this returns. */
  tap(n: number, voter: string | null = null): Write {
    void this.restored();
    const entry = this.#coverage.tap(newId(), n, voter);
    const write: Write = { entry, shard: null, acknowledged: false, orphan: false };
    this.#writes.add(write);
    this.#tellAll();
    return write;
  }

  /** The shard for a write: `now` if that is one, else at random one that no other write is on its way to, if there is any. */
  free(shards: number, now: string | null): string {
    if (now !== null && Number(now) < shards) return now;
    const busy = new Set<string | null>([...this.#writes].map((write) => write.shard));
    for (const saved of this.#saved.all()) if (saved.by === null) busy.add(saved.shard);
    const all = Array.from({ length: shards }, (_, n) => String(n));
    const free = all.filter((shard) => !busy.has(shard));
    const from = free.length > 0 ? free : all;
    return from[Math.floor(Math.random() * from.length)]!;
  }

  /** Says that a write is about to be sent to a shard. */
  sending(write: Write, shard: string): void {
    const before = write.shard;
    write.shard = shard;
    this.#watch(shard);
    if (before !== null) this.#unwatch(before);
    this.#saved.save(write.entry, shard);
  }

  /** Says that the server has acknowledged a write. */
  acknowledged(write: Write): void {
    write.acknowledged = true;
    this.#tellAll();
    void this.#settle(write.shard!);
  }

  /** Says that a write was refused, or could not be sent. */
  refused(write: Write): void {
    this.#done(write);
    this.#saved.remove(write.entry.id);
    this.#coverage.refuse(write.entry.id);
    this.#tellAll();
  }

  #committed(write: Write, by: Micros, exact: boolean): void {
    const { entry, shard } = write;
    this.#done(write);
    this.#coverage.commit(entry.id, by, exact);
    if (this.#coverage.has(entry.id)) this.#saved.save(entry, shard!);
  }

  #done(write: Write): void {
    this.#writes.delete(write);
    if (write.shard !== null) this.#unwatch(write.shard);
  }

  // A memory cache drops a document with the acknowledgement of its last write, unless it is listened to. A listener with
  // source "cache" opens no target at the server and bills nothing.
  #watch(shard: string): void {
    if (this.#watched.has(shard)) return;
    const stop = onSnapshot(
      this.shard(shard),
      { source: 'cache' },
      () => {},
      (error) => this.#fail(error),
    );
    this.#watched.set(shard, stop);
  }

  #unwatch(shard: string): void {
    for (const write of this.#writes) if (write.shard === shard) return;
    this.#watched.get(shard)?.();
    this.#watched.delete(shard);
  }

  /** Finds out when the acknowledged writes to a shard were committed: at or before the version that the cache has now. */
  async #settle(shard: string): Promise<void> {
    // Only those of which it is known before the version is read.
    const settling = [...this.#writes].filter((write) => write.shard === shard && (write.acknowledged || write.orphan));
    if (settling.length === 0) return;
    const snapshot = await fromCache(this.shard(shard));
    if (snapshot?.metadata.hasPendingWrites) return void this.#settleLater(shard);
    if (snapshot?.exists() && versionOf(snapshot) === undefined) return this.#fail(unsupported());
    const version = (snapshot && versionOf(snapshot)) ?? null;
    const alone = [...this.#writes].filter((write) => write.shard === shard).length === 1;
    for (const write of settling) {
      if (!this.#writes.has(write)) continue;
      const { entry } = write;
      if (write.orphan && !isLater(version, entry.after)) {
        this.refused(write);
      } else if (version !== null) {
        // It is the very time of commit, unless another write to the shard may have come between: of this page, of
        // another tab, or since an earlier page.
        const others = this.#saved.all().filter((saved) => saved.shard === shard && saved.id !== entry.id);
        const exact = alone && !write.orphan && others.every(({ by }) => by !== null && by < version);
        this.#committed(write, version, exact);
      }
    }
    if (this.#observers.size === 0) this.#forget();
    this.#tellAll();
  }

  /** Settles when what is pending now is not any more. The SDK tells no version of a document with a write pending. */
  async #settleLater(shard: string): Promise<void> {
    if (this.#later.has(shard)) return;
    this.#later.add(shard);
    try {
      await waitForPendingWrites(this.db);
    } catch {
      return; // another user is signed in: the writes stay where they are until theirs is again
    } finally {
      this.#later.delete(shard);
    }
    return this.#settle(shard);
  }

  /** Keeps what is remembered bounded while no roll-up is seen that would cover it. */
  #forget(): void {
    const settled = this.#coverage.entries.filter((entry) => entry.by !== null);
    for (const { id } of settled.slice(0, -REMEMBERED)) {
      this.#coverage.forget(id);
      this.#saved.remove(id);
    }
  }

  /** Resolves when the own increments and votes of earlier pages are in the total. */
  restored(): Promise<unknown> {
    return (this.#restored ??= Promise.all(
      // What is broken, such as the id of a shard, must not keep the others from being shown.
      this.#saved.all().map((saved) => this.#restore(saved).catch(() => this.#saved.remove(saved.id))),
    ));
  }

  async #restore(entry: Saved): Promise<void> {
    const { n, after, by, voter, shard } = entry;
    const snapshot = await fromCache(this.shard(shard));
    const cached = snapshot?.exists();
    // A write outlives its page only in a persistent cache. Then its shard is in there: with a write pending, or with a
    // version from after the tap. Else the write died with its page, or its page lives and cares for it.
    const orphan = by === null;
    if (orphan && !cached) return;
    if (orphan && !snapshot!.metadata.hasPendingWrites && !isLater(versionOf(snapshot!) ?? null, after)) return;
    if (voter !== null && !this.votes.has(voter)) this.votes.set(voter, cached ? this.voteOf(snapshot) : Number(n > 0));
    this.#coverage.restore(entry);
    if (!orphan) return;
    this.#writes.add({ entry, shard, acknowledged: false, orphan });
    this.#watch(shard);
    await this.#settle(shard);
  }

  // Votes.

  /** The votes that are known, 1 or 0, by uid. */
  get votes(): Map<string, number> {
    return this.#coverage.votes;
  }

  /** Resolves when a vote is in `votes`: in the order of the calls. Where nothing is known, it counts as 0. */
  ballot(uid: string): Promise<unknown> {
    let known = this.#ballots.get(uid);
    if (!known) {
      known = this.restored().then(async () => {
        const cached = await fromCache(this.shard(uid));
        if (!this.votes.has(uid)) this.votes.set(uid, this.voteOf(cached));
      });
      this.#ballots.set(uid, known);
    }
    return known;
  }

  /** The vote that its document says. */
  voteOf(snapshot: DocumentSnapshot | null): number {
    return Number(snapshot?.data()?.[this.places.field] === 1);
  }

  // The counter's document.

  /**
   * The number of shards; 0: not known. It is from memory or the SDK's cache, or else waits for the server for as long
   * as makes no difference to a user: a guess that is too high is refused.
   */
  async shards(): Promise<number> {
    const aged = performance.now() - this.#counterReadAt > SHARDS_AGE;
    const read = aged ? this.readCounter() : this.#counterRead;
    if (this.#counter === null) {
      const snapshot = await fromCache(doc(this.db, this.places.counter));
      this.#counter ??= snapshot?.data() ?? null;
    }
    if (this.#counter === null && read && globalThis.navigator?.onLine !== false) {
      await Promise.race([read, new Promise((resolve) => setTimeout(resolve, SHARDS_PATIENCE))]);
    }
    return this.knownShards;
  }

  /** What the counter's document says; 0: not known. */
  get knownShards(): number {
    const n: unknown = this.#counter?.['num_shards'] ?? this.#counter?.['numShards'];
    return Number.isInteger(n) && (n as number) > 0 ? (n as number) : 0;
  }

  /** Whether the counter is known to take votes only. */
  get oncePerUser(): boolean {
    return this.#counter?.['once_per_user'] === true;
  }

  /** Whether no client is known to be allowed to write. */
  get frozen(): boolean {
    return this.#counter?.['frozen'] === true;
  }

  /** Reads the counter's document from the server; without an answer, what was known stays. */
  readCounter(): Promise<void> {
    this.#counterReadAt = performance.now();
    return (this.#counterRead ??= getDoc(doc(this.db, this.places.counter))
      .then(
        (snapshot) => void (this.#counter = snapshot.data() ?? {}),
        () => {},
      )
      .finally(() => (this.#counterRead = null)));
  }

  get rollUp(): DocumentReference {
    return doc(this.db, this.places.rollUp);
  }

  shard(shard: string): DocumentReference {
    return doc(this.db, this.places.shards, shard);
  }
}

const states = new WeakMap<Firestore, Map<string, State>>();

/** The state of the counter at these places, one for each Firestore instance. */
export function stateOf(db: Firestore, places: Places): State {
  const { databaseId } = db.toJSON() as { databaseId?: { database?: string } };
  const { counter, shards, rollUp, field } = places;
  const name = [db.app.name, db.app.options.projectId, databaseId?.database, counter, shards, rollUp, field].join('|');
  let ofDb = states.get(db);
  if (!ofDb) states.set(db, (ofDb = new Map()));
  let state = ofDb.get(name);
  if (!state) ofDb.set(name, (state = new State(db, places, name)));
  return state;
}

/** What the SDK's cache has of a document; null: nothing. Never waits for the network. */
export async function fromCache(ref: DocumentReference): Promise<DocumentSnapshot | null> {
  try {
    return await getDocFromCache(ref);
  } catch {
    return null;
  }
}

/**
 * The version of a document without pending writes, as the server told the SDK: its update time. Undefined if the SDK
 * does not tell. No public API of the browser's SDK does, so this reads a field that is the same in all of its versions
 * from 10.9 to 13; the tests compare it with the update time that the server tells.
 */
function versionOf(snapshot: DocumentSnapshot): Micros | undefined {
  const { _document } = snapshot as { _document?: { version?: { timestamp?: unknown } } };
  const timestamp = _document?.version?.timestamp;
  return isTimestamp(timestamp) && timestamp.seconds > 0 ? micros(timestamp) : undefined;
}

function isTimestamp(value: unknown): value is Timestamp {
  const t = value as Partial<Timestamp> | null | undefined;
  return typeof t?.seconds === 'number' && typeof t.nanoseconds === 'number';
}

/** Firestore's times are whole microseconds. */
function micros(t: Timestamp): Micros {
  return t.seconds * 1e6 + Math.floor(t.nanoseconds / 1e3);
}

function isLater(version: Micros | null, after: Micros | null): boolean {
  return version !== null && (after === null || version > after);
}

const unsupported = () =>
  new TallyError(
    'unsupported-sdk',
    'This firebase does not tell the versions of documents. Use one that the README of @firestore-tally/web names.',
  );

function newId(): string {
  return Array.from(crypto.getRandomValues(new Uint32Array(4)), (n) => n.toString(36)).join('-');
}

/** Calls the app's code: an error in it is the app's, as one in an event listener is. */
function outside(call: () => void): void {
  try {
    call();
  } catch (error) {
    queueMicrotask(() => {
      throw error;
    });
  }
}
