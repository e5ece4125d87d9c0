import { createHash } from 'node:crypto';
import { mkdirSync, mkdtempSync, rmSync, utimesSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Summary } from '../../../src/archive/journal/run-summary.ts';
import type { Context } from '../../../src/context/context.ts';
import { loadSettings } from '../../../src/settings/load.ts';
import type { Settings } from '../../../src/settings/settings.ts';
import { createContext } from '../../harness/job-context.ts';
import { scratchRoot } from '../../harness/scratch-root.ts';
import { type Draw, drawFrom } from '../seeds.ts';
import { type AcceptedRows, trackAccepted } from './accepted-rows.ts';
import { type Audit, startAudit } from './audit.ts';
import { type Machine, type Process, startMachine } from './machine.ts';
import { startChain } from './manifest-chain.ts';
import { type Network, startNetwork } from './network.ts';
import { type Oracle, startOracle } from './oracle.ts';
import { type Reader, startReader } from './reader.ts';
import { readSaved, type Saved } from './saved.ts';
import type { SeriesInput } from './series-files.ts';
import { readSavedSeries, type SavedSeries, type SeriesModel, startSeriesModel } from './series-model.ts';
import { drawServiceBehavior, type Service, startService } from './service.ts';
import { startTimeline, type Timeline } from './timeline.ts';
import { dayMs, hourMs, makeWorld, type World } from './world.ts';

/** A world, a service over it, a machine with an archive, and the observers. */
export interface Lake {
  readonly root: string;
  readonly draw: Draw;
  readonly settings: Settings;
  readonly world: World;
  readonly service: Service;
  readonly network: Network;
  readonly timeline: Timeline;
  readonly machine: Machine;
  readonly oracle: Oracle;
  /** The oracle of quotes and trades. */
  readonly series: SeriesModel;
  /** Inputs of earlier imports of quotes and trades. */
  readonly seriesInputs: SeriesInput[];
  readonly acceptedRows: AcceptedRows;
  readonly chain: ReturnType<typeof startChain>;
  readonly reader: Reader;
  readonly audit: Audit;
  /** Errors of the observers themselves. */
  readonly modelErrors: readonly unknown[];
  readonly skewMs: number;
  /** Adds a line to the trace. */
  trace(line: string): void;
  /** sha256 of the trace so far. */
  traceHash(): string;
  /** Writes a file for an import, and returns its path. `writtenAt`: its time of modification, by default now. */
  recording(text: string, extension?: 'json' | 'ndjson', writtenAt?: number): string;
  /** @param waitMs how long it waits for the lock of another run */
  start<Flags>(
    name: string,
    run: (context: Context, flags: Flags) => Promise<Summary>,
    flags: Flags,
    waitMs?: number,
  ): Started;
  close(): void;
}

export interface Started {
  readonly name: string;
  readonly process: Process;
  /** Null if it was stopped before a run began. */
  readonly summary: Promise<Summary | null>;
}

/** UTC midnight at which every story begins. */
export const day0 = Date.UTC(2026, 2, 20);

const scratch = scratchRoot;

