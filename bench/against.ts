import { execFileSync, spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, rmSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import type { Bench } from './bench.ts';
import { openPages, type Sizes } from './benchmarks.ts';
import { alternate, type Contender, isMeasured, summarise } from './harness.ts';
import { importArgv } from './import.ts';
import { copyArchive, dayPages, importParts, latePages } from './late-ticks.ts';
import type { Measured } from './measure.ts';
import { nightly } from './nightly-command.ts';
import { findRecording, writePages } from './pages.ts';
import { ratioText, table, timeText } from './results.ts';
import { startSandbox, startUpstream } from './sandbox.ts';
import { createStartUps } from './start-up.ts';
import { pairRatios, type Spread } from './statistics.ts';

/**
 * Runs this checkout and another commit alternately, on the same machine and the same input: the only comparison that says
 * whether a change made something slower.
 */

interface AgainstOptions {
  readonly sizes: Sizes;
  readonly recording: string;
  /** Of `againstNames`. */
  readonly names: readonly string[];
}

/** The same program of both sides. */
interface Case {
  readonly what: string;
  readonly here: Contender;
  readonly there: Contender;
}

interface Side {
  /** `here` or `there`, for the names of folders. */
  readonly name: string;
  readonly bench: Bench;
}

type Work = (bench: Bench, sides: readonly [Side, Side], options: AgainstOptions) => Promise<string[][] | null>;

const works: Readonly<Record<string, Work>> = {
  'start-up': compareStartUps,
  import: compareImports,
  'import-recorded': compareRecorded,
  'late-ticks': compareLateTicks,
  nightly: compareNights,
  'nothing-new': compareQuietNights,
};

export const againstNames: readonly string[] = Object.keys(works);

const head = ['what', 'process', 'there', 'here', 'time', 'CPU', ''];

/** Prints a table of the cases. Null if a program failed. */
export async function benchAgainst(
  bench: Bench,
  root: string,
  commit: string,
  options: AgainstOptions,
): Promise<string[][] | null> {
  const hash = execFileSync('git', ['rev-parse', '--verify', '--short', `${commit}^{commit}`], {
    cwd: root,
    encoding: 'utf8',
  }).trim();
  const launcher = checkOut(bench, root, hash);
  const sides = [
    { name: 'here', bench },
    { name: 'there', bench: { ...bench, launcher } },
  ] as const;
  const rows: string[][] = [];
  for (const name of options.names) {
    bench.tell(`${name}:`);
    const found = await works[name]!(bench, sides, options);
    if (found === null) return null;
    rows.push(...found);
  }
  console.log(
    `\nThis checkout against ${hash}, ${bench.runs} rounds; times relative to ${hash}, with least and greatest.\n`,
  );
  console.log(table(head, rows));
  return rows;
}

/** Unpacks a commit beside the inputs, with the packages of its lockfile. Returns its launcher. */
function checkOut({ folder, tell }: Bench, root: string, hash: string): string {
  const at = join(folder, 'there');
  mkdirSync(at);
  const archive = execFileSync('git', ['archive', hash], { cwd: root, maxBuffer: 2 ** 30 });
  execFileSync('tar', ['-x', '-C', at], { input: archive });
  // Without it the launcher starts another process to find the version of Node.
  if (existsSync(join(root, '.node'))) symlinkSync(join(root, '.node'), join(at, '.node'));
  const [here, there] = [root, at].map((of) => readFileSync(join(of, 'package-lock.json'), 'utf8'));
  if (here === there) symlinkSync(join(root, 'node_modules'), join(at, 'node_modules'));
  else {
    tell(`installing the packages of ${hash}`);
    const { status, stderr } = spawnSync('npm', ['ci', '--ignore-scripts', '--silent'], { cwd: at, encoding: 'utf8' });
    if (status !== 0) throw new Error(`npm ci in ${hash} failed: ${stderr.trim().slice(-1000)}`);
  }
  return join(at, 'bin', 'oddslake');
}

/** Rows of the table. Null if a program failed. */
async function compare(bench: Bench, cases: readonly Case[]): Promise<string[][] | null> {
  const rows: string[][] = [];
  for (const { what, here, there } of cases) {
    const outcomes = await alternate([there, here], { ...bench, turns: true });
    const [theirs, ours] = outcomes.map((outcome) => (isMeasured(outcome) ? outcome.runs : null));
    if (!theirs || !ours) return null;
    rows.push(formatCase(what, here.command.argv[1] ?? '', theirs, ours));
  }
  return rows;
}

/** One row: medians, and the ratios of the rounds. */
export function formatCase(
  what: string,
  command: string,
  theirs: readonly Measured[],
  ours: readonly Measured[],
): string[] {
  const wall = (of: readonly Measured[]): number[] => of.map(({ wallMs }) => wallMs);
  const time = pairRatios(wall(ours), wall(theirs));
  const cpu = (of: readonly Measured[]): number[] => of.flatMap(({ cpuMs }) => (cpuMs === null ? [] : [cpuMs]));
  const [ourCpu, theirCpu] = [cpu(ours), cpu(theirs)];
  const isCounted = ourCpu.length === ours.length && theirCpu.length === ours.length;
  return [
    what,
    command,
    timeText(summarise(theirs).wallMs),
    timeText(summarise(ours).wallMs),
    ratioText(time),
    isCounted ? ratioText(pairRatios(ourCpu, theirCpu)) : '–',
    judge(time, ours.length),
  ];
}

/** Less is no difference that a user would notice. */
const noticedShare = 0.03;

/** Two equal programs agree in all of five rounds once in 16 tries, in fewer rounds more often. */
const roundsJudged = 5;

/** Rounds that do not agree are noise. */
export function judge({ median, min, max }: Spread, rounds: number): string {
  if (rounds < roundsJudged) return 'too few rounds';
  if (min > 1 && median > 1 + noticedShare) return '**slower**';
  return max < 1 && median < 1 - noticedShare ? 'faster' : 'within the noise';
}

async function compareStartUps(bench: Bench, sides: readonly [Side, Side]): Promise<string[][] | null> {
  const [here, there] = await Promise.all(
    sides.map((side) => createStartUps(side.bench, side.bench.launcher, `start-up-${side.name}`)),
  );
  const archives = [here!.pop()!, there!.pop()!];
  await alternate(
    archives.map((one, i) => ({ ...one, name: sides[i]!.name })),
    { ...bench, runs: 0 },
  );
  return compare(
    bench,
    here!.map((one, i) => pair(one.name.replace('oddslake ', 'start-up, '), one, there![i]!)),
  );
}

const pair = (what: string, here: Contender, there: Contender): Case => ({
  what,
  here: { ...here, name: 'here' },
  there: { ...there, name: 'there' },
});

/** A case of both sides by one function. */
function pairSides(
  [here, there]: readonly [Side, Side],
  what: string,
  create: (side: Side) => Omit<Contender, 'name'>,
) {
  return pair(what, { name: 'here', ...create(here) }, { name: 'there', ...create(there) });
}

const importing =
  (pages: string) =>
  ({ name, bench: { folder, env, launcher } }: Side): Omit<Contender, 'name'> => {
    const out = join(folder, `out-${name}`);
    return { out, command: { argv: importArgv(launcher, pages, out), cwd: folder, env } };
  };

async function compareImports(bench: Bench, sides: readonly [Side, Side], { sizes }: AgainstOptions) {
  const pages = openPages(bench.folder, bench.seed);
  const cases: Case[] = [];
  for (const count of sizes.pages) {
    const { name, folder } = await pages.generate(bench, count);
    cases.push(pairSides(sides, `import, ${name}`, importing(folder)));
  }
  return compare(bench, cases);
}

async function compareRecorded(bench: Bench, sides: readonly [Side, Side], { recording, sizes }: AgainstOptions) {
  if (findRecording(recording) === undefined) {
    bench.tell('import-recorded is skipped: no recording; pass its folder with --recording');
    return [];
  }
  const { name, folder } = await openPages(bench.folder, bench.seed).record(bench, recording, sizes.pagesRecorded);
  return compare(bench, [pairSides(sides, `import, ${name}`, importing(folder))]);
}

async function compareLateTicks(bench: Bench, sides: readonly [Side, Side], { sizes }: AgainstOptions) {
  const at = (name: string): string => join(bench.folder, `late-${name}`);
  await writePages(at('day'), dayPages(sizes.ticksLate, bench.seed));
  await writePages(at('few'), latePages(sizes.ticksLate, bench.seed));
  const base = (side: Side): string => at(`base-${side.name}`);
  const whole = sides.map((side) => ({
    name: side.name,
    out: null,
    command: importParts(side.bench, at('day'), base(side)),
  }));
  if (!(await alternate(whole, { ...bench, runs: 0 })).every(isMeasured)) return null;
  rmSync(at('day'), { recursive: true });
  const late = pairSides(sides, 'late ticks of 10 symbols', (side) => {
    const out = at(`copy-${side.name}`);
    return {
      out,
      command: importParts(side.bench, at('few'), out),
      prepare: () => copyArchive(base(side), out),
    };
  });
  return compare(bench, [late]);
}

async function compareNights(bench: Bench, sides: readonly [Side, Side], { sizes }: AgainstOptions) {
  const options = { nowMs: Date.UTC(2026, 0, 20, 3), markets: 16, seed: bench.seed };
  const sandbox = await startSandbox({ ...options, ticksPerDay: sizes.ticksPerDay });
  try {
    const first = pairSides(sides, 'nightly over HTTP, the first', (side) => {
      const out = join(bench.folder, `night-${side.name}`);
      return { out, command: nightly(side.bench, sandbox, out, ['--date', '2026-01-19']) };
    });
    return await compare(bench, [first]);
  } finally {
    await sandbox.stop();
  }
}

async function compareQuietNights(bench: Bench, sides: readonly [Side, Side], { sizes }: AgainstOptions) {
  const program = join(import.meta.dirname, 'quiet-sandbox.ts');
  const sandbox = await startUpstream([program, String(sizes.symbolsQuiet), String(bench.seed)]);
  try {
    const contenders = pairSides(sides, `a night with nothing new, ${sizes.symbolsQuiet} symbols`, (side) => ({
      out: null,
      command: nightly(side.bench, sandbox, join(bench.folder, `quiet-${side.name}`)),
    }));
    // The first night fetches everything.
    const begun = await alternate([contenders.there, contenders.here], { ...bench, runs: 0 });
    return begun.every(isMeasured) ? await compare(bench, [contenders]) : null;
  } finally {
    await sandbox.stop();
  }
}
