import type { Window } from './window.ts';

/** Exit codes of all commands. 130 and 143 are 128 plus the signal number (CONTRACT). */
export const exitCodes = {
  done: 0,
  unexpected: 1,
  usage: 2,
  credential: 3,
  incomplete: 4,
  busy: 5,
  damaged: 6,
  unreachable: 7,
  interrupted: 130,
  terminated: 143,
} as const;

export type ExitCode = (typeof exitCodes)[keyof typeof exitCodes];

const exitCodeMeanings: Readonly<Record<ExitCode, string>> = {
  0: 'done',
  1: 'unexpected error',
  2: 'bad usage or settings',
  3: 'the upstream rejected the key',
  4: 'incomplete: something is missing',
  5: 'another run was writing',
  6: 'the archive is damaged',
  7: 'the upstream could not be reached',
  130: 'stopped by SIGINT',
  143: 'stopped by SIGTERM',
};

/** An exit code with its meaning: `exit code 7 (the upstream could not be reached)`. */
export function formatExitCode(code: number): string {
  const meaning = (exitCodeMeanings as Readonly<Record<number, string>>)[code];
  return `exit code ${code}${meaning === undefined ? '' : ` (${meaning})`}`;
}

/** An error for the user: its message is printed unchanged, and says what failed and what to do. */
export class OddslakeError extends Error {
  readonly exitCode: ExitCode;
  constructor(exitCode: ExitCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = 'OddslakeError';
    this.exitCode = exitCode;
  }
}

export function catchOddslakeError<T>(read: () => T): T | OddslakeError {
  try {
    return read();
  } catch (error) {
    if (error instanceof OddslakeError) return error;
    throw error;
  }
}

export class DiskFullError extends OddslakeError {
  constructor(message: string, options?: ErrorOptions) {
    super(exitCodes.unexpected, message, options);
    this.name = 'DiskFullError';
  }
}

/** Invalid arguments or settings. Thrown before any change. */
export class UsageError extends OddslakeError {
  constructor(message: string, options?: ErrorOptions) {
    super(exitCodes.usage, message, options);
    this.name = 'UsageError';
  }
}

/** Published files differ from the manifest. */
export class DamageError extends OddslakeError {
  constructor(message: string, options?: ErrorOptions) {
    super(exitCodes.damaged, message, options);
    this.name = 'DamageError';
  }
}

/**
 * Why the upstream returned no usable response.
 * - `credential`: status 401 or 403; the run stops
 * - `unreachable`: no connection, name not found, connection refused
 * - `transient`: status 408, 425, 429 or 5xx, reset, timeout, truncated or unreadable response, after all retries
 * - `refused`: any other status, including redirects; a retry would fail again
 */
export type UpstreamFailure = 'credential' | 'unreachable' | 'transient' | 'refused';

export interface UpstreamErrorFacts {
  readonly failure: UpstreamFailure;
  /** One clause, e.g. `HTTP 503, 5 attempts`. */
  readonly reason: string;
  readonly status?: number;
  readonly symbol?: string;
  readonly window?: Window;
}

/** A request failed after its retries. */
export class UpstreamError extends Error {
  readonly failure: UpstreamFailure;
  readonly reason: string;
  readonly status: number | undefined;
  readonly symbol: string | undefined;
  readonly window: Window | undefined;
  constructor(what: string, facts: UpstreamErrorFacts, options?: ErrorOptions) {
    super(`${what}: ${facts.reason}`, options);
    this.name = 'UpstreamError';
    this.failure = facts.failure;
    this.reason = facts.reason;
    this.status = facts.status;
    this.symbol = facts.symbol;
    this.window = facts.window;
  }
}
