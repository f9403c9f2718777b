import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Coverage, Own } from '../src/coverage.js';

/** A coverage that has seen a roll-up. */
function seen(total, asOf) {
  const coverage = new Coverage();
  coverage.rollUp({ total, asOf });
  return coverage;
}

test('nothing is shown before the first roll-up', () => {
  const coverage = new Coverage();
  coverage.tap('a', 1);
  assert.equal(coverage.shown, null);
  coverage.rollUp({ total: 7, asOf: 10 });
  assert.equal(coverage.shown, 7, 'whether the roll-up has the tap in it is not known: it may be double');
  coverage.commit('a', 12, true);
  assert.equal(coverage.shown, 8);
});

test('a tap shows at once and is dropped in the snapshot that covers it', () => {
  const covered = [];
  const coverage = new Coverage((entry) => covered.push(entry.id));
  coverage.rollUp({ total: 7, asOf: 10 });
  assert.deepEqual(coverage.tap('a', 1), { id: 'a', n: 1, after: 10, by: null });
  assert.equal(coverage.shown, 8);
  coverage.commit('a', 20, true);
  assert.equal(coverage.shown, 8);
  coverage.rollUp({ total: 9, asOf: 19 }); // others: 2
  assert.equal(coverage.shown, 10);
  assert.deepEqual(covered, []);
  coverage.rollUp({ total: 10, asOf: 20 });
  assert.equal(coverage.shown, 10);
  assert.deepEqual(covered, ['a']);
});

test('a roll-up that comes before the acknowledgement is not counted twice', () => {
  const coverage = seen(0, 10);
  coverage.tap('a', 1);
  coverage.rollUp({ total: 1, asOf: 30 });
  assert.equal(coverage.shown, 1);
  coverage.commit('a', 20, true);
  assert.equal(coverage.shown, 1);
  assert.deepEqual(coverage.entries, []);
});

test('a refused tap is taken back, also when another one is covered already', () => {
  const coverage = seen(0, 10);
  coverage.tap('refused', 1);
  coverage.tap('covered', 1);
  coverage.rollUp({ total: 1, asOf: 30 });
  assert.equal(coverage.shown, 2);
  coverage.refuse('refused');
  assert.equal(coverage.shown, 1);
  coverage.commit('covered', 20, true);
  assert.equal(coverage.shown, 1);
});

test('a bound is no exact time', () => {
  const coverage = seen(0, 10);
  coverage.tap('a', 1);
  coverage.commit('a', 20, false);
  coverage.rollUp({ total: 0, asOf: 15 });
  assert.equal(coverage.shown, 1);
  coverage.rollUp({ total: 1, asOf: 18 });
  assert.equal(coverage.shown, 1);
  coverage.rollUp({ total: 3, asOf: 19 });
  assert.equal(coverage.shown, 3, 'the least that it can be, 4 the most');
  coverage.rollUp({ total: 3, asOf: 20 });
  assert.equal(coverage.shown, 3);
});

test('decrements', () => {
  const coverage = seen(5, 10);
  coverage.tap('a', -1);
  assert.equal(coverage.shown, 4);
  coverage.rollUp({ total: 4, asOf: 30 });
  assert.equal(coverage.shown, 4);
  coverage.commit('a', 20, true);
  assert.equal(coverage.shown, 4);
});

test('others may take away', () => {
  const coverage = seen(5, 10);
  coverage.rollUp({ total: 2, asOf: 20 });
  assert.equal(coverage.shown, 2);
});

test('without a roll-up nothing is covered, and a counter that is created again is taken as it is', () => {
  const coverage = seen(0, null);
  coverage.tap('a', 1);
  coverage.commit('a', 20, true);
  assert.equal(coverage.shown, 1);
  coverage.rollUp({ total: 100, asOf: 50 });
  assert.equal(coverage.shown, 100);
  coverage.rollUp({ total: 3, asOf: 40 });
  assert.equal(coverage.shown, 3);
  assert.equal(coverage.newest, 50);
  coverage.rollUp({ total: 0, asOf: null });
  assert.equal(coverage.shown, 0);
});

