import { rmSync } from 'node:fs';
import { join } from 'node:path';
import type { Bench } from './bench.ts';
import type { PagesInput } from './import.ts';
import { CommandFailed, measure } from './measure.ts';
import type { PeerName } from './peers.ts';
import type { Comparison, Goal, Report } from './results.ts';
import { median, pairRatios } from './statistics.ts';

/**
 * Reads the published files with DuckDB and Polars, compared with the files that the peers' scripts write from the same
 * pages.
 */

const readers = ['duckdb', 'polars'] as const;
/** Who wrote the files; dlt takes minutes to write them. */
const makers: readonly PeerName[] = ['duckdb', 'polars', 'pandas'];
/** Days and symbols per round, so that one favourable position in a file does not decide the result. */
const symbols = 5;
/** Rows below which the goals are not judged: with fewer, opening files dominates the time. */
const judgedTicks = 50e6;
/** A round takes a fraction of a second. */
const roundsPerRun = 3;

type Query = 'day' | 'file' | 'all';
const queries: readonly { readonly query: Query; readonly what: string; readonly goal: Goal }[] = [
  { query: 'day', what: "a symbol's day", goal: { text: 'faster', met: (times) => times > 1 } },
  {
    query: 'file',
    what: "a symbol's day, its part file named",
    goal: { text: 'faster', met: (times) => times > 1 },
  },
  { query: 'all', what: 'all ticks', goal: { text: 'no slower', met: (times) => times >= 1 } },
];

/** Milliseconds of each round, by the program that wrote the files. */
export type Times = Readonly<Record<Query, Readonly<Record<string, Readonly<Record<string, readonly number[]>>>>>>;

export async function benchScan(bench: Bench, input: PagesInput): Promise<Report> {
  const foldersMade = new Map<string, string>();
  const failed: string[] = [];
  try {
    for (const name of ['oddslake', ...makers] as const) {
      const out = join(bench.folder, `read-${name}`);
      const failure = await make(bench, name, input.folder, out);
      if (failure === null) foldersMade.set(name, out);
      else {
        bench.tell(`${name}: ${failure.reason}`);
        if (failure.isFailure) failed.push(name);
      }
    }
    const unread = missingReader(bench) ?? (foldersMade.has('oddslake') ? null : 'oddslake failed');
    if (unread !== null || foldersMade.size < 2) return nothing(input, unread ?? 'no peer to compare with', failed);
    bench.tell(`reading the files of ${[...foldersMade.keys()].join(', ')}`);
    const folders = [...foldersMade].map(([name, out]) => `${name}=${out}`);
    const result = bench.peers.run('scan.py', [String(bench.runs * roundsPerRun), String(symbols), ...folders]);
    if ('failed' in result) {
      bench.tell(`scan.py: ${result.failed}`);
      return nothing(input, 'the reading failed', [...failed, 'scan.py']);
    }
    const { ms } = JSON.parse(result.printed) as { readonly ms: Times };
    return { comparisons: compare(input.name, ms, input.ticks >= judgedTicks), timings: [], failed };
  } finally {
    for (const out of foldersMade.values()) rmSync(out, { recursive: true, force: true });
  }
}

/** Null if the files exist. */
async function make(
  { launcher, peers, folder, env, accounting }: Bench,
  name: 'oddslake' | PeerName,
  pages: string,
  out: string,
): Promise<{ readonly reason: string; readonly isFailure: boolean } | null> {
  const peer = name === 'oddslake' ? null : peers.find(name);
  if (peer !== null && 'missing' in peer) return { reason: peer.missing, isFailure: false };
  const argv: readonly [string, ...string[]] =
    peer?.argv(pages, out) ??
    ([
      launcher,
      'import',
      pages,
      '--format',
      'pages',
      '--output',
      out,
      '--quiet',
      '--set',
      'source.name=bench',
    ] as const);
  try {
    await measure({ argv, cwd: folder, env }, accounting);
    return null;
  } catch (error) {
    rmSync(out, { recursive: true, force: true });
    if (!(error instanceof CommandFailed)) throw error;
    return { reason: `${error.message}: ${error.told}`, isFailure: true };
  }
}

function missingReader({ peers }: Bench): string | null {
  const missing = readers.map((reader) => peers.find(reader)).find((result) => 'missing' in result);
  return missing === undefined ? null : (missing as { readonly missing: string }).missing;
}

/**
 * Each query by each reader, compared with the files that this reader reads fastest. Pure.
 * @param judged whether the goals apply to this input
 */
export function compare(input: string, ms: Times, judged: boolean): Comparison[] {
  return queries.flatMap(({ query, what, goal }) =>
    readers.map((reader) => {
      const { oddslake: ours, ...others } = ms[query][reader]!;
      const [name, theirs] = Object.entries(others).reduce((a, b) => (median(b[1]) < median(a[1]) ? b : a));
      const ratio = pairRatios(theirs, ours!);
      const figure = (of: readonly number[]): string =>
        `${(median(of) / (query === 'all' ? 1 : symbols)).toPrecision(3)} ms`;
      return {
        what: `${what}, by ${reader}`,
        input,
        ours: figure(ours!),
        goal,
        ratio,
        peer: { name: `${name}'s files, the fastest of ${Object.keys(others).length}`, figure: figure(theirs) },
        ...(judged
          ? { value: ratio.median, missing: null }
          : { value: null, missing: 'judged only on 50 M ticks or more' }),
      };
    }),
  );
}

function nothing(input: PagesInput, missing: string, failed: readonly string[]): Report {
  const none = { ours: '–', peer: null, ratio: null, value: null, missing };
  const comparisons = queries.map(({ what, goal }) => ({ what, input: input.name, goal, ...none }));
  return { comparisons, timings: [], failed };
}
