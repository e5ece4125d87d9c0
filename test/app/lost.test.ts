import { rmSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { expect, onTestFinished, test, vi } from 'vitest';
import { job as backfill } from '../../jobs/backfill.ts';
import { job as importFiles } from '../../jobs/import.ts';
import { job as repair } from '../../jobs/repair.ts';
import { statusText } from '../../src/cli/status-text.ts';
import { isoUtc } from '../../src/core/time.ts';
import { listGaps } from '../../src/reading/gaps.ts';
import { readStatus } from '../../src/reading/status.ts';
import { startSandbox } from '../../src/sandbox/sandbox.ts';
import { oneSymbol } from '../../src/state/symbols.ts';
import { systemClock } from '../../src/system.ts';
import { hashes } from '../archive/scratch.ts';
import { dayMs, hourMs } from './nights.ts';

// Many runs: a machine that is busy with other things takes its time.
vi.setConfig({ testTimeout: 60_000 });

import { at, type Damaged, damaged, midnight, only, repaired, withArchive } from './lossy.ts';

const backfilled = async ({ nights, symbols }: Damaged, nowMs: number, ...set: string[]) =>
  backfill.run(await nights.contextAt(nowMs, ...only(symbols), ...set), {
    ...{ window: { from: midnight(-1), to: midnight(1) }, symbols, force: false, allKnown: false, showPlan: null },
  });

const gapsOf = ({ nights, symbols }: Damaged, nowMs: number) =>
  withArchive(nights, nowMs, (archive) => {
    const facts = [...symbols].sort().map((symbol) => oneSymbol(archive.state.db, symbol)!);
    return listGaps(archive, { from: null, to: null, symbols: facts }, nowMs).gaps;
  });

const thinned = { thinShare: 0.5, thinAfterMs: dayMs };
const asBefore = { thinShare: 0, retentionMs: null, faultSymbols: {} };
const lostWarning = expect.stringMatching(/^\d windows? of \d symbols? \(.*\) lost ticks that were published once/);

test('what an upstream still has is whole again, to the byte', async () => {
  const lake = await damaged();
  const { nights, symbols, lost, counts } = lake;
  expect(await gapsOf(lake, at(1))).toEqual(
    [...symbols].sort().map((symbol) => ({
      ...{ symbol, ...lost, reason: 'lost', ticks: counts[symbols.indexOf(symbol)] },
    })),
  );
  const requests = nights.box().stats().tickRequests;
  const summary = await repaired(lake, at(1) + hourMs);
  expect(summary).toMatchObject({
    ...{ job: 'repair', exit_code: 0, failures: [], warnings: [], gaps: 0 },
    ...{ ticks: { accepted: counts[0] + counts[1] }, symbols: { planned: 2, done: 2 } },
  });
  expect(nights.box().stats().tickRequests - requests).toBeLessThanOrEqual(6);
  expect(hashes(nights.output, 'ticks/**/*.parquet')).toEqual(lake.before);
  expect(await gapsOf(lake, at(1) + hourMs)).toEqual([]);
  await withArchive(nights, at(1), ({ state }) =>
    expect(oneSymbol(state.db, symbols[0])!.ticks).toBe(
      nights.box().truth(symbols[0], { from: at(-2), to: at(1) }).t.length,
    ),
  );
  // There is nothing to ask for any more.
  const again = await repaired(lake, at(1) + 2 * hourMs);
  expect(again).toMatchObject({ exit_code: 0, requests: 0, published: { files: 0 } });
});

test('what an upstream has thinned is a failure once, a warning after that, and asked for by no later night', async () => {
  const lake = await damaged();
  const { nights, symbols, lost, counts } = lake;
  nights.box().set(thinned);
  const summary = await repaired(lake, at(1) + hourMs);
  const held = symbols.map((symbol) => nights.box().truth(symbol, lost).t.length);
  expect(held[0]).toBeLessThan(counts[0]);
  expect(held[0]).toBeGreaterThan(0);
  const reasons = symbols.map((symbol, i) => ({
    symbol,
    ...lost,
    reason: `lost: ${held[i]} of ${counts[i]} ticks came back`,
  }));
  expect(summary).toMatchObject({ exit_code: 4, outcome: 'incomplete', warnings: [], gaps: 2 });
  expect(summary.failures).toEqual(expect.arrayContaining(reasons));
  expect(summary.failures.length).toBe(2);
  const gaps = await gapsOf(lake, at(1) + hourMs);
  expect(gaps).toMatchObject([{ reason: 'lost' }, { reason: 'lost' }]);

  // However far a night looks back for holes.
  const night = await nights.night(at(2), ...only(symbols), 'source.first_lookback_days=7');
  expect(night).toMatchObject({ exit_code: 0, failures: [], warnings: [lostWarning] });
  // No more is asked for than in a night without losses, and that is from the cursor on.
  expect(night.requests).toBe(lake.requests);
  expect(night.ticks.duplicates).toBeLessThan(held[0]!);
  expect(night.watermark).toBe(lost.from);
  expect(await gapsOf(lake, at(2))).toEqual(gaps);
  const rules = { lingerMs: 7 * dayMs, settleMs: hourMs, named: symbols };
  const status = await withArchive(nights, at(2), (archive) => readStatus(archive, rules, at(2)));
  expect(status.gaps).toEqual({ windows: 2, symbols: 2, lost: 2 });
  // What never comes back is no reason to call for somebody every night.
  expect(status).toMatchObject({ watermark: lost.from, reached: at(2), lag_ms: 0 });
  expect(statusText(status)).toContain(
    `every live symbol up to ${isoUtc(lost.from)}, but for what is lost up to ${isoUtc(at(2))}, `,
  );

  // A backfill asks, and is told the same; it was a failure once.
  expect(await backfilled(lake, at(2))).toMatchObject({
    ...{ exit_code: 0, symbols: { planned: 2 }, ticks: { accepted: 0 }, warnings: [lostWarning] },
  });
  expect(await gapsOf(lake, at(2))).toEqual(gaps);
  nights.box().set(asBefore);
  expect(await backfilled(lake, at(2) + hourMs)).toMatchObject({ exit_code: 0, failures: [], warnings: [] });
  expect(await gapsOf(lake, at(2) + hourMs)).toEqual([]);
  expect(hashes(nights.output, 'ticks/**/*.parquet')).toMatchObject(
    Object.fromEntries(Object.entries(lake.before).filter(([path]) => path < `ticks/date=2025-06-01`)),
  );
});

test('what had come back of a loss and is damaged again is not gone for good', async () => {
  const lake = await damaged();
  const { nights, symbols, lost } = lake;
  nights.box().set(thinned);
  expect(await repaired(lake, at(1) + hourMs)).toMatchObject({ exit_code: 4, failures_count: 2 });
  const [path] = Object.keys(lake.before).filter((one) => one.startsWith('ticks/date=2025-05-31'));
  rmSync(join(nights.output, path!));
  nights.box().set(asBefore);
  const summary = await repaired(lake, at(1) + 2 * hourMs);
  expect(summary).toMatchObject({ exit_code: 0, failures: [], warnings: [] });
  expect(hashes(nights.output, 'ticks/**/*.parquet')).toEqual(lake.before);
  expect(lost.from).toBe(Date.parse('2025-05-31T12:00:00Z'));
  await withArchive(nights, at(1), ({ state }) =>
    expect(oneSymbol(state.db, symbols[0])!.ticks).toBe(
      nights.box().truth(symbols[0], { from: at(-2), to: at(1) }).t.length,
    ),
  );
});

test('a night asks for a young loss by itself, and tells once what did not come back', async () => {
  const lake = await damaged();
  const { nights, symbols } = lake;
  nights.box().set(thinned);
  const first = await nights.night(at(1) + hourMs, ...only(symbols));
  expect(first.exit_code).toBe(4);
  expect(first.failures.map(({ reason }) => reason)).toEqual([
    expect.stringMatching(/^lost: \d+ of \d+ ticks came back$/),
    expect.stringMatching(/^lost: \d+ of \d+ ticks came back$/),
  ]);
  const second = await nights.night(at(1) + 2 * hourMs, ...only(symbols));
  expect(second).toMatchObject({ exit_code: 0, warnings: [lostWarning] });
  // The state that knew of the telling is gone, and what is lost is not: told once more, and then no more.
  rmSync(join(nights.output, '.oddslake'), { recursive: true });
  expect((await nights.night(at(1) + 3 * hourMs, ...only(symbols))).exit_code).toBe(4);
  expect(await nights.night(at(1) + 4 * hourMs, ...only(symbols))).toMatchObject({
    exit_code: 0,
    warnings: [lostWarning],
  });
});

test('a night brings back what is there, and says nothing of it', async () => {
  const lake = await damaged();
  expect(await lake.nights.night(at(1) + hourMs, ...only(lake.symbols))).toMatchObject({ exit_code: 0, warnings: [] });
  expect(await gapsOf(lake, at(1) + hourMs)).toEqual([]);
});

test('a request that fails is its own failure, and the loss is still to be tried', async () => {
  const lake = await damaged();
  const { nights, symbols, lost } = lake;
  nights.box().set({ faultSymbols: { [symbols[0]]: 500 } });
  const summary = await repaired(lake, at(1) + hourMs, 'upstream.retry_attempts_max=2');
  expect(summary.failures).toEqual([{ symbol: symbols[0], ...lost, reason: expect.stringContaining('500') }]);
  expect(await gapsOf(lake, at(1) + hourMs)).toMatchObject([{ symbol: symbols[0], reason: 'lost' }]);
  nights.box().set(asBefore);
  expect(await repaired(lake, at(1) + 2 * hourMs)).toMatchObject({ exit_code: 0, failures: [] });
  expect(hashes(nights.output, 'ticks/**/*.parquet')).toEqual(lake.before);
});

test('what the upstream does not go back to is told as lost, once', async () => {
  const lake = await damaged();
  const { nights, symbols, counts } = lake;
  nights.box().set({ retentionMs: 2 * hourMs });
  const summary = await repaired(lake, at(1) + hourMs);
  expect(summary.exit_code).toBe(4);
  expect(summary.failures.map(({ symbol, reason }) => [symbol, reason]).sort()).toEqual(
    symbols.map((symbol, i) => [symbol, `lost: 0 of ${counts[i]} ticks came back`]).sort(),
  );
  expect(await repaired(lake, at(1) + 2 * hourMs)).toMatchObject({
    exit_code: 0,
    failures: [],
    warnings: [lostWarning],
  });
});

// Of the ticks of all losses together, and of each of them alone.
test.each([300, 20])(
  'answers published apart, of %i ticks, are asked for again until they prove what they bring',
  async (most) => {
    const lake = await damaged();
    // Each answer is written before the next one comes.
    lake.nights.box().set({ latencyMs: 60 });
    const summary = await repaired(lake, at(1) + hourMs, `publish.journal_ticks_max=${most}`, 'poll.page_limit=20');
    expect(summary).toMatchObject({ exit_code: 0, failures: [], warnings: [] });
    expect(hashes(lake.nights.output, 'ticks/**/*.parquet')).toEqual(lake.before);
  },
);

test('ticks that all came back in answers published apart are no failure, and the next one proves it', async () => {
  const lake = await damaged();
  lake.nights.box().set({ latencyMs: 60 });
  const apart = await backfilled(lake, at(1) + hourMs, 'publish.journal_ticks_max=1', 'poll.page_limit=20');
  expect(apart).toMatchObject({ exit_code: 0, failures: [], warnings: [lostWarning] });
  expect(hashes(lake.nights.output, 'ticks/**/*.parquet')).toEqual(lake.before);
  const next = await backfilled(lake, at(1) + 2 * hourMs);
  expect(next).toMatchObject({ exit_code: 0, failures: [], warnings: [], ticks: { accepted: 0 } });
  expect(await gapsOf(lake, at(1) + 2 * hourMs)).toEqual([]);
});

test('files that cover a loss with fewer ticks are told like an answer, and those with all of them heal it', async () => {
  const lake = await damaged();
  const { nights, symbols, lost, counts } = lake;
  const [symbol] = symbols;
  const truth = nights.box().truth(symbol, lost);
  const file = join(nights.output, '..', `${basename(nights.output)}.csv`);
  onTestFinished(() => rmSync(file, { force: true }));
  const rowsOf = async (count: number, nowMs: number) => {
    const rows = [...truth.t.slice(0, count)].map((t, i) => `${symbol},${t},${truth.p[i]}\n`);
    writeFileSync(file, `symbol,t,p\n${rows.join('')}`);
    return importFiles.run(await nights.contextAt(nowMs, ...only(symbols)), {
      ...{ paths: [file], dataset: null, format: null, zone: null, covers: lost, preferred: false },
    });
  };
  const few = await rowsOf(10, at(1) + hourMs);
  expect(few).toMatchObject({ exit_code: 4, warnings: [lostWarning] });
  expect(few.failures).toEqual([{ symbol, ...lost, reason: `lost: 10 of ${counts[0]} ticks came back` }]);
  expect(await gapsOf(lake, at(1) + hourMs)).toMatchObject([{ reason: 'lost' }, { reason: 'lost' }]);
  const all = await rowsOf(truth.t.length, at(1) + 2 * hourMs);
  expect(all).toMatchObject({ exit_code: 0, failures: [] });
  expect(await gapsOf(lake, at(1) + 2 * hourMs)).toMatchObject([{ symbol: symbols[1], reason: 'lost' }]);
});

test('where there is nobody to ask it says so, and the loss is still to be tried', async () => {
  const lake = await damaged();
  const { nights, symbols, counts } = lake;
  const context = await nights.contextAt(at(1) + hourMs, ...only(symbols));
  const settings = { ...context.settings, upstream: { ...context.settings.upstream, baseUrl: null } };
  const summary = await repair.run({ ...context, settings }, { fromUrl: null });
  expect(summary.exit_code).toBe(4);
  expect(summary.failures.map(({ reason }) => reason)).toEqual(
    [...symbols]
      .sort()
      .map((symbol) =>
        expect.stringContaining(`lost: 0 of ${counts[symbols.indexOf(symbol)]} ticks are left, and nobody`),
      ),
  );
  expect(await repaired(lake, at(1) + 2 * hourMs)).toMatchObject({ exit_code: 0 });
});

test('a backfill of a part of a lost window asks for all of it', async () => {
  const lake = await damaged();
  const window = { from: lake.lost.from + 3 * hourMs, to: lake.lost.from + 4 * hourMs };
  const flags = { window, symbols: [lake.symbols[0]], force: false, allKnown: false, showPlan: null };
  const summary = await backfill.run(await lake.nights.contextAt(at(1), ...only(lake.symbols)), flags);
  expect(summary.exit_code).toBe(0);
  expect(await gapsOf(lake, at(1))).toMatchObject([{ symbol: lake.symbols[1] }]);
});

test('another service is asked with a key of its own and at its own pace, the upstream is not, and no symbol is given up for it', async () => {
  const lake = await damaged();
  const { nights, symbols } = lake;
  const nowMs = at(1) + hourMs;
  nights.box().set(thinned);
  const other = await startSandbox(
    { seed: 3, markets: 12, ticksPerDay: 150, lifeDaysMax: 60, key: 'other-key', nowMs, requestsPerSecond: 4 },
    { clock: systemClock },
  );
  onTestFinished(() => other.stop());
  const ask = async (fromUrl: string, ...set: string[]) =>
    repair.run(await nights.contextAt(nowMs, ...only(symbols), 'source.retire_after_runs=1', ...set), { fromUrl });
  await expect(ask(other.url)).rejects.toThrow(
    /^No key for .*: set ODDSLAKE_FROM_API_KEY or ODDSLAKE_FROM_API_KEY_FILE$/,
  );
  expect(await ask(other.url, 'repair.from_api_key=wrong')).toMatchObject({ exit_code: 3 });
  expect(await ask('http://127.0.0.1:9', 'repair.from_api_key=other-key')).toMatchObject({ exit_code: 7 });
  other.set({ faultSymbols: { [symbols[0]]: 404 } });
  const half = await ask(other.url, 'repair.from_api_key=other-key');
  expect(half).toMatchObject({ exit_code: 4, symbols: { failed: 1, retired: 0 } });
  await withArchive(nights, nowMs, ({ state }) => expect(oneSymbol(state.db, symbols[0])!.retiredAt).toBeNull());
  const requests = nights.box().stats().requests;
  other.set({ faultSymbols: {} });
  expect(await ask(other.url, 'repair.from_api_key=other-key')).toMatchObject({ exit_code: 0, failures: [] });
  expect(nights.box().stats().requests).toBe(requests);
  expect(hashes(nights.output, 'ticks/**/*.parquet')).toEqual(lake.before);
});