test('increments of an earlier page', () => {
  const coverage = new Coverage();
  coverage.restore({ id: 'unsent', n: 1, after: 10, by: null });
  coverage.restore({ id: 'committed', n: 1, after: 11, by: 12 });
  coverage.rollUp({ total: 5, asOf: 10 });
  assert.equal(coverage.shown, 7);
  coverage.restore({ id: 'late', n: 1, after: 10, by: null });
  assert.equal(coverage.shown, 8);
  coverage.rollUp({ total: 6, asOf: 12 });
  assert.equal(coverage.shown, 8);
});

test('what is told about an entry that is gone, changes nothing', () => {
  const coverage = seen(5, 10);
  coverage.tap('a', 1);
  coverage.refuse('a');
  coverage.refuse('a');
  coverage.commit('a', 20, true);
  coverage.forget('a');
  assert.equal(coverage.shown, 5);
});

/** A user's own like, of which a coverage knows. */
function ownOf(coverage) {
  const own = new Own();
  coverage.likes.add(own);
  return own;
}

/** What a like, or one taken back, does. Returns its change. */
function move(coverage, own, liked, { news = true, by = null } = {}) {
  const after = news ? coverage.newest : (own.entries.at(-1)?.by ?? null);
  const change = { n: liked ? 1 : -1, after, by };
  coverage.move(own, news, () => own.push(change));
  return change;
}

test('a like and one that is taken back show at once, and the roll-up that covers them changes nothing', () => {
  const coverage = seen(5, 10);
  const own = ownOf(coverage);
  const change = move(coverage, own, true);
  assert.deepEqual([coverage.shown, own.now], [6, true]);
  coverage.rollUp({ total: 6, asOf: 30 });
  assert.equal(coverage.shown, 6, 'it may be in the roll-up, or somebody else');
  Object.assign(change, { after: 19, by: 20 });
  coverage.settle();
  assert.deepEqual([coverage.shown, own.entries], [6, []]);

  const back = move(coverage, own, false);
  assert.deepEqual([coverage.shown, own.now], [5, false]);
  back.by = 40;
  coverage.rollUp({ total: 7, asOf: 39 });
  assert.equal(coverage.shown, 6, 'the least that it can be');
  coverage.rollUp({ total: 7, asOf: 40 });
  assert.deepEqual([coverage.shown, own.entries], [7, []]);
});

test('likes that are refused: the number goes back to what it was, and no further', () => {
  for (const before of [false, true]) {
    const coverage = seen(5 + Number(before), 10);
    const own = ownOf(coverage);
    own.now = before;
    for (const liked of [!before, before, !before]) move(coverage, own, liked);
    assert.equal(coverage.shown, 5 + Number(!before));
    coverage.move(own, true, () => own.undo());
    assert.deepEqual([coverage.shown, own.now, own.entries], [5 + Number(before), before, []]);
  }
});

test('another device: a like that it took back is in the total no more', () => {
  const coverage = seen(0, 10);
  const own = ownOf(coverage);
  Object.assign(move(coverage, own, true), { after: 19, by: 20 });
  move(coverage, own, false, { by: 30 });
  assert.equal(coverage.shown, 0);
  coverage.rollUp({ total: 1, asOf: 25 });
  assert.equal(coverage.shown, 0, 'the roll-up has the like, and not yet that it is gone');
  coverage.rollUp({ total: 0, asOf: 30 });
  assert.equal(coverage.shown, 0);
});

test('what may be in a roll-up already moves the number no further than it must', () => {
  const coverage = seen(5, 10);
  const own = ownOf(coverage);
  own.now = true;
  coverage.rollUp({ total: 4, asOf: 30 }); // which came before the news
  move(coverage, own, false, { news: false });
  assert.equal(coverage.shown, 4);
  coverage.rollUp({ total: 4, asOf: 40 });
  assert.equal(coverage.shown, 4);
});

test('a like that is found when a page opens: in the total once', () => {
  for (const [asOf, total] of [
    [null, 0],
    [19, 0],
    [20, 1],
    [50, 1],
  ]) {
    const coverage = seen(total, asOf);
    const own = ownOf(coverage);
    const change = move(coverage, own, true, { news: false });
    Object.assign(change, { after: 19, by: 20 });
    coverage.settle();
    assert.equal(coverage.shown, 1, `as of ${asOf}`);
  }
});

