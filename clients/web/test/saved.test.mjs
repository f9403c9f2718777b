import assert from 'node:assert/strict';
import { afterEach, test } from 'node:test';
import { SavedEntries } from '../src/saved.js';

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

test('keeps entries of counters apart whose names begin alike', () => {
  const storage = fakeStorage();
  useStorage(() => storage);
  const names = ['room', 'room:', 'room:1', 'room:1:2', 'room::1', ':room', 'roo'];
  for (const name of names) new SavedEntries(name).save(entry, name);

  for (const name of names)
    assert.deepEqual(
      new SavedEntries(name).all().map(({ shard }) => shard),
      [name],
    );
  assert.equal(Object.keys(storage).length, names.length, 'none was cleared away');
  for (const name of names) new SavedEntries(name).remove(entry.id);
  assert.deepEqual(Object.keys(storage), []);
});

test('clears away what is old or broken, and keeps the others', () => {
  const storage = fakeStorage();
  useStorage(() => storage);
  const saved = { ...entry, shard: '1', at: Date.now() };
  const kept = { ...saved, id: 'kept', changes: [{ n: -1, after: 10, by: 12 }] };
  storage['tally:likes:kept'] = JSON.stringify(kept);
  const week = 7 * 24 * 3600_000;
  const without = (field) => ({ ...saved, [field]: undefined });
  for (const bad of [
    ...['', '{', 'null', '7', '[]', '"a"', JSON.stringify(saved).replace('"n":1', '"n":NaN')],
    ...Object.keys(saved).map(without),
    { ...saved, id: 'b' },
    { ...saved, n: 0.5 },
    { ...saved, n: NaN },
    { ...saved, n: '1' },
    { ...saved, shard: 1 },
    { ...saved, after: true },
    { ...saved, by: 'x' },
    { ...saved, by: 1e300 },
    { ...saved, at: null },
    { ...saved, at: Date.now() - week - 1 },
    { ...saved, at: Date.now() + 2 * week },
  ]) {
    storage['tally:likes:a'] = typeof bad === 'string' ? bad : JSON.stringify(bad);
    assert.deepEqual(new SavedEntries('likes').all(), [kept], storage['tally:likes:a']);
    assert.deepEqual(Object.keys(storage), ['tally:likes:kept']);
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
