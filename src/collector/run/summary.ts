import { type PublishedFile, sumFileTotals } from '../../archive/format/manifest.ts';
import type { CountComparison, MarketChanges, NamedCount } from '../../archive/journal/nightly-comparison.ts';
import type { DamageKind, RecordedDamage } from '../../archive/journal/published-files.ts';
import { DamageError, type ExitCode, exitCodes, OddslakeError, UpstreamError } from '../../base/errors.ts';
import { formatCount } from '../../base/format-quantity.ts';
import { formatIsoUtc } from '../../base/time.ts';
import { InterruptedError } from '../../context/context.ts';
import type { CompletenessCounts } from '../../contract/completeness-counts.ts';
import type { DriftLine } from '../steps/drift-step.ts';
import { formatErrorMessage } from './error-message.ts';

/** One window that could not be fetched; `symbol` and window are null where it was not one symbol's. */
export interface FailureLine {
  readonly symbol: string | null;
  readonly from: number | null;
  readonly to: number | null;
  readonly reason: string;
}

/** One file that is not as published, and when that was first found, epoch ms. */
export interface DamageLine {
  readonly path: string;
  readonly kind: DamageKind;
  readonly found_at: number;
}

/** The last line of `--json` (CONTRACT, section 1). Times are epoch milliseconds. */
export interface Summary {
  readonly version: string;
  readonly job: string;
  readonly run_id: string | null;
  readonly outcome: Outcome;
  readonly exit_code: ExitCode;
  /** The sentence of the error that ended the run; null where none did. */
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
    /** Symbols that are suspended when the run ends, of those that polls are for. */
    readonly suspended: number;
  };
  /** Markets that the lists named, by canonical_id, of a run that polled them. */
  readonly markets?: number;
  /** Order books, counted apart from ticks. */
  readonly orderbooks: BookCounts;
  readonly published: {
    readonly files: number;
    readonly rows: number;
    readonly bytes: number;
    readonly dates: readonly string[];
    readonly dates_count: number;
    /** Ticks that the generations of this run, and of broken runs before it, have more than those before them, and less. */
    readonly added: number;
    readonly lost: number;
  };
  readonly generation: number;
  readonly watermark: number | null;
  /** The same but for windows that are lost, which nobody may ever have again. */
  readonly reached?: number | null;
  readonly gaps: number;
  /** How whole the archive is, all of it; absent where it was not opened. */
  readonly verdict?: CompletenessCounts;
  readonly warnings: readonly string[];
  readonly warnings_count: number;
  readonly failures: readonly FailureLine[];
  readonly failures_count: number;
  /** Fields of the upstream's answers that are not what they were. */
  readonly schema_drift: readonly DriftLine[];
  readonly schema_drift_count: number;
  /** Files that are not as published, until a verify or a repair is clean. */
  readonly damaged: readonly DamageLine[];
  readonly damaged_count: number;
  /** Lost windows that are whole again, of a run that was to have them again. */
  readonly restored?: Partial<RestoredCounts>;
  /** How the request rate was used, of a run that asked the upstream. */
  readonly rate?: RateUse;
  /** What a night brought, beside the nights before it; of `nightly` alone. */
  readonly night?: NightSummary;
  /** What came of reading a sample of settled windows again; of `nightly` alone, zeros where it made none. */
  readonly rechecks?: RecheckCounts;
  /** The one thing to do next, as a sentence with its command; null where nothing has to be done. */
  readonly next_action?: string | null;
}

export interface RateUse {
  /** Requests a second that were allowed when the run ended. */
  readonly allowed_per_second: number;
  /** Share, 0 to 1, of what was allowed while there was something to ask for. */
  readonly used: number;
  /** Milliseconds for which requests stood ready and waited for their turn. */
  readonly wait_ms: number;
}

