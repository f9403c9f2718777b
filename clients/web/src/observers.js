/**
 * Somebody who is told a value, and told again when it changes.
 *
 * @template T
 * @typedef {{ next: (value: T) => void, error: (error: unknown) => void, told?: string }} Observer
 */

/**
 * Those who are told a value. An error in the app's code is not the client's.
 *
 * @template T
 */
export class Observers {
  /** @type {Set<Observer<T>>} */ #all = new Set();

  get some() {
    return this.#all.size > 0;
  }

  /** @param {Observer<T>} observer */
  add(observer) {
    this.#all.add(observer);
  }

  /** @param {Observer<T>} observer */
  delete(observer) {
    this.#all.delete(observer);
  }

  /**
   * Tells the value to all to whom it is news. @param {T} value @param {string} key tells values apart
   */
  tell(value, key) {
    for (const observer of [...this.#all]) {
      if (observer.told === key) continue;
      observer.told = key;
      outside(() => observer.next(value));
    }
  }

  /** Tells all an error, and nothing more after it. @param {unknown} error */
  fail(error) {
    const all = [...this.#all];
    this.#all.clear();
    for (const observer of all) outside(() => observer.error(error));
  }
}

/** @param {() => void} call */
function outside(call) {
  try {
    call();
  } catch (error) {
    queueMicrotask(() => {
      throw error;
    });
  }
}
