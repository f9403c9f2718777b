// What the test pages run: the real SDK and the package, for tests to call.
import { initializeApp } from 'firebase/app';
import { CustomProvider, initializeAppCheck } from 'firebase/app-check';
import * as firestore from 'firebase/firestore';
import { counter } from '../src/index.js';

const {
  initializeFirestore,
  memoryEagerGarbageCollector,
  memoryLocalCache,
  persistentLocalCache,
  persistentMultipleTabManager,
} = firestore;

const caches = {
  memory: () => memoryLocalCache(),
  eager: () => memoryLocalCache({ garbageCollector: memoryEagerGarbageCollector() }), // the default of old SDKs
  persistent: () => persistentLocalCache({}),
  multiTab: () => persistentLocalCache({ tabManager: persistentMultipleTabManager() }),
};

let db;

window.tally = {
  firestore,

  /** Opens Firestore, as a user or signed out. */
  open({ project, port, cache = 'memory', uid = null, appCheck = false }) {
    const app = initializeApp({ projectId: project, apiKey: 'none', appId: '1:1:web:1' });
    if (appCheck) {
      const getToken = async () => ({ token: 'app-check-token', expireTimeMillis: Date.now() + 3_600_000 });
      initializeAppCheck(app, { provider: new CustomProvider({ getToken }) });
    }
    db = initializeFirestore(app, { localCache: caches[cache]() });
    firestore.connectFirestoreEmulator(db, '127.0.0.1', port, uid ? { mockUserToken: { sub: uid } } : {});
  },

  counter: (path, options) => counter(db, path, options),

  db: () => db,

  /**
   * Shows a counter's total. `calls` are the totals that it called back with, `frames` those that
   * an animation frame painted, each without repetitions.
   */
  show(path, options) {
    const shown = { calls: [], frames: [], last: null, error: null };
    const text = document.body.appendChild(document.createElement('p'));
    shown.counter = counter(db, path, options);
    const painted = () => {
      const number = Number(text.textContent);
      if (shown.frames.at(-1) !== number) shown.frames.push(number);
    };
    shown.stop = shown.counter.onTotal(
      (total) => {
        shown.last = { ...total, asOf: total.asOf && total.asOf.toMillis() };
        if (shown.calls.at(-1) !== total.total) shown.calls.push(total.total);
        text.textContent = String(total.total);
        requestAnimationFrame(painted);
      },
      (error) => (shown.error = { code: error.code, message: error.message }),
    );
    window.shown = shown;
  },

  /** Listens to the user's own vote. `voted` has what it was told, and the code of an error. */
  watchVote() {
    shown.voted = [];
    shown.stopVoted = shown.counter.onVoted(
      (voted) => shown.voted.push(voted),
      (error) => shown.voted.push(error.code),
    );
  },

  /** Calls a method of a counter, and returns its outcome. */
  async call(path, options, method, ...args) {
    try {
      const value = await counter(db, path, options)[method](...args);
      return { value: value?.total ?? value };
    } catch (error) {
      return { code: error.code, message: error.message, name: error.name };
    }
  },
};
