import {
  collection,
  doc,
  getAggregateFromServer,
  getDoc,
  getDocFromServer,
  increment,
  sum,
  writeBatch,
  FieldPath,
  type DocumentReference,
  type DocumentSnapshot,
  type Firestore,
  type Unsubscribe,
  type WriteBatch,
} from 'firebase/firestore';
import { TallyError, denied, failure } from './errors.js';
import { fromCache, stateOf, type Ballot, type State, type Total, type Write } from './state.js';

/** How a counter differs from one of Firebase's documentation. */
export interface CounterOptions {
  /** The field that counts. Default "count". */
  field?: string;
  /** The path of the roll-up document. Default: the counter's, with "rollups" for its collection. */
  rollUp?: string;
  /** The number of shards, if the app's code fixes it. Default: num_shards (or numShards) of the counter's document. */
  shards?: number;
  /** The path of the collection of shards. Default: the counter's path and "/shards". */
  collection?: string;
  /** The user who is signed in: needed to vote. A function is asked each time. */
  uid?: string | (() => string | null | undefined);
}

/** A counter, as {@link counter} returns it. Its methods may be called in any order, and need not be waited for. */
export interface Counter {
  /**
   * Adds n, a whole number that is not 0, to a random shard. It is in the total when this returns, also offline; the
   * promise resolves when the server has acknowledged it, and rejects if it refuses: then it is out of the total again.
   */
  increment(n?: number): Promise<void>;
  /**
   * Calls back with the total now and whenever it changes, until the function that it returns is called. After an error
   * it calls back no more.
   */
  onTotal(callback: (total: Total) => void, onError?: (error: TallyError) => void): Unsubscribe;
  /** Reads the total once: one document read. Offline, what the SDK's cache has. */
  total(): Promise<Total>;
  /** Votes, at most once per user; otherwise like increment. Needs the option uid, and a counter with once_per_user. */
  vote(): Promise<void>;
  /** Takes the user's vote back. */
  unvote(): Promise<void>;
  /** Whether the user has voted: one document read, and one of the counter's document. */
  hasVoted(): Promise<boolean>;
  /** Sums the shards now: without the roll-up, without what is not sent yet, and one read for each 1,000 shards. */
  exact(): Promise<number>;
}

/** The number of shards to use when it is not known: that of Firebase's documentation. */
const DEFAULT_SHARDS = 10;

/** Without a number of shards, the rules let shard ids be below this. */
const HIGHEST_SHARDS = 100;

/** Returns the counter at a path such as "counters/likes". It reads nothing yet. Counters of one path share what they know. */
export function counter(db: Firestore, path: string, options: CounterOptions = {}): Counter {
  checkPath('path', path, 0);
  const segments = path.split('/');
  const {
    field = 'count',
    rollUp = [...segments.slice(0, -2), 'rollups', segments.at(-1)].join('/'),
    collection = `${path}/shards`,
  } = options;
  checkPath('option rollUp', rollUp, 0);
  checkPath('option collection', collection, 1);
  const { shards, uid } = options;
  if (shards !== undefined && !(Number.isInteger(shards) && shards > 0)) {
    throw new TallyError('invalid-argument', `option shards is ${shards}: want a whole number above 0`);
  }
  return new SharedCounter(
    stateOf(db, { counter: path, shards: collection, rollUp, field }),
    shards,
    typeof uid === 'string' ? () => uid : uid,
  );
}

/** Throws if a path is not one of a document, or with an odd number of segments that of a collection. */
function checkPath(what: string, path: string, odd: 0 | 1): void {
  const segments = path.split('/');
  if (segments.length % 2 === odd && !segments.includes('')) return;
  const want = odd ? 'a collection, such as "counters/likes/shards"' : 'a document, such as "counters/likes"';
  throw new TallyError('invalid-argument', `${what} is ${JSON.stringify(path)}: want the path of ${want}`);
}

class SharedCounter implements Counter {
  constructor(
    private readonly state: State,
    private readonly fixedShards: number | undefined,
    private readonly uid: (() => string | null | undefined) | undefined,
  ) {}

