import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { type BacktestPeer, benchBacktest, type Strategy } from './backtest.ts';
import type { Bench } from './bench.ts';
import { benchDeadSymbols } from './dead-symbols.ts';
import { generatedPages } from './generated-pages.ts';
import { type ImportGoals, importGoals, noGoal } from './goals.ts';
import { benchGrowth } from './growth.ts';
import { benchImport, type PagesInput } from './import.ts';
import { type MemoryRun, measureOnce, memoryReport } from './import-memory.ts';
import { benchLateTicks } from './late-ticks.ts';
import { benchNightly } from './nightly.ts';
import { benchNothingNew } from './nothing-new.ts';
import { findRecording, recordedPages, writePages } from './pages.ts';
import { benchPaging } from './paging.ts';
import type { PeerName } from './peers.ts';
import { benchPush } from './push.ts';
import { benchRate } from './rate.ts';
import { benchRequests } from './requests.ts';
import type { Report } from './results.ts';
import { allReaders, benchScan, type ReaderName } from './scan.ts';
import { benchServe, fullServe, type ServeOptions } from './serve.ts';
import { benchStartUp } from './start-up.ts';
import { benchThinImport } from './thin-import.ts';
import { benchVerify } from './verify.ts';

/** All benchmarks, and how large their inputs are. */

interface Benchmark {
  readonly name: string;
  /** Programs that take part, for the list of versions. */
  readonly peers?: readonly PeerName[];
  run(bench: Bench): Promise<readonly Report[]>;
}

/** Inputs of the benchmarks. Goals that need a larger input are not judged. */
export interface Sizes {
  /** Pages of the imports. */
  readonly pages: readonly number[];
  readonly pagesMemory: readonly number[];
  /** Pages of the scans and of the backtests. */
  readonly pagesRead: number;
  readonly backtests: readonly (readonly [pages: number, ReadonlyMap<Strategy, readonly BacktestPeer[]>])[];
  /** First pages of the recording. */
  readonly pagesRecorded: number;
  readonly peers: readonly PeerName[];
  readonly readers: readonly ReaderName[];
  readonly ticksLate: number;
  readonly megabytesVerified: number;
  readonly megabytesPushed: number;
  /** Of the pushed archive with many files. */
  readonly daysPushed: number;
  readonly ticksPerDay: number;
  readonly symbolsQuiet: number;
  readonly symbolsPaged: readonly number[];
  readonly rateSeconds: number;
  readonly daysGrown: readonly number[];
  readonly symbolsDead: readonly number[];
  readonly symbolsThin: number;
  readonly serve: ServeOptions;
  /** Rounds of the benchmarks that take a quarter to half a minute a round, and of those that take longer. */
  readonly roundsSlow: number;
  readonly roundsSlowest: number;
}

/** The goals are judged by these. All of them together take half an hour. */
export const normalSizes: Sizes = {
  pages: [1000, 10_000],
  pagesMemory: [1000, 10_000],
  pagesRead: 10_000,
  // Vectorised mean reversion takes the peers minutes on 50 M ticks.
  backtests: [
    [
      10_000,
      new Map<Strategy, readonly BacktestPeer[]>([
        ['threshold', ['polars', 'pandas']],
        ['mean_reversion', []],
      ]),
    ],
    [200, new Map<Strategy, readonly BacktestPeer[]>([['mean_reversion', ['polars', 'pandas']]])],
  ],
  pagesRecorded: Number.POSITIVE_INFINITY,
  peers: ['limit', 'duckdb', 'polars', 'pandas'],
  readers: allReaders,
  ticksLate: 50e6,
  megabytesVerified: 1000,
  megabytesPushed: 500,
  daysPushed: 600,
  ticksPerDay: 50_000,
  symbolsQuiet: 20_000,
  symbolsPaged: [60, 600],
  rateSeconds: 15,
  daysGrown: [10, 100, 1000],
  symbolsDead: [1000, 100_000],
  symbolsThin: 50_000,
  serve: fullServe,
  roundsSlow: 3,
  roundsSlowest: 2,
};

