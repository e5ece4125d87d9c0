import { join } from 'node:path';
import type { Ended } from '../e2e/lake.ts';
import { hookedJob } from './hooked.ts';

// What is killed and raced: each flow of the program that writes, and the archive that it begins with.

/** Where a chain of kills takes place: `archive`, `out` for what is made elsewhere. */
export interface Place {
  readonly archive: string;
  readonly out: string;
  /** What is imported; nobody writes into it. */
  readonly input: string;
}

/** What an archive is before the first run. */
export const bases = ['new', 'a day', 'journaled', 'without candles', 'without its state', 'older', 'damaged'] as const;
export type Base = (typeof bases)[number];

export interface Flow {
  readonly name: string;
  readonly base: Base;
  readonly args: (place: Place) => string[];
  /** Exit codes beside 0 of a run after one that was killed when all was done. */
  readonly codes?: readonly number[];
  /** What is published is damaged until it is through, and some ticks are accepted anew. */
  readonly damaged?: boolean;
}

const flow = (name: string, base: Base, ...args: [string, ...string[]]): Flow => ({
  name,
  base,
  args: ({ archive }) => hookedJob(args[0], archive, ...args.slice(1)),
});

export const flows: readonly Flow[] = [
  flow('nightly', 'new', 'nightly', '--date', '2025-06-14'),
  flow('next nightly', 'a day', 'nightly', '--date', '2025-06-14'),
  flow('nightly in pieces', 'new', 'nightly', '--date', '2025-06-14', '--set', 'publish.journal_ticks_max=100'),
  flow('nightly on a lost state', 'without its state', 'nightly', '--date', '2025-06-14'),
  flow('ticks', 'a day', 'ticks'),
  flow('markets', 'a day', 'markets'),
  flow('orderbook', 'a day', 'orderbook'),
  // All known: which windows are in a symbol's life depends on what was imported before.
  flow('backfill', 'a day', 'backfill', '--from', '2025-06-12', '--to', '2025-06-14', '--all-known'),
  flow('publish', 'journaled', 'publish'),
  flow('candles', 'without candles', 'publish'),
  {
    name: 'import',
    base: 'a day',
    args: ({ archive, input }) => hookedJob('import', archive, input),
  },
  {
    name: 'export',
    base: 'a day',
    args: ({ archive, out }) => ['export', '--output', archive, '--out', join(out, 'ticks.parquet')],
  },
  {
    name: 'snapshot',
    base: 'a day',
    args: ({ archive, out }) => ['snapshot', join(out, 'snapshot'), '--output', archive],
    // It is there already, whole.
    codes: [2],
  },
  {
    name: 'repair',
    base: 'damaged',
    damaged: true,
    args: ({ archive }) => hookedJob('verify', archive, '--repair'),
  },
  { name: 'upgrade', base: 'older', args: ({ archive }) => ['upgrade', '--output', archive] },
];

/** Flows that can follow one another on the archive of one day, in any order. */
export const together = flows.filter(({ base }) => base === 'a day');

export function must(ended: Ended, codes: readonly number[]): void {
  if (!codes.includes(ended.code ?? -1))
    throw new Error(`exit code ${ended.code}, ${ended.signal}\n${ended.stdout}\n${ended.stderr}`);
}
