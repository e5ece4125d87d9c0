import { emptyRecheckHistory, sumRechecks } from '../../src/archive/journal/recheck-results.ts';
import type { Summary } from '../../src/archive/journal/run-summary.ts';
import type { PastRun } from '../../src/archive/journal/runs.ts';
import { formatDay } from '../../src/base/time.ts';
import { emptyFacts, summarize } from '../../src/collector/run/summary.ts';
import type { CompletenessCounts } from '../../src/contract/completeness-counts.ts';
import { createVerdict, type Finding } from '../../src/contract/finding.ts';
import type { ReportData } from '../../src/report/data/report-data.ts';

// Report data without an archive, for tests of its display.

const hourMs = 3_600_000;
const dayMs = 24 * hourMs;

/** Current time. */
export const nowMs = Date.UTC(2026, 10, 22, 9);
const firstDay = Date.UTC(2026, 10, 9);

const emptySummary = summarize({
  ...emptyFacts,
  ...{ version: '1', job: 'nightly', started_at: 0, finished_at: 1, strict: false, thrown: undefined },
});

export const createRun = (hoursAgo: number, rest: Partial<PastRun> = {}, reported: Partial<Summary> = {}): PastRun => ({
  runId: `run-${hoursAgo}`,
  job: 'nightly',
  source: null,
  startedAt: nowMs - hoursAgo * hourMs,
  exitCode: 0,
  state: 'ended',
  finishedAt: nowMs - hoursAgo * hourMs + 600_000,
  summary: {
    ...emptySummary,
    requests: 1200,
    ticks: { ...emptySummary.ticks, accepted: 5000 },
    watermark: nowMs - hoursAgo * hourMs,
    ...reported,
  },
  ...rest,
});

export const createFinding = (message: string): Finding => ({
  kind: 'failing symbols',
  severity: 'warning',
  message,
  command: 'oddslake backfill',
});

export const createJudgement = (findings: readonly Finding[]): ReportData['judgement'] => ({
  findings,
  verdict: createVerdict(findings, 'collected to now'),
});

const none = {
  windows: 0,
  symbols: 0,
  missingMs: 0,
  groups: 0,
  greatest: [],
  oldest: null,
};

/** Nothing is missing, provisional or excepted. */
const completeCounts: CompletenessCounts = {
  state: 'complete',
  days: { complete: 13, provisional: 0, complete_with_exceptions: 0, incomplete: 0, empty: 0 },
  gaps: { damaged: 0, lost: 0, accepted: 0, expired: 0, suspended: 0, failed: 0, 'never asked': 0 },
  inferred_windows: 0,
  live: 12,
  suspended: 0,
  lists_complete: true,
  damaged: { files: 0, dates: [] },
};

/** 14 days without problems. */
export const createReportData = (rest: Partial<ReportData> = {}): ReportData => ({
  nowMs,
  rules: {
    judged: { namedSymbols: null, views: [], lifetimeRules: { lookbackMs: 0, lingerMs: dayMs } },
    overlapMs: hourMs,
    overlapMsMax: dayMs,
    days: 60,
    lagMsMax: 2 * dayMs,
    requestsPerSecond: 5,
    catalogueUrl: null,
  },
  status: {
    archive: '/lake',
    upstream: 'https://box.test',
    generation: 14,
    watermark: nowMs - hourMs,
    reached: nowMs - hourMs,
    lag_ms: hourMs,
    symbols: { known: 20, live: 12, suspended: 0 },
    completeness: completeCounts,
    published: {
      ticks: 140_000,
      bytes: 14_000_000,
      days: 14,
    },
    days: {
      first: formatDay(firstDay),
      last: formatDay(firstDay + 13 * dayMs),
    },
    open_days: [],
    open_days_count: 0,
    verified_through: nowMs - dayMs,
    damaged: [],
    damaged_count: 0,
    journaled_ticks: 0,
    gaps: { windows: 0, symbols: 0, lost: 0, accepted: 0 },
    last_runs: [],
    cursors: [],
    cursors_count: 12,
    lagging_count: 0,
  },
  judgement: createJudgement([]),
  runs: Array.from({ length: 14 }, (_, i) => createRun(24 * (13 - i) + 6)),
  days: Array.from({ length: 14 }, (_, i) => ({
    date: formatDay(firstDay + i * dayMs),
    ticks: 10_000 + i,
    bytes: 1_000_000,
    conflicts: 0,
    state: i < 13 ? 'complete' : 'incomplete',
    expected: 12,
    covered: i < 13 ? 12 : 3,
  })),
  shown: { from: firstDay + 14 * dayMs - 60 * dayMs, to: firstDay + 14 * dayMs },
  coverage: {
    from: firstDay,
    to: nowMs,
    stepMs: hourMs,
    groupedBy: 'category',
    rows: [madeHeat('crypto', 1), madeHeat('weather', 1)],
  },
  gaps: none,
  rechecks: { ...sumRechecks(emptyRecheckHistory), overlapMs: hourMs, lateness: [] },
  problems: { listed: [], counts: { failing: 0, suspended: 0, late: 0 } },
  cadence: {
    days: 14,
    silent: [],
    error: null,
    busiest: [
      {
        symbol: 'KXBTC-1',
        ticks: 9000,
        hours: 300,
        longestPauseHours: 2,
        question: 'Will it be?',
        prices: Array.from({ length: 300 }, (_, i) => ({ t: firstDay + i * hourMs, p: 0.5 + 0.3 * Math.sin(i / 9) })),
      },
    ],
  },
  quarantine: { count: 0, reasons: [], reasonsCount: 0, isTruncated: false },
  space: { freeBytes: 1e12, totalBytes: 2e12 },
  ...rest,
});

