import type { RepairReport } from '../../archive/integrity/repair.ts';
import type { VerifyResult } from '../../archive/integrity/verify.ts';
import type { Archive } from '../../archive/open-archive.ts';
import type { Window } from '../../base/window.ts';
import type { Context } from '../../context/context.ts';
import type { ImportFlags } from '../import/import-step.ts';
import type { SymbolPlan } from '../paging/plan.ts';
import type { Summary } from './summary.ts';

/** A job that a scheduler or a user can start. `flags` are specific to the job; common ones are in the context. */
export interface Job<Flags = undefined> {
  readonly name: string;
  run(context: Context, flags: Flags): Promise<Summary>;
}

export interface NightlyFlags {
  /** UTC midnight of the day whose end is the end of the poll; null: poll up to now. */
  readonly day: number | null;
}

export interface TicksFlags {
  /** Symbols to poll; empty: those of the settings, or else those of the market lists. */
  readonly symbols: readonly string[];
  /** Poll suspended symbols now: the given ones, or all of them. */
  readonly retriesSuspended?: boolean;
}

export interface OrderbookFlags {
  /** Symbols to poll; empty: those of `orderbooks.symbols`, or else all live symbols. */
  readonly symbols: readonly string[];
}

export interface BackfillFlags {
  readonly window: Window;
  /** Empty: all known symbols. */
  readonly symbols: readonly string[];
  /** Fetch the whole window, including covered parts. */
  readonly force: boolean;
  /** Also fetch outside the lifetime of a symbol. */
  readonly allKnown: boolean;
  /** Treat windows with inferred evidence as not covered. */
  readonly recheckInferred?: boolean;
  /** For a dry run: called with the plan, and nothing is fetched; null to fetch. */
  readonly showPlan: ((plan: BackfillPlan) => void) | null;
}

export interface RepairFlags {
  /** URL of another oddslake to restore lost ticks from; null: the upstream. */
  readonly fromUrl: string | null;
  /** Called after the repair, before any request. */
  readonly onRepaired?: (repaired: RepairReport) => void;
}

export interface VerifyFlags {
  /** Called with the findings at the end of the verification. */
  readonly onVerified: (found: VerifyResult, archive: Archive, runId: string) => void;
}

export interface BackfillPlan {
  readonly plans: readonly SymbolPlan[];
  readonly windows: number;
  readonly expectedRequests: number;
  /** At the configured request rate. */
  readonly expectedSeconds: number;
}

/** Loaders of all jobs by name. A job is loaded when it is started. */
export interface JobLoaders {
  nightly(): Promise<Job<NightlyFlags>>;
  markets(): Promise<Job>;
  ticks(): Promise<Job<TicksFlags>>;
  orderbook(): Promise<Job<OrderbookFlags>>;
  backfill(): Promise<Job<BackfillFlags>>;
  import(): Promise<Job<ImportFlags>>;
  publish(): Promise<Job>;
  repair(): Promise<Job<RepairFlags>>;
  verify(): Promise<Job<VerifyFlags>>;
}
