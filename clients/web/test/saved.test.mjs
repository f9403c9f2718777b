import assert from 'node:assert/strict';
import { afterEach, test } from 'node:test';
import { SavedEntries } from '../dist/saved.js';

/** What a browser's localStorage does, of which keys are properties. */
function fakeStorage({ full = false } = {}) {
  const storage = Object.create({
    getItem: (key) => storage[key] ?? null,
    removeItem: (key) => void delete storage[key],
    setItem(key, value) {
      if (full) throw new DOMException('full', 'QuotaExceededError');
      storage[key] = value;
    },
  });
  return storage;
}

function useStorage(get) {
  Object.defineProperty(globalThis, 'localStorage', { configurable: true, get });
}

afterEach(() => useStorage(() => undefined));

const entry = { id: 'a', n: 1, after: 10, by: null };

test('keeps entries of each counter apart', () => {
  const storage = fakeStorage();
  useStorage(() => storage);
  const likes = new SavedEntries('likes');
  likes.save(entry, '3');
  new SavedEntries('views').save(entry, '4');
  const [{ at, ...saved }] = new SavedEntries('likes').all();
  assert.deepEqual(saved, { ...entry, shard: '3' });
  likes.save({ ...entry, by: 12 }, '3');
  assert.equal(likes.all()[0].by, 12);
  likes.remove('a');
  assert.deepEqual(likes.all(), []);
  assert.equal(new SavedEntries('views').all().length, 1);
});

test('clears away what is old or was never an entry', () => {
  const storage = fakeStorage();
  useStorage(() => storage);
  const saved = { ...entry, shard: '1', at: Date.now() };
  const week = 7 * 24 * 3600_000;
  const broken = [
    '',
    '{',
    'null',
    '7',
    { ...saved, n: 0.5 },
    { ...saved, shard: 1 },
    { ...saved, by: 'x' },
    { ...saved, at: null },
  ];
  for (const bad of [...broken, { ...saved, at: Date.now() - week - 1 }, { ...saved, at: Date.now() + 2 * week }]) {
    storage['tally:likes:a'] = typeof bad === 'string' ? bad : JSON.stringify(bad);
    assert.deepEqual(new SavedEntries('likes').all(), [], JSON.stringify(bad));
    assert.deepEqual(Object.keys(storage), []);
  }
});

test('does without storage', () => {
  const none = [() => undefined, () => null, () => fakeStorage({ full: true })];
  const forbidden = () => {
    throw new DOMException('forbidden', 'SecurityError');
  };
  for (const get of [...none, forbidden]) {
    useStorage(get);
    const saved = new SavedEntries('likes');
    saved.save(entry, '3');
    assert.deepEqual(saved.all(), []);
    saved.remove('a');
  }
});
