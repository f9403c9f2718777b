import type { DocumentData, Firestore, Timestamp, Unsubscribe } from 'firebase/firestore';

/**
 * Returns the counter at a path: of a document, such as "counters/likes", that has shards. It reads
 * nothing yet. Counters of one path share what they know. The db may also come from the namespaced
 * API, firebase/compat, here and below.
 */
export function counter(db: Firestore, path: string, options?: CounterOptions): Counter;

/**
 * Returns the total of that name in a document, such as total(db, 'posts/7', 'likes'). It reads
 * nothing yet. The user's own likes that it counts are in it at once: see like.
 */
export function total<T extends AnyTotal = number>(db: Firestore, path: string, name: string): Shown<T>;

/**
 * Returns the user's like in a collection where each user has one document, such as
 * like(db, 'posts/7/likes', { uid }). A total(db, 'posts/7', 'likes') on this page has it from then
 * on. The route counts all documents: count() as likes.
 */
export function like(db: Firestore, path: string, options: LikeOptions): Like;

/**
 * What totals are: sums and counts are numbers, the latest and the earliest of timestamps are
 * timestamps, and these, averages, maxima and minima are null where there is nothing. Name what
 * yours is, if it is not always a number: total<Timestamp | null>(…).
 */
export type AnyTotal = number | Timestamp | null;

/** How a counter differs from one of Firebase's documentation. */
export interface CounterOptions {
  /** The field that counts. Default "count". */
  field?: string;
  /** The name of the total. Default: the field's. */
  total?: string;
  /** The path of the document with the total. Default: the counter's, in the collection "rollups". */
  rollUp?: string;
  /**
   * The number of shards, if the app's code fixes it. Default: what the counter's document says.
   */
  shards?: number;
  /** The path of the collection of shards. Default: the counter's path and "/shards". */
  collection?: string;
}

/** Whose like it is, and what differs from likes of posts. */
export interface LikeOptions {
  /** The user who is signed in. A function is asked each time. */
  uid: string | null | undefined | (() => string | null | undefined);
  /** What the document says. Default { at: serverTimestamp() }. */
  data?: DocumentData;
  /** The path of the document with the total. Default: the one above the collection. */
  rollUp?: string;
  /** The name of the total. Default: the collection's. */
  total?: string;
}

/** A total that is shown. Its methods, and those below, need no `this`. */
export interface Shown<T extends AnyTotal = number> {
  /**
   * Calls back with the total now and whenever it changes, until the function that it returns is
   * called. After an error it calls back no more.
   */
  onTotal(callback: (total: Total<T>) => void, onError?: (error: TallyError) => void): Unsubscribe;
  /** Reads the total once: one document read. Offline, what the SDK's cache has. */
  total(): Promise<Total<T>>;
}

/** A counter. Its methods may be called in any order, and need not be waited for. */
export interface Counter extends Shown {
  /**
   * Adds n, a whole number that is not 0, to a random shard. It is in the total when this returns,
   * also offline. The promise resolves when the server has acknowledged it, and rejects if the
   * server refuses it: then it is out of the total again.
   */
  increment(n?: number): Promise<void>;
  /**
   * Sums the shards now: without the roll-up, without what is not sent yet, and one read for each
   * 1,000 shards.
   */
  exact(): Promise<number>;
}

/** A user's like. Its methods may be called in any order, and need not be waited for. */
export interface Like {
  /**
   * Likes: writes the user's document. It may be called again, also from another device: each user
   * counts once. It is in the total as soon as the SDK's cache has told whether the user has liked;
   * that is at once if onLiked or the total has been asked for. The promise resolves when the server
   * has acknowledged it, and rejects if the server refuses it: then the like is what it was.
   */
  set(): Promise<void>;
  /** Takes the like back: deletes the user's document. Likewise. */
  unset(): Promise<void>;
  /**
   * Calls back with whether the user likes it, now and whenever that changes, also by another device,
   * until the function that it returns is called. What this device does counts at once. The user is
   * the one who is signed in now; if there is none, onError is called at once. After an error it
   * calls back no more.
   */
  onLiked(callback: (liked: boolean) => void, onError?: (error: TallyError) => void): Unsubscribe;
}

/** What a total is at. */
export interface Total<T extends AnyTotal = number> {
  /**
   * The number to show: the roll-up's total, and one's own increments and likes that it does not
   * cover yet.
   * Exact up to 2^53, as whole numbers of JavaScript are. A total that is a timestamp or null in
   * the roll-up is as the SDK gives it.
   */
  readonly total: T;
  /** The server time up to which everybody's increments are in the total; null: no roll-up yet. */
  readonly asOf: Timestamp | null;
  /** How many own increments and likes the server has not acknowledged yet, such as while offline. */
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
 * The error that every method fails with. `cause` is Firestore's own, if there is one.
 */
export class TallyError extends Error {
  readonly code: TallyErrorCode;
  constructor(code: TallyErrorCode, message: string, cause?: unknown);
}
