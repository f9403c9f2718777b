// The table of counters. Only the rows in view, and a few more, are in the document; each is used again for another counter as the
// list is scrolled. The row that the keyboard is at is named by aria-activedescendant, so the focus stays where it is while rows
// come and go.

import { age, decimal, integer, rate } from './format.js';

const spare = 6; // rows beyond the edges, so that scrolling shows no gap before the next frame
const fresh = 500; // milliseconds for which a changed total stands out

export class Grid {
  #grid;
  #rows;
  #slots = []; // elements, each for the rows whose index has the same remainder
  #active = null; // key of a counter
  #height;

  /** open is called with the counter that is to be shown, and with whether by the keyboard. */
  constructor(grid, rows, counters, { open, draw }) {
    this.#grid = grid;
    this.#rows = rows;
    this.counters = counters;
    this.selected = null; // key of the counter that is shown beside
    grid.addEventListener('scroll', draw, { passive: true });
    new ResizeObserver(draw).observe(grid);
    grid.addEventListener('focus', draw);
    grid.addEventListener('blur', draw);
    this.open = open;
    rows.addEventListener('click', (e) => {
      const r = this.counters.shown[e.target.closest('.row')?.index];
      if (!r) return;
      this.#active = r.key;
      open(r, false);
      draw();
    });
  }

  /** Does what a key is for, and reports whether it is for anything. */
  key(key) {
    const shown = this.counters.shown, at = this.#index(), page = Math.max(1, Math.floor(this.#room() / this.#height) - 1);
    const to = { ArrowDown: at + 1, ArrowUp: at - 1, PageDown: at + page, PageUp: at - page, Home: 0, End: shown.length - 1 }[key];
    if (shown.length === 0 || (to === undefined && key !== 'Enter' && key !== ' ')) return false;
    this.#grid.focus({ preventScroll: true });
    this.activate(Math.min(Math.max(to ?? at, 0), shown.length - 1));
    if (to === undefined) this.open(shown[Math.max(at, 0)], true);
    return true;
  }

  /** Whether somebody points at a row, or is at one by keyboard. */
  get held() {
    return this.#rows.matches(':hover') || this.#grid.matches(':focus-visible');
  }

  /** The index of the row that the keyboard is at, or -1. */
  #index() {
    return this.#active === null ? -1 : this.counters.shown.findIndex((r) => r.key === this.#active);
  }

  #room() {
    return this.#grid.clientHeight - this.#rows.offsetTop;
  }

  /** Moves the keyboard to a row, and scrolls it into view. */
  activate(index) {
    this.#active = this.counters.shown[index]?.key ?? null;
    const top = index * this.#height, room = this.#room();
    if (top < this.#grid.scrollTop) this.#grid.scrollTop = top;
    else if (top + this.#height > this.#grid.scrollTop + room) this.#grid.scrollTop = top + this.#height - room;
  }

  focus() {
    this.#grid.focus();
    if (this.#index() < 0) this.activate(0);
  }

  /** Draws what is in view. micros is Firestore's time, now the page's. */
  draw(micros, now) {
    const shown = this.counters.shown;
    this.#height = parseFloat(getComputedStyle(this.#grid).getPropertyValue('--row'));
    this.#rows.style.height = `${shown.length * this.#height}px`;
    this.#grid.setAttribute('aria-rowcount', shown.length + 1);
    const room = this.#room();
    const first = Math.max(0, Math.floor(this.#grid.scrollTop / this.#height) - spare);
    const needed = Math.ceil(room / this.#height) + 2 * spare + 1;
    while (this.#slots.length < needed) {
      const slot = makeRow();
      this.#slots.push(slot);
      this.#rows.append(slot.element);
    }
    while (this.#slots.length > needed) this.#slots.pop().element.remove();
    const count = this.#slots.length;
    const active = document.activeElement === this.#grid ? this.#active : null;
    let activeID = '';
    for (let i = first; i < first + count; i++) {
      const slot = this.#slots[i % count], r = shown[i];
      set(slot, 'hidden', !r);
      slot.element.index = i;
      if (!r) continue;
      this.#fill(slot, r, i, micros, now, r.key === active);
      if (r.key === active) activeID = slot.element.id;
    }
    if (activeID) this.#grid.setAttribute('aria-activedescendant', activeID);
    else this.#grid.removeAttribute('aria-activedescendant');
  }

  #fill(slot, r, i, micros, now, active) {
    set(slot, 'top', i * this.#height);
    set(slot, 'id', `row-${r.id}`);
    set(slot, 'rowindex', i + 2);
    set(slot, 'selected', r.key === this.selected);
    set(slot, 'active', active);
    set(slot, 'fresh', now - r.changed < fresh);
    set(slot, 'prefix', r.prefix);
    set(slot, 'last', r.last);
    set(slot, 'suffix', r.suffix);
    set(slot, 'title', r.prefix + r.last + r.suffix);
    set(slot, 'total', r.total);
    set(slot, 'rate', r.rate);
    set(slot, 'bar', this.counters.fastest > 0 ? Math.round((Math.abs(r.rate) / this.counters.fastest) * 100) : 0);
    set(slot, 'age', age((micros - r.asOf) / 1e6));
    set(slot, 'shards', r.shards);
  }
}

function makeRow() {
  const element = document.createElement('div');
  element.className = 'row';
  element.setAttribute('role', 'row');
  const cells = ['name', 'total', 'rate', 'age', 'shards'].map((name, i) => {
    const cell = document.createElement('div');
    cell.setAttribute('role', 'gridcell');
    cell.setAttribute('aria-colindex', i + 1);
    cell.className = i === 0 ? 'name' : `number ${name}`;
    element.append(cell);
    return cell;
  });
  const name = ['prefix', 'last', 'suffix'].map((part) => {
    const element = cells[0].appendChild(document.createElement('bdi')); // an id may be of any script
    element.className = part;
    return element;
  });
  const text = cells.map((cell) => cell.appendChild(document.createTextNode('')));
  const bar = cells[2].appendChild(document.createElement('span'));
  bar.className = 'bar';
  return { element, cells, name, text, bar, was: {} };
}

/** How each property of a row is shown. */
const show = {
  hidden: (s, v) => (s.element.hidden = v),
  top: (s, v) => (s.element.style.transform = `translateY(${v}px)`),
  id: (s, v) => (s.element.id = v),
  rowindex: (s, v) => s.element.setAttribute('aria-rowindex', v),
  selected: (s, v) => s.element.setAttribute('aria-selected', v),
  active: (s, v) => s.element.classList.toggle('active', v),
  fresh: (s, v) => s.cells[1].classList.toggle('fresh', v),
  prefix: (s, v) => (s.name[0].textContent = v),
  last: (s, v) => (s.name[1].textContent = v),
  suffix: (s, v) => (s.name[2].textContent = v),
  title: (s, v) => (s.cells[0].title = v),
  total: (s, v) => (s.text[1].data = decimal(v)),
  rate: (s, v) => (s.text[2].data = rate(v)),
  bar: (s, v) => (s.bar.style.transform = `scaleX(${v / 100})`),
  age: (s, v) => (s.text[3].data = v),
  shards: (s, v) => (s.text[4].data = integer(v)),
};

/** Sets a property of a row, unless it has that value already: most have. */
function set(slot, name, value) {
  if (slot.was[name] === value) return;
  slot.was[name] = value;
  show[name](slot, value);
}
