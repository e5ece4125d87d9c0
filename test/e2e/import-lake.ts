import { execFileSync } from 'node:child_process';
import { mkdirSync, utimesSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { gzipSync, zstdCompressSync } from 'node:zlib';
import { DuckDBInstance } from '@duckdb/node-api';
import { expect } from 'vitest';
import { job } from '../../jobs/import.ts';
import type { Summary } from '../../src/archive/journal/run-summary.ts';
import { systemClock, systemRandom } from '../../src/base/system.ts';
import type { ImportFlags } from '../../src/collector/import/prepare-import.ts';
import type { Sandbox } from '../../src/sandbox/sandbox.ts';
import { loadSettings } from '../../src/settings/load.ts';
import { defaultRowRules } from '../collector/import/row-rules.ts';
import { createContext } from '../harness/job-context.ts';
import { type Ended, expectDone, fixedDay, folder, ticksOf } from './lake.ts';
import { run, runJob } from './run-program.ts';

// Shared code of the import tests: real files and the real job, in this process where possible.

export interface Tick {
  readonly symbol: string;
  readonly t: number;
  readonly p: number;
}

/** Modification time of the files of a test by default, long after the times in them. */
export const writtenAt = Date.UTC(2026, 6, 20);
export const day0 = Date.UTC(2026, 6, 11);
const dayMs = 86_400_000;

/** Ticks of some symbols over two days: names that need quotes, prices that need all their digits. */
export const sample: readonly Tick[] = ['alpha', 'b,"eta"', 'γ 😀'].flatMap((symbol, s) =>
  Array.from({ length: 300 }, (_, i) => ({
    symbol,
    t: day0 + Math.floor((i * 2 * dayMs) / 300) + s,
    p: i % 50 === 0 ? 0.1 + 0.2 : ((i * 7919 + s) % 1000) / 1000,
  })),
);

/** Accepts files with any share of rejected rows. */
export const flagsOf = (paths: readonly string[], rest: Partial<ImportFlags> = {}): ImportFlags => ({
  paths,
  datasets: null,
  format: null,
  covers: null,
  preferred: false,
  rows: defaultRowRules,
  renames: [],
  filters: [],
  rejectedShareMax: 1,
  showCheck: null,
  ...rest,
});

/** Runs the job as the command does, without a separate process. Rejects where the command exits with 2. */
export async function importInto(
  output: string,
  paths: readonly string[],
  rest: Partial<ImportFlags> = {},
  set: readonly string[] = ['source.name=box'],
  threads = 1,
  onProgress: (done: number) => void = () => {},
): Promise<Summary> {
  const settings = await loadSettings({ env: {}, cwd: output, set: [...set], output });
  const context = createContext({
    settings,
    clock: systemClock,
    random: systemRandom,
    threads,
    startDisplay: async (label) => ({
      update: ({ done }) => {
        if (label === 'import') onProgress(done);
      },
      stop: () => {},
      [Symbol.dispose]: () => {},
    }),
  });
  return await job.run(context, flagsOf(paths, rest));
}

/** The command `import` on an archive, by default a new one. */
export const importFile = (path: string, flags: readonly string[] = [], output = folder()): Promise<Ended> =>
  run(['import', path, '--output', output, '--set', 'source.name=box', ...flags]);

/** Imports a file by the command, and returns the archive. */
export async function imported(path: string, flags: readonly string[] = [], output = folder()): Promise<string> {
  await expectDone(importFile(path, flags, output));
  return output;
}

/** Refuses a file, with this sentence in its output, which it returns. */
export async function refused(path: string, code: number, sentence: RegExp, ...flags: string[]): Promise<string> {
  const ended = await importFile(path, flags);
  const printed = ended.stdout + ended.stderr;
  expect([ended.code, printed], `${path} ${flags.join(' ')}`).toEqual([code, expect.stringMatching(sentence)]);
  return printed;
}

/** The flags that a refusal suggests, split as a shell splits them. */
export function suggestedFlags(text: string): string[] {
  const flags = /can be read with:\n {2}(--.*)/.exec(text)?.[1] ?? /Use (--.*?)(?:\. |\.?$)/m.exec(text)?.[1];
  expect(flags, text).toBeDefined();
  const words = execFileSync('sh', ['-c', `printf '%s\\n' ${flags}`], { encoding: 'utf8' });
  return words.trimEnd().split('\n');
}

/** The rows of a query of an archive. */
export async function select<T = Record<string, unknown>>(output: string, sql: string): Promise<T[]> {
  const { stdout } = await expectDone(run(['sql', sql, '--format', 'json', '--output', output]));
  return JSON.parse(stdout) as T[];
}

/** The ticks of an archive, by time. */
export const storedTicks = (output: string): Tick[] =>
  [...ticksOf(output)].flatMap(([symbol, of]) => of.map(({ t, p }) => ({ symbol, t, p }))).sort((a, b) => a.t - b.t);

export const packings = {
  '': (bytes: Buffer): Buffer => bytes,
  '.gz': (bytes: Buffer): Buffer => gzipSync(bytes),
  '.zst': (bytes: Buffer): Buffer => zstdCompressSync(bytes),
} as const;

/** Writes a file with the common modification time, and returns its path. */
export function put(folder: string, name: string, bytes: string | Uint8Array, atMs = writtenAt): string {
  const path = join(folder, name);
  mkdirSync(join(path, '..'), { recursive: true });
  const packing = name.endsWith('.gz') ? '.gz' : name.endsWith('.zst') ? '.zst' : '';
  writeFileSync(path, packings[packing](Buffer.from(bytes)));
  utimesSync(path, atMs / 1000, atMs / 1000);
  return path;
}

const quoted = (text: string): string => `"${text.replaceAll('"', '""')}"`;

export const csvOf = (ticks: readonly Tick[]): string =>
  `symbol,t,p\n${ticks.map(({ symbol, t, p }) => `${quoted(symbol)},${t},${p}\n`).join('')}`;

export const ndjsonOf = (ticks: readonly Tick[]): string => ticks.map((tick) => `${JSON.stringify(tick)}\n`).join('');

/** One saved response in the service's format. */
export function pageOf(symbol: string, ticks: readonly Tick[], rest: Record<string, unknown> = {}): string {
  const body = ticks.map(({ t, p }) => ({ t, p }));
  const page = { symbol, ticks: body, count: body.length, from: day0, to: day0 + 2 * dayMs, generated_at: writtenAt };
  return JSON.stringify({ ...page, ...rest });
}

/** Runs SQL that writes the Parquet file `FILE`; returns its path. */
export async function writeParquet(path: string, select: string, atMs = writtenAt): Promise<string> {
  mkdirSync(join(path, '..'), { recursive: true });
  const instance = await DuckDBInstance.create(':memory:', { threads: '1' });
  const connection = await instance.connect();
  await connection.run("SET TimeZone = 'UTC'");
  await connection.run(`COPY (${select}) TO '${path}' (FORMAT parquet)`);
  connection.closeSync();
  instance.closeSync();
  utimesSync(path, atMs / 1000, atMs / 1000);
  return path;
}

/** SQL with the rows of ticks; `t` is the expression for a time given in milliseconds. */
export const selectOf = (ticks: readonly Tick[], t = 't'): string =>
  `SELECT symbol, ${t} AS t, p::DOUBLE AS p FROM (VALUES ${ticks
    .map((tick) => `('${tick.symbol}', ${tick.t}::BIGINT, '${tick.p}')`)
    .join(', ')}) v(symbol, t, p)`;

/** An archive filled by a nightly run, and one of its symbols that has ticks. */
export async function polled(box: Sandbox): Promise<{ output: string; symbol: string }> {
  const output = folder();
  const { code, stderr } = await runJob('nightly', box.url, output, '--date', fixedDay);
  if (code !== 0) throw new Error(stderr);
  const [symbol] = [...ticksOf(output)].find(([, ticks]) => ticks.length > 50)!;
  return { output, symbol };
}
