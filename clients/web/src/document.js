import { getDoc, getDocFromCache, orNull } from './sdk.js';

/** @import { DocumentData, DocumentReference } from 'firebase/firestore' */

/** If the last read was longer ago than so many ms, the next use of the number reads again. */
const AGE = 60_000;

/** An increment waits at most so many ms for the number of shards. */
const PATIENCE = 1_000;

/** The counter's own document: how many shards it has, and who may write them. */
export class CounterDocument {
  #ref;
  /** @type {DocumentData | null} */ #data = null;
  /** @type {Promise<void> | null} */ #reading = null;
  #readAt = -Infinity;

  /** @param {DocumentReference} ref */
  constructor(ref) {
    this.#ref = ref;
  }

  /**
   * The number of shards; 0: not known. It comes from memory or from the SDK's cache. If neither
   * has it, this waits a moment for the server, because the rules refuse a shard beyond the number.
   */
  async shards() {
    const reading = performance.now() - this.#readAt > AGE ? this.read() : this.#reading;
    if (this.#data === null) {
      const snapshot = await orNull(getDocFromCache, this.#ref);
      this.#data ??= snapshot?.data() ?? null;
    }
    // Node.js has no navigator, or one that does not say.
    const global = /** @type {{ navigator?: { onLine?: boolean } }} */ (globalThis);
    const offline = global.navigator?.onLine === false;
    if (this.#data === null && reading && !offline) {
      await Promise.race([reading, new Promise((resolve) => setTimeout(resolve, PATIENCE))]);
    }
    return this.knownShards;
  }

  /** The number of shards that the document said last; 0: not known. */
  get knownShards() {
    /** @type {unknown} */
    const n = this.#data?.['num_shards'] ?? this.#data?.['numShards'];
    return typeof n === 'number' && Number.isInteger(n) && n > 0 ? n : 0;
  }

  /** Whether the document is known to say that the counter is frozen: no client may write then. */
  get frozen() {
    return this.#data?.['frozen'] === true;
  }

  /** Reads the document from the server. If there is no answer, it keeps the data that it had. */
  async read() {
    this.#readAt = performance.now();
    await (this.#reading ??= orNull(getDoc, this.#ref)
      .then((snapshot) => {
        if (snapshot) this.#data = snapshot.data() ?? {};
      })
      .finally(() => (this.#reading = null)));
  }
}