export interface RecheckCounts {
  /** Requests of the sample, and of all that was fetched again. */
  readonly requests: number;
  /** Settled windows that were read again, those of them that brought ticks which were missing, and these ticks. */
  readonly windows: number;
  readonly contradicted: number;
  readonly new_ticks: number;
  /** Windows of coverage that were withdrawn, or count as inferred until they are read again. */
  readonly withdrawn_windows: number;
  /** Windows in doubt that were read again, and those that are left for the next nights. */
  readonly reread_windows: number;
  readonly doubtful_windows: number;
  /** How late ticks came at least in the last 30 days, 0 where none did, and how far before its cursor the next poll reads again. */
  readonly lateness_ms: number;
  readonly overlap_ms: number;
}

export interface NightSummary {
  /** Nights that the medians are of, at most the last seven. */
  readonly nights: number;
  /**
   * Of this run and of the polls since the night before: new ones; those of them that came after their window was
   * covered; those that differ from a published price.
   */
  readonly ticks: {
    readonly new: CountComparison;
    readonly late: CountComparison;
    readonly conflicts: CountComparison;
  };
  /**
   * Symbols of the market lists, against those of the night before. Each is new, resolved or gone (inactive or not listed
   * any more) once at most; overdue: still listed, past their close, and not resolved.
   */
  readonly markets: MarketChanges;
  /**
   * Symbols of which all of this night is covered, and the minutes of symbols' lives since the night before that nothing
   * covers, summed over symbols.
   */
  readonly covered: { readonly symbols: number; readonly gap_minutes: number };
  /** Symbols some of whose days were first fetched so long after they had ended that the upstream may have thinned them. */
  readonly fetched_late: NamedCount;
}

/** Lost windows of ticks that were had again, by where from: answers kept under .oddslake/raw, or those asked for anew. */
export type RestoredCounts = Readonly<Record<'raw' | 'asked', { readonly windows: number; readonly ticks: number }>>;