/** Coverage of a group of two symbols: the given share, and nothing in the last hour. */
function madeHeat(group: string, share: number) {
  const steps = Math.round((nowMs - firstDay) / hourMs);
  const livedMs = Array.from({ length: steps }, () => 2 * hourMs);
  return {
    group,
    symbols: 2,
    lifetimeMs: livedMs,
    coveredMs: livedMs.map((ms, i) => (i === steps - 1 ? 0 : share * ms)),
    damagedMs: livedMs.map(() => 0),
  };
}

/** Data with every kind of problem. Uses the given names in turn. */
export function createReportDataWithProblems(names: readonly string[]): ReportData {
  const name = (i: number): string => names[i % names.length]!;
  const gap = {
    from: nowMs - 50 * hourMs,
    to: nowMs - 40 * hourMs,
    count: 3,
    missingMs: 30 * hourMs,
    reason: 'never asked' as const,
  };
  const failed: Partial<Summary> = {
    failures: [{ symbol: name(0), from: null, to: null, reason: name(1) }],
    failures_count: 30,
  };
  const rate = { allowed_per_second: 5, used: 0.8, wait_ms: 120_000 };
  return createReportData({
    status: {
      ...createReportData().status,
      upstream: name(2),
      archive: name(3),
      damaged: [{ path: name(0), kind: 'checksum mismatch', found_at: nowMs - 5 * hourMs }],
      damaged_count: 30,
    },
    judgement: createJudgement([
      { kind: 'damage', severity: 'action_required', message: name(0), command: `oddslake sql ${name(1)}` },
      { ...createFinding(name(2)), advice: name(3) },
    ]),
    problems: {
      counts: { failing: 1, suspended: 20, late: 1 },
      listed: (['failing', 'suspended', 'late'] as const).map((state, i) => ({
        symbol: name(i),
        question: name(i + 1),
        state,
        since: state === 'late' ? null : nowMs - 9 * hourMs,
        coveredTo: nowMs - 8 * hourMs,
        missingMs: 8 * hourMs,
        reason: state === 'failing' ? name(i + 2) : null,
      })),
    },
    runs: [
      ...createReportData().runs,
      createRun(5, { exitCode: 4 }, { ...failed, rate }),
      createRun(4, { state: 'interrupted', finishedAt: null, exitCode: null, summary: null, job: 'backfill' }),
      createRun(3, { exitCode: 3 }, { error: name(0), watermark: null, rate }),
      createRun(2, { job: 'ticks' }, { warnings: [name(2)], warnings_count: 1, rate }),
      createRun(0, { state: 'running', finishedAt: null, exitCode: null, summary: null }),
    ],
    days: createReportData().days.map((day, i) => ({ ...day, conflicts: i })),
    coverage: {
      ...createReportData().coverage,
      rows: [1, 0.95, 0.6, 0.2, 0].map((share, i) => madeHeat(`${name(i)}${i < names.length ? '' : i}`, share)),
    },
    gaps: {
      windows: 3,
      symbols: 3,
      missingMs: 30 * hourMs,
      groups: 1,
      greatest: [{ ...gap, symbols: [name(0), name(1), name(2)] }],
      oldest: { ...gap, symbols: [name(0)] },
    },
    rechecks: {
      nights: 3,
      windows: 40,
      contradicted: 2,
      seen: 900,
      found: 9,
      missingShare: 0.01,
      contradictedShareMax: 0.14,
      latenessMs: 2 * hourMs,
      isCaught: true,
      overlapMs: 3 * hourMs,
      lateness: Array.from({ length: 6 }, (_, i) => ({ day: firstDay + 2 * i * dayMs, ms: (i + 1) * 20 * 60_000 })),
    },
    cadence: {
      days: 14,
      error: null,
      busiest: names.map((symbol, i) => ({
        symbol,
        ticks: 10 - i,
        hours: 5,
        longestPauseHours: 1,
        question: name(i + 1),
        prices: Array.from({ length: 4 + i }, (_, at) => ({ t: firstDay + at * hourMs, p: 0.5 })),
      })),
      silent: names.map((symbol, i) => ({
        symbol,
        ticks: 10,
        hours: 50,
        longestPauseHours: 3,
        question: name(i + 2),
        lastTick: nowMs - 30 * hourMs,
        quietMs: 29 * hourMs,
      })),
    },
    quarantine: {
      count: 12,
      reasonsCount: names.length,
      isTruncated: true,
      reasons: names.map((reason, i) => ({ reason, count: 2, symbol: name(i + 1), lastAt: i === 0 ? null : nowMs })),
    },
    space: { freeBytes: 20_000_000, totalBytes: 2e12 },
  });
}
