import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { readSymbol } from '../../../src/archive/journal/symbol-store.ts';
import { readStatus } from '../../../src/archive/read/status.ts';
import { hashes } from '../../archive/scratch.ts';
import {
  asBefore,
  backfilled,
  damaged,
  gapsOf,
  lostWarning,
  only,
  repaired,
  thinned,
  withArchive,
} from './lost-lake.ts';
import { at, dayMs, hourMs } from './nights.ts';

test('restores what the upstream still has, to the byte', async () => {
  const lake = await damaged();
  const { nights, symbols, lost, counts } = lake;
  expect(await gapsOf(lake, at(1))).toEqual(
    [...symbols].sort().map((symbol) => ({
      symbol,
      ...lost,
      reason: 'lost',
      since: expect.any(Number),
      ticks: counts[symbols.indexOf(symbol)],
    })),
  );
  const requests = nights.box().stats().tickRequests;
  const summary = await repaired(lake, at(1) + hourMs);
  expect(summary).toMatchObject({
    job: 'repair',
    exit_code: 0,
    failures: [],
    warnings: [],
    gaps: 0,
    ticks: { accepted: counts[0] + counts[1] },
    symbols: { planned: 2, done: 2 },
  });
  // Two windows: for each a page, two confirmations, and sometimes one more request to check its end or a gap. At most six more
  // show how far the service reaches.
  expect(nights.box().stats().tickRequests - requests).toBeLessThanOrEqual(20);
  expect(hashes(nights.output, 'ticks/**/*.parquet')).toEqual(lake.before);
  expect(await gapsOf(lake, at(1) + hourMs)).toEqual([]);
  await withArchive(nights, at(1), ({ state }) =>
    expect(readSymbol(state.db, symbols[0])!.ticks).toBe(
      nights.box().readTruth(symbols[0], { from: at(-2), to: at(1) }).t.length,
    ),
  );
  // Nothing is left to request.
  const again = await repaired(lake, at(1) + 2 * hourMs);
  expect(again).toMatchObject({ exit_code: 0, requests: 0, published: { files: 0 } });
});

test('reports thinned ticks as a failure once, then as a warning, and does not request them again', async () => {
  const lake = await damaged();
  const { nights, symbols, lost, counts } = lake;
  nights.box().set(thinned);
  const summary = await repaired(lake, at(1) + hourMs);
  const held = symbols.map((symbol) => nights.box().readTruth(symbol, lost).t.length);
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

  const night = await nights.night(at(2), ...only(symbols));
  expect(night).toMatchObject({ exit_code: 0, failures: [], warnings: [lostWarning] });
  // As many requests as in a night without losses, from the cursor on, and sometimes one more to check an end or a gap.
  expect(night.requests).toBeLessThanOrEqual(lake.requests + 4);
  expect(night.reached).toBe(at(2));
  expect(await gapsOf(lake, at(2))).toEqual(gaps);
  const rules = { lookbackMs: 0, lingerMs: 7 * dayMs };
  const judged = { namedSymbols: new Set(symbols), views: [], lifetimeRules: rules };
  const status = await withArchive(nights, at(2), (archive) => readStatus(archive, judged, at(2)));
  expect(status.gaps).toEqual({ windows: 2, symbols: 2, lost: 2, accepted: 0 });
  // A permanent loss must not alert somebody every night.
  expect(status).toMatchObject({ reached: at(2), lag_ms: 0 });

  // A backfill requests it again with the same result, which has been reported once.
  expect(await backfilled(lake, at(2))).toMatchObject({
    exit_code: 0,
    symbols: { planned: 2 },
    ticks: { accepted: 0 },
    warnings: [lostWarning],
  });
  expect(await gapsOf(lake, at(2))).toEqual(gaps);
  nights.box().set(asBefore);
  expect(await backfilled(lake, at(2) + hourMs)).toMatchObject({ exit_code: 0, failures: [], warnings: [] });
  expect(await gapsOf(lake, at(2) + hourMs)).toEqual([]);
  expect(hashes(nights.output, 'ticks/**/*.parquet')).toMatchObject(
    Object.fromEntries(Object.entries(lake.before).filter(([path]) => path < `ticks/date=2025-06-01`)),
  );
});

test('restores a loss again after its restored part is damaged', async () => {
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
    expect(readSymbol(state.db, symbols[0])!.ticks).toBe(
      nights.box().readTruth(symbols[0], { from: at(-2), to: at(1) }).t.length,
    ),
  );
});

test('nightly requests a recent loss, and reports once what remains lost', async () => {
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
  // The state with the report is lost but the loss is not, so it is reported once more.
  rmSync(join(nights.output, '.oddslake'), { recursive: true });
  expect((await nights.night(at(1) + 3 * hourMs, ...only(symbols))).exit_code).toBe(4);
  expect(await nights.night(at(1) + 4 * hourMs, ...only(symbols))).toMatchObject({
    exit_code: 0,
    warnings: [lostWarning],
  });
});

test('nightly restores a loss without reporting it', async () => {
  const lake = await damaged();
  expect(await lake.nights.night(at(1) + hourMs, ...only(lake.symbols))).toMatchObject({ exit_code: 0, warnings: [] });
  expect(await gapsOf(lake, at(1) + hourMs)).toEqual([]);
});

test('a failed request leaves the loss to be tried again', async () => {
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

test('reports a loss before the history of the upstream once', async () => {
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
