import { expect } from 'vitest';
import { job as backfill } from '../../../jobs/backfill.ts';
import { job as repair } from '../../../jobs/repair.ts';
import type { Archive } from '../../../src/archive/archive.ts';
import { readSymbol } from '../../../src/archive/journal/symbol-store.ts';
import { listGaps } from '../../../src/archive/read/gaps.ts';
import type { Window } from '../../../src/base/window.ts';
import { openConfiguredArchive } from '../../../src/context/open-configured.ts';
import { loseTicks } from '../../archive/losses.ts';
import { hashes } from '../../archive/scratch.ts';
import { at, dayMs, hourMs, type Nights, startNights } from './nights.ts';

// An archive with lost ticks, and jobs that restore them.

const midnight = (n: number): number => Math.floor(at(n) / dayMs) * dayMs;

export interface Damaged {
  readonly nights: Nights;
  /** The symbols with losses, and their lost window: half of the day before the first night. */
  readonly symbols: readonly [string, string];
  readonly lost: Window;
  readonly counts: readonly [number, number];
  readonly before: Readonly<Record<string, string>>;
  /** Requests of the second night. */
  readonly requests: number;
}

export async function withArchive<T>(
  nights: Nights,
  nowMs: number,
  work: (archive: Archive) => T | Promise<T>,
): Promise<T> {
  const archive = openConfiguredArchive(await nights.contextAt(nowMs), false);
  try {
    return await work(archive);
  } finally {
    archive.close();
  }
}

/** Two nights of two symbols in one part file, and a repair that lost half a day. Without raw responses, unless `set` enables them. */
export async function damaged(...set: string[]): Promise<Damaged> {
  // What the service thins out is not expected from it.
  const nights = await startNights({ seed: 3, markets: 12, ticksPerDay: 150, lifetimeDaysMax: 60 }, [
    'source.downsampled_after_days=1',
  ]);
  const lost = { from: midnight(0) - 12 * hourMs, to: midnight(0) };
  const busy = nights
    .box()
    .symbols()
    .filter((symbol) => nights.box().readTruth(symbol, lost).t.length > 20);
  const symbols = busy.slice(0, 2) as [string, string];
  expect(symbols.length).toBe(2);
  let requests = 0;
  for (const n of [0, 1]) {
    const night = await nights.night(at(n), ...only(symbols), ...set);
    expect(night.exit_code).toBe(0);
    requests = night.requests;
  }
  const before = hashes(nights.output, 'ticks/**/*.parquet');
  const counts = symbols.map((symbol) => nights.box().readTruth(symbol, lost).t.length) as [number, number];
  await withArchive(nights, at(1), (archive) =>
    loseTicks(
      archive,
      symbols.map((symbol) => ({ symbol, ...lost })),
    ),
  );
  expect(hashes(nights.output, 'ticks/**/*.parquet')).not.toEqual(before);
  return { nights, symbols, lost, counts, before, requests };
}

/** Settings for these symbols only, with few files. */
export const only = (symbols: readonly string[]): string[] => [
  `symbols=${JSON.stringify(symbols)}`,
  'source.views=[]',
  'source.first_lookback_days=2',
  'archive.candles=[]',
  'archive.parts=1',
  'raw.keep_days=0',
];

export const repaired = async ({ nights, symbols }: Damaged, nowMs: number, ...set: string[]) =>
  repair.run(await nights.contextAt(nowMs, ...only(symbols), ...set), { fromUrl: null });

export const backfilled = async ({ nights, symbols }: Damaged, nowMs: number, ...set: string[]) =>
  backfill.run(await nights.contextAt(nowMs, ...only(symbols), ...set), {
    window: { from: midnight(-1), to: midnight(1) },
    symbols,
    force: false,
    allKnown: false,
    showPlan: null,
  });

export const gapsOf = ({ nights, symbols }: Damaged, nowMs: number) =>
  withArchive(nights, nowMs, (archive) => {
    const facts = [...symbols].sort().map((symbol) => readSymbol(archive.state.db, symbol)!);
    const rules = { lookbackMs: 7 * dayMs, lingerMs: 7 * dayMs };
    return listGaps(
      archive,
      { from: null, to: null, symbols: facts },
      { namedSymbols: null, views: [], lifetimeRules: rules },
      nowMs,
    ).gaps;
  });

export const thinned = { thinShare: 0.5, thinAfterMs: dayMs };
export const asBefore = { thinShare: 0, retentionMs: null, faultSymbols: {} };
export const lostWarning = expect.stringMatching(
  /^\d windows? of \d symbols? \(.*\) lost ticks that had been published/,
);
