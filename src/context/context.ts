import type { Disk } from '../archive/disk/file-system.ts';
import type { OpenDatabase } from '../archive/journal/database.ts';
import type { Clock, Log, Random } from '../base/ports.ts';
import type { OpenTransport } from '../client/transport.ts';
import type { Settings } from '../settings/settings.ts';

/** A display of long work; see the CLI's progress. */
export interface ProgressDisplay {
  update(update: {
    readonly done: number;
    readonly total?: number;
    readonly ticks?: number;
    /** Another count, in words, e.g. `3/10 files`. */
    readonly note?: string;
  }): void;
  stop(): void;
}

/** How the service is being asked, at this moment: what a display shows beside what is done. */
export interface RequestRateStatus {
  /** Requests started so far. */
  readonly requests: number;
  readonly allowedPerSecond: number;
  /** Milliseconds for which the service holds all requests back from now on. */
  readonly heldBackMs: number;
}

/** What every command gets from outside. */
export interface Context {
  readonly settings: Settings;
  readonly clock: Clock;
  readonly random: Random;
  /** Where the IDs of commits come from; the system's where it is not given. */
  readonly randomBytes?: (count: number) => Uint8Array;
  readonly log: Log;
  /** What the archive is written to. */
  readonly disk: Disk;
  /** Opens the archive's state; the usual way where it is not given. */
  readonly openDatabase?: OpenDatabase | undefined;
  /** Opens what requests go over; undici's connections where it is not given. */
  readonly openWire?: OpenTransport | undefined;
  /** Aborted by SIGINT and SIGTERM, with `Interrupted` as the reason. */
  readonly signal: AbortSignal;
  readonly version: string;
  /** The words of the command line behind the program's name, none of them secret; absent where nobody typed any. */
  readonly argv?: readonly string[] | undefined;
  /** Threads that work may be shared among; 1 for all in one. */
  readonly threads: number;
  /** How long to wait for another writer, in ms. */
  readonly waitMs: number;
  /** Warnings count as failures. */
  readonly strict: boolean;
  /** Whether a missing archive may be started though nobody named the output. */
  readonly canCreateArchive: boolean;
  /** @param asking of work that asks the service */
  startDisplay(label: string, total: number, unit: string, asking?: () => RequestRateStatus): Promise<ProgressDisplay>;
}

/** The reason of the context's signal. */
export class InterruptedError extends Error {
  readonly signalName: 'SIGINT' | 'SIGTERM';
  constructor(by: 'SIGINT' | 'SIGTERM') {
    super(`stopped by ${by}`);
    this.name = 'InterruptedError';
    this.signalName = by;
  }
}
