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
  prefixes = new Set(); // what comes before the ids of counters
  #unranked = false;

  /** Begins anew, with the counters of one or of several databases. */
  clear(several) {
    this.several = several;
    this.rows.clear();
    this.#unranked = true;
  }

  /** Notes a row that is new or changed at now. */
  put(row, now) {
    let r = this.rows.get(row.id);
    if (!r) this.rows.set(row.id, (r = this.#make(row)));
    else if (r.total !== row.total) r.changed = now;
    Object.assign(r, { total: row.total, number: Number(row.total), rate: row.rate, asOf: row.as_of, shards: row.shards });
  }

  #make({ id, database, name, field, rollup, route }) {
    const full = this.several ? `${database}: ${name}` : name;
    const label = field === 'count' ? full : `${full} · ${field}`;
    const end = full.lastIndexOf('/') + 1;
    this.#unranked = true;
    return {
      id, database, name, field, rollup, route, label, key: JSON.stringify([database, rollup, field]), search: label.toLowerCase(), changed: -Infinity,
      prefix: visible(full.slice(0, end)), last: visible(full.slice(end)), suffix: visible(label.slice(full.length)),
    };
  }

  remove(id) {
    if (this.rows.delete(id)) this.#unranked = true;
  }

  /** The sum of all totals, in decimal. */
  sum() {
    let whole = 0n, real = 0;
    for (const { total, number } of this.rows.values()) {
      if (/^-?\d+$/.test(total)) whole += BigInt(total);
      else if (Number.isFinite(number)) real += number;
    }
    return real === 0 ? String(whole) : String(Number(whole) + real);
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
