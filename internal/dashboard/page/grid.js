// The table of counters. Only the rows in view, and some above and below, are in the document. The row that the keyboard is at is
// named by aria-activedescendant, so the focus stays where it is while rows come and go.

import { age, decimal, integer, rate, text, visible } from './format.js';

const spare = 20; // rows beyond the edges, so that scrolling shows no gap before they are there
const pause = 5000; // milliseconds without a hand on pointer, keys or wheel after which rows may move

export class Grid {
  active = ''; // id of the row that the keyboard is at
  chosen = ''; // id of the row that is open
  #grid;
  #rows;
  #template;
  #elements = new Map(); // by id of the row
  #state = { rows: [], first: 0, shown: 0 };
  #index = -1; // of the active row
  #height;
  #used = -Infinity; // when the pointer, a key or the wheel was last used

  /** ask is called when other rows are in view, and open with the id of the counter that is to be shown, and whether by keyboard. */
  constructor(grid, rows, template, { ask, open }) {
    Object.assign(this, { ask, open });
    this.#grid = grid;
    this.#rows = rows;
    this.#template = template;
    this.#height = parseFloat(getComputedStyle(grid).getPropertyValue('--row'));
    grid.addEventListener('scroll', ask, { passive: true });
    new ResizeObserver(ask).observe(grid);
    for (const type of ['pointermove', 'keydown', 'scroll']) {
      document.addEventListener(type, () => (this.#used = performance.now()), { capture: true, passive: true });
    }
    rows.addEventListener('click', (e) => {
      const id = e.target.closest('.row')?.counter;
      if (!id) return;
      this.active = id;
      open(id, false);
    });
  }

  /** The rows that the page has to have. */
  get view() {
    const first = Math.max(0, Math.floor(this.#grid.scrollTop / this.#height) - spare);
    return { first, count: Math.ceil(this.#room / this.#height) + 1 + 2 * spare };
  }

  get #room() {
    return this.#grid.clientHeight - this.#rows.offsetTop;
  }

  /** Whether somebody points at a row, or is at one by keyboard, and did something a moment ago. */
  get held() {
    return performance.now() - this.#used < pause && (this.#rows.matches(':hover') || this.#grid.matches(':focus-visible'));
  }

  /** Whether a key is for the table. */
  static keys = new Set(['ArrowDown', 'ArrowUp', 'PageDown', 'PageUp', 'Home', 'End', 'Enter', ' ']);

  /** Does what a key is for. */
  async press(key) {
    const at = this.#index, page = Math.max(1, Math.floor(this.#room / this.#height) - 1);
    const to = { ArrowDown: at + 1, ArrowUp: at - 1, PageDown: at + page, PageUp: at - page, Home: 0, End: Infinity }[key];
    if (to !== undefined || !this.active) await this.move(to ?? 0);
    if (to === undefined && this.active) this.open(this.active, true);
  }

  /** Moves the keyboard to the row at an index, or the nearest that there is. */
  async move(to) {
    this.#grid.focus({ preventScroll: true });
    const index = Math.min(Math.max(to, 0), this.#state.shown - 1);
    const top = index * this.#height, low = top + this.#height - this.#room;
    this.#grid.scrollTop = Math.max(Math.min(this.#grid.scrollTop, top), low);
    const row = () => this.#state.rows[index - this.#state.first];
    if (!row()) await this.ask();
    this.active = row()?.id ?? '';
    this.#index = index;
    this.draw(this.#state);
  }

  focus() {
    if (this.#index < 0) this.move(0);
    else this.#grid.focus();
  }

  /** Takes the answer to a question that named the active row. */
  receive(state, active) {
    if (active === this.active) this.#index = state.active;
    this.draw(state);
  }

  draw(state) {
    this.#state = state;
    this.#rows.style.height = `${state.shown * this.#height}px`;
    this.#grid.setAttribute('aria-rowcount', state.shown + 1);
    this.#grid.classList.toggle('one', new Set(state.rows.map((r) => r.label[0])).size < 2);
    this.#grid.removeAttribute('aria-activedescendant');
    const before = this.#elements;
    this.#elements = new Map();
    state.rows.forEach((r, i) => {
      const element = before.get(r.id) ?? this.#rows.appendChild(document.importNode(this.#template.content.firstElementChild, true));
      before.delete(r.id);
      this.#elements.set(r.id, element);
      this.#fill(element, r, state.first + i);
    });
    for (const element of before.values()) element.remove();
  }

  #fill(element, r, index) {
    const { now, fastest } = this.#state;
    element.counter = r.id;
    element.id = `row-${index}`;
    element.style.transform = `translateY(${index * this.#height}px)`;
    element.ariaRowIndex = index + 2;
    element.ariaSelected = r.id === this.chosen;
    element.classList.toggle('active', r.id === this.active);
    if (r.id === this.active) this.#grid.setAttribute('aria-activedescendant', element.id);
    const [name, total, pace, old, shards] = element.children;
    const label = r.label.map(visible);
    name.title = label.join('');
    label.forEach((part, i) => text(name.children[i], part));
    total.classList.toggle('fresh', r.fresh);
    text(total, decimal(r.total));
    text(pace.firstElementChild, rate(r.rate));
    text(old, age((now - r.as_of) / 1e6));
    text(shards, integer(r.shards));
    const share = Math.abs(r.rate) / (fastest || 1);
    pace.lastElementChild.style.transform = `scaleX(${share < 0.05 ? 0 : share})`; // a shorter one is a dot
  }
}
