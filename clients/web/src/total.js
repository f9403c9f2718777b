import { Coverage } from './coverage.js';
import { fail, failure } from './errors.js';
import { Feed } from './feed.js';
import { checkPath } from './places.js';
import { doc } from './sdk.js';
import { shared } from './shared.js';

/** @import { Firestore } from 'firebase/firestore' */
/** @import { Micros } from './coverage.js' */
/** @import { Shown } from './index.js' */
/** @import { OwnLike } from './own.js' */

/** A total in a document, with the own likes of this page that it counts. */
export class Totals {
  coverage = new Coverage();
  /** @type {Set<OwnLike>} */ likes = new Set();

  /**
   * @param {Firestore} db
   * @param {string} rollUp
   * @param {string} total
   */
  constructor(db, rollUp, total) {
    this.feed = new Feed(doc(db, rollUp), total, this.coverage, this);
  }

  // What Feed asks of a Source.

  get pending() {
    let pending = 0;
    for (const like of this.likes) pending += like.pending();
    return pending;
  }

  ready() {
    return Promise.all([...this.likes].map((like) => like.ready()));
  }

  /**
   * @param {Micros | null} _asOf
   * @param {Micros | undefined} version
   */
  rollUp(_asOf, version) {
    for (const like of this.likes) void like.rollUp(version);
  }

  watch() {
    for (const like of this.likes) void like.watch();
  }
}

/**
 * The state of a total that all callers of a page share.
 *
 * @param {Firestore} db
 * @param {string} rollUp
 * @param {string} total
 */
export function totalsOf(db, rollUp, total) {
  return shared(db, [rollUp, total], (db) => new Totals(db, rollUp, total));
}

/** @type {(db: Firestore, path: string, name: string) => Shown<any>} */
export function total(db, path, name) {
  checkPath('path', path, 0);
  return shownBy(totalsOf(db, path, name).feed);
}

/** What shows a feed to an app. @type {(feed: Feed) => Shown<any>} */
export function shownBy(feed) {
  return {
    onTotal: (callback, onError = fail) => feed.observe({ next: callback, error: (error) => onError(failure(error)) }),
    total: () => feed.read().catch(fail),
  };
}
