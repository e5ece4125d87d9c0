import { UpstreamError, type UpstreamFailure } from '../core/errors.ts';
import type { Window } from '../core/window.ts';

/** Why one try of a request brought nothing usable. Thrown within this folder, never out of it. */
export class Fault extends Error {
  readonly failure: UpstreamFailure;
  readonly status: number | undefined;
  /** The service asked for a pause of this many milliseconds from now on. */
  readonly pauseMs: number | undefined;
  constructor(
    failure: UpstreamFailure,
    reason: string,
    facts: { status?: number; pauseMs?: number; cause?: unknown } = {},
  ) {
    super(reason, 'cause' in facts ? { cause: facts.cause } : {});
    this.name = 'Fault';
    this.failure = failure;
    this.status = facts.status;
    this.pauseMs = facts.pauseMs;
  }
}

/** What a request was about, for its error. */
export interface Subject {
  /** E.g. `ticks of KXBTC [2026-11-19T00:00:00.000Z, 2026-11-20T00:00:00.000Z)`. */
  readonly what: string;
  readonly symbol?: string;
  readonly window?: Window;
}

/** Sums up the tries of one request, of which there is at least one; the last one gives failure and status. */
export function upstreamError(subject: Subject, faults: readonly Fault[], note?: string): UpstreamError {
  const last = faults.at(-1)!;
  const reason = [tally(faults.map((fault) => fault.message)), ...(note === undefined ? [] : [note])].join('; ');
  const { what, ...facts } = subject;
  const status = last.status === undefined ? {} : { status: last.status };
  const cause = last.cause === undefined ? {} : { cause: last.cause };
  return new UpstreamError(what, { ...facts, ...status, failure: last.failure, reason }, cause);
}

/** `answered 503 twice, connection reset once`; a single try needs no count. */
function tally(reasons: readonly string[]): string {
  if (reasons.length === 1) return reasons[0]!;
  const counts = new Map<string, number>();
  for (const reason of reasons) counts.set(reason, (counts.get(reason) ?? 0) + 1);
  return [...counts].map(([reason, count]) => `${reason} ${times(count)}`).join(', ');
}

const timesWords = [
  'never',
  'once',
  'twice',
  ...['three', 'four', 'five', 'six', 'seven', 'eight', 'nine', 'ten'].map((n) => `${n} times`),
];

const times = (count: number): string => timesWords[count] ?? `${count} times`;
