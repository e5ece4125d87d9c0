import type { RepairReport } from '../../archive/integrity/repair-report.ts';
import type { VerifyResult } from '../../archive/integrity/verify.ts';
import type { Archive } from '../../archive/open-archive.ts';
import type { Window } from '../../base/window.ts';
import type { Context } from '../../context/context.ts';
import type { ImportFlags } from '../import/import-step.ts';
import type { SymbolPlan } from '../paging/plan.ts';
import type { Summary } from './summary.ts';

/** What a scheduler or a person can start; `flags` are its own, the common ones are in the context. */
export interface Job<Flags = undefined> {
  readonly name: string;
  run(context: Context, flags: Flags): Promise<Summary>;
}

export interface NightlyFlags {
  /** UTC midnight of the day to whose end is polled; null for now. */
  readonly day: number | null;
}

export interface TicksFlags {
  /** Symbols to poll; none: those of the config, else those that the market lists ask for. */
  readonly symbols: readonly string[];
  /** Poll suspended symbols at once: those given, else all of them. */
  readonly retriesSuspended?: boolean;
}

export interface OrderbookFlags {
  /** Symbols to poll; none: those of `orderbooks.symbols`, else every live one. */
  readonly symbols: readonly string[];
}

export interface BackfillFlags {
  readonly window: Window;
  /** None: every symbol known. */
  readonly symbols: readonly string[];
  /** Ask for all of the window, covered or not. */
  readonly force: boolean;
  /** Ask for symbols outside of their life too. */
  readonly allKnown: boolean;
  /** Ask for windows that only inferred evidence speaks for as if they were not covered. */
  readonly recheckInferred?: boolean;
  /** Called with the plan in place of fetching anything; null to fetch. */
  readonly showPlan: ((plan: BackfillPlan) => void) | null;
}

export interface RepairFlags {
  /** The oddslake to ask for what is lost in place of the upstream; null for the upstream. */
  readonly fromUrl: string | null;
  /** Called with what was mended, before anything is asked for. */
  readonly onRepaired?: (repaired: RepairReport) => void;
}

export interface VerifyFlags {
  /** Called with what was found, before it is judged. */
  readonly onVerified: (found: VerifyResult, archive: Archive, runId: string) => void;
}

export interface BackfillPlan {
  readonly plans: readonly SymbolPlan[];
  readonly windows: number;
  readonly expectedRequests: number;
  /** At the configured rate. */
  readonly expectedSeconds: number;
}

/** Every job by its name, each loaded when it is started. */
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
