// The ids of days and months as Tally's routes make them, by the zones of this browser.

/** @type {Map<string, Intl.DateTimeFormat>} the zones' clocks, which are slow to make */
const clocks = new Map();

/** No clocks are moved by more, and none is further from UTC. */
const DAY_AND_MORE = 26 * 3600e3;

/** @type {import('./days.js').dayId} */
export const dayId = (at, zone) => idOf(at, zone, 10);

/** @type {import('./days.js').monthId} */
export const monthId = (at, zone) => idOf(at, zone, 7);

/**
 * The first characters of the day's id. Where clocks go back over midnight, an hour that they show
 * again, after they have shown the next day, belongs to that day: so it is the latest day that they
 * have shown.
 * @param {Date | { toDate(): Date }} at
 * @param {string} zone
 * @param {number} length
 */
function idOf(at, zone = 'UTC', length) {
  const t = ('toDate' in at ? at.toDate() : at).getTime();
  const offset = offsetOf(t, zone);
  let latest = t + offset;
  if (offsetOf(t - DAY_AND_MORE, zone) > offset) {
    const moved = lastMoved(t, zone, offset);
    latest = Math.max(latest, moved + offsetOf(moved, zone));
  }

  const id = new Date(latest).toISOString().slice(0, length);
  const begins = '0001-01-01'.startsWith(id) && offset > 0;
  const ends = '9999-12-31'.startsWith(id) && offset < 0;
  if (id.length < length || !(id >= '0001' && id <= '9999-12-31') || begins || ends) {
    const period = length > 7 ? 'day' : 'month';
    throw new RangeError(`${new Date(t).toISOString()}: the ${period} in ${zone} is not within the years 1 to 9999`);
  }
  return id;
}

/**
 * The last millisecond before the clocks got the offset that they have at t.
 * @type {(t: number, zone: string, offset: number) => number}
 */
function lastMoved(t, zone, offset) {
  let [before, after] = [t - DAY_AND_MORE, t];
  while (after - before > 1) {
    const middle = Math.floor((before + after) / 2);
    if (offsetOf(middle, zone) === offset) after = middle;
    else before = middle;
  }
  return before;
}

/**
 * By how much the zone's clocks are ahead of UTC, in milliseconds.
 * @type {(t: number, zone: string) => number}
 */
function offsetOf(t, zone) {
  let clock = clocks.get(zone);
  if (!clock) {
    clock = new Intl.DateTimeFormat('en-US-u-ca-gregory-nu-latn', {
      timeZone: zone,
      hourCycle: 'h23',
      era: 'short',
      year: 'numeric',
      month: 'numeric',
      day: 'numeric',
      hour: 'numeric',
      minute: 'numeric',
      second: 'numeric',
    });
    clocks.set(zone, clock);
  }

  const whole = Math.floor(t / 1000) * 1000;
  const parts = clock.formatToParts(whole).map(({ type, value }) => [type, value]);
  const { era, year, month, day, hour, minute, second } = Object.fromEntries(parts);
  const local = new Date(0);
  local.setUTCFullYear(era === 'AD' ? Number(year) : 1 - Number(year), Number(month) - 1, Number(day));
  return local.setUTCHours(Number(hour), Number(minute), Number(second)) - whole;
}
