import { join } from 'node:path';
import type { Ended } from '../e2e/lake.ts';
import { hookedJob } from './hooked.ts';

// The flows under kills and races: each flow of the program that writes, and its initial archive.

/** Folders of a chain of kills: `archive`, and `out` for files written elsewhere. */
export interface Place {
  readonly archive: string;
  readonly out: string;
  /** Import files, read only. */
  readonly input: string;
}

/** Initial states of an archive. */
export const bases = ['new', 'a day', 'journaled', 'without candles', 'without its state', 'damaged'] as const;
export type Base = (typeof bases)[number];

export interface Flow {
  readonly name: string;
  readonly base: Base;
  readonly args: (place: Place) => string[];
  /** Exit codes besides 0 of a run after one that was killed at its very end. */
  readonly codes?: readonly number[];
  /** Published files are damaged until the flow ends, and some ticks are accepted again. */
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
  // All symbols are known: the windows of a symbol's lifetime depend on earlier imports.
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
    // The target already exists, complete.
    codes: [2],
  },
  {
    name: 'repair',
    base: 'damaged',
    damaged: true,
    args: ({ archive }) => hookedJob('verify', archive, '--repair'),
  },
];

/** Flows that can follow one another on the archive of one day, in any order. */
export const concurrentFlows = flows.filter(({ base }) => base === 'a day');

export function expectExit(ended: Ended, codes: readonly number[]): void {
  if (!codes.includes(ended.code ?? -1))
    throw new Error(`exit code ${ended.code}, ${ended.signal}\n${ended.stdout}\n${ended.stderr}`);
}
