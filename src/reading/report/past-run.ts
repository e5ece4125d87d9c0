import type { KnownRun } from '../../state/runs.ts';

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
export function pastRun({ summary, ...run }: KnownRun, isOver: (runId: string) => boolean): PastRun {
  const state = run.finishedAt !== null ? 'ended' : isOver(run.runId) ? 'broken off' : 'under way';
  return { ...run, state, summary: summary === null ? null : readSummary(summary) };
}

/** Reads the JSON of a summary, whatever oddslake wrote it; null where it is none. */
export function readSummary(text: string): PastSummary | null {
  let parsed: unknown;
  try {
    parsed = JSON.parse(text);
  } catch {
    return null;
  }
  const of = fieldsOf(parsed);
  if (of === null) return null;
  const [ticks, symbols, rate] = [fieldsOf(of.ticks), fieldsOf(of.symbols), fieldsOf(of.rate)];
  const [warnings, failures, drifts] = [textsOf(of.warnings), listOf(of.failures), listOf(of.schema_drift)];
  return {
    error: textOf(of.error),
    requests: countOf(of.requests),
    throttledMs: countOf(of.throttled_ms),
    accepted: countOf(ticks?.accepted),
    conflicts: countOf(ticks?.conflicts),
    quarantined: countOf(ticks?.quarantined),
    planned: countOf(symbols?.planned),
    failed: countOf(symbols?.failed),
    // Of a run of before covered_to the watermark.
    watermark: numberOf(of.covered_to ?? of.watermark),
    warnings,
    warningsCount: Math.max(warnings.length, countOf(of.warnings_count)),
    failures: failures.map(({ symbol, reason }) => ({ symbol: textOf(symbol), reason: textOf(reason) ?? '' })),
    failuresCount: Math.max(failures.length, countOf(of.failures_count)),
    drifts: drifts.map((drift) => ({
      resource: textOf(drift.resource) ?? '',
      field: textOf(drift.field) ?? '',
      change: textOf(drift.change) ?? '',
      before: textsOf(drift.before),
      now: textsOf(drift.now),
    })),
    driftsCount: Math.max(drifts.length, countOf(of.schema_drift_count)),
    rate: rateOf(rate),
    nextAction: of.next_action === null ? null : (textOf(of.next_action) ?? undefined),
  };
}

function rateOf(of: Fields | null): PastRate | null {
  const [allowedPerSecond, used] = [numberOf(of?.allowed_per_second), numberOf(of?.used)];
  if (allowedPerSecond === null || used === null) return null;
  return { allowedPerSecond, used, waitedMs: countOf(of?.waited_ms) };
}

type Fields = Readonly<Record<string, unknown>>;

const fieldsOf = (value: unknown): Fields | null =>
  typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Fields) : null;
const textOf = (value: unknown): string | null => (typeof value === 'string' ? value : null);
const numberOf = (value: unknown): number | null =>
  typeof value === 'number' && Number.isFinite(value) ? value : null;
const countOf = (value: unknown): number => Math.max(0, numberOf(value) ?? 0);
const listOf = (value: unknown): Fields[] =>
  Array.isArray(value) ? value.map(fieldsOf).filter((one) => one !== null) : [];
const textsOf = (value: unknown): string[] =>
  Array.isArray(value) ? value.filter((one) => typeof one === 'string') : [];
