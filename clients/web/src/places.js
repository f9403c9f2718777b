import { TallyError } from './errors.js';

/** @import { CounterOptions, LikeOptions } from './index.js' */

/**
 * Where a counter's documents are, and the names in them. All paths have the right number of
 * segments, and none is empty.
 *
 * @typedef {object} Places
 * @property {string} counter The counter's own document, which says how many shards there are.
 * @property {string} shards The collection of shards.
 * @property {string} rollUp The document with the total.
 * @property {string} field The field of a shard that counts.
 * @property {string} total The name of the total in the roll-up.
 */

/**
 * Returns the places of the counter at a path. Throws a TallyError that names the path or the option
 * that is wrong.
 *
 * @param {string} path
 * @param {CounterOptions} options
 * @returns {Places}
 */
export function placesOf(path, options) {
  checkPath('path', path, 0);
  const segments = path.split('/');
  const {
    field = 'count',
    total = field,
    rollUp = [...segments.slice(0, -2), 'rollups', segments.at(-1)].join('/'),
    collection: shards = `${path}/shards`,
  } = options;
  checkPath('option rollUp', rollUp, 0);
  checkPath('option collection', shards, 1);

  return { counter: path, shards, rollUp, field, total };
}

/**
 * Returns where the total is that counts the likes of a collection: by default in the document above
 * it, with the collection's name. Throws likewise.
 *
 * @param {string} path
 * @param {LikeOptions} options
 */
export function totalOf(path, options) {
  checkPath('path', path, 1);
  const [, above = '', name = ''] = /^(.*?)\/?([^/]*)$/.exec(path) ?? [];
  const { rollUp = above, total = name } = options;
  checkPath('option rollUp', rollUp, 0);
  return { rollUp, total };
}

/**
 * Throws if a path is not that of a document, which has an even number of segments, or of a
 * collection, which has an odd one.
 *
 * @param {string} what
 * @param {string} path
 * @param {0 | 1} odd
 */
export function checkPath(what, path, odd) {
  const segments = path.split('/');
  if (segments.length % 2 === odd && !segments.includes('')) return;

  const want = odd ? 'a collection, such as "posts/7/likes"' : 'a document, such as "counters/likes"';
  throw new TallyError('invalid-argument', `${what} is ${JSON.stringify(path)}: want the path of ${want}`);
}
