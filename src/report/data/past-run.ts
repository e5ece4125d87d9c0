import type { RecordedRun } from '../../archive/journal/runs.ts';
import { type PastNight, parsePastNight } from './past-night.ts';

/** A recorded run. Times in epoch ms. */
export interface PastRun {
  readonly runId: string;
  readonly job: string;
  readonly startedAt: number;
  readonly finishedAt: number | null;
  readonly exitCode: number | null;
  /** `running`: its process is alive. `interrupted`: its process ended without recording an end. */
  readonly state: 'ended' | 'running' | 'interrupted';
  readonly summary: PastSummary | null;
}

/** The parts of a run's summary that the report uses. */
export interface PastSummary {
  readonly error: string | null;
  readonly requests: number;
  readonly throttledMs: number;
  readonly accepted: number;
  readonly conflicts: number;
  readonly quarantined: number;
  /** Ticks, quotes and trades in the responses, and the unusable ones among them. */
  readonly rowsFetched: number;
  readonly rowsUnusable: number;
  readonly planned: number;
  readonly failed: number;
  readonly watermark: number | null;
  readonly warnings: readonly string[];
  readonly warningsCount: number;
  readonly failures: readonly PastFailure[];
  readonly failuresCount: number;
  readonly drifts: readonly PastDrift[];
  readonly driftsCount: number;
  readonly rate: PastRate | null;
  /** What the run published; null if the summary does not say. */
  readonly published: PastPublish | null;
  /** Null for another job than nightly, and for a night without a previous one to compare with. */
  readonly night: PastNight | null;
  /** Undefined if the summary has no such field. */
  readonly nextAction: string | null | undefined;
}

interface PastFailure {
  readonly symbol: string | null;
  readonly reason: string;
}

export interface PastDrift {
  readonly resource: string;
  readonly field: string;
  readonly change: string;
  readonly before: readonly string[];
  readonly now: readonly string[];
}

interface PastPublish {
  readonly files: number;
  readonly bytes: number;
  /** Number of UTC days with changed files. */
  readonly days: number;
}

interface PastRate {
  readonly allowedPerSecond: number;
  /** Share, 0 to 1. */
  readonly used: number;
  readonly waitedMs: number;
}

/** @param isOver whether the process of an unfinished run has ended */
export function toPastRun({ summary, ...run }: RecordedRun, isOver: (runId: string) => boolean): PastRun {
  const state = run.finishedAt !== null ? 'ended' : isOver(run.runId) ? 'interrupted' : 'running';
  return { ...run, state, summary: summary === null ? null : parsePastSummary(summary) };
}

/** The last nightly run that counted what it changed; a run that failed early counted nothing. Null if there is none. */
export const findCountedNight = (runs: readonly PastRun[], lastNight: PastRun | null): PastRun | null =>
  [lastNight, ...runs].findLast((run) => run !== null && run.summary !== null && run.summary.night !== null) ?? null;

/** Parses the JSON of a summary; null if it is not one. */
export function parsePastSummary(text: string): PastSummary | null {
  let parsed: unknown;
  try {
    parsed = JSON.parse(text);
  } catch {
    return null;
  }
  const fields = toFields(parsed);
  if (fields === null) return null;
  const [ticks, symbols, rate] = [toFields(fields.ticks), toFields(fields.symbols), toFields(fields.rate)];
  const published = toFields(fields.published);
  const [warnings, failures, drifts] = [
    toTexts(fields.warnings),
    toFieldsList(fields.failures),
    toFieldsList(fields.schema_drift),
  ];
  const sumOver = (getCount: (counts: Fields | null) => number): number =>
    [ticks, toFields(fields.quotes), toFields(fields.trades)].reduce((sum, counts) => sum + getCount(counts), 0);
  return {
    error: toText(fields.error),
    requests: toCount(fields.requests),
    throttledMs: toCount(fields.throttled_ms),
    accepted: toCount(ticks?.accepted),
    conflicts: toCount(ticks?.conflicts),
    quarantined: toCount(ticks?.quarantined),
    rowsFetched: sumOver((counts) => toCount(counts?.fetched)),
    rowsUnusable: sumOver((counts) => toCount(counts?.quarantined)),
    planned: toCount(symbols?.planned),
    failed: toCount(symbols?.failed),
    // Older summaries have no reached.
    watermark: toNumber(fields.reached ?? fields.watermark),
    warnings,
    warningsCount: Math.max(warnings.length, toCount(fields.warnings_count)),
    failures: failures.map(({ symbol, reason }) => ({ symbol: toText(symbol), reason: toText(reason) ?? '' })),
    failuresCount: Math.max(failures.length, toCount(fields.failures_count)),
    drifts: drifts.map((drift) => ({
      resource: toText(drift.resource) ?? '',
      field: toText(drift.field) ?? '',
      change: toText(drift.change) ?? '',
      before: toTexts(drift.before),
      now: toTexts(drift.now),
    })),
    driftsCount: Math.max(drifts.length, toCount(fields.schema_drift_count)),
    rate: parseRate(rate),
    published:
      published === null
        ? null
        : {
            files: toCount(published.files),
            bytes: toCount(published.bytes),
            days: Math.max(toTexts(published.dates).length, toCount(published.dates_count)),
          },
    night: parsePastNight(fields.night),
    nextAction: fields.next_action === null ? null : (toText(fields.next_action) ?? undefined),
  };
}

function parseRate(fields: Fields | null): PastRate | null {
  const [allowedPerSecond, used] = [toNumber(fields?.allowed_per_second), toNumber(fields?.used)];
  if (allowedPerSecond === null || used === null) return null;
  return { allowedPerSecond, used, waitedMs: toCount(fields?.wait_ms) };
}

type Fields = Readonly<Record<string, unknown>>;

const toFields = (value: unknown): Fields | null =>
  typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Fields) : null;
const toText = (value: unknown): string | null => (typeof value === 'string' ? value : null);
const toNumber = (value: unknown): number | null =>
  typeof value === 'number' && Number.isFinite(value) ? value : null;
const toCount = (value: unknown): number => Math.max(0, toNumber(value) ?? 0);
const toFieldsList = (value: unknown): Fields[] =>
  Array.isArray(value) ? value.map(toFields).filter((item) => item !== null) : [];
const toTexts = (value: unknown): string[] =>
  Array.isArray(value) ? value.filter((item) => typeof item === 'string') : [];
