import { rmSync } from 'node:fs';
import { join } from 'node:path';
import type { Bench } from './bench.ts';
import { noSlower } from './goals.ts';
import { importArgv, type PagesInput } from './import.ts';
import { CommandFailed, measure } from './measure.ts';
import { type Comparison, type Report, timeText } from './results.ts';
import { median, pairRatios } from './statistics.ts';

/**
 * Reads the published files with five readers, compared with the files that the peers' scripts write from the same pages.
 */

export const allReaders = ['duckdb', 'polars', 'pyarrow', 'pandas', 'spark'] as const;
export type ReaderName = (typeof allReaders)[number];
/** Who wrote the files. */
const makers = ['duckdb', 'polars', 'pandas'] as const;
type Maker = 'oddslake' | (typeof makers)[number];
/** Days and symbols per round, so that one favourable position in a file does not decide the result. */
const symbols = 5;
/** Rows below which the goals are not judged: with fewer, opening files dominates the time. */
const judgedTicks = 50e6;
/** A round of these takes a fraction of a second; the others load all rows into memory, or start tasks. */
const quickReaders: readonly ReaderName[] = ['duckdb', 'polars'];
const quickRounds = 2;
const slowRoundsMax = 2;

type Query = 'day' | 'file' | 'all';
const queries: readonly { readonly query: Query; readonly what: string }[] = [
  { query: 'day', what: "a symbol's day" },
  { query: 'file', what: "a symbol's day, its part file named" },
  { query: 'all', what: 'all ticks' },
];

/** Milliseconds of each round, by the program that wrote the files. */
export type Times = Readonly<Record<Query, Readonly<Record<string, readonly number[]>>>>;

/** What a reader measured, or why it could not. */
export type ReaderTimes = ReadonlyMap<ReaderName, Times | { readonly missing: string }>;

export async function benchScan(bench: Bench, input: PagesInput, readers: readonly ReaderName[]): Promise<Report> {
  const foldersMade = new Map<Maker, string>();
  const failed: string[] = [];
  try {
    for (const name of ['oddslake', ...makers] as const) {
      const out = join(bench.folder, `read-${name}`);
      const failure = await make(bench, name, input.folder, out, foldersMade.get('polars'));
      if (failure === null) foldersMade.set(name, out);
      else {
        bench.tell(`${name}: ${failure.reason}`);
        if (failure.isFailure) failed.push(name);
      }
    }
    const missing = foldersMade.has('oddslake') ? null : 'oddslake failed';
    if (missing !== null || foldersMade.size < 2) return nothing(input, missing ?? 'no peer to compare with', failed);
    const times: ReaderTimes = new Map(readers.map((reader) => [reader, read(bench, reader, foldersMade)]));
    for (const [reader, result] of times) if ('missing' in result) bench.tell(`${reader}: ${result.missing}`);
    return { comparisons: compare(input.name, times, input.ticks >= judgedTicks), timings: [], failed };
  } finally {
    for (const out of foldersMade.values()) rmSync(out, { recursive: true, force: true });
  }
}

function read(
  bench: Bench,
  reader: ReaderName,
  folders: ReadonlyMap<Maker, string>,
): Times | { readonly missing: string } {
  bench.tell(`reading the files of ${[...folders.keys()].join(', ')} with ${reader}`);
  const rounds = quickReaders.includes(reader) ? bench.runs * quickRounds : Math.min(bench.runs, slowRoundsMax);
  const named = [...folders].map(([name, out]) => `${name}=${out}`);
  const result = bench.peers.run('scan.py', [reader, String(rounds), String(symbols), ...named]);
  if ('printed' in result) return (JSON.parse(result.printed) as { readonly ms: Times }).ms;
  return { missing: `${reader} failed: ${result.failed.split('\n').at(-1)}` };
}

/** Null if the files exist. */
async function make(
  { launcher, peers, folder, env, accounting }: Bench,
  name: Maker,
  pages: string,
  out: string,
  filesOfPolars: string | undefined,
): Promise<{ readonly reason: string; readonly isFailure: boolean } | null> {
  const peer = name === 'oddslake' ? null : peers.find(name);
  if (peer !== null && 'missing' in peer) return { reason: peer.missing, isFailure: false };
  // pandas needs five minutes to read 10,000 pages, and writes the same files from those of polars.
  const argv =
    peer === null
      ? importArgv(launcher, pages, out)
      : name === 'pandas' && filesOfPolars !== undefined
        ? peer.argv('--rewrite', filesOfPolars, out)
        : peer.argv(pages, out);
  try {
    await measure({ argv, cwd: folder, env }, accounting);
    return null;
  } catch (error) {
    rmSync(out, { recursive: true, force: true });
    if (!(error instanceof CommandFailed)) throw error;
    return { reason: `${error.message}: ${error.output}`, isFailure: true };
  }
}

/**
 * Each query by each reader, compared with the files that this reader reads fastest. Pure.
 * @param judged whether the goals apply to this input
 */
export function compare(input: string, times: ReaderTimes, judged: boolean): Comparison[] {
  return queries.flatMap(({ query, what }) =>
    [...times].map(([reader, ms]): Comparison => {
      const row = { what: `${what}, by ${reader}`, input, goal: noSlower, headline: judged && query !== 'file' };
      if ('missing' in ms) return { ...row, ours: '–', peer: null, ratio: null, value: null, missing: ms.missing };
      const { oddslake: ours, ...others } = ms[query];
      const [name, theirs] = Object.entries(others).reduce((a, b) => (median(b[1]) < median(a[1]) ? b : a));
      const ratio = pairRatios(theirs, ours!);
      const figure = (of: readonly number[]): string => readTimeText(median(of) / (query === 'all' ? 1 : symbols));
      return {
        ...row,
        ours: figure(ours!),
        ratio,
        peer: { name: `${name}'s files, the fastest of ${Object.keys(others).length}`, figure: figure(theirs) },
        ...(judged
          ? { value: ratio.median, missing: null }
          : { value: null, missing: 'judged only on 50 M ticks or more' }),
      };
    }),
  );
}

/** Three digits: the read of a symbol's day takes a few milliseconds. */
const readTimeText = (ms: number): string => (ms < 100 ? `${ms.toPrecision(3)} ms` : timeText(ms));

function nothing(input: PagesInput, missing: string, failed: readonly string[]): Report {
  const none = { ours: '–', peer: null, ratio: null, value: null, missing };
  const comparisons = queries.map(({ what }) => ({ what, input: input.name, goal: noSlower, ...none }));
  return { comparisons, timings: [], failed };
}
