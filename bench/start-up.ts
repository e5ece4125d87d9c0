import { cpSync, existsSync, mkdirSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { build } from '../bin/bundle.ts';
import type { Bench } from './bench.ts';
import { generatedPages } from './generated-pages.ts';
import { startUp } from './goals.ts';
import { alternate, type Contender, createContender, isMeasured, processTimings, summarise } from './harness.ts';
import { importArgv } from './import.ts';
import { writePages } from './pages.ts';
import { type Comparison, type Report, timeText } from './results.ts';
import { pairRatios } from './statistics.ts';

/**
 * CPU time of commands that do almost nothing, compared with an empty Node program, the least for any program on Node. Users start the
 * program from a checkout or from the npm package, which has the same code in few files, so both are measured.
 */

const bare = 'empty Node';
const cases = [
  { what: 'start-up, --help', name: 'oddslake --help', goal: startUp.help },
  { what: 'start-up, status', name: 'oddslake status', goal: startUp.status },
  { what: 'start-up, one page imported', name: 'oddslake import', goal: startUp.importOfOnePage },
] as const;

/** The commands of `cases`, of a launcher; writes their inputs. */
export async function createStartUps(bench: Bench, launcher: string, at: string): Promise<Contender[]> {
  const { folder, seed } = bench;
  const [pages, archive, out] = ['page', 'archive', 'out'].map((name) => join(folder, at, name)) as [
    string,
    string,
    string,
  ];
  mkdirSync(join(folder, at), { recursive: true });
  await writePages(pages, generatedPages({ pages: 1, seed }));
  return [
    createContender(bench, 'oddslake --help', [launcher, '--help']),
    createContender(bench, 'oddslake status', [launcher, 'status', '--json', '--output', archive]),
    createContender(bench, 'oddslake import', importArgv(launcher, pages, out), out),
    // Not measured: the archive that status reads.
    createContender(bench, '', importArgv(launcher, pages, archive)),
  ];
}

/** Puts together what npm installs, from this checkout. Returns its launcher. */
async function installPackage(folder: string): Promise<string> {
  await build(join(folder, 'dist/program'));
  for (const path of ['bin/oddslake', 'package.json', 'config'])
    cpSync(join(root, path), join(folder, path), { recursive: true });
  for (const path of ['node_modules', '.node'])
    if (existsSync(join(root, path))) symlinkSync(join(root, path), join(folder, path));
  return join(folder, 'bin/oddslake');
}

const root = join(import.meta.dirname, '..');

export async function benchStartUp(bench: Bench): Promise<Report> {
  const launchers = { checkout: bench.launcher, package: await installPackage(join(bench.folder, 'package')) };
  const contenders: Contender[] = [];
  for (const [form, launcher] of Object.entries(launchers)) {
    const created = await createStartUps(bench, launcher, `start-up-${form}`);
    await alternate([created.pop()!], { ...bench, runs: 0 });
    contenders.push(...created.map((one) => ({ ...one, name: `${one.name}, ${form}` })));
  }
  const empty = createContender(bench, bare, [process.execPath, '--eval', '0']);
  const outcomes = await alternate([...contenders, empty], bench);
  const cpuOf = (name: string): number[] | null => {
    const outcome = outcomes.find((one) => one.name === name)!;
    const cpu = isMeasured(outcome) ? outcome.runs.map(({ cpuMs }) => cpuMs) : [null];
    return cpu.every((ms) => ms !== null) ? cpu : null;
  };
  const figure = (name: string): string => {
    const outcome = outcomes.find((one) => one.name === name)!;
    const ms = isMeasured(outcome) ? summarise(outcome.runs).cpuMs : null;
    return ms === null ? '–' : timeText(ms);
  };
  const measured = cases.flatMap(({ what, name, goal }) =>
    Object.keys(launchers).map((form) => ({ what: `${what}, ${form}`, name: `${name}, ${form}`, goal })),
  );
  const comparisons = measured.map(({ what, name, goal }): Comparison => {
    const [ours, theirs] = [cpuOf(name), cpuOf(bare)];
    const outcome = outcomes.find((one) => one.name === name)!;
    return {
      what: `${what}, CPU`,
      input: '–',
      ours: figure(name),
      peer: { name: bare, figure: figure(bare) },
      ratio: ours === null || theirs === null ? null : pairRatios(ours, theirs),
      goal,
      headline: true,
      value: isMeasured(outcome) ? summarise(outcome.runs).cpuMs : null,
      missing: isMeasured(outcome) ? 'this machine cannot measure it' : `oddslake ${outcome.failed}`,
    };
  });
  return {
    failed: outcomes.filter((outcome) => !isMeasured(outcome)).map(({ name }) => name),
    comparisons,
    timings: processTimings('start-up', '–', outcomes),
  };
}
