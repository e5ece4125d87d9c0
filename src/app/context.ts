import type { Clock, Random } from '../core/clock.ts';
import type { Log } from '../core/log.ts';
import type { Settings } from '../settings/settings.ts';

/** A display of long work; see the CLI's progress. */
export interface Display {
  update(update: { readonly done: number; readonly total?: number; readonly ticks?: number }): void;
  stop(): void;
}

/** What every command gets from outside. */
export interface Context {
  readonly settings: Settings;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
  /** Aborted by SIGINT and SIGTERM, with `Interrupted` as the reason. */
  readonly signal: AbortSignal;
  readonly version: string;
  /** How long to wait for another writer, in ms. */
  readonly waitMs: number;
  /** Warnings count as failures. */
  readonly strict: boolean;
  /** Whether a missing archive may be started though nobody named the output. */
  readonly mayCreate: boolean;
  startDisplay(label: string, total: number, unit: string): Promise<Display>;
}

/** The reason of the context's signal. */
export class Interrupted extends Error {
  readonly by: 'SIGINT' | 'SIGTERM';
  constructor(by: 'SIGINT' | 'SIGTERM') {
    super(`stopped by ${by}`);
    this.name = 'Interrupted';
    this.by = by;
  }
}
