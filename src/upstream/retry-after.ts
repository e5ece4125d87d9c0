/**
 * Milliseconds that a Retry-After header asks to wait from its receipt, rounded up; undefined where it says nothing
 * usable. RFC 9110, 10.2.3: a number of seconds or an HTTP-date. A date is measured against the answer's own Date
 * header, for the two machines' clocks may be hours apart; without one, against `nowMs` (epoch milliseconds).
 */
export function parseRetryAfterMs(
  value: string | undefined,
  date: string | undefined,
  nowMs: number,
): number | undefined {
  const text = value?.trim() ?? '';
  // Whole seconds by the RFC; some servers send fractions.
  if (/^\d+(\.\d+)?$/.test(text)) return Math.ceil(Number(text) * 1000);
  const until = parseHttpDate(text);
  if (until === undefined) return undefined;
  return Math.max(0, until - (parseHttpDate(date?.trim() ?? '') ?? nowMs));
}

/** The three date formats of RFC 9110, 5.6.7, all in GMT whether they say so or not. */
export function parseHttpDate(text: string): number | undefined {
  if (!/^(Mon|Tue|Wed|Thu|Fri|Sat|Sun)/.test(text)) return undefined;
  const time = Date.parse(text.endsWith('GMT') ? text : `${text} GMT`);
  return Number.isNaN(time) ? undefined : time;
}