  async increment(n = 1): Promise<void> {
    if (!Number.isSafeInteger(n) || n === 0) {
      throw new TallyError('invalid-argument', `increment(${n}): want a whole number that is not 0`);
    }
    const { state } = this;
    const write = state.tap(n);
    const place = (shards: number) => state.free(shards || DEFAULT_SHARDS, write.shard);
    try {
      await this.#send(write, place, await this.#shards());
    } catch (error) {
      state.refused(write);
      throw denied(error) ? this.#denial(error, n) : failure(error);
    }
  }

  onTotal(callback: (total: Total) => void, onError?: (error: TallyError) => void): Unsubscribe {
    return this.state.observe({
      next: callback,
      error: (error) => {
        if (!onError) throw failure(error);
        onError(failure(error));
      },
    });
  }

  async total(): Promise<Total> {
    await this.state.restored();
    return this.state.take(await getDoc(this.state.rollUp).catch(fail));
  }

  async exact(): Promise<number> {
    const { db, places } = this.state;
    const spec = { total: sum(new FieldPath(places.field)) };
    const snapshot = await getAggregateFromServer(collection(db, places.shards), spec).catch(fail);
    return snapshot.data().total;
  }

  vote(): Promise<void> {
    return this.#move(1);
  }

  unvote(): Promise<void> {
    return this.#move(-1);
  }

  async hasVoted(): Promise<boolean> {
    const ballot = this.#ballot();
    await ballot.turn;
    void this.state.shards(); // for a vote that comes next, perhaps offline
    return (await this.#ask(ballot)) !== null;
  }

  /** Asks for the shard of the vote; null: there is none. Own moves that are on their way are in the answer. */
  async #ask(ballot: Ballot): Promise<string | null> {
    const { moves } = ballot;
    const shard = shardOf(await getDoc(ballot.voter).catch(fail));
    if (ballot.moves === moves) ballot.shard = shard;
    // A move that was made meanwhile knows better, unless it was refused.
    return ballot.shard === undefined ? shard : ballot.shard;
  }