/** An hour, and 20 GB on the disk. */
export const fullSizes: Sizes = {
  ...normalSizes,
  symbolsDead: [1000, 100_000, 1_000_000],
  pagesMemory: [1000, 10_000, 40_000],
  megabytesVerified: 2000,
  megabytesPushed: 2000,
  daysPushed: 1667,
  rateSeconds: 40,
  roundsSlow: 5,
  roundsSlowest: 5,
};

/** Shows in three minutes that every benchmark works, and large differences. */
export const quickSizes: Sizes = {
  pages: [200],
  pagesMemory: [100, 200],
  pagesRead: 200,
  backtests: [
    [
      200,
      new Map<Strategy, readonly BacktestPeer[]>([
        ['threshold', ['polars', 'pandas']],
        ['mean_reversion', []],
      ]),
    ],
  ],
  pagesRecorded: 1000,
  peers: ['limit', 'duckdb', 'polars'],
  readers: allReaders.filter((reader) => reader !== 'spark'),
  ticksLate: 5e5,
  megabytesVerified: 100,
  megabytesPushed: 50,
  daysPushed: 20,
  ticksPerDay: 5000,
  symbolsQuiet: 1000,
  symbolsPaged: [60],
  rateSeconds: 2,
  daysGrown: [10, 50],
  symbolsDead: [100, 2000],
  symbolsThin: 500,
  serve: { requestsCold: 50, seconds: 0.3, secondsBefore: 0.3, ticksGenerated: 1e5 },
  roundsSlow: 1,
  roundsSlowest: 1,
};

/** dlt takes minutes where others take seconds: it runs in separate rounds, on at most this many pages. */
const dltPagesMax = 1000;
/** More pages take a minute a round, and pandas five. */
const pagesQuick = 1000;

/**
 * @param recording the folder of a recording, which may be missing
 */
export function createBenchmarks(sizes: Sizes, recording: string, folder: string, seed: number): readonly Benchmark[] {
  const pages = openPages(folder, seed);
  const slow = (bench: Bench): Bench => ({ ...bench, runs: Math.min(bench.runs, sizes.roundsSlow) });
  const slowest = (bench: Bench): Bench => ({ ...bench, runs: Math.min(bench.runs, sizes.roundsSlowest) });

  async function importGenerated(bench: Bench, count: number, peers: readonly PeerName[]): Promise<Report> {
    const isQuick = count <= pagesQuick;
    const input = await pages.generate(bench, count);
    const names = isQuick ? peers : peers.filter((name) => name !== 'pandas');
    return await benchImport(isQuick ? bench : slow(bench), input, names, goalsOf(count));
  }

  async function importRecorded(bench: Bench): Promise<Report> {
    if (findRecording(recording) === undefined) {
      bench.tell('import-recorded is skipped: no recording; pass its folder with --recording');
      const nothing = { ours: '–', peer: null, ratio: null, value: null, missing: 'no recording' };
      return {
        comparisons: [{ what: 'import', input: 'recording', goal: noGoal, ...nothing }],
        timings: [],
        failed: [],
      };
    }
    const input = await pages.record(bench, recording, sizes.pagesRecorded);
    return await benchImport(slow(bench), input, sizes.peers, isWhole(sizes) ? importGoals.recording : undefined);
  }

  async function importMemory(bench: Bench): Promise<Report> {
    const held: MemoryRun[] = [];
    for (const count of sizes.pagesMemory) held.push(await measureOnce(bench, await pages.generate(bench, count)));
    return memoryReport(held);
  }

  async function backtest(bench: Bench): Promise<Report[]> {
    const reports: Report[] = [];
    for (const [count, peersOf] of sizes.backtests)
      reports.push(await benchBacktest(slowest(bench), await pages.generate(bench, count), peersOf));
    return reports;
  }

  const dltPages = Math.min(dltPagesMax, ...sizes.pages);
  return [
    {
      name: 'import',
      peers: sizes.peers,
      async run(bench) {
        const reports: Report[] = [];
        for (const count of sizes.pages) reports.push(await importGenerated(bench, count, sizes.peers));
        return reports;
      },
    },
    { name: 'import-dlt', peers: ['dlt'], run: async (bench) => [await importGenerated(bench, dltPages, ['dlt'])] },
    { name: 'import-recorded', peers: sizes.peers, run: async (bench) => [await importRecorded(bench)] },
    { name: 'import-memory', run: async (bench) => [await importMemory(bench)] },
    {
      name: 'import-thin',
      peers: ['duckdb'],
      run: async (bench) => [await benchThinImport(slowest(bench), sizes.symbolsThin)],
    },
    { name: 'late-ticks', run: async (bench) => [await benchLateTicks(bench, sizes.ticksLate)] },
    {
      name: 'scan',
      peers: ['duckdb', 'polars', 'pandas'],
      run: async (bench) => [await benchScan(slow(bench), await pages.generate(bench, sizes.pagesRead), sizes.readers)],
    },
    { name: 'backtest', peers: ['polars', 'pandas'], run: backtest },
    { name: 'verify', run: async (bench) => [await benchVerify(bench, sizes.megabytesVerified)] },
    { name: 'push', run: (bench) => benchPush(slow(bench), sizes.megabytesPushed, sizes.daysPushed) },
    { name: 'nightly', run: async (bench) => [await benchNightly(slow(bench), sizes.ticksPerDay)] },
    { name: 'nothing-new', run: async (bench) => [await benchNothingNew(slow(bench), sizes.symbolsQuiet)] },
    { name: 'requests', run: async (bench) => [await benchRequests(slow(bench))] },
    { name: 'paging', run: async (bench) => [await benchPaging(slow(bench), sizes.symbolsPaged)] },
    { name: 'rate', run: async (bench) => [await benchRate(bench, sizes.rateSeconds)] },
    { name: 'dead-symbols', run: async (bench) => [await benchDeadSymbols(slowest(bench), sizes.symbolsDead)] },
    { name: 'growth', run: async (bench) => [await benchGrowth(bench, sizes.daysGrown)] },
    { name: 'serve', run: async (bench) => [await benchServe(slow(bench), recording, sizes.serve)] },
    { name: 'start-up', run: async (bench) => [await benchStartUp(bench)] },
  ];
}

