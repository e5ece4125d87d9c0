/**
 * Runs every benchmark against its peers and writes bench/RESULTS.md.
 * Run: node bench/run.ts [--only NAME]… [--pages N]… [--runs N] [--seed N] [--recording FOLDER] [--full]
 * --full adds the largest inputs, which take an hour and about 20 GB. Peers are Python scripts (bench/peers), run by
 * bench/peers/.venv/bin/python or the Python in PEERS_PYTHON.
 */
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { cpus, release, tmpdir, totalmem, type } from 'node:os';
import { delimiter, dirname, join } from 'node:path';
import { parseArgs } from 'node:util';
import { benchBacktest } from './backtest.ts';
import type { Bench } from './bench.ts';
import { generatedPages } from './generated-pages.ts';
import { benchGrowth } from './growth.ts';
import { benchHelp } from './help.ts';
import { benchImport, type PagesInput } from './import.ts';
import { type MemoryRun, measureOnce, memoryReport } from './import-memory.ts';
import { benchLateTicks } from './late-ticks.ts';
import { findAccounting } from './measure.ts';
import { benchNightly } from './nightly.ts';
import { benchNothingNew } from './nothing-new.ts';
import { findRecording, recordedPages, writePages } from './pages.ts';
import { benchPaging } from './paging.ts';
import { findPeers, type PeerName } from './peers.ts';
import { benchPush } from './push.ts';
import { benchRate } from './rate.ts';
import { benchRequests } from './requests.ts';
import { comparisonLine, type Report, resultsText } from './results.ts';
import { benchScan } from './scan.ts';
import { benchServe } from './serve.ts';
import { benchVerify } from './verify.ts';

interface Benchmark {
  readonly name: string;
  run(): Promise<readonly Report[]>;
}

const root = join(import.meta.dirname, '..');
/** Figures of runs with fewer rounds or pages say little. */
const full = { runs: 5, pages: 1000 };
/** dlt takes minutes where others take seconds: it runs in separate rounds, on at most this many pages. */
const dltPagesMax = 1000;
const quick: readonly PeerName[] = ['duckdb', 'polars', 'pandas'];

const { values } = parseArgs({
  options: {
    only: { type: 'string', multiple: true, default: [] },
    pages: { type: 'string', multiple: true, default: ['1000', '10000'] },
    runs: { type: 'string', default: String(full.runs) },
    seed: { type: 'string', default: '1' },
    full: { type: 'boolean', default: false },
    recording: { type: 'string', default: join(root, '..', 'shared', 'data') },
  },
});
const parseCount = (name: string, text: string): number =>
  /^[1-9]\d{0,8}$/.test(text) ? Number(text) : refuse(name, text);
const [runs, seed] = [parseCount('runs', values.runs), parseCount('seed', values.seed)];
const pages = values.pages.map((text) => parseCount('pages', text));

function refuse(name: string, text: string): never {
  console.error(`--${name}: invalid value ${text}`);
  process.exit(2);
}

const folder = mkdtempSync(join(tmpdir(), 'oddslake-bench-'));
process.once('exit', () => rmSync(folder, { recursive: true, force: true }));
process.once('SIGINT', () => process.exit(130));
process.once('SIGTERM', () => process.exit(143));

const clean = Object.entries(process.env).filter(([name]) => !name.startsWith('ODDSLAKE_'));
const bench: Bench = {
  launcher: join(root, 'bin', 'oddslake'),
  folder,
  env: { ...Object.fromEntries(clean), PATH: `${dirname(process.execPath)}${delimiter}${process.env.PATH ?? ''}` },
  accounting: findAccounting(),
  runs,
  seed,
  peers: findPeers(process.env.PEERS_PYTHON),
  tell: (line) => console.error(line),
};

const benchmarks: readonly Benchmark[] = [
  { name: 'import', run: () => importGenerated(pages, quick) },
  { name: 'import-dlt', run: () => importGenerated([Math.min(dltPagesMax, ...pages)], ['dlt']) },
  { name: 'import-recorded', run: importRecorded },
  { name: 'import-memory', run: importMemory },
  { name: 'late-ticks', run: async () => [await benchLateTicks(bench, values.full ? 50e6 : 5e6)] },
  { name: 'scan', run: scan },
  { name: 'backtest', run: backtest },
  { name: 'verify', run: async () => [await benchVerify(bench, values.full ? 2000 : 1000)] },
  { name: 'push', run: () => benchPush(bench, values.full ? 2000 : 1000) },
  { name: 'nightly', run: async () => [await benchNightly(bench)] },
  { name: 'nothing-new', run: async () => [await benchNothingNew(bench)] },
  { name: 'requests', run: async () => [await benchRequests(bench)] },
  { name: 'paging', run: async () => [await benchPaging(bench)] },
  { name: 'rate', run: async () => [await benchRate(bench)] },
  { name: 'growth', run: async () => [await benchGrowth(bench)] },
  { name: 'serve', run: async () => [await benchServe(bench, values.recording)] },
  { name: 'help', run: async () => [await benchHelp(bench)] },
];

