import { createWriteStream, rmSync } from 'node:fs';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { createRandom } from '../src/base/random.ts';
import { dayMs } from '../src/base/window.ts';
import type { Bench } from './bench.ts';
import { type Goal, thinImport } from './goals.ts';
import { alternate, createContender, isMeasured, processTimings, summarise } from './harness.ts';
import type { Measured } from './measure.ts';
import { type Comparison, countText, type Report, timeText } from './results.ts';
import { pairRatios } from './statistics.ts';

/**
 * `oddslake import` of a CSV file in which each symbol has one tick a day, so that what is done for each symbol and day decides. The
 * peer removes duplicates of keys and writes the ticks, and nothing else.
 */

const days = 40;
const begin = Date.UTC(2026, 0, 1);
/** The goals are those of a file with this many symbols. */
const judgedSymbols = 50_000;

export async function benchThinImport(bench: Bench, symbols: number): Promise<Report> {
  const file = join(bench.folder, 'thin.csv');
  try {
    bench.tell(`writing ${countText(symbols * days)} ticks of ${countText(symbols)} symbols`);
    await pipeline(Readable.from(generateLines(symbols, bench.seed)), createWriteStream(file));
    return await compareImports(bench, file, symbols);
  } finally {
    rmSync(file, { force: true });
  }
}

function* generateLines(symbols: number, seed: number): Generator<string> {
  const random = createRandom(seed);
  const draw = (max: number): number => Math.floor(random() * max);
  yield 'symbol,t,p\n';
  for (let n = 0; n < symbols; n++) {
    const symbol = `THIN-${String(n).padStart(6, '0')}`;
    const rows = Array.from({ length: days }, (_, day) => [begin + day * dayMs + draw(dayMs), (1 + draw(998)) / 1000]);
    yield rows.map((row) => `${symbol},${row.join(',')}\n`).join('');
  }
}

async function compareImports(bench: Bench, file: string, symbols: number): Promise<Report> {
  const at = (name: string): string => join(bench.folder, `thin-${name}`);
  const flags = ['--output', at('oddslake'), '--quiet', '--set', 'source.name=bench'];
  const ours = createContender(bench, 'oddslake', [bench.launcher, 'import', file, ...flags], at('oddslake'));
  const peer = bench.peers.find('duckdb');
  const python = 'missing' in peer ? null : peer.argv()[0];
  const script = join(import.meta.dirname, 'peers', 'duckdb_rows.py');
  const theirs =
    python === null ? [] : [createContender(bench, 'duckdb', [python, script, file, at('duckdb')], at('duckdb'))];
  const check = async (): Promise<Map<string, string>> => {
    const difference = theirs.length === 0 ? null : bench.peers.differ(at('oddslake'), at('duckdb'));
    return new Map(difference === null ? [] : [['duckdb', `does not contain the same ticks: ${difference}`]]);
  };
  const outcomes = await alternate([ours, ...theirs], { ...bench, check });
  const runsOf = (name: string): readonly Measured[] | null => {
    const outcome = outcomes.find((one) => one.name === name);
    return outcome !== undefined && isMeasured(outcome) ? outcome.runs : null;
  };
  const [mine, other] = [runsOf('oddslake'), runsOf('duckdb')];
  const input = `${countText(symbols * days)} symbol-days`;
  const isJudged = symbols >= judgedSymbols;
  const cpuOf = (runs: readonly Measured[]): number[] => runs.map(({ cpuMs }) => cpuMs ?? Number.NaN);
  const ratio = mine === null || other === null ? null : pairRatios(cpuOf(mine), cpuOf(other));
  const peakMb = mine === null ? null : (summarise(mine).peakMiB ?? Number.NaN) * 1.048576;
  const figure = (runs: readonly Measured[] | null): string =>
    runs === null ? '–' : timeText(summarise(runs).cpuMs ?? Number.NaN);
  const compare = (
    what: string,
    goal: Goal,
    value: number | null,
  ): Pick<Comparison, 'what' | 'input' | 'goal' | 'headline' | 'value' | 'missing'> => ({
    what: `import of thin data, ${what}`,
    input,
    goal,
    headline: isJudged,
    value: isJudged && value !== null && Number.isFinite(value) ? value : null,
    missing: isJudged ? 'no figure' : `judged only with ${countText(judgedSymbols)} symbols or more`,
  });
  return {
    failed: outcomes.filter((outcome) => !isMeasured(outcome)).map(({ name }) => name),
    comparisons: [
      {
        ...compare('CPU', thinImport.cpu, ratio?.median ?? null),
        ours: figure(mine),
        peer: { name: 'duckdb', figure: figure(other) },
        ratio,
      },
      {
        ...compare('peak memory', thinImport.memory, peakMb),
        ours: peakMb === null ? '–' : `${peakMb.toFixed(0)} MB`,
        peer: null,
        ratio: null,
      },
    ],
    timings: processTimings('import of thin data', input, outcomes),
  };
}
