import type { Entry } from './coverage.js';

/** What is kept of an own increment over a reload. */
export interface Saved extends Entry {
  shard: string;
  /** When it was saved, by this device's clock: only to clear away what nobody will ever ask for. */
  at: number;
}

/** After this long in ms, an entry whose page went away without it being settled is cleared away. */
const KEPT = 7 * 24 * 60 * 60 * 1000;

/**
 * Own increments of one counter in localStorage, which all tabs of an origin share: one key each, so that tabs do not
 * overwrite each other's. Where there is no storage (a worker, a server, a browser that forbids it) it keeps nothing.
 */
export class SavedEntries {
  #storage: Storage | null;
  #prefix: string;

  constructor(counter: string) {
    this.#prefix = `tally:${counter}:`;
    try {
      this.#storage = globalThis.localStorage ?? null;
    } catch {
      this.#storage = null;
    }
  }

  /** All that are kept, of this page and of others, in no order. */
  all(): Saved[] {
    const found: Saved[] = [];
    try {
      for (const key of Object.keys(this.#storage ?? {})) {
        if (!key.startsWith(this.#prefix)) continue;
        const saved = parse(this.#storage!.getItem(key));
        if (saved && this.#prefix + saved.id === key && Math.abs(Date.now() - saved.at) < KEPT) found.push(saved);
        else this.#storage!.removeItem(key);
      }
    } catch {
      this.#storage = null;
    }
    return found;
  }

  save(entry: Entry, shard: string): void {
    const saved: Saved = { ...entry, shard, at: Date.now() };
    try {
      this.#storage?.setItem(this.#prefix + entry.id, JSON.stringify(saved));
    } catch {
      // Full: then it is not shown after a reload.
    }
  }

  remove(id: string): void {
    try {
      this.#storage?.removeItem(this.#prefix + id);
    } catch {
      this.#storage = null;
    }
  }
}

function parse(text: string | null): Saved | null {
  try {
    const s = JSON.parse(text ?? '') as Saved;
    const time = (t: unknown) => t === null || Number.isSafeInteger(t);
    const ok = Number.isSafeInteger(s.n) && typeof s.shard === 'string' && (s.voter === null || s.voter === s.shard);
    return ok && time(s.after) && time(s.by) && Number.isFinite(s.at) ? s : null;
  } catch {
    return null;
  }
}