export interface BookCounts {
  /** Symbols. */
  readonly planned: number;
  readonly done: number;
  readonly failed: number;
  /** Symbols of the market lists that the service has no order book of. */
  readonly missing: number;
  /** Snapshots had, the empty ones included. */
  readonly snapshots: number;
  readonly empty: number;
  /** Answers of which something was not understood. */
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

export type Outcome =
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

/** What a run knows of itself when it ends. */
export interface RunFacts
  extends Omit<Summary, 'outcome' | 'exit_code' | 'published' | 'error' | 'schema_drift' | DerivedField> {
  readonly files: readonly PublishedFile[];
  /** None where it is not given. */
  readonly publishedTicks?: { readonly added: number; readonly lost: number };
  /** None where it is not given. */
  readonly schema_drift?: readonly DriftLine[];
  readonly strict: boolean;
  /** Whether the upstream answered anything in this run. */
  readonly hasUpstreamResponded: boolean;
  /** Whether it asked another service in the upstream's place; not where it is not given. */
  readonly usesOtherUpstream?: boolean;
  /** What is not as published, as far as anybody has found; nothing where it is not given. */
  readonly damage?: readonly RecordedDamage[];
  /** What ended the run early, if anything did. */
  readonly thrown: unknown;
}

type DerivedField = 'warnings_count' | 'failures_count' | 'schema_drift_count' | 'damaged' | 'damaged_count';

const listLengthMax = 20;

export function summarize(facts: RunFacts): Summary {
  const exitCode = computeExitCode(facts);
  const drifts = facts.schema_drift ?? [];
  const damage = facts.damage ?? [];
  const dates = [...new Set(facts.files.flatMap((file) => file.date ?? []))].sort();
  const { rows, bytes } = sumFileTotals(facts.files);
  return {
    version: facts.version,
    job: facts.job,
    run_id: facts.run_id,
    outcome: outcomeByExitCode[exitCode],
    exit_code: exitCode,
    error: formatRunError(facts, exitCode),
    started_at: facts.started_at,
    finished_at: facts.finished_at,
    requests: facts.requests,
    retries: facts.retries,
    throttled_ms: facts.throttled_ms,
    pages: facts.pages,
    ticks: facts.ticks,
    recovered: facts.recovered,
    symbols: facts.symbols,
    ...(facts.markets !== undefined && { markets: facts.markets }),
    orderbooks: facts.orderbooks,
    published: {
      files: facts.files.length,
      rows,
      bytes,
      dates: dates.slice(0, listLengthMax),
      dates_count: dates.length,
      ...(facts.publishedTicks ?? { added: 0, lost: 0 }),
    },
    generation: facts.generation,
    watermark: facts.watermark,
    ...(facts.reached !== undefined && { reached: facts.reached }),
    gaps: facts.gaps,
    ...(facts.verdict && { verdict: facts.verdict }),
    warnings: facts.warnings.slice(0, listLengthMax),
    warnings_count: facts.warnings.length,
    failures: facts.failures.slice(0, listLengthMax),
    failures_count: facts.failures.length,
    schema_drift: drifts.slice(0, listLengthMax),
    schema_drift_count: drifts.length,
    damaged: damage.slice(0, listLengthMax).map(({ path, kind, foundAt }) => ({ path, kind, found_at: foundAt })),
    damaged_count: damage.length,
    ...(facts.restored && { restored: facts.restored }),
    ...(facts.rate && { rate: facts.rate }),
    ...(facts.night && { night: facts.night }),
    ...(facts.rechecks && { rechecks: facts.rechecks }),
    ...(facts.next_action !== undefined && { next_action: facts.next_action }),
  };
}

function computeExitCode(facts: RunFacts): ExitCode {
  const code = computeWorkExitCode(facts);
  // 6 before 4 before 0; what kept the run from its work is told first.
  const isDamaged = (facts.damage ?? []).length > 0;
  return isDamaged && (code === exitCodes.done || code === exitCodes.incomplete) ? exitCodes.damaged : code;
}

function computeWorkExitCode({ thrown, failures, warnings, strict, hasUpstreamResponded }: RunFacts): ExitCode {
  if (thrown !== undefined) return toExitCode(thrown, hasUpstreamResponded);
  if (failures.length > 0 || (strict && warnings.length > 0)) return exitCodes.incomplete;
  return exitCodes.done;
}

/** Damage that nothing was thrown for is told all the same, where the run ends by it. */
function formatRunError({ thrown, usesOtherUpstream, damage = [] }: RunFacts, exitCode: ExitCode): string | null {
  const why = thrown === undefined ? null : formatErrorMessage(thrown, usesOtherUpstream);
  if (exitCode !== exitCodes.damaged || thrown instanceof DamageError) return why;
  return [why, formatDamageSummary(damage)].filter((one) => one !== null).join('; ') || null;
}

/** The exit code that an error stands for; `reached`: whether the upstream had answered anything before. */
export function toExitCode(error: unknown, reached: boolean): ExitCode {
  if (error instanceof InterruptedError)
    return error.signalName === 'SIGINT' ? exitCodes.interrupted : exitCodes.terminated;
  if (error instanceof OddslakeError) return error.exitCode;
  if (!(error instanceof UpstreamError)) return exitCodes.unexpected;
  if (error.failure === 'credential') return exitCodes.credential;
  return error.failure === 'unreachable' && !reached ? exitCodes.unreachable : exitCodes.incomplete;
}

/** What is said wherever damage is known; null where there is none. */
function formatDamageSummary(damage: readonly RecordedDamage[]): string | null {
  const [first] = damage;
  if (first === undefined) return null;
  const { path, kind, foundAt } = first;
  const others = damage.length === 1 ? '' : ` and ${formatCount(damage.length - 1, 'other file')}`;
  const verb = damage.length === 1 ? 'is' : 'are';
  return `${path}${others} ${verb} not as published (${kind}, found ${formatIsoUtc(foundAt)}); to mend it: oddslake verify --repair`;
}
