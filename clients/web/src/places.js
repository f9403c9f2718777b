import { TallyError } from './errors.js';

/** @import { CounterOptions } from './index.js' */

/**
 * Where a counter's documents are, and the names in them. All paths have the right number of
 * segments, and none is empty.
 *
 * @typedef {object} Places
 * @property {string | null} counter The counter's own document, which says how many shards there
 *   are; null: there is none, and each user has a document in `shards`.
 * @property {string} shards The collection of shards, or of the users' documents.
 * @property {string} rollUp The document with the total.
 * @property {string} field The field of a shard that counts.
 * @property {string} total The name of the total in the roll-up.
 */

/**
 * Returns the places of the counter at a path. The path is that of a document that has shards, or
 * of a collection in which each user has a document. Throws a TallyError that names the path or the
 * option that is wrong.
 *
 * @param {string} path
 * @param {CounterOptions} options
 * @returns {Places}
 */
export function placesOf(path, options) {
  const segments = path.split('/');
  const name = segments.at(-1) ?? '';
  const ofUsers = segments.length > 1 && segments.length % 2 === 1;
  checkPath('path', path, ofUsers ? 1 : 0);

  const {
    field = ofUsers ? 'on' : 'count',
    total = ofUsers ? name : field,
    rollUp = (ofUsers ? segments.slice(0, -1) : [...segments.slice(0, -2), 'rollups', name]).join('/'),
    collection: shards = ofUsers ? path : `${path}/shards`,
  } = options;
  checkPath('option rollUp', rollUp, 0);
  checkPath('option collection', shards, 1);

  return { counter: ofUsers ? null : path, shards, rollUp, field, total };
}

/**
 * Throws if a path is not that of a document, which has an even number of segments, or of a
 * collection, which has an odd one.
 *
 * @param {string} what
 * @param {string} path
 * @param {0 | 1} odd
 */
function checkPath(what, path, odd) {
  const segments = path.split('/');
  if (segments.length % 2 === odd && !segments.includes('')) return;

  const want = odd ? 'a collection, such as "posts/7/likes"' : 'a document, such as "counters/likes"';
  throw new TallyError('invalid-argument', `${what} is ${JSON.stringify(path)}: want the path of ${want}`);
}