const goalsOf = (pages: number): ImportGoals | undefined =>
  pages === 1000 ? importGoals['1,000 pages'] : pages === 10_000 ? importGoals['10,000 pages'] : undefined;

const isWhole = ({ pagesRecorded }: Sizes): boolean => pagesRecorded === Number.POSITIVE_INFINITY;

/** Pages on the disk. */
interface Pages {
  generate(bench: Bench, count: number): Promise<PagesInput>;
  /** Pages of a recording, at most this many. */
  record(bench: Bench, recording: string, count: number): Promise<PagesInput>;
}

/** 10,000 pages are 1.5 GB: the largest that stay, because writing them takes half a minute. */
const pagesKeptMax = 10_000;

/** Pages that several benchmarks read are written once, into `folder`. */
export function openPages(folder: string, seed: number): Pages {
  const kept = new Map<string, PagesInput>();
  let passing: string | undefined;
  async function write(bench: Bench, name: string, pages: Parameters<typeof writePages>[1], keep = false) {
    const found = kept.get(name);
    if (found !== undefined) return found;
    if (passing !== undefined) rmSync(passing, { recursive: true, force: true });
    passing = undefined;
    const at = join(folder, keep ? `pages-${kept.size}` : 'pages-once');
    bench.tell(`writing ${name}`);
    const { ticks } = await writePages(at, pages);
    const input = { name, folder: at, ticks };
    if (keep) kept.set(name, input);
    else passing = at;
    return input;
  }
  return {
    record(bench, recording, count) {
      const name = count === Number.POSITIVE_INFINITY ? 'recording' : `recording, ${count} pages`;
      return write(bench, name, takeFirst(recordedPages(recording), count));
    },
    generate(bench, count) {
      const name = `${count.toLocaleString('en-US')} generated pages`;
      return write(bench, name, generatedPages({ pages: count, seed }), count <= pagesKeptMax);
    },
  };
}

async function* takeFirst<T>(items: AsyncIterable<T>, count: number): AsyncGenerator<T, void, undefined> {
  let left = count;
  for await (const item of items) {
    if (left-- <= 0) return;
    yield item;
  }
}
