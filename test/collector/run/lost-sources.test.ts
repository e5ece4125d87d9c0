import { rmSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { job as backfill } from '../../../jobs/backfill.ts';
import { job as importFiles } from '../../../jobs/import.ts';
import { job as repair } from '../../../jobs/repair.ts';
import { readSymbol } from '../../../src/archive/journal/symbol-store.ts';
import { systemClock } from '../../../src/base/system.ts';
import { startSandbox } from '../../../src/sandbox/sandbox.ts';
import { hashes } from '../../archive/scratch.ts';
import { flagsOf } from '../../e2e/import-lake.ts';
import { backfilled, damaged, gapsOf, lostWarning, only, repaired, thinned, withArchive } from './lost-lake.ts';
import { at, hourMs } from './nights.ts';

// Sources that restore a loss: partial responses of the upstream, files, another service.

test('ticks restored by separately published responses are no failure', async () => {
  const lake = await damaged();
  lake.nights.box().set({ latencyMs: 60 });
  const apart = await backfilled(lake, at(1) + hourMs, 'publish.journal_ticks_max=1', 'poll.page_limit=20');
  expect(apart).toMatchObject({ exit_code: 0, failures: [], warnings: [] });
  expect(hashes(lake.nights.output, 'ticks/**/*.parquet')).toEqual(lake.before);
  const next = await backfilled(lake, at(1) + 2 * hourMs);
  expect(next).toMatchObject({ exit_code: 0, failures: [], warnings: [], ticks: { accepted: 0 } });
  expect(await gapsOf(lake, at(1) + 2 * hourMs)).toEqual([]);
});

test('imported files with all lost ticks restore a loss, and those with fewer are reported', async () => {
  const lake = await damaged();
  const { nights, symbols, lost, counts } = lake;
  const [symbol] = symbols;
  const truth = nights.box().readTruth(symbol, lost);
  const file = join(nights.output, '..', `${basename(nights.output)}.csv`);
  onTestFinished(() => rmSync(file, { force: true }));
  const rowsOf = async (count: number, nowMs: number) => {
    const rows = [...truth.t.slice(0, count)].map((t, i) => `${symbol},${t},${truth.p[i]}\n`);
    writeFileSync(file, `symbol,t,p\n${rows.join('')}`);
    return importFiles.run(await nights.contextAt(nowMs, ...only(symbols)), flagsOf([file], { covers: lost }));
  };
  const few = await rowsOf(10, at(1) + hourMs);
  expect(few).toMatchObject({ exit_code: 4, warnings: [lostWarning] });
  expect(few.failures).toEqual([{ symbol, ...lost, reason: `lost: 10 of ${counts[0]} ticks came back` }]);
  expect(await gapsOf(lake, at(1) + hourMs)).toMatchObject([{ reason: 'lost' }, { reason: 'lost' }]);
  const all = await rowsOf(truth.t.length, at(1) + 2 * hourMs);
  expect(all).toMatchObject({ exit_code: 0, failures: [] });
  expect(await gapsOf(lake, at(1) + 2 * hourMs)).toMatchObject([{ symbol: symbols[1], reason: 'lost' }]);
});

test('reports a missing upstream and leaves the loss to be tried again', async () => {
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
        expect.stringContaining(`lost: 0 of ${counts[symbols.indexOf(symbol)]} ticks are left; no upstream`),
      ),
  );
  expect(await repaired(lake, at(1) + 2 * hourMs)).toMatchObject({ exit_code: 0 });
});

test('a backfill of a part of a lost window requests all of it', async () => {
  const lake = await damaged();
  const window = { from: lake.lost.from + 3 * hourMs, to: lake.lost.from + 4 * hourMs };
  const flags = { window, symbols: [lake.symbols[0]], force: false, allKnown: false, showPlan: null };
  const summary = await backfill.run(await lake.nights.contextAt(at(1), ...only(lake.symbols)), flags);
  expect(summary.exit_code).toBe(0);
  expect(await gapsOf(lake, at(1))).toMatchObject([{ symbol: lake.symbols[1] }]);
});

test('another service has its own key and rate limit, and suspends no symbol', async () => {
  const lake = await damaged();
  const { nights, symbols } = lake;
  const nowMs = at(1) + hourMs;
  nights.box().set(thinned);
  const other = await startSandbox(
    { seed: 3, markets: 12, ticksPerDay: 150, lifetimeDaysMax: 60, key: 'other-key', nowMs, requestsPerSecond: 20 },
    { clock: systemClock },
  );
  onTestFinished(() => other.stop());
  const ask = async (fromUrl: string, ...set: string[]) =>
    repair.run(await nights.contextAt(nowMs, ...only(symbols), 'source.suspend_after_days=1', ...set), { fromUrl });
  await expect(ask(other.url)).rejects.toThrow(
    /^No key for .*: set ODDSLAKE_FROM_API_KEY or ODDSLAKE_FROM_API_KEY_FILE$/,
  );
  expect(await ask(other.url, 'repair.from_api_key=wrong')).toMatchObject({ exit_code: 3 });
  expect(await ask('http://127.0.0.1:9', 'repair.from_api_key=other-key')).toMatchObject({ exit_code: 7 });
  other.set({ faultSymbols: { [symbols[0]]: 404 } });
  const half = await ask(other.url, 'repair.from_api_key=other-key');
  expect(half).toMatchObject({ exit_code: 4, symbols: { failed: 1, suspended: 0 } });
  await withArchive(nights, nowMs, ({ state }) => expect(readSymbol(state.db, symbols[0])!.suspendedAt).toBeNull());
  const requests = nights.box().stats().requests;
  other.set({ faultSymbols: {} });
  expect(await ask(other.url, 'repair.from_api_key=other-key')).toMatchObject({ exit_code: 0, failures: [] });
  expect(nights.box().stats().requests).toBe(requests);
  expect(hashes(nights.output, 'ticks/**/*.parquet')).toEqual(lake.before);
});
