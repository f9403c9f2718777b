import type { Firestore, Timestamp, Unsubscribe } from 'firebase/firestore';

/**
 * Returns the counter at a path: of a document, such as "counters/likes", that has shards; or of a
 * collection, such as "posts/7/likes", where each user has one document. The total of those is
 * "likes" in posts/7. It reads nothing yet. Counters of one path share what they know. The db may
 * also come from the namespaced API, firebase/compat.
 */
export function counter<T extends AnyTotal = number>(db: Firestore, path: string, options?: CounterOptions): Counter<T>;

/**
 * What totals are: sums and counts are numbers, the latest and the earliest of timestamps are
 * timestamps, and these, averages, maxima and minima are null where there is nothing. Name what
 * yours is, if it is not always a number: counter<Timestamp | null>(…).
 */
export type AnyTotal = number | Timestamp | null;

/** How a counter differs from one of Firebase's documentation. */
export interface CounterOptions {
  /** The field that counts. Default "count"; "on" in users' documents. */
  field?: string;
  /** The name of the total. Default: the field's; of users' documents, their collection's. */
  total?: string;
  /**
   * The path of the document with the total. Default: the counter's, in the collection "rollups";
   * of users' documents, the document above them.
   */
  rollUp?: string;
  /**
   * The number of shards, if the app's code fixes it. Default: what the counter's document says.
   */
  shards?: number;
  /**
   * The path of the collection of shards, or of users' documents. Default: the counter's path and
   * "/shards"; of users' documents, the path.
   */
  collection?: string;
  /** The user who is signed in: needed to vote. A function is asked each time. */
  uid?: string | (() => string | null | undefined);
}

/** A counter. Its methods may be called in any order, and need not be waited for. */
export interface Counter<T extends AnyTotal = number> {
  /**
   * Adds n, a whole number that is not 0, to a random shard. It is in the total when this returns,
   * also offline. The promise resolves when the server has acknowledged it, and rejects if the
   * server refuses it: then it is out of the total again.
   */
  increment(n?: number): Promise<void>;
  /**
   * Calls back with the total now and whenever it changes, until the function that it returns is
   * called. After an error it calls back no more.
   */
  onTotal(callback: (total: Total<T>) => void, onError?: (error: TallyError) => void): Unsubscribe;
  /** Reads the total once: one document read. Offline, what the SDK's cache has. */
  total(): Promise<Total<T>>;
  /**
   * Votes, or likes: the user's own document is 1 then. It may be called again, also from another
   * device: each user counts once. It is in the total as soon as the SDK's cache has told whether the
   * user has voted; otherwise like increment. Needs the option uid, and users' documents or a
   * counter with once_per_user.
   */
  vote(): Promise<void>;
  /** Takes the user's vote back: the document is 0 then. Also if there is none. */
  unvote(): Promise<void>;
  /** Whether the user has voted: one document read. */
  hasVoted(): Promise<boolean>;
  /**
   * Calls back with whether the user has voted, now and whenever it changes, also by another
   * device, until the function that it returns is called. A vote of this device counts at once. The
   * user is the one who is signed in now; if there is none, onError is called at once. After an
   * error it calls back no more.
   */
  onVoted(callback: (voted: boolean) => void, onError?: (error: TallyError) => void): Unsubscribe;
  /**
   * Sums the shards now: without the roll-up, without what is not sent yet, and one read for each
   * 1,000 shards. Refused where each user has one vote: only a server may list votes.
   */
  exact(): Promise<number>;
}

/** What a counter is at. */
export interface Total<T extends AnyTotal = number> {
  /**
   * The number to show: the roll-up's total, and one's own increments that it does not cover yet.
   * Exact up to 2^53, as whole numbers of JavaScript are. A total that is a timestamp or null in
   * the roll-up is as the SDK gives it.
   */
  readonly total: T;
  /** The server time up to which everybody's increments are in the total; null: no roll-up yet. */
  readonly asOf: Timestamp | null;
  /** How many own increments the server has not acknowledged yet, such as while offline. */
  readonly pending: number;
  /**
   * Whether Firestore says that the document with the total does not exist. Tally creates the
   * roll-up of a counter with shards. A document such as posts/7 is the app's own: until the app
   * has created it, the total is only what this page has added.
   */
  readonly missing: boolean;
}

/** What went wrong, for programs. The README's table says what to do about each. */
export type TallyErrorCode =
  'invalid-argument' | 'not-signed-in' | 'permission-denied' | 'unavailable' | 'unsupported-sdk' | 'failed';

/**
 * The error that every method of a counter fails with. `cause` is Firestore's own, if there is one.
 */
export class TallyError extends Error {
  readonly code: TallyErrorCode;
  constructor(code: TallyErrorCode, message: string, cause?: unknown);
}
