/**
 * Runs every benchmark against its peers and writes bench/RESULTS.md.
 * Run: node bench/run.ts [--only NAME]… [--quick|--full] [--runs N] [--pages N]… [--seed N] [--recording FOLDER]
 *      node bench/run.ts --against COMMIT [--only NAME]… [--quick] [--runs N]
 * --quick uses small inputs and few rounds, and writes output/bench-quick.md: it shows that the benchmarks work.
 * --full adds the largest inputs, which take an hour and about 20 GB.
 * --against runs this checkout and another commit alternately, prints a table, and writes no file.
 * Peers are Python scripts (bench/peers), run by bench/peers/.venv/bin/python or the Python in PEERS_PYTHON, and the limit
 * program (bench/limit), which cargo builds.
 */
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { cpus, release, tmpdir, totalmem, type } from 'node:os';
import { delimiter, dirname, join } from 'node:path';
import { parseArgs } from 'node:util';
import { againstNames, benchAgainst } from './against.ts';
import type { Bench } from './bench.ts';
import { createBenchmarks, fullSizes, normalSizes, quickSizes } from './benchmarks.ts';
import { findAccounting } from './measure.ts';
import { findPeers } from './peers.ts';
import { comparisonLine, resultsText, withoutVerdicts } from './results.ts';

const root = join(import.meta.dirname, '..');
const [runsNormal, runsQuick] = [5, 2];

const { values } = parseArgs({
  options: {
    only: { type: 'string', multiple: true, default: [] },
    pages: { type: 'string', multiple: true, default: [] },
    runs: { type: 'string' },
    seed: { type: 'string', default: '1' },
    quick: { type: 'boolean', default: false },
    full: { type: 'boolean', default: false },
    against: { type: 'string' },
    recording: { type: 'string', default: join(root, '..', 'shared', 'data') },
  },
});
const { quick, full, against, recording } = values;
const parseCount = (name: string, text: string): number =>
  /^[1-9]\d{0,8}$/.test(text) ? Number(text) : refuse(name, text);
const runs = parseCount('runs', values.runs ?? String(quick ? runsQuick : runsNormal));
const seed = parseCount('seed', values.seed);
const pages = values.pages.map((text) => parseCount('pages', text));
if (quick && full) refuse('quick', 'with --full');

function refuse(name: string, text: string): never {
  console.error(`--${name}: invalid value ${text}`);
  process.exit(2);
}

const folder = mkdtempSync(join(tmpdir(), 'oddslake-bench-'));
process.once('exit', () => rmSync(folder, { recursive: true, force: true }));
process.once('SIGINT', () => process.exit(130));
process.once('SIGTERM', () => process.exit(143));

const tell = (line: string): void => console.error(line);
const clean = Object.entries(process.env).filter(([name]) => !name.startsWith('ODDSLAKE_'));
const bench: Bench = {
  launcher: join(root, 'bin', 'oddslake'),
  folder,
  env: { ...Object.fromEntries(clean), PATH: `${dirname(process.execPath)}${delimiter}${process.env.PATH ?? ''}` },
  accounting: findAccounting(),
  runs,
  seed,
  peers: findPeers(process.env.PEERS_PYTHON, tell),
  tell,
};

const sizesChosen = quick ? quickSizes : full ? fullSizes : normalSizes;
const sizes = pages.length === 0 ? sizesChosen : { ...sizesChosen, pages };
const benchmarks = createBenchmarks(sizes, recording, folder, seed);
const names = against === undefined ? benchmarks.map(({ name }) => name) : againstNames;
const unknown = values.only.find((name) => !names.includes(name));
if (unknown !== undefined) refuse(`only (${names.join(', ')})`, unknown);
const isSelected = (name: string): boolean => values.only.length === 0 || values.only.includes(name);

if (against === undefined) await runBenchmarks();
else {
  const rows = await benchAgainst(bench, root, against, { sizes, recording, names: names.filter(isSelected) });
  if (rows === null) process.exitCode = 1;
}

async function runBenchmarks(): Promise<void> {
  const resultsFile = quick ? join(root, 'output', 'bench-quick.md') : join(root, 'bench', 'RESULTS.md');
  mkdirSync(dirname(resultsFile), { recursive: true });
  if (quick) rmSync(resultsFile, { force: true });
  const startedAt = performance.now();
  let failures = 0;
  for (const { name, peers, run } of benchmarks.filter((one) => isSelected(one.name))) {
    bench.tell(`${name}:`);
    const begunAt = performance.now();
    const reports = (await run(bench)).map((report) =>
      quick ? withoutVerdicts(report, '--quick judges no goal') : report,
    );
    const seconds = (performance.now() - begunAt) / 1000;
    const comparisons = reports.flatMap((report) => report.comparisons);
    for (const comparison of comparisons) console.log(comparisonLine(comparison));
    bench.tell(`${name}: ${seconds.toFixed(0)} s`);
    failures += reports.reduce((sum, { failed }) => sum + failed.length, 0);
    // After each benchmark, so that an interrupted run keeps what it has.
    const before = existsSync(resultsFile) ? readFileSync(resultsFile, 'utf8') : '';
    const circumstances = {
      date: new Date().toISOString().slice(0, 10),
      machine: describeMachine(),
      versions: listVersions(peers ?? []),
      accounting: bench.accounting.name,
      seed,
      runs,
      seconds,
      short: listShortcomings(),
    };
    writeFileSync(resultsFile, resultsText(before, names, { name, circumstances, reports }));
  }
  bench.tell(`${((performance.now() - startedAt) / 60_000).toFixed(1)} minutes, written to ${resultsFile}`);
  // A missed goal is a result; a failed program is not.
  if (failures > 0) process.exitCode = 1;
}

function describeMachine(): string {
  const memory = (totalmem() / 2 ** 30).toFixed(0);
  return `${cpus().length} × ${cpus()[0]?.model.trim() ?? 'unknown'}, ${memory} GiB, ${type()} ${/^\d+\.\d+/.exec(release())?.[0] ?? ''}`;
}

function listVersions(peers: readonly Parameters<typeof bench.peers.find>[0][]): string[] {
  const { version } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as { version: string };
  const found = peers.map((name) => bench.peers.find(name));
  const ofPeers = found.flatMap((peer) => ('missing' in peer ? [] : [peer.version]));
  return [`oddslake ${version}`, `Node ${process.versions.node}`, ...ofPeers];
}

/** Reasons why the figures say little. */
function listShortcomings(): string[] {
  return [
    ...(quick ? ['--quick, with small inputs'] : []),
    ...(runs < runsNormal ? [`${runs} rounds instead of ${runsNormal}`] : []),
    ...pages.filter((count) => count < Math.min(...normalSizes.pages)).map((count) => `${count} pages`),
  ];
}