test('likes of two users add up', () => {
  const coverage = seen(5, 10);
  for (const own of [ownOf(coverage), ownOf(coverage)]) move(coverage, own, true);
  assert.equal(coverage.shown, 7);
  coverage.rollUp({ total: 6, asOf: 30 });
  assert.equal(coverage.shown, 7);
});

test('of many changes that no roll-up covers the last are remembered', () => {
  const coverage = seen(5, 10);
  const own = ownOf(coverage);
  for (let n = 1; n <= 51; n++) move(coverage, own, n % 2 === 1);
  assert.equal(own.entries.length, 20);
  assert.equal(own.now, true);
});

/**
 * A server with commits and roll-ups, and one client. What it does is checked after each step: with
 * increments only, the number shown is never above the truth, and falls only after a refusal;
 * and it is the truth where nothing is unknown.
 */
class World {
  time = 100;
  commits = []; // { time, n, own }
  taps = []; // { id, n, state: 'sent' | 'committed' | 'acknowledged' | 'refused', time }
  read = []; // roll-ups that were read and not delivered
  rollUp = { total: 0, asOf: 100 };
  coverage = new Coverage();
  onlyIncrements = true;

  constructor() {
    this.coverage.rollUp(this.rollUp);
  }

  /** What the client would show if it knew everything but others' increments since the roll-up. */
  get truth() {
    let truth = this.rollUp.total;
    for (const { n, state, time } of this.taps) {
      if (state === 'sent' || (state !== 'refused' && time > this.rollUp.asOf)) truth += n;
    }
    return truth;
  }

  step(name, act) {
    const before = this.coverage.shown;
    const allowed = act() ?? before;
    const { shown } = this.coverage;
    const unknown = this.coverage.entries.some(
      ({ after, by }) => this.rollUp.asOf > after && (by === null || this.rollUp.asOf < by),
    );
    const told = () => `${name}: shown ${before}, then ${shown}; truth ${this.truth}`;
    if (!unknown && this.taps.every(({ state }) => state !== 'committed')) assert.equal(shown, this.truth, told());
    if (!this.onlyIncrements) return;
    assert.ok(shown <= this.truth, told());
    assert.ok(shown >= allowed, told());
  }

  tap(n = 1) {
    this.step('tap', () => {
      const tap = { id: `${this.taps.length}`, n, state: 'sent' };
      this.taps.push(tap);
      const before = this.coverage.shown;
      this.coverage.tap(tap.id, n);
      assert.equal(this.coverage.shown, before + n);
    });
  }

  commit(tap) {
    this.step('commit', () => {
      tap.state = 'committed';
      tap.time = this.time += 2;
      this.commits.push({ time: tap.time, n: tap.n });
    });
  }

  /** Acknowledges, with the exact time or with a bound that is `later`. */
  acknowledge(tap, later) {
    this.step('acknowledge', () => {
      tap.state = 'acknowledged';
      const latest = this.commits.at(-1).time;
      if (later) this.coverage.commit(tap.id, latest, false);
      else this.coverage.commit(tap.id, tap.time, true);
    });
  }

  refuse(tap) {
    this.step('refuse', () => {
      tap.state = 'refused';
      const before = this.coverage.shown;
      this.coverage.refuse(tap.id);
      return before - tap.n;
    });
  }

  other(n = 1) {
    this.step('other', () => void this.commits.push({ time: (this.time += 2), n }));
  }

  snapshot(asOf = ++this.time) {
    this.step('snapshot', () => {
      const total = this.commits.filter(({ time }) => time <= asOf).reduce((sum, { n }) => sum + n, 0);
      this.read.push({ total, asOf });
    });
  }

  deliver() {
    this.step('deliver', () => this.coverage.rollUp((this.rollUp = this.read.shift())));
  }

  /** The page is loaded again: what was saved is all that is left. */
  reload() {
    const entries = this.coverage.entries.map((entry) => ({ ...entry }));
    this.coverage = new Coverage();
    for (const entry of entries) this.coverage.restore(entry);
    this.coverage.rollUp(this.rollUp);
    if (this.onlyIncrements) assert.ok(this.coverage.shown <= this.truth, 'reload');
  }

