import { UpstreamError, type UpstreamFailure } from '../core/errors.ts';
import type { Window } from '../core/window.ts';

/** Why one try of a request brought nothing usable. Thrown within this folder, never out of it. */
export class AttemptError extends Error {
  readonly failure: UpstreamFailure;
  readonly status: number | undefined;
  /** The service asked for a pause of this many milliseconds from now on. */
  readonly pauseMs: number | undefined;
  /** What the service said about it, in its own words; once weighed, fit to be shown. */
  detail: string | undefined;
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
export interface RequestSubject {
  /** E.g. `ticks of KXBTC [2026-11-19T00:00:00.000Z, 2026-11-20T00:00:00.000Z)`. */
  readonly describe: () => string;
  readonly symbol?: string;
  readonly window?: Window;
}

/** Sums up the tries of one request, of which there is at least one; the last one gives failure and status. */
export function createUpstreamError(
  subject: RequestSubject,
  faults: readonly AttemptError[],
  note?: string,
): UpstreamError {
  const last = faults.at(-1)!;
  const reason = [formatAttempts(faults), ...(note === undefined ? [] : [note])].join('; ');
  const { describe, ...facts } = subject;
  const status = last.status === undefined ? {} : { status: last.status };
  const cause = last.cause === undefined ? {} : { cause: last.cause };
  return new UpstreamError(describe(), { ...facts, ...status, failure: last.failure, reason }, cause);
}

/** `answered 503 twice ("overloaded"), connection reset once`; a single try needs no count. */
function formatAttempts(faults: readonly AttemptError[]): string {
  const kinds = [...Map.groupBy(faults, (fault) => fault.message)];
  return kinds
    .map(([reason, alike]) => {
      const count = faults.length === 1 ? '' : ` ${formatTimes(alike.length)}`;
      // The words of one stand for all: they often differ by no more than a number of the request.
      const said = alike.findLast((fault) => fault.detail !== undefined)?.detail;
      return `${reason}${count}${said === undefined ? '' : ` (${JSON.stringify(said)})`}`;
    })
    .join(', ');
}

const timesWords = [
  'never',
  'once',
  'twice',
  ...['three', 'four', 'five', 'six', 'seven', 'eight', 'nine', 'ten'].map((n) => `${n} times`),
];

const formatTimes = (count: number): string => timesWords[count] ?? `${count} times`;