async function importGenerated(counts: readonly number[], peers: readonly PeerName[]): Promise<Report[]> {
  const reports: Report[] = [];
  for (const count of counts) reports.push(await withGenerated(count, (input) => benchImport(bench, input, peers)));
  return reports;
}

async function importRecorded(): Promise<Report[]> {
  const files = findRecording(values.recording);
  if (files !== undefined) {
    const pagesOf = () => recordedPages(values.recording);
    return [await withPages('recording', pagesOf, (input) => benchImport(bench, input, quick))];
  }
  bench.tell('import-recorded is skipped: no recording; pass its folder with --recording');
  const nothing = { ours: '–', peer: null, ratio: null, value: null, missing: 'no recording' };
  return [
    {
      comparisons: [{ what: 'import', input: 'recording', goal: { text: '–', met: () => false }, ...nothing }],
      timings: [],
      failed: [],
    },
  ];
}

/** Runs `work` with this many generated pages. */
function withGenerated<T>(count: number, measure: (input: PagesInput) => Promise<T>): Promise<T> {
  const name = `${count.toLocaleString('en-US')} generated pages`;
  return withPages(name, () => generatedPages({ pages: count, seed }), measure);
}

async function importMemory(): Promise<Report[]> {
  const held: MemoryRun[] = [];
  for (const count of values.full ? [1000, 10_000, 40_000] : [1000, 10_000])
    held.push(await withGenerated(count, (input) => measureOnce(bench, input)));
  return [memoryReport(held)];
}

async function backtest(): Promise<Report[]> {
  return [await withGenerated(values.full ? 10_000 : 1000, (input) => benchBacktest(bench, input))];
}

async function scan(): Promise<Report[]> {
  return [await withGenerated(values.full ? 10_000 : 1000, (input) => benchScan(bench, input))];
}

/** Pages are written for one benchmark and deleted after it: 10,000 of them are 1.5 GB. */
async function withPages<T>(
  name: string,
  pagesOf: () => Parameters<typeof writePages>[1],
  measure: (input: PagesInput) => Promise<T>,
): Promise<T> {
  const at = join(folder, 'pages');
  try {
    bench.tell(`writing ${name}`);
    const { ticks } = await writePages(at, pagesOf());
    return await measure({ name, folder: at, ticks });
  } finally {
    rmSync(at, { recursive: true, force: true });
  }
}

function versions(): string[] {
  const { version } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as { version: string };
  const results = [...quick, 'dlt' as const].map((name) => bench.peers.find(name));
  const ofPeers = results.flatMap((peer) => ('missing' in peer ? [] : [peer.version]));
  return [`oddslake ${version}`, `Node ${process.versions.node}`, ...ofPeers];
}

const unknown = values.only.find((name) => !benchmarks.some((benchmark) => benchmark.name === name));
if (unknown !== undefined) refuse(`only (${benchmarks.map(({ name }) => name).join(', ')})`, unknown);
const benchmarksSelected = benchmarks.filter(({ name }) => values.only.length === 0 || values.only.includes(name));
const circumstances = {
  date: new Date().toISOString().slice(0, 10),
  machine: `${cpus().length} × ${cpus()[0]?.model.trim() ?? 'unknown'}, ${(totalmem() / 2 ** 30).toFixed(0)} GiB, ${type()} ${/^\d+\.\d+/.exec(release())?.[0] ?? ''}`,
  versions: versions(),
  accounting: bench.accounting.name,
  seed,
  runs,
  short: [
    ...(runs < full.runs ? [`${runs} runs instead of ${full.runs}`] : []),
    ...(values.full ? [] : ['without the largest inputs (--full)']),
    ...pages.filter((count) => count < full.pages).map((count) => `${count} pages`),
  ],
};
const resultsFile = join(root, 'bench', 'RESULTS.md');
const names = benchmarks.map(({ name }) => name);
let failures = 0;
for (const { name, run } of benchmarksSelected) {
  bench.tell(`${name}:`);
  const results = await run();
  for (const comparison of results.flatMap(({ comparisons }) => comparisons)) console.log(comparisonLine(comparison));
  failures += results.reduce((sum, { failed }) => sum + failed.length, 0);
  // After each benchmark, so that an interrupted run keeps what it has.
  const before = existsSync(resultsFile) ? readFileSync(resultsFile, 'utf8') : '';
  writeFileSync(resultsFile, resultsText(before, names, name, circumstances, results));
}
// A missed goal is a result; a failed program is not.
if (failures > 0) process.exitCode = 1;
