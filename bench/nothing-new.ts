import { globSync, readFileSync, rmSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { sha256 } from '../src/archive/disk/file-system.ts';
import type { Bench } from './bench.ts';
import { atMost, noGoal, quietNight } from './goals.ts';
import { summarise } from './harness.ts';
import { type Measured, measure } from './measure.ts';
import { bareClient, nightly } from './nightly-command.ts';
import { writeRequestPaths } from './request-paths.ts';
import { type Report, timeText } from './results.ts';
import { type BenchedSandbox, startUpstream } from './sandbox.ts';
import { pairRatios } from './statistics.ts';

/**
 * Compares a night in which all symbols have nothing new with a client that only reads the bodies of the same
 * requests. The difference is the cost of oddslake. The night must not rewrite any part file of ticks or candles.
 */

interface Round {
  readonly ours: Measured;
  readonly bare: Measured;
}

/** Symbols below which the goal is not judged: with fewer, start-up dominates. */
const judgedSymbols = 20_000;

export async function benchNothingNew(bench: Bench, symbols: number): Promise<Report> {
  const program = join(import.meta.dirname, 'quiet-sandbox.ts');
  const sandbox = await startUpstream([program, String(symbols), String(bench.seed)]);
  const out = join(bench.folder, 'nothing-new');
  try {
    await measure(nightly(bench, sandbox, out), bench.accounting);
    const before = readFileStamps(out);
    const rounds: Round[] = [];
    // Round 0 is not counted: it fetches from the end of the initial night. All later rounds do the same work.
    for (let n = 0; n <= bench.runs; n++) {
      const round = await runRound(bench, sandbox, out, symbols);
      if (n > 0) rounds.push(round);
      bench.tell(`round ${n} of ${bench.runs}: ${timeText(round.ours.wallMs)}, bare ${timeText(round.bare.wallMs)}`);
    }
    return createReport(symbols, rounds, listChanged(before, readFileStamps(out)), before.size);
  } finally {
    await sandbox.stop();
    rmSync(out, { recursive: true, force: true });
  }
}

async function runRound(bench: Bench, sandbox: BenchedSandbox, out: string, symbols: number): Promise<Round> {
  // The responses of this night only, so that the bare client sends the same requests.
  rmSync(join(out, '.oddslake', 'raw'), { recursive: true, force: true });
  const ours = await measure(nightly(bench, sandbox, out), bench.accounting);
  const pathsFile = join(bench.folder, 'requests.txt');
  const requests = await writeRequestPaths(out, pathsFile);
  if (requests < symbols) throw new Error(`${requests} requests for ${symbols} symbols`);
  return { ours, bare: await measure(bareClient(bench, sandbox, pathsFile), bench.accounting) };
}

/** By path, what identifies a rewritten part file of ticks or candles. */
function readFileStamps(archive: string): Map<string, string> {
  const paths = globSync('{ticks,candles_*}/date=*/*.parquet', { cwd: archive }).sort();
  return new Map(
    paths.map((path) => {
      const at = join(archive, path);
      const { ino, mtimeMs } = statSync(at);
      return [path, `${ino} ${mtimeMs} ${sha256(readFileSync(at))}`];
    }),
  );
}

const listChanged = (before: ReadonlyMap<string, string>, after: ReadonlyMap<string, string>): string[] =>
  [...new Set([...before.keys(), ...after.keys()])].filter((path) => before.get(path) !== after.get(path));

function createReport(symbols: number, rounds: readonly Round[], changed: readonly string[], files: number): Report {
  const input = `${symbols.toLocaleString('en-US')} symbols`;
  const [ours, bare] = [rounds.map((one) => one.ours), rounds.map((one) => one.bare)];
  const wall = pairRatios(
    ours.map(({ wallMs }) => wallMs),
    bare.map(({ wallMs }) => wallMs),
  );
  const { peakMiB } = summarise(ours);
  const peakMb = peakMiB === null ? null : peakMiB * 1.048576;
  const peer = { name: 'bare client', figure: timeText(summarise(bare).wallMs) };
  const name = 'a night with nothing new';
  return {
    comparisons: [
      {
        what: `${name}, time`,
        input,
        ours: timeText(summarise(ours).wallMs),
        peer,
        ratio: wall,
        goal: noGoal,
        value: wall.median,
        missing: null,
      },
      {
        what: `${name}, peak memory`,
        input,
        ours: peakMb === null ? '–' : `${peakMb.toFixed(0)} MB`,
        peer: null,
        ratio: null,
        goal: quietNight,
        headline: symbols >= judgedSymbols,
        value: symbols >= judgedSymbols ? peakMb : null,
        missing: `judged only on ${judgedSymbols.toLocaleString('en-US')} symbols or more`,
      },
      {
        what: `${name}, rewritten part files`,
        input,
        ours: `${changed.length} of ${files}`,
        peer: null,
        ratio: null,
        goal: atMost(0, 'none'),
        value: changed.length,
        missing: null,
      },
    ],
    timings: [
      { what: name, input, name: 'oddslake', medians: summarise(ours), runs: rounds.length },
      { what: name, input, name: 'bare client', medians: summarise(bare), runs: rounds.length },
    ],
    failed: [],
  };
}
