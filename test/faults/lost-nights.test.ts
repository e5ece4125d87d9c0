import { globSync, readFileSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { job as backfill } from '../../jobs/backfill.ts';
import { job as repair } from '../../jobs/repair.ts';
import { type RecordedLoss, readLostWindows } from '../../src/archive/journal/gap-records.ts';
import type { Summary } from '../../src/archive/journal/run-summary.ts';
import { outageReason } from '../../src/collector/paging/collect-ticks.ts';
import { openConfiguredArchive } from '../../src/context/open-configured.ts';
import { publishedRows, publishedTicks } from '../archive/scratch.ts';
import { dayMs, firstNight, hourMs, type Nights, startNights } from '../collector/run/nights.ts';
import { type Draw, drawFrom, search, searchMsMax } from './seeds.ts';

// Nights on an archive whose ticks are damaged sometimes, with a service whose history is thinned at times and complete
// at others.

const fewMarkets = ['source.first_lookback_days=2', 'archive.candles=[]', 'archive.parts=2'];
const thinnedOptions = { thinShare: 0.6, thinAfterMs: 6 * hourMs };
const completeOptions = { thinShare: 0 };

/** Deletes a published part file, truncates it, or flips some of its bits. */
function damage(output: string, draw: Draw): void {
  const path = join(output, draw.one(globSync('ticks/date=*/*.parquet', { cwd: output }).sort()));
  const bytes = readFileSync(path);
  const kind = draw.below(3);
  if (kind === 0) rmSync(path);
  else if (kind === 1) truncateSync(path, draw.below(bytes.length));
  else {
    for (let n = 1 + draw.below(3); n > 0; n--) bytes[draw.below(bytes.length)]! ^= 1 << draw.below(8);
    writeFileSync(path, bytes);
  }
}

/** All ticks ever published, and the losses that a run reported. */
interface KnownTicks {
  readonly ticks: Set<string>;
  readonly printed: Set<string>;
}

const keyOf = ({ symbol, from }: { symbol: string | null; from: number | null }): string => `${from} ${symbol}`;

async function readLost(nights: Nights, nowMs: number): Promise<RecordedLoss[]> {
  const archive = openConfiguredArchive(await nights.contextAt(nowMs, ...fewMarkets), false);
  try {
    return readLostWindows(archive.state.db);
  } finally {
    archive.close();
  }
}

async function check(nights: Nights, nowMs: number, { ticks, printed }: KnownTicks, summary: Summary): Promise<void> {
  const summaryText = JSON.stringify([summary.job, summary.exit_code, summary.error, summary.failures]);
  expect([0, 4], summaryText).toContain(summary.exit_code);
  const lost = await readLost(nights, nowMs);
  const reported = summary.failures.filter(({ reason }) => reason.startsWith('lost: '));
  // With three symbols and a thinned history, a short window may be without any ticks, which a poll does not believe.
  const silent = summary.failures.filter(({ reason }) => reason === outageReason);
  expect(reported.length + silent.length, summaryText).toBe(summary.failures.length);
  expect(reported.filter((line) => printed.has(keyOf(line)))).toEqual([]);
  for (const line of reported) printed.add(keyOf(line));
  const still = new Set(lost.map(keyOf));
  for (const key of printed) if (!still.has(key)) printed.delete(key);

  const published = publishedTicks(nights.output);
  const present = new Set(published);
  expect(present.size).toBe(published.length);
  const covered = publishedRows(nights.output, 'coverage').filter((row) => row[0] === 'ticks');
  const missing = [...ticks].filter((line) => !present.has(line));
  for (const line of missing) {
    const [symbol, time] = line.split(' ') as [string, string];
    const t = Number(time);
    const claims = covered.find((row) => row[1] === symbol && (row[2] as number) <= t && t < (row[3] as number));
    expect(claims, `${line} is missing and covered`).toBeUndefined();
    expect(
      lost.some((w) => w.symbol === symbol && w.from <= t && t < w.to),
      `${line} is not recorded as lost`,
    ).toBe(true);
  }
  for (const line of present) ticks.add(line);
}

async function runTrial(seed: number): Promise<void> {
  const draw = drawFrom(seed);
  const nights = await startNights({ seed: draw.below(1000), markets: 3, ticksPerDay: 60, lifetimeDaysMax: 30 });
  // With raw responses most of it is restored from them.
  const set = [...fewMarkets, `raw.keep_days=${seed % 3 === 0 ? 7 : 0}`];
  const memory: KnownTicks = { ticks: new Set(), printed: new Set() };
  let nowMs = firstNight;
  const after = async (run: () => Promise<Summary>): Promise<void> => check(nights, nowMs, memory, await run());
  const night = () => nights.night(nowMs, ...set);
  const repairNow = async () => repair.run(await nights.contextAt(nowMs, ...set), { fromUrl: null });
  const fetchPast = async () =>
    backfill.run(await nights.contextAt(nowMs, ...set), {
      window: { from: firstNight - 2 * dayMs, to: nowMs },
      symbols: [],
      force: draw.chance(0.3),
      allKnown: false,
      showPlan: null,
    });
  await after(night);
  for (let n = 4 + draw.below(5); n > 0; n--) {
    nowMs += draw.one([hourMs, 10 * hourMs, dayMs]);
    nights.box().set(draw.chance(0.6) ? thinnedOptions : completeOptions);
    if (draw.chance(0.4)) {
      for (let k = 1 + draw.below(2); k > 0; k--) damage(nights.output, draw);
      await after(repairNow);
    } else await after(draw.one([night, night, repairNow, fetchPast]));
  }
  nights.box().set(completeOptions);
  await after(repairNow);
  expect(await readLost(nights, nowMs)).toEqual([]);
  expect(publishedTicks(nights.output).length).toBe(memory.ticks.size);
  await nights.box().stop();
  rmSync(nights.output, { recursive: true, force: true });
}

test('under damage and thinned history no missing tick is covered, and everything can be restored', {
  timeout: searchMsMax,
}, async () => {
  await search({ name: 'nights over losses', least: 15, share: 0.03 }, runTrial);
});
