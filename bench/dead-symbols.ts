import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { formatIsoUtc } from '../src/base/time.ts';
import { dayMs, floorToDay, hourMs } from '../src/base/window.ts';
import type { Bench } from './bench.ts';
import { deadSymbols, type Goal } from './goals.ts';
import { summarise } from './harness.ts';
import { type Command, type Measured, measure } from './measure.ts';
import { nightly } from './nightly-command.ts';
import { type Comparison, type Report, timeText } from './results.ts';
import { type BenchedSandbox, startSandbox } from './sandbox.ts';
import { pairRatios } from './statistics.ts';

/**
 * The same night, poll and status of the same live symbols in archives with few and with many symbols that have died. The dead
 * ones are imported, each with three ticks on one of twenty days more than a hundred days ago, which the import covers whole; then the
 * state is told what a market list said of them: listed, closed and resolved on that day.
 */

const days = 20;
const ticksPerSymbol = 3;
/** The goal is that of an archive with this many dead symbols. */
const judgedSymbols = 1_000_000;
const sandboxOptions = { markets: 20, ticksPerDay: 1_000, lifetimeDaysMax: 1000 };

/** @param deadOf numbers of dead symbols, ascending */
export async function benchDeadSymbols(bench: Bench, deadOf: readonly number[]): Promise<Report> {
  const archiveOf = (dead: number): string => join(bench.folder, `dead-${dead}`);
  const { accounting, launcher, folder, env } = bench;
  const sandbox = await startSandbox({ ...sandboxOptions, seed: bench.seed });
  try {
    for (const dead of deadOf) await buildArchive(bench, sandbox, archiveOf(dead), dead);
    const commandsOf = (dead: number): Readonly<Record<string, Command>> => {
      const night = nightly(bench, sandbox, archiveOf(dead));
      const [program, , ...flags] = night.argv;
      return {
        night,
        'ticks poll': { ...night, argv: [program, 'ticks', ...flags] },
        status: { argv: [launcher, 'status', '--output', archiveOf(dead)], cwd: folder, env },
      };
    };
    const names = Object.keys(commandsOf(0));
    const runs = new Map<string, Measured[]>();
    // Round 0 is not counted: the first night after an import does more than the later ones.
    for (let n = 0; n <= bench.runs; n++) {
      for (const name of names) {
        for (const dead of deadOf) {
          const run = await measure(commandsOf(dead)[name]!, accounting);
          if (n > 0) runs.set(`${name} ${dead}`, [...(runs.get(`${name} ${dead}`) ?? []), run]);
          bench.tell(
            `round ${n} of ${bench.runs}, ${dead} dead, ${name}: CPU ${timeText(run.cpuMs ?? 0)}, ${run.peakMiB?.toFixed(0)} MiB`,
          );
        }
      }
    }
    return createReport(deadOf, names, (name, dead) => runs.get(`${name} ${dead}`)!);
  } finally {
    await sandbox.stop();
    for (const dead of deadOf) rmSync(archiveOf(dead), { recursive: true, force: true });
  }
}

async function buildArchive(bench: Bench, sandbox: BenchedSandbox, out: string, dead: number): Promise<void> {
  const { accounting, folder, env, launcher, tell } = bench;
  tell(`building an archive of ${dead.toLocaleString('en-US')} dead symbols`);
  // Exit code 4 of a first night that asks for more than the service keeps would count as a failure of the benchmark.
  await measure(nightly(bench, sandbox, out), accounting);
  const input = join(folder, 'dead');
  const end = floorToDay(Date.now()) - 100 * dayMs;
  for (let day = 0; day < days; day++) {
    const from = end - (days - day) * dayMs;
    mkdirSync(input, { recursive: true });
    const lines = ['symbol,t,p'];
    for (let i = Math.floor((day * dead) / days); i < Math.floor(((day + 1) * dead) / days); i++)
      for (let k = 0; k < ticksPerSymbol; k++)
        lines.push(`KXDEAD-${day}-T${i},${from + (6 + 4 * k) * hourMs + (i % 3_600_000)},0.${1 + ((i + k) % 9)}`);
    writeFileSync(join(input, 'rows.csv'), `${lines.join('\n')}\n`);
    const covers = `${formatIsoUtc(from)}..${formatIsoUtc(from + dayMs)}`;
    const flags = ['--time-unit', 'ms', '--covers', covers, '--output', out, '--set', 'source.name=bench', '--quiet'];
    await measure({ argv: [launcher, 'import', input, ...flags], cwd: folder, env }, accounting);
  }
  rmSync(input, { recursive: true });
  const db = new DatabaseSync(join(out, '.oddslake', 'state.sqlite'));
  db.exec(`update symbols set listed = 1, is_active = 0, canonical_id = symbol, question = 'Will ' || symbol || ' die?',
    outcome = 1, opens_at = first_tick, closes_at = last_tick, resolved_at = last_tick, first_seen = first_tick,
    last_seen = last_tick, last_active = last_tick, inactive_since = last_tick, polled_from = first_tick
    where symbol like 'KXDEAD-%'`);
  db.close();
}

function createReport(
  deadOf: readonly number[],
  names: readonly string[],
  runsOf: (name: string, dead: number) => readonly Measured[],
): Report {
  const [least, ...more] = deadOf as [number, ...number[]];
  const named = (dead: number): string => `${dead.toLocaleString('en-US')} dead symbols`;
  const measures = [
    { label: 'CPU', pick: ({ cpuMs }: Measured) => cpuMs, format: timeText },
    { label: 'memory', pick: ({ peakMiB }: Measured) => peakMiB, format: (mib: number) => `${mib.toFixed(0)} MiB` },
  ];
  const compare = (name: string, dead: number, { label, pick, format }: (typeof measures)[number]): Comparison => {
    const [theirs, ours] = [least, dead].map((each) => runsOf(name, each).map(pick)) as [number[], number[]];
    const isReported = [...ours, ...theirs].every((one) => one !== null);
    const ratio = isReported ? pairRatios(ours, theirs) : null;
    const figure = (each: number): string => (isReported ? format(pick(summarise(runsOf(name, each)))!) : '–');
    const goal: Goal = name === 'status' ? deadSymbols.status : deadSymbols.run;
    return {
      what: `${name} as symbols die, ${label}`,
      input: named(dead),
      ours: figure(dead),
      peer: { name: named(least), figure: figure(least) },
      ratio,
      goal,
      headline: dead >= judgedSymbols,
      value: ratio?.median ?? null,
      missing: 'this machine cannot measure the time of processes',
    };
  };
  return {
    comparisons: more.flatMap((dead) => names.flatMap((name) => measures.map((one) => compare(name, dead, one)))),
    timings: deadOf.flatMap((dead) =>
      names.map((name) => ({
        what: `${name} as symbols die`,
        input: named(dead),
        name: 'oddslake',
        medians: summarise(runsOf(name, dead)),
        runs: runsOf(name, dead).length,
      })),
    ),
    failed: [],
  };
}