  /** Votes, or takes the vote back. */
  async #move(n: 1 | -1): Promise<void> {
    const { state } = this;
    const ballot = this.#ballot();
    // One after the other, each as soon as the one before is with the SDK.
    const turn = ballot.turn;
    let next = () => {};
    ballot.turn = new Promise<void>((resolve) => (next = resolve));
    await turn;
    let write: Write;
    let sent: Promise<void>;
    let known: boolean;
    try {
      if (ballot.shard === undefined) {
        const cached = await fromCache(ballot.voter);
        if (cached) ballot.shard = shardOf(cached);
        else if (n < 0) await this.#ask(ballot);
      }
      const moved = () => ((ballot.shard ?? null) !== null) === n > 0;
      // Another device may have moved since. Offline, what is known holds.
      if (moved()) await this.#ask(ballot).catch(() => {});
      if (moved()) throw this.#moved(n);
      known = ballot.shard !== undefined;
      const from = ballot.shard ?? null;
      write = state.tap(n);
      const place = (shards: number) =>
        from === null
          ? state.free(shards || DEFAULT_SHARDS, write.shard)
          : String(Number(from) % (state.knownShards || HIGHEST_SHARDS)); // as the rules do, whatever the option
      const shards = await (from === null ? this.#shards() : state.shards());
      sent = this.#send(write, place, shards, (batch, shard) => {
        ballot.moves++;
        ballot.shard = n > 0 ? shard : null;
        if (n > 0) batch.set(ballot.voter, { shard });
        else batch.delete(ballot.voter);
      });
    } finally {
      next();
    }
    try {
      await sent;
    } catch (error) {
      if (known && denied(error) && (await this.#wasCommitted(write, ballot.voter))) return;
      state.refused(write);
      ballot.shard = undefined;
      if (!denied(error)) throw failure(error);
      if ((await this.hasVoted()) === n > 0) throw this.#moved(n, error);
      throw this.#denial(error, n, true);
    }
  }

  /**
   * Whether a move that was refused had been committed before: the SDK sends it again if its answer was lost, and then
   * the rules refuse it.
   */
  async #wasCommitted(write: Write, ref: DocumentReference): Promise<boolean> {
    const { state } = this;
    try {
      const voter = await getDocFromServer(ref);
      if (write.entry.n > 0) return shardOf(voter) === write.shard && state.foundCommitted(write, voter);
      return !voter.exists() && state.foundCommitted(write, await getDocFromServer(state.shard(write.shard!)));
    } catch {
      return false;
    }
  }

  #ballot(): Ballot {
    const { db, places, ballots } = this.state;
    const uid = this.uid?.();
    if (!uid) {
      throw new TallyError(
        'not-signed-in',
        `Nobody is signed in, as far as the option uid says. Sign a user in first.`,
      );
    }
    let ballot = ballots.get(uid);
    if (!ballot) {
      const voter = doc(db, places.counter, 'voters', uid);
      ballot = { voter, shard: undefined, moves: 0, turn: Promise.resolve() };
      ballots.set(uid, ballot);
    }
    return ballot;
  }

  /** The number of shards; 0: not known. */
  async #shards(): Promise<number> {
    const { state, fixedShards } = this;
    if (fixedShards === undefined) return state.shards();
    return Math.min(fixedShards, state.knownShards || fixedShards);
  }

  /**
   * Sends a write to the shard that `place` gives for a number of shards, in one batch with what `add` adds. If it is
   * refused and has another place by the number that the server says now, it is sent there.
   */
  async #send(
    write: Write,
    place: (shards: number) => string,
    shards: number,
    add: (batch: WriteBatch, shard: string) => void = () => {},
  ): Promise<void> {
    const { state } = this;
    const send = (shard: string): Promise<void> => {
      state.sending(write, shard);
      const batch = writeBatch(state.db);
      batch.set(state.shard(shard), { [state.places.field]: increment(write.entry.n) }, { merge: true });
      add(batch, shard);
      return batch.commit();
    };
    const shard = place(shards);
    try {
      await send(shard);
    } catch (error) {
      if (!denied(error)) throw error;
      await state.readCounter();
      const now = place(await this.#shards());
      if (now === shard) throw error;
      await send(now);
    }
    state.acknowledged(write);
  }

  #moved(n: number, cause?: unknown): TallyError {
    const who = `${this.uid?.()} has`;
    const { counter } = this.state.places;
    if (n < 0)
      return new TallyError('not-voted', `${who} not voted for ${counter}: there is nothing to take back.`, cause);
    return new TallyError(
      'already-voted',
      `${who} voted for ${counter} already: show that, and offer unvote().`,
      cause,
    );
  }

  /** Says which rule most likely refused. The counter's document was read after the refusal. */
  #denial(cause: unknown, n: number, vote = false): TallyError {
    const { places, oncePerUser } = this.state;
    const what = `${vote ? (n > 0 ? 'vote()' : 'unvote()') : `increment(${n})`} of ${places.counter} was refused`;
    if (this.uid && !this.uid()) {
      const why = 'nobody is signed in, as far as the option uid says. Sign a user in first.';
      return new TallyError('not-signed-in', `${what}: ${why}`, cause);
    }
    let why =
      'most likely nobody is signed in, or App Check is enforced and the app has no token. Else compare firestore.rules with what the app writes.';
    if (vote && !oncePerUser) {
      why = `the counter's document has no once_per_user: true. Set it, from a server or the console, or use increment().`;
    } else if (!vote && oncePerUser) {
      why = `the counter's document says once_per_user: true. Use vote() and unvote().`;
    } else if (Math.abs(n) > 1) {
      why = `most likely its amount is above the bound of firestore.rules, 1 unless you changed it. Add 1 at a time, or raise the bound.`;
    }
    return new TallyError('permission-denied', `${what}: ${why}`, cause);
  }
}

/** The shard that a voter document names; null: there is no vote. */
function shardOf(voter: DocumentSnapshot): string | null {
  return voter.exists() ? String(voter.get('shard')) : null;
}

function fail(error: unknown): never {
  throw failure(error);
}
