import { type PublishedFile, sumFileSizes } from '../../archive/format/manifest.ts';
import type { BookCounts, Summary } from '../../archive/journal/run-summary.ts';
import type { ArchiveStatus } from '../../archive/read/archive-status.ts';
import { describeDamage, judge } from '../../archive/read/judge.ts';
import { DamageError, type ExitCode, exitCodes, OddslakeError, UpstreamError } from '../../base/errors.ts';
import { InterruptedError } from '../../context/context.ts';
import type { UpstreamOrigins } from '../../settings/settings.ts';
import { formatErrorMessage } from './error-message.ts';
import { judgeRun, type RunEnd, type RunWarning } from './judge-run.ts';

export const emptyBookCounts: BookCounts = {
  planned: 0,
  done: 0,
  failed: 0,
  missing: 0,
  snapshots: 0,
  empty: 0,
  quarantined: 0,
};

const outcomeByExitCode: Record<ExitCode, Summary['outcome']> = {
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
  extends Omit<Summary, 'outcome' | 'exit_code' | 'published' | 'error' | 'warnings' | 'failures' | DerivedField>,
    RunEnd {
  readonly files: readonly PublishedFile[];
  /** 0 by default. */
  readonly publishedTicks?: { readonly added: number; readonly lost: number };
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
  readonly damage?: ArchiveStatus['damaged'];
  /** The archive at the end of the run; absent or null if it could not be read. */
  readonly status?: ArchiveStatus | null;
  /** Maximum lag without a finding, in ms; unlimited by default. */
  readonly lagMsMax?: number;
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

type DerivedField = 'verdict' | 'findings' | 'warnings_count' | 'failures_count' | 'damaged' | 'damaged_count';

const listLengthMax = 20;

/** Ticks that may be downsampled are noted as a finding alone: first nights have them. */
const isWarning = (one: RunWarning): boolean => typeof one === 'string' || one.kind !== 'possibly downsampled';

export function summarize(facts: RunFacts): Summary {
  const { version, job, run_id, warnings, failures, files, damage = [], ...others } = facts;
  const {
    publishedTicks = { added: 0, lost: 0 },
    strict,
    hasUpstreamResponded,
    usesOtherUpstream,
    source,
    upstreamFrom,
    thrown,
    status = null,
    lagMsMax = Number.POSITIVE_INFINITY,
    argv,
    ...rest
  } = others;
  const exitCode = computeExitCode(facts);
  const shown = warnings.filter(isWarning);
  const dates = [...new Set(files.flatMap((file) => file.date ?? []))].sort();
  const summary = {
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
    warnings: shown.slice(0, listLengthMax).map((one) => (typeof one === 'string' ? one : one.text)),
    warnings_count: shown.length,
    failures: failures.slice(0, listLengthMax).map(({ symbol, from, to, reason }) => ({ symbol, from, to, reason })),
    failures_count: failures.length,
    damaged: damage.slice(0, listLengthMax).map(({ path, kind, foundAt }) => ({ path, kind, found_at: foundAt })),
    damaged_count: damage.length,
  };
  const findings = judgeRun(summary, { failures, warnings, thrown, argv });
  return { ...summary, ...judge({ nowMs: summary.finished_at, lagMsMax, status, ended: { summary, findings } }) };
}

function computeExitCode(facts: RunFacts): ExitCode {
  const code = computeWorkExitCode(facts);
  // Precedence: 6 over 4 over 0. Other exit codes take precedence over 6.
  const isDamaged = (facts.damage ?? []).length > 0;
  return isDamaged && (code === exitCodes.done || code === exitCodes.incomplete) ? exitCodes.damaged : code;
}

function computeWorkExitCode({ thrown, failures, warnings, strict, hasUpstreamResponded }: RunFacts): ExitCode {
  if (thrown !== undefined) return toExitCode(thrown, hasUpstreamResponded);
  if (failures.length > 0 || (strict && warnings.some(isWarning))) return exitCodes.incomplete;
  return exitCodes.done;
}

/** Adds known damage to the error message if the exit code is 6, even if no DamageError was thrown. */
function formatRunError(
  { thrown, usesOtherUpstream, source, upstreamFrom, damage = [] }: RunFacts,
  exitCode: ExitCode,
): string | null {
  const message = thrown === undefined ? null : formatErrorMessage(thrown, usesOtherUpstream, source, upstreamFrom);
  if (exitCode !== exitCodes.damaged || thrown instanceof DamageError || damage.length === 0) return message;
  return `${message === null ? '' : `${message}; `}${describeDamage(damage)}; to repair: oddslake verify --repair`;
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
