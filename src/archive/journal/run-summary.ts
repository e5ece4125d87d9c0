import type { ExitCode } from '../../base/errors.ts';
import type { CompletenessCounts } from '../../contract/completeness-counts.ts';
import type { OpenDayList } from '../../contract/day-reasons.ts';
import type { Finding, Verdict } from '../../contract/finding.ts';
import type { DamageKind } from './published-files.ts';
import type { SeriesCounts } from './series-counts.ts';

/** How a run can end. */
export const outcomes = [
  'done',
  'failed',
  'usage',
  'credential',
  'incomplete',
  'busy',
  'damaged',
  'unreachable',
  'interrupted',
] as const;

/** One failure of a run. `symbol`, `from` and `to` are null if it does not concern a window of one symbol. */
export interface FailureLine {
  readonly symbol: string | null;
  readonly from: number | null;
  readonly to: number | null;
  readonly reason: string;
}

/** A damaged published file, and when the damage was first found, epoch ms. */
interface DamageLine {
  readonly path: string;
  readonly kind: DamageKind;
  readonly found_at: number;
}

/** What a run reports at its end: the last line of `--json`, which the state keeps. Times are epoch milliseconds. */
export interface Summary extends Partial<OpenDayList> {
  readonly version: string;
  readonly job: string;
  readonly run_id: string | null;
  readonly outcome: (typeof outcomes)[number];
  readonly exit_code: ExitCode;
  /** Message of the error that ended the run; null if there was none. */
  readonly error: string | null;
  readonly started_at: number;
  readonly finished_at: number;
  readonly requests: number;
  readonly retries: number;
  readonly throttled_ms: number;
  readonly pages: number;
  readonly ticks: {
    readonly fetched: number;
    readonly accepted: number;
    readonly duplicates: number;
    readonly conflicts: number;
    readonly quarantined: number;
  };
  readonly recovered: number;
  readonly symbols: {
    readonly planned: number;
    readonly done: number;
    readonly failed: number;
    /** Active symbols that are suspended at the end of the run. */
    readonly suspended: number;
    /** Active symbols that `source.include` and `source.exclude` leave out, and forgotten ones; absent if there are none. */
    readonly excluded?: number;
    readonly forgotten?: number;
  };
  /** Number of listed markets, by canonical_id; absent if the run polled no market lists. */
  readonly markets?: number;
  /** Counts of order books. */
  readonly orderbooks: BookCounts;
  /** Counts of quotes; absent if the run neither fetched nor recovered any. */
  readonly quotes?: SeriesCounts;
  /** The same of trades. */
  readonly trades?: SeriesCounts;
  readonly published: {
    readonly files: number;
    readonly rows: number;
    readonly bytes: number;
    readonly dates: readonly string[];
    readonly dates_count: number;
    /** Ticks that the generations of this run, and of interrupted runs before it, added and lost. */
    readonly added: number;
    readonly lost: number;
  };
  readonly generation: number;
  readonly watermark: number | null;
  /** The watermark including inferred windows, and not stopped by lost windows. */
  readonly reached?: number | null;
  readonly gaps: number;
  /** Completeness of the archive; absent if it was not opened. */
  readonly completeness?: CompletenessCounts;
  readonly warnings: readonly string[];
  readonly warnings_count: number;
  readonly failures: readonly FailureLine[];
  readonly failures_count: number;
  /** Damaged published files, until a verify or a repair finds no damage. */
  readonly damaged: readonly DamageLine[];
  readonly damaged_count: number;
  /** Restored lost windows; absent if the run did not try to restore any. */
  readonly restored?: Partial<RestoredCounts>;
  /** How much of the allowed request rate was used; absent if the run sent no requests. */
  readonly rate?: RateUse;
  /** Results of the rechecks; `nightly` only, zeros if there were none. */
  readonly rechecks?: RecheckCounts;
  /** The push to the bucket of the settings; absent without one, if the push failed, and for the jobs of a schedule. */
  readonly pushed?: PushSummary;
  /** The runs of an archive with several sources, one for each source; their counts add up to those of the summary. */
  readonly sources?: readonly SourceSummary[];
  /** What is said first of the run and of the archive after it, and everything found, the worst first. */
  readonly verdict: Verdict;
  readonly findings: readonly Finding[];
}

/** The run of one of several sources: what cannot be added to that of another. */
export interface SourceSummary
  extends Pick<Summary, 'run_id' | 'outcome' | 'exit_code' | 'error' | 'requests' | 'ticks' | 'symbols'>,
    Partial<Pick<Summary, 'rate' | 'rechecks'>> {
  readonly source: string;
}

export interface RateUse {
  /** Requests per second allowed at the end of the run. */
  readonly allowed_per_second: number;
  /** Share of the allowed rate that was used while requests were pending, 0 to 1. */
  readonly used: number;
  /** Milliseconds that requests waited on the rate limiter. */
  readonly wait_ms: number;
}

/** A push of the published generation. `uploaded`: what the bucket did not have; `removed`: objects that were no longer kept. */
export interface PushSummary {
  readonly url: string;
  readonly outcome: 'pushed' | 'unchanged';
  readonly generation: number;
  /** Of the manifest in the bucket. */
  readonly sequence: number;
  /** Files of the generation. */
  readonly files: number;
  readonly bytes: number;
  readonly uploaded: { readonly files: number; readonly bytes: number };
  /** Files whose objects an interrupted push had left. */
  readonly reused: number;
  /** Objects that the retention removed. */
  readonly removed: number;
  /** `bytes`: of bodies of uploads and downloads. */
  readonly requests: Readonly<Record<'reads' | 'writes' | 'retries' | 'bytes', number>>;
}

export interface RecheckCounts {
  /** Requests for the sample and for all windows that were fetched again. */
  readonly requests: number;
  /** Rechecked settled windows, those that had missing ticks, and the number of these ticks. */
  readonly windows: number;
  readonly contradicted: number;
  readonly new_ticks: number;
  /** Windows whose coverage was withdrawn or demoted to inferred. */
  readonly withdrawn_windows: number;
  /** Doubtful windows that were read again, and those left for the next nights. */
  readonly reread_windows: number;
  readonly doubtful_windows: number;
  /** Greatest measured lateness in the last 30 days, 0 if no tick was late, and the overlap of the next poll. */
  readonly lateness_ms: number;
  readonly overlap_ms: number;
}

/** Restored windows of lost ticks, by source: raw responses in .oddslake/raw, or new requests. */
export type RestoredCounts = Readonly<Record<'raw' | 'upstream', { readonly windows: number; readonly ticks: number }>>;

export interface BookCounts {
  /** Symbols. */
  readonly planned: number;
  readonly done: number;
  readonly failed: number;
  /** Listed symbols without an order book. */
  readonly missing: number;
  /** Snapshots, including empty ones. */
  readonly snapshots: number;
  readonly empty: number;
  /** Responses that were partly or completely unreadable. */
  readonly quarantined: number;
}
