import { renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { expect, test } from 'vitest';
import type { Archive } from '../../../src/archive/archive.ts';
import { recordDamage } from '../../../src/archive/journal/published-files.ts';
import { finishRun, startRun } from '../../../src/archive/journal/runs.ts';
import { recordSelections } from '../../../src/archive/journal/selection-store.ts';
import { recordMarkets } from '../../../src/archive/journal/symbol-store.ts';
import { readQuarantineFacts } from '../../../src/report/data/quarantine-figures.ts';
import { type ReportRules, readReportData } from '../../../src/report/data/report-data.ts';
import { answer, append, day0, dayMs, hashes, hourMs, market, now, opened, publishNow } from '../../archive/scratch.ts';
import { gap, lakeWith, quiet, rain, rainLake } from '../../server/web/lake.ts';

const rules: ReportRules = {
  judged: { namedSymbols: null, views: [], lifetimeRules: { lookbackMs: 0, lingerMs: 7 * dayMs } },
  overlapMs: 3_600_000,
  overlapMsMax: 86_400_000,
  days: 60,
  lagMsMax: 2 * dayMs,
  requestsPerSecond: 5,
  catalogueUrl: null,
};
/** End of the two days of the archive. */
const end = day0 + 2 * dayMs;
const gathered = (archive: Archive, nowMs = end, rest: Partial<ReportRules> = {}) =>
  readReportData(archive, { ...rules, ...rest }, { nowMs, random: Math.random });

test('reads files and state of an archive', async () => {
  const archive = await lakeWith([rain, 'KXRAIN-27JUN'], { opensAt: day0 });
  const { status, days, coverage, gaps, cadence, problems } = await gathered(archive);
  expect(problems.counts).toEqual({ failing: 0, suspended: 0, late: 0 });
  expect(status).toMatchObject({ generation: 1, published: { ticks: 2 * 2 * 204 }, symbols: { known: 2, live: 2 } });
  expect(days).toMatchObject([
    { date: '2026-06-01', ticks: 2 * 204, state: 'incomplete', expected: 2, covered: 0 },
    { date: '2026-06-02', ticks: 2 * 204 },
    // The poll of the market lists.
    { date: '2026-06-04', ticks: 0, expected: 0 },
  ]);
  // Three hours of each day are missing; hours without ticks are covered.
  const [row, ...others] = coverage.rows;
  expect([coverage.from, coverage.to, others]).toEqual([day0, end, []]);
  expect(row).toMatchObject({ symbols: 2, lifetimeMs: Array.from({ length: 48 }, () => 2 * hourMs) });
  const missing = row!.coveredMs.flatMap((ms, i) => (ms === 2 * hourMs ? [] : [[i % 24, ms]]));
  expect(missing).toEqual([8, 9, 10, 8, 9, 10].map((hour) => [hour, 0]));
  expect(gaps).toMatchObject({
    windows: 4,
    symbols: 2,
    missingMs: 12 * hourMs,
    groups: 2,
    oldest: { ...gap, count: 2 },
  });
  // 17 of 24 hours have ticks; the longest pause is from 15:55 to 20:00.
  expect(cadence.busiest).toMatchObject([
    { symbol: rain, ticks: 408, hours: 34, longestPauseHours: 5 },
    { symbol: 'KXRAIN-27JUN', ticks: 408 },
  ]);
  expect([quiet.from, cadence.silent]).toEqual([day0 + 16 * hourMs, []]);
  expect((await gathered(archive, now)).runs.at(-1)!.job).toBe('test');
});

test('reads one generation during publishes, and leaves nothing behind', async () => {
  const archive = await rainLake();
  const before = hashes(archive.layout.root, '**/*');
  await gathered(archive);
  expect(hashes(archive.layout.root, '**/*')).toEqual(before);
  append(archive, answer(rain, [[end + 1, 0.5]], { windows: [{ from: end, to: end + hourMs }] }));
  const [reported] = await Promise.all([gathered(archive, end + hourMs), publishNow(archive, end + hourMs)]);
  expect(reported.status).toMatchObject({ generation: 1, journaled_ticks: 1, published: { ticks: 408 } });
  expect(reported.days.reduce((sum, { ticks }) => sum + ticks, 0)).toBe(408);
});

/** A fully covered symbol with ticks every other hour of five days, up to a time. */
async function ticking(until: number, coveredTo: number, set: { readonly candles: readonly ('1h' | '1d')[] }) {
  const archive = opened();
  recordMarkets(archive.state.db, [market('LOUD'), market('HUSH')], day0, true);
  const pairs = (to: number) =>
    Array.from({ length: 60 }, (_, i) => [day0 + 2 * i * hourMs, 0.5] as const).filter(([t]) => t < to);
  append(archive, answer('LOUD', pairs(coveredTo), { windows: [{ from: day0, to: coveredTo }] }));
  append(archive, answer('HUSH', pairs(until), { windows: [{ from: day0, to: coveredTo }] }));
  await publishNow(archive, coveredTo, 'run', { candles: set.candles as never });
  return archive;
}

test.each([{ candles: ['1h'] as const }, { candles: [] }])(
  'a live symbol is silent once it is quiet for long for its habit, by what is covered, with candles %j',
  async (set) => {
    const until = day0 + 4 * dayMs;
    // The last tick was at 22:00: 12 hours without ticks are not silence, 13 are.
    const early = await gathered(await ticking(until, until + 4 * hourMs, set), until + 4 * hourMs);
    expect(early.cadence.silent).toEqual([]);
    const [busiest] = early.cadence.busiest;
    expect(busiest!.prices.slice(0, 2)).toEqual([day0, day0 + 2 * hourMs].map((t) => ({ t, p: 0.5 })));
    expect(busiest!.prices).toHaveLength(busiest!.hours);
    const late = await gathered(await ticking(until, until + 11 * hourMs, set), until + 11 * hourMs);
    expect(late.cadence.silent).toMatchObject([
      { symbol: 'HUSH', quietMs: 13 * hourMs, longestPauseHours: 2, lastTick: until - 2 * hourMs },
    ]);
    // Uncovered time is not silence.
    const uncovered = await gathered(await ticking(until, until + 4 * hourMs, set), until + 11 * hourMs);
    expect(uncovered.cadence.silent).toEqual([]);
  },
);

test('ended, suspended, excluded and forgotten symbols are not silent', async () => {
  const until = day0 + 4 * dayMs;
  const archive = await ticking(until, until + 11 * hourMs, { candles: ['1h'] });
  const { db } = archive.state;
  const nowMs = until + 11 * hourMs;
  const findSilent = async (namedSymbols: ReadonlySet<string> | null) =>
    (await gathered(archive, nowMs, { judged: { ...rules.judged, namedSymbols } })).cadence.silent.length;
  const lists = [null, new Set(['HUSH'])];
  const decideNothing = () => recordSelections(db, new Map([['HUSH', {}]]));
  const states: readonly (readonly [name: string, set: () => void, reset: () => void])[] = [
    // The lists still name a market past its close as active.
    ...(
      [
        ['closes_at', until],
        ['inactive_since', until],
        ['outcome', 1],
        ['resolved_at', day0],
        ['suspended_at', until],
      ] as const
    ).map(([column, value]): readonly [string, () => void, () => void] => [
      column,
      () => void db.run(`update symbols set ${column} = ? where symbol = 'HUSH'`, value),
      () => void db.run(`update symbols set ${column} = null where symbol = 'HUSH'`),
    ]),
    ...(['excluded', 'forgotten'] as const).map((kind): readonly [string, () => void, () => void] => [
      kind,
      () =>
        recordSelections(
          db,
          new Map([
            [
              'HUSH',
              { unselected: [{ kind, from: until, to: Number.POSITIVE_INFINITY, reason: null, decidedAt: until }] },
            ],
          ]),
        ),
      decideNothing,
    ]),
  ];
  for (const named of lists) expect(await findSilent(named)).toBe(1);
  for (const [name, set, reset] of states) {
    set();
    for (const named of lists)
      expect(await findSilent(named), `${name}, ${named === null ? 'listed' : 'named'}`).toBe(0);
    reset();
  }
  for (const named of lists) expect(await findSilent(named)).toBe(1);
});

test('reports a missing file, and all other data', async () => {
  const archive = await rainLake();
  for (const { path } of archive.readManifest().datasets.candles_1h.files) rmSync(join(archive.layout.root, path));
  const { cadence, days, coverage } = await gathered(archive);
  expect(cadence).toMatchObject({ busiest: [], error: expect.stringMatching(/Run oddslake verify/) });
  expect([days.length, coverage.rows.length]).toEqual([3, 1]);
});

test('what is in a damaged file is not covered', async () => {
  const archive = await rainLake();
  const whole = await gathered(archive);
  const [file] = archive
    .readManifest()
    .datasets.ticks.files.filter(({ date, rows }) => date === '2026-06-02' && rows > 0);
  recordDamage(archive.state.db, [{ path: file!.path, kind: 'missing' }], 'run', end);
  const [row, ...others] = (await gathered(archive)).coverage.rows;
  const half = <Value>(values: readonly Value[], value: Value) => values.map((one, i) => (i < 24 ? one : value));
  expect(others).toEqual([]);
  // The lifetimes, and the day before, are as without damage.
  const before = whole.coverage.rows[0]!;
  expect(row).toEqual({
    ...before,
    coveredMs: half(before.coveredMs, 0),
    damagedMs: half(before.damagedMs, hourMs),
  });
});

test('handles an empty archive, lost state and old data', async () => {
  const empty = opened();
  expect(await gathered(empty)).toMatchObject({
    runs: [],
    days: [],
    status: { generation: 0 },
    coverage: { rows: [] },
  });
  const archive = await rainLake();
  const known = await gathered(archive);
  archive.close();
  renameSync(archive.layout.privateFolder, `${archive.layout.root}-away`);
  const again = await gathered(opened({ root: archive.layout.root }));
  expect(again).toMatchObject({ runs: [], days: known.days, coverage: known.coverage, gaps: known.gaps });
  const later = await gathered(await rainLake(), end + 400 * dayMs);
  expect(later).toMatchObject({ shown: { to: end }, coverage: { to: end } });
  expect(later.cadence.busiest).toHaveLength(1);
});

test('reads the latest runs and their summaries', async () => {
  const archive = await rainLake();
  const { db } = archive.state;
  for (let i = 0; i < 250; i++) {
    const run = `z${String(i).padStart(3, '0')}`;
    startRun(db, run, 'ticks', process.pid, now + 1 + i);
    if (i < 249) finishRun(db, run, now + 1 + i, 0, JSON.stringify({ ticks: { accepted: i } }));
  }
  const { runs } = await gathered(archive, now);
  expect([runs.length, runs[0]!.runId, runs.at(-1)!.state]).toEqual([200, 'z050', 'running']);
  expect(runs.at(-2)!.summary).toEqual({ ticks: { accepted: 248 } });
});

test('counts quarantined rows by reason, without old files', async () => {
  const archive = opened();
  const bad = (at: number, ...reasons: string[]) => {
    const rejected = reasons.map((reason) => ({ reason, raw: '{}' }));
    append(archive, answer(rain, [[at, 0.5]], { observedAt: at, rejected }));
  };
  bad(day0, 'old');
  await publishNow(archive, day0);
  bad(day0 + 5 * dayMs, 'p is not finite', 't is in the future', 'p is not finite');
  await publishNow(archive, day0 + 5 * dayMs);
  writeFileSync(
    join(archive.layout.privateFolder, 'quarantine', 'generation-000009.ndjson.gz'),
    gzipSync('no JSON\n{"at":1}\n[]\n\n'),
  );
  // All rows are old, so that reading stops here.
  expect(await readQuarantineFacts(archive, day0 + dayMs)).toMatchObject({ count: 0 });
  rmSync(join(archive.layout.privateFolder, 'quarantine', 'generation-000009.ndjson.gz'));
  bad(day0 + 6 * dayMs, 't is in the future', 't is in the future');
  expect(await readQuarantineFacts(archive, day0 + dayMs)).toEqual({
    count: 5,
    reasons: [
      { reason: 't is in the future', count: 3, symbol: rain, lastAt: day0 + 5 * dayMs },
      { reason: 'p is not finite', count: 2, symbol: rain, lastAt: day0 + 5 * dayMs },
    ],
    reasonsCount: 2,
    isTruncated: false,
  });
});
