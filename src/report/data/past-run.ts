import { parseRunSummary, type RecordedRun } from '../../archive/journal/runs.ts';

/** A run of the past. Times are epoch milliseconds. */
export interface PastRun {
  readonly runId: string;
  readonly job: string;
  readonly startedAt: number;
  readonly finishedAt: number | null;
  readonly exitCode: number | null;
  /** `under way`: its process is alive. `broken off`: it is gone without an end. */
  readonly state: 'ended' | 'under way' | 'broken off';
  readonly summary: PastSummary | null;
}

/** What a run's summary told when it ended; an older oddslake's told less. */
export interface PastSummary {
  readonly error: string | null;
  readonly requests: number;
  readonly throttledMs: number;
  readonly accepted: number;
  readonly conflicts: number;
  readonly quarantined: number;
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
  /** Undefined where it said nothing of it. */
  readonly nextAction: string | null | undefined;
}

export interface PastFailure {
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

export interface PastRate {
  readonly allowedPerSecond: number;
  /** Share, 0 to 1. */
  readonly used: number;
  readonly waitedMs: number;
}

/** @param isOver whether the process of a run without an end is gone */
export function toPastRun({ summary, ...run }: RecordedRun, isOver: (runId: string) => boolean): PastRun {
  const state = run.finishedAt !== null ? 'ended' : isOver(run.runId) ? 'broken off' : 'under way';
  return { ...run, state, summary: summary === null ? null : parsePastSummary(summary) };
}

/** Reads the JSON of a summary, whatever oddslake wrote it; null where it is none. */
export function parsePastSummary(text: string): PastSummary | null {
  let parsed: unknown;
  try {
    parsed = parseRunSummary(text);
  } catch {
    return null;
  }
  const of = toFields(parsed);
  if (of === null) return null;
  const [ticks, symbols, rate] = [toFields(of.ticks), toFields(of.symbols), toFields(of.rate)];
  const [warnings, failures, drifts] = [toTexts(of.warnings), toFieldsList(of.failures), toFieldsList(of.schema_drift)];
  return {
    error: toText(of.error),
    requests: toCount(of.requests),
    throttledMs: toCount(of.throttled_ms),
    accepted: toCount(ticks?.accepted),
    conflicts: toCount(ticks?.conflicts),
    quarantined: toCount(ticks?.quarantined),
    planned: toCount(symbols?.planned),
    failed: toCount(symbols?.failed),
    // Of a run of before reached the watermark.
    watermark: toNumber(of.reached ?? of.watermark),
    warnings,
    warningsCount: Math.max(warnings.length, toCount(of.warnings_count)),
    failures: failures.map(({ symbol, reason }) => ({ symbol: toText(symbol), reason: toText(reason) ?? '' })),
    failuresCount: Math.max(failures.length, toCount(of.failures_count)),
    drifts: drifts.map((drift) => ({
      resource: toText(drift.resource) ?? '',
      field: toText(drift.field) ?? '',
      change: toText(drift.change) ?? '',
      before: toTexts(drift.before),
      now: toTexts(drift.now),
    })),
    driftsCount: Math.max(drifts.length, toCount(of.schema_drift_count)),
    rate: parseRate(rate),
    nextAction: of.next_action === null ? null : (toText(of.next_action) ?? undefined),
  };
}

function parseRate(of: Fields | null): PastRate | null {
  const [allowedPerSecond, used] = [toNumber(of?.allowed_per_second), toNumber(of?.used)];
  if (allowedPerSecond === null || used === null) return null;
  return { allowedPerSecond, used, waitedMs: toCount(of?.wait_ms) };
}

type Fields = Readonly<Record<string, unknown>>;

const toFields = (value: unknown): Fields | null =>
  typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Fields) : null;
const toText = (value: unknown): string | null => (typeof value === 'string' ? value : null);
const toNumber = (value: unknown): number | null =>
  typeof value === 'number' && Number.isFinite(value) ? value : null;
const toCount = (value: unknown): number => Math.max(0, toNumber(value) ?? 0);
const toFieldsList = (value: unknown): Fields[] =>
  Array.isArray(value) ? value.map(toFields).filter((one) => one !== null) : [];
const toTexts = (value: unknown): string[] =>
  Array.isArray(value) ? value.filter((one) => typeof one === 'string') : [];
