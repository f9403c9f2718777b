/**
 * The id of the day that a time is in, such as "2026-11-27": the last id in the path of its totals,
 * where the route says day(at, "Europe/Berlin"). Without a zone it is the day in UTC, as of day(at).
 * It throws a RangeError if there is no such zone, or if the day is not within the years 1 to 9999.
 * The rules of zones are this browser's, and may be older than Tally's.
 */
export function dayId(at: Date | { toDate(): Date }, zone?: string): string;

/** The id of the week that a time is in, by ISO 8601, such as "2026-W48", likewise. It begins on Monday. */
export function weekId(at: Date | { toDate(): Date }, zone?: string): string;

/** The id of the month that a time is in, such as "2026-11", likewise. */
export function monthId(at: Date | { toDate(): Date }, zone?: string): string;
