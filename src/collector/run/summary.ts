import { type PublishedFile, sumFileSizes } from '../../archive/format/manifest.ts';
import type { CountComparison, MarketChanges, NamedCount } from '../../archive/journal/nightly-comparison.ts';
import type { DamageKind, RecordedDamage } from '../../archive/journal/published-files.ts';
import type { SeriesCounts } from '../../archive/journal/series-counts.ts';
import { DamageError, type ExitCode, exitCodes, OddslakeError, UpstreamError } from '../../base/errors.ts';
import { formatCount } from '../../base/format-quantity.ts';
import { formatIsoUtc } from '../../base/time.ts';
import type { PushResult } from '../../bucket/push.ts';
import { InterruptedError } from '../../context/context.ts';
import type { CompletenessCounts } from '../../contract/completeness-counts.ts';
import type { OpenDayList } from '../../contract/day-reasons.ts';
import type { UpstreamOrigins } from '../../settings/settings.ts';
import { formatErrorMessage } from './error-message.ts';
import type { DriftLine } from './response-shapes.ts';

/** One failure of a run. `symbol`, `from` and `to` are null if it does not concern a window of one symbol. */
export interface FailureLine {
  readonly symbol: string | null;
  readonly from: number | null;
  readonly to: number | null;
  readonly reason: string;
}

/** A failure as the run records it. `kind` and `flags` determine the next action; the summary omits them. */
export interface RunFailure extends FailureLine {
  /** Absent for a window that could not be fetched. */
  readonly kind?: FailureKind;
  /** Command-line flags that would have prevented the failure. */
  readonly flags?: readonly string[];
}

/** Creates a failure that does not concern a window of one symbol. */
export const createJobFailure = (kind: FailureKind, reason: string): RunFailure => ({
  symbol: null,
  from: null,
  to: null,
  kind,
  reason,
});

export type FailureKind =
  | 'accepted'
  | 'address'
  | 'expired'
  | 'input file'
  | 'lost'
  | 'market list'
  | 'order book'
  | 'push'
  | 'sharp drop'
  | 'source'
  | 'suspended'
  | 'unrecoverable';

/** A damaged published file, and when the damage was first found, epoch ms. */
interface DamageLine {
  readonly path: string;
  readonly kind: DamageKind;
  readonly found_at: number;
}

/** The last line of `--json` (CONTRACT, section 1). Times are epoch milliseconds. */
export interface Summary extends Partial<OpenDayList> {
  readonly version: string;
  readonly job: string;
  readonly run_id: string | null;
  readonly outcome: Outcome;
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
  /** Changed fields in the responses of the upstream. */
  readonly schema_drift: readonly DriftLine[];
  readonly schema_drift_count: number;
  /** Damaged published files, until a verify or a repair finds no damage. */
  readonly damaged: readonly DamageLine[];
  readonly damaged_count: number;
  /** Restored lost windows; absent if the run did not try to restore any. */
  readonly restored?: Partial<RestoredCounts>;
  /** How much of the allowed request rate was used; absent if the run sent no requests. */
  readonly rate?: RateUse;
  /** Counts of a night compared with previous nights; `nightly` only. */
  readonly night?: NightSummary;
  /** Results of the rechecks; `nightly` only, zeros if there were none. */
  readonly rechecks?: RecheckCounts;
  /** The push to the bucket of the settings; absent without one, if the push failed, and for the jobs of a schedule. */
  readonly pushed?: PushSummary;
  /** The runs of an archive with several sources, one for each source; their counts add up to those of the summary. */
  readonly sources?: readonly SourceSummary[];
  /** The next action, as a sentence with its command; null if there is nothing to do. */
  readonly next_action?: string | null;
}

