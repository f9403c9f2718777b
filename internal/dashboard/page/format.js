// How numbers, times and ids are shown.

const whole = new Intl.NumberFormat('en');
const real = new Intl.NumberFormat('en', { maximumFractionDigits: 3 });
const compact = new Intl.NumberFormat('en', { notation: 'compact', maximumFractionDigits: 1 });
const tenths = new Intl.NumberFormat('en', { minimumFractionDigits: 1, maximumFractionDigits: 1 });

/** A decimal as Firestore holds it, exact also beyond 2^53. */
export function decimal(digits) {
  if (/^-?\d+$/.test(digits)) return whole.format(BigInt(digits));
  const n = Number(digits);
  return Number.isFinite(n) ? real.format(n) : digits;
}

export const integer = (n) => whole.format(n);

export const plural = (n, one, many = `${one}s`) => `${whole.format(n)} ${n === 1 ? one : many}`;

/** Something a second. */
export const rate = (n) => (n === 0 ? '0' : Math.abs(n) >= 1e6 ? compact.format(n) : Math.abs(n) >= 100 ? whole.format(Math.round(n)) : tenths.format(n));

/** List prices: a cent is a lot here. */
export const dollars = (n) => (n === 0 ? '$0' : n < 0.00005 ? '< $0.0001' : n < 1 ? `$${n.toFixed(4)}` : `$${n.toFixed(2)}`);

/** An id as it may be shown: what breaks a line or turns the direction of the text is escaped. */
export const visible = (id) => id.replace(/[\p{Cc}\p{Zl}\p{Zp}\p{Bidi_Control}]/gu, (c) => `\\u${c.codePointAt(0).toString(16).padStart(4, '0')}`);

/** How long ago, in seconds. Firestore's clock is not that exact, so a little in the future is now. */
export function age(seconds) {
  const s = Math.max(0, seconds);
  if (s < 9.95) return `${s.toFixed(1)} s`;
  if (s < 120) return `${Math.floor(s)} s`;
  if (s < 7200) return `${Math.floor(s / 60)} min`;
  if (s < 172800) return `${Math.floor(s / 3600)} h`;
  return `${whole.format(Math.floor(s / 86400))} d`;
}

const day = new Intl.DateTimeFormat('en-GB', { dateStyle: 'medium' });

/** A time in microseconds since 1970: by the local clock's zone, with the day unless that is today. */
export function time(micros, now) {
  const at = new Date(micros / 1000);
  const pad = (n, width = 2) => String(n).padStart(width, '0');
  const clock = `${pad(at.getHours())}:${pad(at.getMinutes())}:${pad(at.getSeconds())}.${pad(at.getMilliseconds(), 3)}`;
  return at.toDateString() === new Date(now / 1000).toDateString() ? clock : `${day.format(at)} ${clock}`;
}

/** Sets what a node says, unless it says that already: most do. */
export function text(node, value) {
  if (node.textContent !== value) node.textContent = value;
}