  /** Everything arrives. */
  finish() {
    for (const tap of this.taps) if (tap.state === 'sent') this.commit(tap);
    for (const tap of this.taps) if (tap.state === 'committed') this.acknowledge(tap, false);
    this.snapshot();
    while (this.read.length > 0) this.deliver();
    const total = this.commits.reduce((sum, { n }) => sum + n, 0);
    assert.equal(this.coverage.shown, total);
    assert.deepEqual(this.coverage.entries, []);
  }
}

test('every order of two taps, another client, and two roll-ups', () => {
  let orders = 0;
  /** Replays the moves made so far, and goes on with each that is possible next. */
  const explore = (moves) => {
    const world = new World();
    for (const move of moves) move(world);
    const next = [];
    world.taps.forEach((tap, i) => {
      if (tap.state === 'sent') next.push((w) => w.commit(w.taps[i]));
      if (tap.state === 'sent' && i === 0) next.push((w) => w.refuse(w.taps[i]));
      if (tap.state === 'committed') {
        next.push((w) => w.acknowledge(w.taps[i], false));
        if (tap.time < world.commits.at(-1).time) next.push((w) => w.acknowledge(w.taps[i], true));
      }
    });
    if (world.taps.length < 2) next.push((w) => w.tap());
    if (!world.others) next.push((w) => ((w.others = 1), w.other()));
    if ((world.snapshots ?? 0) < 2) next.push((w) => ((w.snapshots = (w.snapshots ?? 0) + 1), w.snapshot()));
    if (world.read.length > 0) next.push((w) => w.deliver());
    if (next.length === 0) {
      orders++;
      world.finish();
    }
    for (const move of next) explore([...moves, move]);
  };
  explore([]);
  assert.ok(orders > 100_000, `only ${orders} orders`);
});

