import type { Disk } from '../archive/disk/file-system.ts';
import type { OpenDatabase } from '../archive/journal/database.ts';
import type { Clock, Log, Random } from '../base/ports.ts';
import type { OpenTransport } from '../client/transport.ts';
import type { Settings } from '../settings/settings.ts';

export interface ProgressDisplay extends Disposable {
  update(update: {
    readonly done: number;
    readonly total?: number;
    readonly ticks?: number;
    /** Share of the work that is done, 0 to 1, if it is better known than by `done`. */
    readonly share?: number;
    /** Additional text, e.g. `3/10 files`. */
    readonly note?: string;
  }): void;
  stop(): void;
}

/** Current request rate, for the progress display. */
export interface RequestRateStatus {
  /** Requests started so far. */
  readonly requests: number;
  readonly allowedPerSecond: number;
  /** Remaining milliseconds of a pause that the server requested. */
  readonly heldBackMs: number;
}

/** The environment of a command. */
export interface Context {
  readonly settings: Settings;
  /** The sources that were chosen with --source, of the several in the settings; absent or empty: all of them. */
  readonly sources?: readonly string[] | undefined;
  readonly clock: Clock;
  readonly random: Random;
  /** Source of commit IDs; the system's random bytes by default. */
  readonly randomBytes?: (count: number) => Uint8Array;
  readonly log: Log;
  /** The file system of the archive. */
  readonly disk: Disk;
  /** Opens the state database; node:sqlite by default. */
  readonly openDatabase?: OpenDatabase | undefined;
  /** Opens the HTTP transport; undici by default. */
  readonly openWire?: OpenTransport | undefined;
  /** Aborted by SIGINT and SIGTERM, with an `InterruptedError` as the reason. */
  readonly signal: AbortSignal;
  readonly version: string;
  /** Command-line arguments after the program's name, without secrets; absent if not started from a command line. */
  readonly argv?: readonly string[] | undefined;
  /** Number of threads for parallel work; 1: no worker threads. */
  readonly threads: number;
  /** Maximum wait for another writer, in ms. */
  readonly waitMs: number;
  /** Whether warnings count as failures (--strict). */
  readonly strict: boolean;
  /**
   * Asks for a push of what is published to the bucket of the settings. Set in a schedule, where all jobs ask at their end and
   * none of them waits for the push. Otherwise jobs that push do it themselves.
   */
  readonly requestPush?: (() => void) | undefined;
  /** Whether a missing archive may be created at the default output path. */
  readonly canCreateArchive: boolean;
  /** @param getRequestRate returns the request rate, for work that sends requests */
  startDisplay(
    label: string,
    total: number,
    unit: string,
    getRequestRate?: () => RequestRateStatus,
  ): Promise<ProgressDisplay>;
}

/** The abort reason of the context's signal. */
export class InterruptedError extends Error {
  readonly signalName: 'SIGINT' | 'SIGTERM';
  constructor(by: 'SIGINT' | 'SIGTERM') {
    super(`stopped by ${by}`);
    this.name = 'InterruptedError';
    this.signalName = by;
  }
}