/** The run of one of several sources: what cannot be added to that of another. */
export interface SourceSummary
  extends Pick<Summary, 'run_id' | 'outcome' | 'exit_code' | 'error' | 'requests' | 'ticks' | 'symbols'>,
    Partial<Pick<Summary, 'rate' | 'night' | 'rechecks'>> {
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
export type PushSummary = Omit<PushResult, 'warnings'>;

export interface RecheckCounts {
  /** Requests for the sample and for all windows that were fetched again. */
  readonly requests: number;
  /** Rechecked settled windows, those that had missing ticks, and the number of these ticks. */
  readonly windows: number;
  readonly contradicted: number;
  readonly new_ticks: number;
  /** Windows whose coverage was withdrawn or demoted to inferred. */
  readonly withdrawn_windows: number;
  /** Windows that were read again, as they were doubtful or no later poll proves them; doubtful ones left for the next nights. */
  readonly reread_windows: number;
  readonly doubtful_windows: number;
  /** Greatest measured lateness in the last 30 days, 0 if no tick was late, and the overlap of the next poll. */
  readonly lateness_ms: number;
  readonly overlap_ms: number;
}

export interface NightSummary {
  /** Number of previous nights in the medians, at most seven. The first night, and others that polled far more, are not. */
  readonly nights: number;
  /**
   * Counts of this run and of the polls since the previous night: new ticks; late ticks among them; conflicts with a
   * published price.
   */
  readonly ticks: {
    readonly new: CountComparison;
    readonly late: CountComparison;
    readonly conflicts: CountComparison;
  };
  /**
   * Changes of the market lists since the previous night. A symbol counts at most once as new, resolved or delisted (inactive
   * or no longer listed). Overdue: still listed, past its close, and not resolved.
   */
  readonly markets: MarketChanges;
  /**
   * Symbols that are fully covered in this night, and the uncovered minutes of symbol lifetimes since the previous night,
   * summed over symbols.
   */
  readonly covered: { readonly symbols: number; readonly gap_minutes: number };
  /** Symbols with days that were first fetched so late that the upstream may have thinned them out. */
  readonly fetched_late: NamedCount;
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

export const emptyBookCounts: BookCounts = {
  planned: 0,
  done: 0,
  failed: 0,
  missing: 0,
  snapshots: 0,
  empty: 0,
  quarantined: 0,
};

type Outcome =
  | 'done'
  | 'failed'
  | 'usage'
  | 'credential'
  | 'incomplete'
  | 'busy'
  | 'damaged'
  | 'unreachable'
  | 'interrupted';

const outcomeByExitCode: Record<ExitCode, Outcome> = {
  0: 'done',
  1: 'failed',
  2: 'usage',
  3: 'credential',
  4: 'incomplete',
  5: 'busy',
  6: 'damaged',
  7: 'unreachable',
  130: 'interrupted',
  143: 'interrupted',
};

/** Input of `summarize`: the state of a run at its end. */
export interface RunFacts
  extends Omit<Summary, 'outcome' | 'exit_code' | 'published' | 'error' | 'failures' | 'schema_drift' | DerivedField> {
  readonly failures: readonly RunFailure[];
  readonly files: readonly PublishedFile[];
  /** 0 by default. */
  readonly publishedTicks?: { readonly added: number; readonly lost: number };
  /** Empty by default. */
  readonly schema_drift?: readonly DriftLine[];
  readonly strict: boolean;
  /** Whether the upstream sent any response in this run. */
  readonly hasUpstreamResponded: boolean;
  /** Whether the run used another service instead of the upstream; false by default. */
  readonly usesOtherUpstream?: boolean;
  /** The source that the run collected, of an archive's several; none by default. */
  readonly source?: string | null;
  /** Where the address and the key were set; unknown by default. */
  readonly upstreamFrom?: UpstreamOrigins;
  /** Known damage of published files; empty by default. */
  readonly damage?: readonly RecordedDamage[];
  /** The error that ended the run; undefined if none did. */
  readonly thrown: unknown;
}

/** What a run has counted, besides how it began and ended. */
export type CountedFacts = Omit<RunFacts, 'version' | 'job' | 'strict' | 'thrown' | 'started_at' | 'finished_at'>;

/** The counts of a run that did nothing. */
export const emptyFacts: CountedFacts = {
  run_id: null,
  requests: 0,
  retries: 0,
  throttled_ms: 0,
  pages: 0,
  recovered: 0,
  generation: 0,
  watermark: null,
  ticks: { fetched: 0, accepted: 0, duplicates: 0, conflicts: 0, quarantined: 0 },
  symbols: { planned: 0, done: 0, failed: 0, suspended: 0 },
  orderbooks: emptyBookCounts,
  gaps: 0,
  warnings: [],
  failures: [],
  files: [],
  hasUpstreamResponded: false,
};

type DerivedField = 'warnings_count' | 'failures_count' | 'schema_drift_count' | 'damaged' | 'damaged_count';

const listLengthMax = 20;

export function summarize(facts: RunFacts): Summary {
  const { version, job, run_id, warnings, failures, schema_drift: drifts = [], files, damage = [], ...others } = facts;
  const {
    publishedTicks = { added: 0, lost: 0 },
    strict,
    hasUpstreamResponded,
    usesOtherUpstream,
    source,
    upstreamFrom,
    thrown,
    ...rest
  } = others;
  const exitCode = computeExitCode(facts);
  const dates = [...new Set(files.flatMap((file) => file.date ?? []))].sort();
  return {
    version,
    job,
    run_id,
    outcome: outcomeByExitCode[exitCode],
    exit_code: exitCode,
    error: formatRunError(facts, exitCode),
    ...rest,
    published: {
      files: files.length,
      ...sumFileSizes(files),
      dates: dates.slice(0, listLengthMax),
      dates_count: dates.length,
      ...publishedTicks,
    },
    warnings: warnings.slice(0, listLengthMax),
    warnings_count: warnings.length,
    failures: failures.slice(0, listLengthMax).map(({ symbol, from, to, reason }) => ({ symbol, from, to, reason })),
    failures_count: failures.length,
    schema_drift: drifts.slice(0, listLengthMax),
    schema_drift_count: drifts.length,
    damaged: damage.slice(0, listLengthMax).map(({ path, kind, foundAt }) => ({ path, kind, found_at: foundAt })),
    damaged_count: damage.length,
  };
}

function computeExitCode(facts: RunFacts): ExitCode {
  const code = computeWorkExitCode(facts);
  // Precedence: 6 over 4 over 0. Other exit codes take precedence over 6.
  const isDamaged = (facts.damage ?? []).length > 0;
  return isDamaged && (code === exitCodes.done || code === exitCodes.incomplete) ? exitCodes.damaged : code;
}

function computeWorkExitCode({ thrown, failures, warnings, strict, hasUpstreamResponded }: RunFacts): ExitCode {
  if (thrown !== undefined) return toExitCode(thrown, hasUpstreamResponded);
  if (failures.length > 0 || (strict && warnings.length > 0)) return exitCodes.incomplete;
  return exitCodes.done;
}

/** Adds known damage to the error message if the exit code is 6, even if no DamageError was thrown. */
function formatRunError(
  { thrown, usesOtherUpstream, source, upstreamFrom, damage = [] }: RunFacts,
  exitCode: ExitCode,
): string | null {
  const message = thrown === undefined ? null : formatErrorMessage(thrown, usesOtherUpstream, source, upstreamFrom);
  if (exitCode !== exitCodes.damaged || thrown instanceof DamageError) return message;
  return [message, formatDamageSummary(damage)].filter((one) => one !== null).join('; ') || null;
}

/** The exit code for an error. `hasResponded`: whether the upstream has sent any response. */
export function toExitCode(error: unknown, hasResponded: boolean): ExitCode {
  if (error instanceof InterruptedError)
    return error.signalName === 'SIGINT' ? exitCodes.interrupted : exitCodes.terminated;
  if (error instanceof OddslakeError) return error.exitCode;
  if (!(error instanceof UpstreamError)) return exitCodes.unexpected;
  if (error.failure === 'credential') return exitCodes.credential;
  return error.failure === 'unreachable' && !hasResponded ? exitCodes.unreachable : exitCodes.incomplete;
}

/** One clause about known damage; null if there is none. */
function formatDamageSummary(damage: readonly RecordedDamage[]): string | null {
  const [first] = damage;
  if (first === undefined) return null;
  const { path, kind, foundAt } = first;
  const others = damage.length === 1 ? '' : ` and ${formatCount(damage.length - 1, 'other file')}`;
  const verb = damage.length === 1 ? 'is' : 'are';
  return `${path}${others} ${verb} damaged (${kind}, found ${formatIsoUtc(foundAt)}); to repair: oddslake verify --repair`;
}
