import { globSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { job as backfill } from '../../../jobs/backfill.ts';
import { job as markets } from '../../../jobs/markets.ts';
import { job as nightly } from '../../../jobs/nightly.ts';
import { job as repair } from '../../../jobs/repair.ts';
import { readSymbolCoverage } from '../../../src/archive/journal/coverage-store.ts';
import { readAllSymbols } from '../../../src/archive/journal/symbol-store.ts';
import { systemRandom } from '../../../src/base/system.ts';
import type { Context } from '../../../src/context/context.ts';
import { openConfiguredArchive } from '../../../src/context/open-configured.ts';
import { withWorkspace } from '../../../src/server/open-workspace.ts';
import { loadSettings } from '../../../src/settings/load.ts';
import { type CoverageRow, coverageOf, ticksOf } from '../../e2e/lake.ts';
import { createContext } from '../../harness/job-context.ts';
import { startMs, startWorld } from './live-world.ts';

// An archive that mirrors another one, which is served without live reads: what it claims.

const dayMs = 86_400_000;
const today = startMs - (startMs % dayMs);
const window = (from: number, to: number) => ({ from: today + from * dayMs, to: today + to * dayMs });
const night = (context: Context) => nightly.run(context, { day: null });

/** Coverage by symbol and evidence, with the times of the responses. Where origins differ, windows may be cut otherwise. */
function claimsOf(output: string): string[] {
  const out: CoverageRow[] = [];
  for (const row of coverageOf(output).sort((a, b) =>
    a.symbol === b.symbol ? a.from - b.from : a.symbol < b.symbol ? -1 : 1,
  )) {
    const last = out.at(-1);
    if (
      last?.symbol === row.symbol &&
      last.to === row.from &&
      last.evidence === row.evidence &&
      last.fetchedAt === row.fetchedAt
    )
      out[out.length - 1] = { ...last, to: row.to };
    else out.push(row);
  }
  return out.map(({ symbol, from, to, evidence, fetchedAt }) =>
    [symbol, new Date(from).toISOString(), new Date(to).toISOString(), evidence, fetchedAt].join(' '),
  );
}

const scope = { force: false, allKnown: true, symbols: [], showPlan: null };

/** An archive of which the second of the last days is not covered, and what is after the cut of its responses is inferred. */
async function startPartial() {
  const world = await startWorld({ markets: 10, ticksPerDay: 60, seed: 3 });
  const context = await world.context();
  await markets.run(context, undefined);
  for (const [from, to] of [
    [-4, -3],
    [-2, 0],
  ] as const)
    await backfill.run(context, { window: window(from, to), ...scope });
  const service = await world.serve('service.live.enabled=false');
  const copyOf = () => world.copyContext(service, 'source.mirror=true');
  return { world, service, copyOf, copy: (await copyOf()).settings.archive.output };
}

test('mirrors the evidence of another archive, window by window, and proves nothing by itself', async () => {
  const { world, copyOf, copy } = await startPartial();
  const first = claimsOf(world.root);
  for (const evidence of ['confirmed', 'inferred']) expect(first.join()).toContain(evidence);
  const filled = await backfill.run(await copyOf(), { window: window(-4, 0), ...scope });
  // What the other archive does not cover is a gap here.
  expect(filled).toMatchObject({ exit_code: 4, symbols: { failed: 0 } });
  expect(claimsOf(copy)).toEqual(first);
  expect(ticksOf(copy)).toEqual(ticksOf(world.root));

  const silent = coverageOf(copy).filter(({ evidence, ticks }) => evidence === 'inferred' && ticks === 0);
  expect(silent.length).toBeGreaterThan(3);
  for (let n = 1; n <= 4; n++) {
    await night(await copyOf());
    expect(claimsOf(copy), `night ${n}`).toEqual(first);
    world.advance(dayMs);
  }

  // What the other archive proves and fetches later is proven and covered here as well.
  await night(await world.context('service.live.enabled=false'));
  const later = claimsOf(world.root);
  expect(later).not.toEqual(first);
  await night(await copyOf());
  expect(claimsOf(copy)).toEqual(later);
});

test('lost ticks come back with the evidence of the other archive, and saved responses claim nothing', async () => {
  const { world, copyOf, copy } = await startPartial();
  await backfill.run(await copyOf(), { window: window(-4, 0), ...scope });
  const [before, ticks] = [claimsOf(copy), ticksOf(copy)];
  for (const path of globSync('ticks/date=2026-05-31/*.parquet', { cwd: copy })) rmSync(join(copy, path));
  const repaired = await repair.run(await copyOf(), { fromUrl: null, onRepaired: () => {} });
  expect(repaired.restored).toMatchObject({ raw: { ticks: 0 } });
  expect(claimsOf(copy)).toEqual(before);
  expect(ticksOf(copy)).toEqual(ticks);
  expect(ticksOf(copy)).toEqual(ticksOf(world.root));
});

test('one of several sources is mirrored by its own setting', async () => {
  const { world, service, copy } = await startPartial();
  const alpha = { base_url: service.url, api_key: service.key, mirror: true, requests_per_second: 5000 };
  const settings = await loadSettings({
    env: {},
    cwd: tmpdir(),
    output: `${copy}-of-sources`,
    set: Object.entries(alpha).map(([name, value]) => `sources.alpha.${name}=${value}`),
  });
  const { clock } = world;
  const context = createContext({ settings, clock, canCreateArchive: true, random: systemRandom });
  await backfill.run(context, { window: window(-4, 0), ...scope });
  expect(claimsOf(settings.archive.output)).toEqual(claimsOf(world.root).map((claim) => `alpha:${claim}`));
});

test('live reads claim nothing by themselves', async () => {
  const world = await startWorld({ ticksPerDay: 500 });
  expect(await night(await world.context())).toMatchObject({ exit_code: 0 });
  const service = await world.serve('source.mirror=true');
  const { symbol } = coverageOf(world.root).find(({ to }) => to === startMs)!;
  const before = readSymbolCoverage(service.archive.state.db, symbol);
  world.advance(600_000);
  const { body } = await service.get(`ticks?symbol=${symbol}&from=${startMs - 600_000}`);
  expect(body.gaps?.at(-1)?.to).toBeGreaterThan(startMs);
  expect(readSymbolCoverage(service.archive.state.db, symbol)).toEqual(before);
});

test('claims nothing with a key that does not permit the coverage', async () => {
  const { world, service, copy } = await startPartial();
  const key = await withWorkspace(await world.context(), (workspace) =>
    workspace.createKey(
      { name: 'few', expiresAt: null, requestsPerMinute: 1_000_000, datasets: ['markets', 'ticks'] },
      world.clock.nowMs(),
    ),
  );
  const summary = await night(await world.copyContext({ ...service, ...key }, 'source.mirror=true'));
  const reason =
    'HTTP 403 ("The key does not permit the dataset coverage. It permits: ticks, markets."); source.mirror needs the coverage route of an oddslake';
  expect(summary).toMatchObject({ exit_code: 3 });
  expect(summary.error).toContain(reason);
  expect(coverageOf(copy)).toEqual([]);
});

test('claims nothing if the upstream is another kind of service, and keeps its ticks', async () => {
  const { world, service, copy } = await startPartial();
  const other = { ...service, url: world.box.url, key: 'sandbox-key' };
  for (let n = 0; n < 4; n++) {
    const summary = await night(await world.copyContext(other, 'source.mirror=true'));
    expect(summary.failures.length).toBeGreaterThan(3);
    for (const { reason } of summary.failures)
      expect(reason).toBe('HTTP 404 ("no such path"); source.mirror needs the coverage route of an oddslake');
    world.advance(dayMs);
  }
  expect(coverageOf(copy)).toEqual([]);
  // The service knows the symbols.
  const archive = openConfiguredArchive(await world.copyContext(other), false);
  onTestFinished(archive.close);
  expect(readAllSymbols(archive.state.db).filter(({ suspendedAt }) => suspendedAt !== null)).toEqual([]);
  expect(ticksOf(copy).size).toBeGreaterThan(3);
});
