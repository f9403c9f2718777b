// The table of counters. Only the rows in view, and a few more, are in the document; each is used again for another counter as the
// list is scrolled. The row that the keyboard is at is named by aria-activedescendant, so the focus stays where it is while rows
// come and go.

import { age, decimal, integer, rate, text } from './format.js';

const spare = 6; // rows beyond the edges, so that scrolling shows no gap before the next frame
const fresh = 500; // milliseconds for which a changed total stands out
const pause = 5000; // milliseconds without a hand on pointer, keys or wheel after which rows may move

export class Grid {
  #grid;
  #rows;
  #slots = []; // elements, each for the rows whose index has the same remainder
  #active = null; // key of a counter
  #height;
  #used = -Infinity; // when the pointer, a key or the wheel was last used

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
    for (const type of ['pointermove', 'keydown', 'scroll']) document.addEventListener(type, () => (this.#used = performance.now()), { capture: true, passive: true });
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

  /** Whether somebody points at a row, or is at one by keyboard, and did something a moment ago. */
  get held() {
    return performance.now() - this.#used < pause && (this.#rows.matches(':hover') || this.#grid.matches(':focus-visible'));
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
      slot.element.hidden = !r;
      slot.element.index = i;
      if (!r) continue;
      this.#fill(slot, r, i, micros, now, r.key === active);
      if (r.key === active) activeID = slot.element.id;
    }
    if (activeID) this.#grid.setAttribute('aria-activedescendant', activeID);
    else this.#grid.removeAttribute('aria-activedescendant');
  }

  #fill(slot, r, i, micros, now, active) {
    const { element, cells, texts, bar } = slot;
    element.style.transform = `translateY(${i * this.#height}px)`;
    element.id = `row-${r.id}`;
    element.ariaRowIndex = i + 2;
    element.ariaSelected = r.key === this.selected;
    element.classList.toggle('active', active);
    cells[0].title = r.prefix + r.last + r.suffix;
    cells[1].classList.toggle('fresh', now - r.changed < fresh);
    const share = Math.abs(r.rate) / (this.counters.fastest || 1);
    bar.style.transform = `scaleX(${share < 0.05 ? 0 : share})`; // a shorter one is a dot
    [r.prefix, r.last, r.suffix, decimal(r.total), rate(r.rate), age((micros - r.asOf) / 1e6), integer(r.shards)].forEach((value, i) => text(texts[i], value));
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
  const texts = ['prefix', 'last', 'suffix'].map((part) => {
    const element = cells[0].appendChild(document.createElement('bdi')); // an id may be of any script
    element.className = part;
    return element;
  });
  texts.push(...cells.slice(1).map((cell) => cell.appendChild(document.createTextNode(''))));
  const bar = cells[2].appendChild(document.createElement('span'));
  bar.className = 'bar';
  return { element, cells, texts, bar };
}
