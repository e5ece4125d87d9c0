import { cpSync, existsSync, mkdirSync, rmSync, utimesSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Sandbox } from '../../src/sandbox/sandbox.ts';
import { takeWriteLock } from '../../src/state/lock.ts';
import { systemClock } from '../../src/system.ts';
import { turnedBack } from '../archive/older.ts';
import { dayMs, type Ended, fixedNow, rowsOf } from '../e2e/lake.ts';
import { hookedJob, runHooked } from './hooked.ts';

// What is killed: each flow of the program that writes, and the archive that it begins with.

/** Where a chain of kills takes place: `archive`, `out` for what is made elsewhere. */
export interface Place {
  readonly archive: string;
  readonly out: string;
  /** What is imported; nobody writes into it. */
  readonly input: string;
}

export const placeIn = (folder: string, input: string): Place => ({
  ...{ archive: join(folder, 'archive'), out: join(folder, 'out'), input },
});

/** What an archive is before the first run. */
export const bases = ['new', 'a day', 'journaled', 'without candles', 'without its state', 'older'] as const;
export type Base = (typeof bases)[number];

export interface Flow {
  readonly name: string;
  readonly base: Base;
  readonly args: (place: Place) => string[];
  /** Exit codes beside 0 of a run after one that was killed when all was done. */
  readonly codes?: readonly number[];
}

const flow = (name: string, base: Base, ...args: [string, ...string[]]): Flow => ({
  ...{ name, base },
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
  flow('backfill', 'a day', 'backfill', '--from', '2025-06-12', '--to', '2025-06-14'),
  flow('publish', 'journaled', 'publish'),
  flow('candles', 'without candles', 'publish'),
  {
    ...{ name: 'import', base: 'a day' },
    args: ({ archive, input }) => hookedJob('import', archive, input),
  },
  {
    ...{ name: 'export', base: 'a day' },
    args: ({ archive, out }) => ['export', '--output', archive, '--out', join(out, 'ticks.parquet')],
  },
  {
    ...{ name: 'snapshot', base: 'a day' },
    args: ({ archive, out }) => ['snapshot', join(out, 'snapshot'), '--output', archive],
    // It is there already, whole.
    codes: [2],
  },
  { ...{ name: 'upgrade', base: 'older' }, args: ({ archive }) => ['upgrade', '--output', archive] },
];

/** Flows that can follow one another on the archive of one day, in any order. */
export const together = flows.filter(({ base }) => base === 'a day');

/** Makes every base once, in `folder`, by runs that nobody disturbs. */
export async function makeBases(folder: string, box: Sandbox): Promise<Record<Base, string>> {
  const at = (base: Base): string => join(folder, base, 'archive');
  const run = async (base: Base, codes: number[], name: string, ...flags: string[]): Promise<void> => {
    mkdirSync(join(folder, base), { recursive: true });
    must(await runHooked(hookedJob(name, at(base), ...flags), box.url, join(folder, 'report.json')), codes);
  };
  await run('a day', [0], 'nightly', '--date', '2025-06-13');
  await run('without candles', [0], 'nightly', '--date', '2025-06-13', '--set', 'archive.candles=[]');
  mkdirSync(join(at('journaled'), '.oddslake'), { recursive: true });
  const lock = await takeWriteLock(join(at('journaled'), '.oddslake', 'lock.sqlite'), 0, systemClock);
  await run('journaled', [5], 'nightly', '--date', '2025-06-14', '--wait', '0');
  lock.release();
  cpSync(at('a day'), at('without its state'), { recursive: true });
  rmSync(join(at('without its state'), '.oddslake'), { recursive: true });
  cpSync(at('a day'), at('older'), { recursive: true });
  turnedBack(at('older'));
  return Object.fromEntries(bases.map((base) => [base, at(base)])) as Record<Base, string>;
}

export function must(ended: Ended, codes: readonly number[]): void {
  if (!codes.includes(ended.code ?? -1))
    throw new Error(`exit code ${ended.code}, ${ended.signal}\n${ended.stdout}\n${ended.stderr}`);
}

/** Begins a place with an archive of this base. */
export function begin(place: Place, base: Base, made: Readonly<Record<Base, string>>): void {
  mkdirSync(place.out, { recursive: true });
  if (existsSync(made[base])) cpSync(made[base], place.archive, { recursive: true });
}

/**
 * Writes what is imported: rows of which some have another price than the service's, which are to lose, and a page that
 * covers what nothing else asks for.
 */
export function writeInput(folder: string, box: Sandbox): void {
  mkdirSync(folder, { recursive: true });
  const put = (name: string, text: string): void => {
    writeFileSync(join(folder, name), text);
    utimesSync(join(folder, name), fixedNow / 1000, fixedNow / 1000);
  };
  const day = (daysBack: number) => {
    const from = Date.UTC(2025, 5, 15 - daysBack);
    return { from, to: from + dayMs };
  };
  const symbols = box.symbols().slice(0, 4);
  const lines = symbols.flatMap((symbol) =>
    rowsOf(box.truth(symbol, day(2))).map(({ t, p }, i) => `${symbol},${t},${i % 7 === 0 ? p / 2 : p}\n`),
  );
  put('rows.csv', `symbol,t,p\n${lines.join('')}`);
  symbols.forEach((symbol, i) => {
    const ticks = rowsOf(box.truth(symbol, day(4)));
    const page = { symbol, ticks, count: ticks.length, ...day(4), generated_at: fixedNow };
    put(`page-${i}.json`, JSON.stringify(page));
  });
}
