// What the page knows of all counters, and their order.

import { visible } from './format.js';

const byName = new Intl.Collator('en', { numeric: true }).compare;

/** What a column is sorted by. Counters that are equal there are in the order of their names. */
const columns = {
  name: (r) => r.rank,
  total: (r) => r.number,
  rate: (r) => r.rate,
  age: (r) => -r.asOf,
  shards: (r) => r.shards,
};

/** Whether a counter is gone, but for its roll-up, which an audit removes. */
const gone = (r) => r.shards === 0 && r.number === 0;

export class Counters {
  rows = new Map(); // by id
  shown = []; // those that the filter lets through, in order
  gone = 0; // how many are gone; they are shown only with all
  all = false;
  fastest = 0; // the highest rate
  filter = '';
  column = 'rate';
  descending = true;
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
    const end = name.lastIndexOf('/') + 1;
    const r = {
      ...row, label, key: JSON.stringify([row.database, row.rollup, row.field]), search: label.toLowerCase(), rank: 0, changed: -Infinity,
      prefix: visible(name.slice(0, end)), last: visible(name.slice(end)), suffix: visible(label.slice(name.length)),
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

  /** Filters and sorts anew. With keep, rows that are shown stay in their order, and new ones come after them. */
  order(keep) {
    if (this.#unranked) {
      [...this.rows.values()].sort((a, b) => byName(a.label, b.label) || byName(a.key, b.key)).forEach((r, i) => (r.rank = i));
      this.prefixes = new Set([...this.rows.values()].map((r) => r.prefix));
      this.#unranked = false;
    }
    const words = this.filter.toLowerCase().split(/\s+/).filter(Boolean);
    const place = new Map(keep ? this.shown.map((r, i) => [r.key, i]) : []);
    const rows = [...this.rows.values()], there = rows.filter((r) => !gone(r));
    this.gone = rows.length - there.length;
    this.shown = (this.all ? rows : there).filter((r) => words.every((w) => r.search.includes(w)));
    const value = columns[this.column], sign = this.descending ? -1 : 1;
    this.shown.sort((a, b) => {
      const i = place.get(a.key) ?? Infinity, j = place.get(b.key) ?? Infinity;
      if (i !== j) return i - j;
      const x = value(a), y = value(b);
      if (Number.isNaN(x) || Number.isNaN(y)) return Number.isNaN(x) - Number.isNaN(y) || a.rank - b.rank; // a total that is no number: last
      return (x < y ? -sign : x > y ? sign : 0) || a.rank - b.rank;
    });
    this.fastest = 0;
    for (const r of this.shown) this.fastest = Math.max(this.fastest, Math.abs(r.rate));
  }
}