/** A seeded source of random numbers from 0 to below 1: mulberry32. */
function random(seed) {
  return () => {
    seed = (seed + 0x6d2b79f5) | 0;
    let t = Math.imul(seed ^ (seed >>> 15), 1 | seed);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
}

for (const onlyIncrements of [true, false]) {
  test(`random histories of ${onlyIncrements ? 'increments' : 'increments and decrements'}`, () => {
    for (let seed = 1; seed <= 20_000; seed++) {
      const next = random(seed);
      const below = (n) => Math.floor(next() * n);
      const amount = () => (onlyIncrements || next() < 0.5 ? 1 : -1) * (1 + below(3));
      const world = new World();
      world.onlyIncrements = onlyIncrements;
      const one = (state) => {
        const taps = world.taps.filter((tap) => tap.state === state);
        return taps[below(taps.length)];
      };
      try {
        for (let i = 0; i < 40; i++) {
          const sent = one('sent');
          const committed = one('committed');
          const move = below(9);
          if (move <= 1) world.tap(amount());
          else if (move === 2 && sent) world.commit(sent);
          else if (move === 3 && committed) world.acknowledge(committed, next() < 0.5);
          else if (move === 4 && sent && next() < 0.3) world.refuse(sent);
          else if (move === 5) world.other(amount());
          else if (move === 6) world.snapshot();
          else if (move === 7 && world.read.length > 0) world.deliver();
          else if (move === 8 && next() < 0.1) world.reload();
        }
        world.finish();
      } catch (error) {
        error.message = `seed ${seed}: ${error.message}`;
        throw error;
      }
    }
  });
}

/**
 * A server, and a device of a user who likes and takes back, as own.js has it: the writes of one page
 * arrive in order; when none is on the way, the listener tells when a like was created, and the cache
 * when it was deleted, or a little later. Another device of the user and other users may like, too.
 */
class Likes {
  time = 100;
  history = [{ time: 0, v: 0 }]; // of the user's document
  others = [];
  moves = []; // { v, state: 'sent' | 'committed' | 'acknowledged' }
  read = [];
  rollUp = { total: 0, asOf: 100 };
  coverage = new Coverage();
  own = ownOf(this.coverage);

  constructor(late) {
    this.late = late;
    this.coverage.rollUp(this.rollUp);
  }

  get v() {
    return Number(this.own.now);
  }

  at(asOf) {
    const sum = this.others.filter(({ time }) => time <= asOf).reduce((sum, { n }) => sum + n, 0);
    return { others: sum, v: this.history.findLast(({ time }) => time <= asOf).v };
  }

  check(name, fell) {
    const { shown } = this.coverage;
    const { total, asOf } = this.rollUp;
    const { entries } = this.own;
    const told = () => `${name}: shown ${shown}, roll-up ${total}, like ${this.v}, ${entries.length} changes`;
    if (entries.length === 0) assert.equal(shown, total, told());
    else assert.ok(shown - total === this.v || shown - total === this.v - 1, told());
    const truth = this.at(asOf).others + this.v;
    assert.ok(shown <= truth, `${told()}, truth ${truth}`);
    if (this.others.length === 0) assert.equal(shown, this.v, told());
    assert.ok(shown >= this.before - fell, `${told()}, fell from ${this.before}`);
  }

  step(name, act) {
    this.before = this.coverage.shown;
    this.check(name, act.call(this) ?? 0);
  }

  move(v) {
    this.step(`move to ${v}`, () => {
      const before = this.v;
      if (v !== before) move(this.coverage, this.own, v === 1);
      this.moves.push({ v, state: 'sent' });
      return Math.max(before - v, 0);
    });
  }

  write(v) {
    this.time += 2;
    if (this.history.at(-1).v !== v) this.history.push({ time: this.time, v });
  }

  commit() {
    this.step('commit', () => {
      const move = this.moves.find(({ state }) => state === 'sent');
      if (!move) return;
      move.state = 'committed';
      this.write(move.v);
    });
  }

  acknowledge() {
    this.step('acknowledge', () => {
      const move = this.moves.find(({ state }) => state === 'committed');
      if (!move) return;
      move.state = 'acknowledged';
      if (this.moves.every(({ state }) => state === 'acknowledged')) this.hear(true);
    });
  }

  /** What own.js does when the listener or the cache tells the document. */
  hear(news) {
    const { time, v } = this.history.at(-1);
    const fell = Math.max(this.v - v, 0);
    if (v !== this.v) move(this.coverage, this.own, v === 1, { news });
    const { entries } = this.own;
    const last = entries.at(-1);
    for (const entry of entries) entry.by ??= time + (v === 1 ? 0 : this.late);
    if (last && v === 1) Object.assign(last, { after: time - 1, by: time });
    this.coverage.settle();
    return fell;
  }

  other() {
    this.step('other', () => void this.others.push({ time: (this.time += 2), n: 1 }));
  }

  /** Another device of the user, of which this one is told before a roll-up has it. */
  otherDevice(v) {
    if (this.moves.some(({ state }) => state !== 'acknowledged')) return;
    this.step(`another device: ${v}`, () => {
      this.write(v);
      return this.hear(true);
    });
  }

  snapshot() {
    const asOf = ++this.time;
    const { others, v } = this.at(asOf);
    this.read.push({ total: others + v, asOf });
  }

  deliver() {
    this.step('deliver', () => void (this.read.length > 0 && this.coverage.rollUp((this.rollUp = this.read.shift()))));
  }

  finish() {
    this.moves.forEach(() => this.commit());
    this.moves.forEach(() => this.acknowledge());
    this.time += this.late;
    this.snapshot();
    while (this.read.length > 0) this.deliver();
    const { others, v } = this.at(this.time);
    assert.equal(this.coverage.shown, others + v);
    assert.deepEqual(this.own.entries, []);
  }
}

for (const [who, most, late] of [
  ['one device, no other user', 6, 0],
  ['one device, and other users', 7, 0],
  ['one device, and other users, and a cache that learns late what is deleted', 7, 3],
  ['two devices, and other users', 8, 0],
]) {
  test(`random histories of likes: ${who}`, () => {
    for (let seed = 1; seed <= 20_000; seed++) {
      const next = random(seed);
      const below = (n) => Math.floor(next() * n);
      const world = new Likes(late);
      try {
        for (let i = 0; i < 40; i++) {
          const move = below(most);
          if (move <= 1) world.move(below(2));
          else if (move === 2) world.commit();
          else if (move === 3) world.acknowledge();
          else if (move === 4) world.snapshot();
          else if (move === 5) world.deliver();
          else if (move === 6) world.other();
          else world.otherDevice(below(2));
        }
        world.finish();
      } catch (error) {
        error.message = `seed ${seed}: ${error.message}`;
        throw error;
      }
    }
  });
}
