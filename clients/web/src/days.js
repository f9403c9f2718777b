// The ids of days, weeks and months as Tally's routes make them, by the zones of this browser.

/** @type {Map<string, Intl.DateTimeFormat>} the zones' clocks, which are slow to make */
const clocks = new Map();

/** No clocks are moved by more, and none is further from UTC. */
const DAY_AND_MORE = 26 * 3600e3;

const FIRST_DAY = new Date('0001-01-01');
const LAST_DAY = new Date('9999-12-31');
const DAY = 24 * 3600e3;

/** @type {import('./days.js').dayId} */
export const dayId = (at, zone) => idOf('day', at, zone, (day) => day.toISOString().slice(0, 10));

/** @type {import('./days.js').weekId} */
export const weekId = (at, zone) => idOf('week', at, zone, weekOf);

/** @type {import('./days.js').monthId} */
export const monthId = (at, zone) => idOf('month', at, zone, (day) => day.toISOString().slice(0, 7));

/**
 * The week of a day by ISO 8601, which is in the year of its Thursday.
 * @param {Date} day
 */
function weekOf(day) {
  const monday = day.getTime() - ((day.getUTCDay() + 6) % 7) * DAY;
  const thursday = new Date(monday + 3 * DAY);
  const year = thursday.toISOString().slice(0, 4);
  const days = Math.floor((thursday.getTime() - Date.parse(`${year}-01-01`)) / DAY);
  return `${year}-W${String(1 + Math.floor(days / 7)).padStart(2, '0')}`;
}

/**
 * The id of the period that a time is in. Where clocks go back over midnight, an hour that they show
 * again, after they have shown the next day, belongs to that day: so it is of the latest day that
 * they have shown.
 * @param {string} period
 * @param {Date | { toDate(): Date }} at
 * @param {string} zone
 * @param {(day: Date) => string} idOn
 */
function idOf(period, at, zone = 'UTC', idOn) {
  const t = ('toDate' in at ? at.toDate() : at).getTime();
  const offset = offsetOf(t, zone);
  let latest = t + offset;
  if (offsetOf(t - DAY_AND_MORE, zone) > offset) {
    const moved = lastMoved(t, zone, offset);
    latest = Math.max(latest, moved + offsetOf(moved, zone));
  }

  const id = idOn(new Date(latest));
  const begins = id === idOn(FIRST_DAY) && offset > 0;
  const ends = id === idOn(LAST_DAY) && (offset < 0 || period === 'week'); // the last week ends in the year 10000
  if (!(id >= '0001' && id <= idOn(LAST_DAY)) || begins || ends) {
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
