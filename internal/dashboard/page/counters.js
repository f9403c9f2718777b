// What the page knows of all counters, and their order.

const byName = new Intl.Collator('en', { numeric: true }).compare;

/** What a column is sorted by. Counters that are equal there are in the order of their names. */
const columns = {
  name: (r) => r.rank,
  total: (r) => r.number,
  rate: (r) => r.rate,
  age: (r) => -r.asOf,
  shards: (r) => r.shards,
};

export class Counters {
  rows = new Map(); // by id
  shown = []; // those that the filter lets through, in order
  fastest = 0; // the highest rate
  filter = '';
  column = 'name';
  descending = false;
  #whole = 0n; // the sum of integer totals
  #real = 0; // of all others
  prefixes = new Set(); // what comes before the ids of counters
  #unranked = false;

  /** Begins anew, with the counters of one or of several databases. */
  clear(several) {
    this.several = several;
    this.rows.clear();
    this.#whole = 0n;
    this.#real = 0;
    this.#unranked = true;
  }

  add(row) {
    const name = this.several ? `${row.database}: ${row.name}` : row.name;
    const label = row.field === 'count' ? name : `${name} · ${row.field}`;
    const r = {
      ...row, label, key: JSON.stringify([row.database, row.rollup, row.field]), prefix: name.slice(0, name.lastIndexOf('/') + 1),
      search: label.toLowerCase(), rank: 0, changed: -Infinity,
    };
    this.#set(r, row.total, row.rate, row.as_of, row.shards);
    this.rows.set(row.id, r);
    this.#unranked = true;
  }

  move([id, total, rate, asOf, shards], now) {
    const r = this.rows.get(id);
    if (r.total !== total) r.changed = now;
    this.#count(r, -1);
    this.#set(r, total, rate, asOf, shards);
  }

  remove(id) {
    const r = this.rows.get(id);
    if (!r) return;
    this.#count(r, -1);
    this.rows.delete(id);
    this.#unranked = true;
  }

  #set(r, total, rate, asOf, shards) {
    r.total = total;
    r.number = Number(total);
    r.rate = rate;
    r.asOf = asOf;
    r.shards = shards;
    this.#count(r, 1);
  }

  #count(r, sign) {
    if (/^-?\d+$/.test(r.total)) this.#whole += BigInt(sign) * BigInt(r.total);
    else if (Number.isFinite(r.number)) this.#real += sign * r.number;
  }

  /** The sum of all totals, in decimal. */
  sum() {
    return this.#real === 0 ? String(this.#whole) : String(Number(this.#whole) + this.#real);
  }

  /** Filters and sorts anew. */
  order() {
    if (this.#unranked) {
      [...this.rows.values()].sort((a, b) => byName(a.label, b.label) || byName(a.key, b.key)).forEach((r, i) => (r.rank = i));
      this.prefixes = new Set([...this.rows.values()].map((r) => r.prefix));
      this.#unranked = false;
    }
    const words = this.filter.toLowerCase().split(/\s+/).filter(Boolean);
    this.shown = [...this.rows.values()].filter((r) => words.every((w) => r.search.includes(w)));
    const value = columns[this.column], sign = this.descending ? -1 : 1;
    this.shown.sort((a, b) => {
      const x = value(a), y = value(b);
      if (Number.isNaN(x) || Number.isNaN(y)) return Number.isNaN(x) - Number.isNaN(y) || a.rank - b.rank; // a total that is no number: last
      return (x < y ? -sign : x > y ? sign : 0) || a.rank - b.rank;
    });
    this.fastest = 0;
    for (const r of this.shown) this.fastest = Math.max(this.fastest, Math.abs(r.rate));
  }

  /** Whether the order depends on what moves. */
  get restless() {
    return this.column !== 'name';
  }
}
