import { type ChildProcess, spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, globSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { expect, onTestFinished } from 'vitest';
import { datasets } from '../../src/archive/format/datasets.ts';
import type { Manifest } from '../../src/archive/format/manifest.ts';
import type { Summary } from '../../src/archive/journal/run-summary.ts';
import { decodeRows } from '../../src/archive/parquet/rows.ts';
import { decodeTicks } from '../../src/archive/parquet/ticks-file.ts';
import { systemClock } from '../../src/base/system.ts';
import type { TickColumns } from '../../src/base/ticks.ts';
import type { Window } from '../../src/base/window.ts';
import { type Sandbox, startSandbox } from '../../src/sandbox/sandbox.ts';
import type { SandboxOptions } from '../../src/sandbox/sandbox-options.ts';
import type { SandboxStats } from '../../src/sandbox/stats.ts';
import { dayHashes } from '../harness/day-hashes.ts';
import { filterFilesWithRows } from '../harness/files-with-rows.ts';
import { limitMs, MachineTooSlow } from '../harness/limits.ts';
import { compileCache } from '../harness/run-folder.ts';
import { scratchRoot } from '../harness/scratch-root.ts';

// Setup of the end-to-end tests: the program in its own processes, the sandbox, real files.

export const minuteMs = 60_000;
export const dayMs = 86_400_000;

/** Fixed time of the sandboxes, so that tests have the same input in every run. */
export const fixedNow = Date.UTC(2025, 5, 15, 12);
/** The last finished day at that time. */
export const fixedDay = '2025-06-14';

/** A folder that is removed after the test. */
export function folder(): string {
  const path = mkdtempSync(join(scratchRoot, 'oddslake-e2e-'));
  onTestFinished(() => rmSync(path, { recursive: true, force: true }));
  return path;
}

export interface Ended {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly stdout: string;
  readonly stderr: string;
  /** The last line of standard output, parsed; throws if it is not a JSON object. */
  readonly summary: Summary;
}

export interface Running {
  readonly child: ChildProcess;
  readonly ended: Promise<Ended>;
}

export type Variables = Readonly<Record<string, string>>;

/** Environment of all test processes: caches compiled code between runs. */
export const processEnv: Variables = {
  PATH: process.env.PATH!,
  NODE_COMPILE_CACHE: compileCache,
  ...(process.env.TMPDIR === undefined ? {} : { TMPDIR: process.env.TMPDIR }),
};

const [launcher, main] = ['oddslake', 'main.ts'].map((name) => new URL(`../../bin/${name}`, import.meta.url).pathname);

/** Starts `oddslake` with only the given environment. Kills it after `msMax`. */
export const start = (args: readonly string[], env?: Variables, cwd?: string, msMax?: number): Running =>
  collectProcess(process.execPath, ['--disable-warning=ExperimentalWarning', main!, ...args], env, cwd, msMax);

/** Like `start`, with the launcher script. */
export const launch = (args: readonly string[], env?: Variables): Running => collectProcess(launcher!, args, env);

function collectProcess(
  command: string,
  args: readonly string[],
  env: Variables = {},
  cwd = tmpdir(),
  msMax = limitMs / 2,
): Running {
  const child = spawn(command, args, {
    cwd,
    env: { ...processEnv, TZ: 'America/St_Johns', ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const texts = { stdout: '', stderr: '' };
  for (const name of ['stdout', 'stderr'] as const) {
    child[name].setEncoding('utf8').on('data', (text: string) => {
      texts[name] += text;
    });
  }
  const ended = new Promise<Ended>((resolve, reject) => {
    const hang = setTimeout(() => {
      child.kill('SIGKILL');
      reject(new MachineTooSlow(`the end of oddslake ${args.join(' ')}\n${texts.stdout}\n${texts.stderr}\n`, msMax));
    }, msMax);
    child.on('error', reject);
    child.on('close', (code, signal) => {
      clearTimeout(hang);
      resolve(endedOf({ code, signal, ...texts }));
    });
  });
  return { child, ended };
}

export const endedOf = (ended: Omit<Ended, 'summary'>): Ended => ({
  ...ended,
  get summary() {
    return JSON.parse(ended.stdout.trimEnd().split('\n').at(-1)!) as Summary;
  },
});

export const runProcess = (args: readonly string[], env?: Variables, cwd?: string): Promise<Ended> =>
  start(args, env, cwd).ended;

/** Expects exit code 0 of a command. */
export async function expectDone<T extends Pick<Ended, 'code'> & Partial<Ended>>(running: Promise<T>): Promise<T> {
  const ended = await running;
  expect(ended.code, `${ended.stdout}\n${ended.stderr}`).toBe(0);
  return ended;
}

/** A command that runs until it is stopped. */
interface LongRunning extends Running {
  /** Its first output. */
  readonly first: string;
  /** Its standard error so far. */
  readonly printed: { readonly stderr: string };
}

/** Starts a long-running command, which is stopped at the end of the test. */
export const startLongRunning = (args: readonly string[], env: Variables = {}, msMax?: number): Promise<LongRunning> =>
  waitUntilReady(start(args, env, undefined, msMax));

/** Like `startLongRunning`, for a started process. */
export async function waitUntilReady(running: Running): Promise<LongRunning> {
  const printed = { stderr: '' };
  running.child.stderr!.on('data', (text: string) => {
    printed.stderr += text;
  });
  onTestFinished(async () => {
    running.child.kill('SIGKILL');
    await running.ended;
  });
  const first = await new Promise<string>((resolve, reject) => {
    running.child.stdout!.once('data', (text: string) => resolve(text));
    running.ended.then(({ stderr }) => reject(new Error(stderr)), reject);
  });
  return { ...running, first, printed };
}

/** A sandbox in this process, stopped after the test. At a fixed time its markets open a week before: a first poll is short. */
export async function sandbox(options: Partial<SandboxOptions> = {}): Promise<Sandbox> {
  const lifetimeDaysMax = options.nowMs === fixedNow ? 8 : 45;
  const usual = { markets: 12, ticksPerDay: 200, lifetimeDaysMax };
  const box = await startSandbox({ ...usual, ...options }, { clock: systemClock });
  onTestFinished(() => box.stop());
  return box;
}

/** A sandbox in its own process, so that this process does not delay it. */
export async function sandboxProcess(options: Partial<SandboxOptions>, msMax?: number) {
  const { first } = await startLongRunning(['sandbox', '--json', '--options', JSON.stringify(options)], {}, msMax);
  const { url, key } = JSON.parse(first) as { url: string; key: string };
  const stats = async () => (await (await fetch(`${url}/sandbox/stats`)).json()) as SandboxStats;
  return { url, key, stats };
}

/** Flags for these settings. */
export const set = (...settings: readonly string[]): string[] => settings.flatMap((setting) => ['--set', setting]);

/** Flags that make a job fast where only the logic matters. */
export const fastFlags = [
  ...set('upstream.requests_per_second=2000', 'upstream.retry_delay_seconds_min=0.01'),
  ...set('upstream.retry_delay_seconds_max=0.05', 'report.nightly=false'),
  '--json',
];

/** Flags of a job that sends one request at a time, without a timeout. */
export const sequentialFlags = set('upstream.concurrency=1', 'upstream.request_deadline_seconds=3600');

/** Runs a job on an archive. The upstream has a fixed name, because the ports of sandboxes differ. */
export function runJobProcess(name: string, url: string, output: string, ...flags: string[]): Promise<Ended> {
  return runProcess(jobArgs(name, output, ...flags), access(url));
}

export const jobArgs = (name: string, output: string, ...flags: string[]): string[] => [
  name,
  '--output',
  output,
  ...set('source.name=box'),
  ...fastFlags,
  ...flags,
];

export const access = (url: string): Variables => ({ ODDSLAKE_BASE_URL: url, ODDSLAKE_API_KEY: 'sandbox-key' });

/** sha256 of every file below the given folders of an archive, by path. */
export function hashes(output: string, ...names: string[]): Record<string, string> {
  const paths = names.flatMap((name) => globSync(`${name}/**/*.parquet`, { cwd: output })).sort();
  return Object.fromEntries(
    paths.map((path) => [
      path,
      createHash('sha256')
        .update(readFileSync(join(output, path)))
        .digest('hex'),
    ]),
  );
}

/** The same for the files with rows: to compare archives whose rows were batched differently. */
export function rowHashes(output: string, ...names: string[]): Record<string, string> {
  const all = hashes(output, ...names);
  return Object.fromEntries(filterFilesWithRows(output, Object.keys(all)).map((path) => [path, all[path]!]));
}

/** The rows of a day, however they are split over its parts. */
export const dayRows = (output: string, ...names: string[]): Record<string, string> =>
  dayHashes(output, Object.keys(rowHashes(output, ...names)));

export const manifestOf = (output: string): Manifest =>
  JSON.parse(readFileSync(join(output, 'manifest.json'), 'utf8')) as Manifest;

/** Published ticks by symbol; throws for duplicate or unordered keys. */
export function ticksOf(output: string): Map<string, { t: number; p: number }[]> {
  const bySymbol = new Map<string, { t: number; p: number }[]>();
  for (const path of globSync('ticks/date=*/*.parquet', { cwd: output }).sort()) {
    const part = decodeTicks(readFileSync(join(output, path)));
    part.symbols.forEach((symbol, i) => {
      const list = bySymbol.get(symbol) ?? [];
      bySymbol.set(symbol, list);
      for (let row = part.offsets[i]!; row < part.offsets[i + 1]!; row++) {
        if (list.length > 0 && list.at(-1)!.t >= part.t[row]!)
          throw new Error(`${path}: ${symbol} ${part.t[row]} again`);
        list.push({ t: part.t[row]!, p: part.p[row]! });
      }
    });
  }
  return bySymbol;
}

export interface CoverageRow extends Window {
  readonly symbol: string;
  readonly ticks: number;
  readonly fetchedAt: number;
  readonly origin: string;
  readonly evidence: string;
}

/** Published coverage of ticks. */
export const coverageOf = (output: string): CoverageRow[] =>
  globSync('coverage/date=*/*.parquet', { cwd: output })
    .sort()
    .flatMap((path) => decodeRows(datasets.coverage.columns, readFileSync(join(output, path))))
    .filter(([dataset]) => dataset === 'ticks')
    .map((row) => ({
      symbol: row[1] as string,
      from: row[2] as number,
      to: row[3] as number,
      ticks: row[4] as number,
      fetchedAt: row[5] as number,
      origin: row[6] as string,
      evidence: row[7] as string,
    }));

export const rowsOf = ({ t, p }: TickColumns): { t: number; p: number }[] =>
  [...t].map((time, i) => ({ t: time, p: p[i]! }));

/** Windows whose published ticks differ from the sandbox; expected to be empty. */
export function findWrongWindows(output: string, box: Sandbox, asOfMs?: number): string[] {
  const published = ticksOf(output);
  return coverageOf(output).flatMap(({ symbol, from, to, ticks }) => {
    const wanted = rowsOf(box.readTruth(symbol, { from, to }, asOfMs));
    const held = (published.get(symbol) ?? []).filter(({ t }) => from <= t && t < to);
    const label = `${symbol} ${new Date(from).toISOString()} … ${new Date(to).toISOString()}`;
    if (ticks !== held.length) return [`${label}: coverage counts ${ticks}, published are ${held.length}`];
    return JSON.stringify(held) === JSON.stringify(wanted)
      ? []
      : [`${label}: published are ${held.length}, the truth has ${wanted.length}`];
  });
}

export const totalTicks = (output: string): number =>
  existsSync(join(output, 'manifest.json'))
    ? manifestOf(output).datasets.ticks.files.reduce((sum, file) => sum + file.rows, 0)
    : 0;

/** Whether the counts of a summary add up. */
export const addsUp = ({ ticks }: Summary): boolean =>
  ticks.fetched === ticks.accepted + ticks.duplicates + ticks.conflicts + ticks.quarantined;

export const sleep = (ms: number): Promise<void> => systemClock.sleep(ms);

/** Number of journaled ticks; 0 if there is no archive yet. */
export const journaledTicks = (output: string): number => inState(output, 'select sum(n) as n from journal_ticks');

/** Number of journaled order books. */
export const journaledBooks = (output: string): number => inState(output, 'select count(*) as n from journal_books');

function inState(output: string, sql: string): number {
  const path = join(output, '.oddslake/state.sqlite');
  if (!existsSync(path)) return 0;
  const db = new DatabaseSync(path, { readOnly: true });
  try {
    return Number(db.prepare(sql).get()?.n ?? 0);
  } catch {
    // It is being created.
    return 0;
  } finally {
    db.close();
  }
}

/** Checks for one sentence on standard error besides log lines, and the same error in the summary. */
export function expectSentence(ended: Ended, code: number, sentence: RegExp): void {
  expect(ended.code, `${ended.stdout}\n${ended.stderr}`).toBe(code);
  expect(ended.summary.exit_code).toBe(code);
  expect(ended.summary.error).toMatch(sentence);
  const printed = ended.stderr.split('\n').filter((line) => line !== '' && !line.startsWith('{'));
  // A printed command calls the launcher as this test does, and repeats the flags that select the archive.
  const bare = (text: string): string =>
    text
      .replaceAll(/\S*\bbin\/oddslake(?= [a-z])/g, 'oddslake')
      .replaceAll(/ --(?:config|output|set) (?:'[^']*'|\S*[^\s.])/g, '')
      .replace(/\.$/, '');
  expect(printed.map(bare)).toEqual([bare(`oddslake: ${ended.summary.error}`)]);
  expect(ended.stderr).not.toMatch(/\n\s+at /);
}
