import { cpSync, linkSync, mkdirSync, readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { createRandom, hashNumber } from '../src/base/random.ts';
import { dayMs } from '../src/base/window.ts';
import type { SandboxTickPage } from '../src/sandbox/page-formats.ts';
import type { Bench } from './bench.ts';
import { noGoal } from './goals.ts';
import { alternate, type Contender, isMeasured, processTimings, summarise } from './harness.ts';
import { importArgv } from './import.ts';
import type { Measured } from './measure.ts';
import { writePages } from './pages.ts';
import { publishedTotals } from './published.ts';
import { type Report, timeText } from './results.ts';
import { pairRatios } from './statistics.ts';

/** Compares `oddslake import` of a few late ticks into a published day with the import of the whole day. */

const day = Date.UTC(2026, 2, 2);
const parts = 128;
const ticksPerSymbol = 5000;
const lateSymbols = 10;
const lateTicksPerSymbol = 20;
/** Ticks below which the goal is not judged: with fewer, program start dominates both times. */
const judgedTicks = 50e6;

/** One page per symbol with ticks over the whole day and a random-walk price. */
export function* dayPages(ticks: number, seed: number): Generator<SandboxTickPage, void, undefined> {
  for (let i = 0; i < ticks / ticksPerSymbol; i++)
    yield createPage(i, ticksPerSymbol, createRandom(hashNumber(seed, i)));
}

/** Late ticks of some symbols across the list, at times that differ from the published ones. */
export function* latePages(ticks: number, seed: number): Generator<SandboxTickPage, void, undefined> {
  const symbols = Math.ceil(ticks / ticksPerSymbol);
  for (let i = 0; i < lateSymbols; i++) {
    const index = Math.floor((i * symbols) / lateSymbols);
    yield createPage(index, lateTicksPerSymbol, createRandom(hashNumber(seed + 1, index)));
  }
}

function createPage(i: number, count: number, random: () => number): SandboxTickPage {
  const t = Float64Array.from({ length: count }, () => day + Math.floor(random() * dayMs)).sort();
  let price = 500;
  const p = t.map(() => {
    price = Math.min(999, Math.max(1, price + Math.floor(random() * 5) - 2));
    return price / 1000;
  });
  const symbol = `KXLATE-26MAR02-${String(i).padStart(6, '0')}`;
  return { symbol, t, p, count, from: day, to: day + dayMs, generatedAt: day + dayMs + 3_600_000 };
}

/** `oddslake import` into an archive with many part files a day. */
export const importParts = ({ launcher, folder, env }: Bench, pages: string, out: string): Contender['command'] => ({
  argv: [...importArgv(launcher, pages, out), '--set', `archive.parts=${parts}`],
  cwd: folder,
  env,
});

/** @param ticks ticks of the day; ticks at equal times become one */
export async function benchLateTicks(bench: Bench, ticks: number): Promise<Report> {
  const { folder, seed } = bench;
  const at = (name: string): string => join(folder, `late-${name}`);
  const importing = (pages: string, out: string): Contender['command'] => importParts(bench, pages, out);
  try {
    bench.tell(`writing a day of ${ticks.toLocaleString('en-US')} ticks`);
    await writePages(at('day'), dayPages(ticks, seed));
    await writePages(at('few'), latePages(ticks, seed));
    const whole = { name: 'the whole day', out: at('whole'), command: importing(at('day'), at('whole')) };
    const late: Contender = {
      name: 'the late ticks',
      out: at('copy'),
      command: importing(at('few'), at('copy')),
      // The day as the warm-up round published it.
      prepare: () => copyArchive(at('base'), at('copy')),
    };
    bench.tell('publishing the day');
    const [made] = await alternate([{ ...whole, out: null, command: importing(at('day'), at('base')) }], {
      ...bench,
      runs: 0,
    });
    const outcomes = made !== undefined && isMeasured(made) ? await alternate([late, whole], bench) : [made!];
    const rows = isMeasured(made!) ? publishedTotals(at('base'), ['ticks']) : { rows: 0, files: 0 };
    const input = `${(rows.rows / 1e6).toFixed(1)} M ticks in ${rows.files} part files`;
    const runsOf = (name: string): readonly Measured[] | undefined => {
      const outcome = outcomes.find((one) => one.name === name);
      return outcome !== undefined && isMeasured(outcome) ? outcome.runs : undefined;
    };
    const [few, all] = [runsOf(late.name), runsOf(whole.name)];
    const wall = (runs: readonly Measured[]): number[] => runs.map(({ wallMs }) => wallMs);
    const ratio = few !== undefined && all !== undefined ? pairRatios(wall(few), wall(all)) : null;
    const duration = (runs: typeof few): string => (runs === undefined ? '–' : timeText(summarise(runs).wallMs));
    const failed = outcomes.flatMap((outcome) => (isMeasured(outcome) ? [] : [outcome]));
    const isJudged = ticks >= judgedTicks;
    return {
      failed: failed.map(({ name }) => name),
      comparisons: [
        {
          what: `late ticks of ${lateSymbols} symbols`,
          input,
          ours: duration(few),
          peer: { name: 'publishing the day', figure: duration(all) },
          ratio,
          goal: noGoal,
          headline: isJudged,
          value: isJudged ? (ratio?.median ?? null) : null,
          missing:
            failed.map(({ name, failed: reason }) => `${name} ${reason}`)[0] ?? 'judged only on 50 M ticks or more',
        },
      ],
      timings: processTimings('import', input, outcomes),
    };
  } finally {
    for (const name of ['day', 'few', 'base', 'copy', 'whole']) rmSync(at(name), { recursive: true, force: true });
  }
}

/**
 * Published files are only ever replaced, so hard links are enough; the state database is modified in place and is
 * copied.
 */
export function copyArchive(from: string, to: string): void {
  mkdirSync(to);
  for (const entry of readdirSync(from, { withFileTypes: true })) {
    const [source, target] = [join(from, entry.name), join(to, entry.name)];
    if (entry.name === '.oddslake') cpSync(source, target, { recursive: true });
    else if (entry.isDirectory()) copyArchive(source, target);
    else linkSync(source, target);
  }
}
