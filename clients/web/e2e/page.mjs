// What the test pages run: the real SDK and the package, for tests to call.
import { initializeApp } from 'firebase/app';
import { CustomProvider, initializeAppCheck } from 'firebase/app-check';
import * as firestore from 'firebase/firestore';
import { counter, like, total } from '../src/index.js';

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
  like: (path, options) => like(db, path, options),
  total: (path, name) => total(db, path, name),

  db: () => db,

  /**
   * Shows a counter's total, or that of likes, with the user's own. `calls` are the totals that it called back with, `frames` those that
   * an animation frame painted, each without repetitions.
   */
  show(path, options) {
    const shown = { calls: [], frames: [], last: null, error: null };
    const text = document.body.appendChild(document.createElement('p'));
    const [, above, name] = /^(.*)\/(.*)$/.exec(path);
    const ofLikes = path.split('/').length % 2 === 1;
    shown.counter = ofLikes ? total(db, above, options?.total ?? name) : counter(db, path, options);
    if (ofLikes && options?.uid !== undefined) shown.like = like(db, path, options);
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

  /** Listens to the user's own like. `liked` has what it was told, and the code of an error. */
  watchLike() {
    shown.liked = [];
    shown.stopLiked = shown.like.onLiked(
      (liked) => shown.liked.push(liked),
      (error) => shown.liked.push(error.code),
    );
  },

  /** Calls a method of a counter, or of a like, and returns its outcome. */
  async call(path, options, method, ...args) {
    try {
      const on = ['set', 'unset'].includes(method) ? like : counter;
      const value = await on(db, path, options)[method](...args);
      return { value: value?.total ?? value };
    } catch (error) {
      return { code: error.code, message: error.message, name: error.name };
    }
  },
};
