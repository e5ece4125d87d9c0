import { readFileSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { expect, test, vi } from 'vitest';
import { job as repair } from '../../../jobs/repair.ts';
import { formatSummary } from '../../../src/cli/print-summary.ts';
import { hashes } from '../../archive/scratch.ts';
import { type Damaged, damaged, only, repaired, withArchive } from './lost-lake.ts';
import { at, dayMs, hourMs } from './nights.ts';
import { rawFiles } from './raw-nights.ts';

// Lost ticks are restored from raw responses without requests.

const keeping = 'raw.keep_days=7';
const thinned = { thinShare: 0.5, thinAfterMs: dayMs };
const ticksOf = (lake: Damaged) => hashes(lake.nights.output, 'ticks/**/*.parquet');
const repairedKeeping = (lake: Damaged) => repaired(lake, at(1) + hourMs, keeping);

test('restores ticks that the upstream has thinned out from raw responses, without a request', async () => {
  const lake = await damaged(keeping);
  lake.nights.box().set(thinned);
  const summary = await repairedKeeping(lake);
  const ticks = lake.counts[0] + lake.counts[1];
  expect(summary).toMatchObject({
    exit_code: 0,
    failures: [],
    warnings: [],
    requests: 0,
    gaps: 0,
    restored: { raw: { windows: 2, ticks }, upstream: { windows: 0, ticks: 0 } },
  });
  const { fetched, accepted, duplicates, conflicts, quarantined } = summary.ticks;
  expect(fetched).toBe(accepted + duplicates + conflicts + quarantined);
  expect(accepted).toBe(ticks);
  expect(ticksOf(lake)).toEqual(lake.before);
  expect(formatSummary(summary, 'lake')).toContain(`restored   ${ticks} ticks of 2 lost windows from .oddslake/raw\n`);
});

test('restores losses from more raw responses than the journal may hold', async () => {
  const lake = await damaged(keeping, 'poll.page_limit=5');
  lake.nights.box().set(thinned);
  const summary = await repaired(lake, at(1) + hourMs, keeping, 'publish.journal_ticks_max=20');
  expect(summary).toMatchObject({ exit_code: 0, failures: [], requests: 0, restored: { raw: { windows: 2 } } });
  expect(ticksOf(lake)).toEqual(lake.before);
});

test('restores from raw responses without an upstream', async () => {
  const lake = await damaged(keeping);
  const context = await lake.nights.contextAt(at(1) + hourMs, ...only(lake.symbols), keeping);
  const { settings } = context;
  const alone = { ...context, settings: { ...settings, upstream: { ...settings.upstream, baseUrl: null } } };
  const summary = await repair.run(alone, { fromUrl: null });
  expect(summary).toMatchObject({ exit_code: 0, failures: [], restored: { raw: { windows: 2 } } });
  expect(ticksOf(lake)).toEqual(lake.before);
});

test('requests what raw responses lack, and skips damaged ones', async () => {
  // A recheck would record a second response for some windows.
  const lake = await damaged(keeping, 'poll.recheck_share=0');
  const [first] = rawFiles(lake.nights.output);
  const bytes = readFileSync(first!);
  for (const at of [bytes.length >> 1, bytes.length - 9]) bytes[at]! ^= 4;
  writeFileSync(first!, bytes);
  truncateSync(rawFiles(lake.nights.output)[1]!, 40);
  const summary = await repairedKeeping(lake);
  expect(summary).toMatchObject({ exit_code: 0, failures: [], warnings: [] });
  expect(summary.requests).toBeGreaterThan(0);
  expect(summary.restored!.raw!.windows + summary.restored!.upstream!.windows).toBe(2);
  expect(summary.restored!.upstream!.windows).toBeGreaterThan(0);
  expect(ticksOf(lake)).toEqual(lake.before);
});

test('reports once what neither raw responses nor the upstream have', async () => {
  const lake = await damaged(keeping);
  lake.nights.box().set(thinned);
  for (const path of rawFiles(lake.nights.output)) rmSync(path);
  expect(await repairedKeeping(lake)).toMatchObject({
    exit_code: 4,
    failures_count: 2,
    restored: { raw: { windows: 0, ticks: 0 }, upstream: { windows: 0, ticks: 0 } },
  });
  expect(await repaired(lake, at(1) + 2 * hourMs, keeping)).toMatchObject({ exit_code: 0, failures: [] });
});

test('a repair with a damaged state reports its repairs and sends no request', async () => {
  const lake = await damaged(keeping);
  const { nights, symbols } = lake;
  await withArchive(nights, at(1), ({ state }) => state.db.script('update coverage set t_to = t_to - 8192'));
  writeFileSync(`${nights.output}/views.sql`, 'mine');
  const show = vi.fn();
  const context = await nights.contextAt(at(1) + hourMs, ...only(symbols), keeping);
  const summary = await repair.run(context, { fromUrl: null, onRepaired: show });
  expect(summary).toMatchObject({ exit_code: 6, requests: 0, pages: 0 });
  expect(show).toHaveBeenCalledExactlyOnceWith(
    expect.objectContaining({ repaired: [expect.objectContaining({ path: 'views.sql', outcome: 'restored' })] }),
  );
});