/** @param tell receives every line of the trace, to investigate a failure */
export async function openLake(seed: number, nights: number, tell: (line: string) => void): Promise<Lake> {
  const draw = drawFrom(seed);
  const top = mkdtempSync(join(scratch, 'oddslake-simulation-'));
  const root = join(top, 'archive');
  mkdirSync(root);
  const hash = createHash('sha256');
  const trace = (line: string): void => {
    hash.update(`${line}\n`);
    tell(line);
  };
  const world = makeWorld(draw, { from: day0, to: day0 + (nights + 8) * dayMs });
  const manners = drawServiceBehavior(draw);
  const service = startService(world, manners, drawFrom(seed + 1));
  const network = startNetwork(service, drawFrom(seed + 2), trace);
  const turnDraw = drawFrom(seed + 3);
  const timeline = startTimeline(day0 + 3 * hourMs, () => (turnDraw.chance(0.5) ? 0 : turnDraw() * 100));
  const settings = await drawSettings(draw, root);
  const oracle = startOracle(world, manners.tellsMoment ? 0 : hourMs);
  const series = startSeriesModel();
  const acceptedRows = trackAccepted();
  const reader = startReader(root);
  const chain = startChain(root);
  const modelErrors: unknown[] = [];
  const machine = startMachine(root, {
    onChange: trace,
    onName(path) {
      reader.onName(path);
      chain.onName(path);
    },
    onCommit(db, name) {
      try {
        const isCommit = oracle.observe(db, saved.get(name));
        series.observe(db, isCommit, savedSeries.get(name));
        acceptedRows.observe(db);
      } catch (error) {
        // Thrown here, it would look like an error of the job, which may fail.
        modelErrors.push(error);
      }
    },
  });
  /** Input files of imports, by process name. */
  const saved = new Map<string, Saved>();
  const savedSeries = new Map<string, SavedSeries>();
  let processes = 0;
  let recordings = 0;

  return {
    root,
    draw,
    settings,
    world,
    service,
    network,
    timeline,
    machine,
    oracle,
    series,
    seriesInputs: [],
    acceptedRows,
    chain,
    reader,
    modelErrors,
    trace,
    skewMs: manners.skewMs,
    audit: startAudit(root, oracle, series, acceptedRows, reader, {
      lookbackMs: settings.source.firstLookbackDays * dayMs,
    }),
    traceHash: () => hash.copy().digest('hex'),
    recording(text, extension = 'json', writtenAt = timeline.nowMs()) {
      const path = join(top, `${timeline.nowMs()}-${recordings++}.${extension}`);
      writeFileSync(path, text);
      utimesSync(path, writtenAt / 1000, writtenAt / 1000);
      return path;
    },
    start(name, run, flags, waitMs = 600_000) {
      const ofProcess = `${name}${++processes}`;
      const pages = readSaved(flags);
      if (pages !== undefined) saved.set(ofProcess, pages);
      const rows = readSavedSeries(flags);
      if (rows !== undefined) savedSeries.set(ofProcess, rows);
      const process = machine.startProcess(ofProcess);
      const bytes = drawFrom(seed + 100 * processes + 50);
      const context = createContext({
        settings,
        version: 'simulated',
        waitMs,
        canCreateArchive: true,
        disk: process.disk,
        openDatabase: process.openDatabase,
        signal: process.signal,
        openWire: network.openWire(process.isDead),
        clock: timeline.clock(process.isDead),
        random: drawFrom(seed + 100 * processes),
        randomBytes: (count) => Uint8Array.from({ length: count }, () => bytes.below(256)),
        startDisplay: async () => ({ update: () => {}, stop: () => {}, [Symbol.dispose]: () => {} }),
      });
      const summary = run(context, flags).then(
        (ended) => {
          if (rows !== undefined) series.requireTaken(rows, ended);
          return ended;
        },
        (error: unknown) => {
          if (process.signal.aborted) return null;
          throw error;
        },
      );
      return { name, process, summary };
    },
    close: () => rmSync(top, { recursive: true, force: true }),
  };
}

async function drawSettings(draw: Draw, output: string): Promise<Settings> {
  const candles = draw.one(['', '1d', '1h,1d']);
  return await loadSettings({
    env: { ODDSLAKE_BASE_URL: 'http://box.test', ODDSLAKE_API_KEY: 'key' },
    cwd: scratch,
    output,
    set: [
      `archive.parts=${1 + draw.below(4)}`,
      `archive.candles=${candles}`,
      `upstream.concurrency=${1 + draw.below(4)}`,
      'upstream.requests_per_second=20',
      'report.nightly=false',
      `poll.page_limit=${draw.one([20, 200, 5000])}`,
      `publish.journal_ticks_max=${draw.one([100, 5_000_000])}`,
      `source.first_lookback_days=${draw.one([3, 7])}`,
      `orderbooks.all_live=${draw.chance(0.2)}`,
      // Threads compress them, and they do not use simulated time.
      'raw.keep_days=0',
    ],
  });
}
