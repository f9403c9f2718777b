import {
  collection,
  getAggregateFromServer,
  getDoc,
  increment,
  setDoc,
  sum,
  FieldPath,
  type Firestore,
  type Unsubscribe,
} from 'firebase/firestore';
import { TallyError, denied, failure } from './errors.js';
import { stateOf, type State, type Total, type Write } from './state.js';

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
  /**
   * Votes: the user's own shard is 1 then. It may be called again, also from another device: nobody counts twice. It is
   * in the total as soon as the SDK's cache has told whether the user has voted; otherwise like increment. Needs the
   * option uid, and a counter with once_per_user.
   */
  vote(): Promise<void>;
  /** Takes the user's vote back: the shard is 0 then. Also if there is none. */
  unvote(): Promise<void>;
  /** Whether the user has voted: one document read. */
  hasVoted(): Promise<boolean>;
  /**
   * Sums the shards now: without the roll-up, without what is not sent yet, and one read for each 1,000 shards. Refused
   * where each user has one vote: only a server may list votes.
   */
  exact(): Promise<number>;
}

/** The number of shards to use when it is not known: that of Firebase's documentation. */
const DEFAULT_SHARDS = 10;

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
    try {
      await this.#send(write);
      state.acknowledged(write);
    } catch (error) {
      state.refused(write);
      throw denied(error) ? this.#denial(error, `increment(${n})`, n) : failure(error);
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
    const { state } = this;
    const { db, places } = state;
    const spec = { total: sum(new FieldPath(places.field)) };
    try {
      const snapshot = await getAggregateFromServer(collection(db, places.shards), spec);
      return snapshot.data().total;
    } catch (error) {
      if (denied(error)) await state.readCounter();
      if (!denied(error) || !state.oncePerUser) throw failure(error);
      const why = 'its shards are votes, which only a server may list. Use total().';
      throw new TallyError('permission-denied', `exact() of ${places.counter} was refused: ${why}`, error);
    }
  }

  vote(): Promise<void> {
    return this.#vote(1);
  }

  unvote(): Promise<void> {
    return this.#vote(0);
  }

  async hasVoted(): Promise<boolean> {
    const { state } = this;
    const uid = this.#user();
    const before = state.votes.get(uid);
    const snapshot = await getDoc(state.shard(uid)).catch(fail);
    // What was done here meanwhile knows better.
    if (state.votes.get(uid) === before) state.votes.set(uid, state.voteOf(snapshot));
    return state.votes.get(uid) === 1;
  }

  async #vote(vote: 0 | 1): Promise<void> {
    const { state } = this;
    const uid = this.#user();
    await state.ballot(uid);
    const n = vote - state.votes.get(uid)!;
    state.votes.set(uid, vote);
    // The write is sent also if it seems to change nothing: another device may have voted since.
    const write = n ? state.tap(n, uid) : null;
    if (write) state.sending(write, uid);
    try {
      await setDoc(state.shard(uid), { [state.places.field]: vote });
      if (write) state.acknowledged(write);
    } catch (error) {
      state.votes.set(uid, vote - n);
      if (write) state.refused(write);
      if (!denied(error)) throw failure(error);
      await state.readCounter();
      throw this.#denial(error, vote ? 'vote()' : 'unvote()');
    }
  }

  #user(): string {
    const uid = this.uid?.();
    if (uid) return uid;
    throw new TallyError('not-signed-in', `Nobody is signed in, as far as the option uid says. Sign a user in first.`);
  }

  /** The number of shards; 0: not known. */
  async #shards(): Promise<number> {
    const { state, fixedShards } = this;
    if (fixedShards === undefined) return state.shards();
    return Math.min(fixedShards, state.knownShards || fixedShards);
  }

  /** Sends an increment. If it is refused and has another shard by the number that the server says now, it is sent there. */
  async #send(write: Write): Promise<void> {
    const { state } = this;
    const place = (shards: number) => state.free(shards || DEFAULT_SHARDS, write.shard);
    const send = (shard: string): Promise<void> => {
      state.sending(write, shard);
      return setDoc(state.shard(shard), { [state.places.field]: increment(write.entry.n) }, { merge: true });
    };
    // Nothing waits between place and send: or another increment is sent to the same shard.
    const shard = place(await this.#shards());
    try {
      await send(shard);
    } catch (error) {
      if (!denied(error)) throw error;
      await state.readCounter();
      const now = place(await this.#shards());
      if (now === shard) throw error;
      await send(now);
    }
  }

  /**
   * Says which rule most likely refused an increment, of which n is the amount, or a vote. The counter's document was read
   * after the refusal.
   */
  #denial(cause: unknown, call: string, n?: number): TallyError {
    const { places, oncePerUser, frozen } = this.state;
    const what = `${call} of ${places.counter} was refused`;
    if (this.uid && !this.uid()) {
      const why = 'nobody is signed in, as far as the option uid says. Sign a user in first.';
      return new TallyError('not-signed-in', `${what}: ${why}`, cause);
    }
    let why =
      'most likely nobody is signed in, or App Check is enforced and the app has no token. Else compare firestore.rules with what the app writes.';
    if (frozen) {
      why = `the counter's document says frozen: true. tally unfreeze opens it again.`;
    } else if (n === undefined && !oncePerUser) {
      why = `the counter's document has no once_per_user: true. Set it, from a server or the console, or use increment().`;
    } else if (n !== undefined && oncePerUser) {
      why = `the counter's document says once_per_user: true. Use vote() and unvote().`;
    } else if (n !== undefined && n !== 1) {
      why =
        'as shipped, firestore.rules let an increment add 1 and nothing else. Add 1 at a time, or change mayAdd there.';
    }
    return new TallyError('permission-denied', `${what}: ${why}`, cause);
  }
}

function fail(error: unknown): never {
  throw failure(error);
}
