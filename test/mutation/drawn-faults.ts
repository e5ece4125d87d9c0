/**
 * Faults of one line each, drawn at random from src and kept in drawn-faults.json: applies one after another in a copy of
 * the project and reports which test detects it. A change of tests may lose none of them.
 *
 *     node test/mutation/drawn-faults.ts                 runs the list, and writes output/drawn-faults.json
 *     ONLY=3,7 node test/mutation/drawn-faults.ts        runs two of them
 *     DRAW=1 FAULTS=40 node test/mutation/drawn-faults.ts   draws a new list and prints it
 *
 * PROJECT=/path selects another checkout, RESULTS=/path the file of the outcomes, MINUTES=20 is the time limit of one
 * fault. Each fault runs every test file that imports the changed file, directly or through others, the nearest first,
 * and stops at the first failure; FILES=30 runs only so many. A fault with an outcome in RESULTS that was detected, or
 * that as many files missed, is not run again. Left to `make torture` and the readers: test/faults, test/readers,
 * test/clients.
 */
import { existsSync, globSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { stripTypeScriptTypes } from 'node:module';
import { basename, dirname, join } from 'node:path';
import { type Draw, drawFrom } from '../faults/draw.ts';
import { findCatchingTest, root, withCopy } from './copy.ts';
import { listTestsByDistance } from './import-distance.ts';

/** Found again by its text, which occurs once in src: files and lines move. */
interface DrawnFault {
  readonly file: string;
  /** The line without its indentation. */
  readonly before: string;
  readonly after: string;
}

interface Outcome extends DrawnFault {
  /** First failing test; null if no test fails. */
  readonly caughtBy: string | null;
  /** Related test files. */
  readonly files: number;
  readonly seconds: number;
}

const project = process.env.PROJECT ?? root;
const filesMax = Number(process.env.FILES || Number.POSITIVE_INFINITY);
const listPath = new URL('drawn-faults.json', import.meta.url).pathname;

/** Replacements; `$1` and so on as in String.replace. */
const changes: readonly (readonly [RegExp, string])[] = [
  [/ === /, ' !== '],
  [/ !== /, ' === '],
  [/ <= /, ' < '],
  [/ < /, ' <= '],
  [/ >= /, ' > '],
  [/ > /, ' >= '],
  [/ && /, ' || '],
  [/ \|\| /, ' && '],
  [/ \+ /, ' - '],
  [/ - /, ' + '],
  [/ \+= /, ' -= '],
  [/\btrue\b/, 'false'],
  [/\bfalse\b/, 'true'],
  [/\bMath\.min\b/, 'Math.max'],
  [/\bMath\.max\b/, 'Math.min'],
  [/\b0\b/, '1'],
  [/\b1\b/, '0'],
  [/\bif \((.*)\) /, 'if (!($1)) '],
  [/\.filter\(.*\)(?=[.;,)])/, ''],
  [/^\s*(?:await |void )?[\w.]+\(.*\);$/, ''],
];

/** Whether a position in a line is code: neither a comment nor a string, as far as one line shows. */
const isCode = (line: string, at: number): boolean =>
  !/^\s*(\/?\*|\/\/|import\b|export (type|interface)|readonly )/.test(line) &&
  !line.slice(0, at).includes('// ') &&
  ["'", '`', '"'].every((quote) => line.slice(0, at).split(quote).length % 2 === 1);

function listFaults(file: string, countOf: ReadonlyMap<string, number>): DrawnFault[] {
  const text = readFileSync(join(project, file), 'utf8');
  const lines = text.split('\n');
  const plain = stripTypeScriptTypes(text).split('\n');
  return lines.flatMap((line, i) =>
    changes.flatMap(([pattern, replacement]): DrawnFault[] => {
      const at = line.search(pattern);
      // Type stripping removes only types.
      if (at < 0 || !isCode(line, at) || plain[i]!.search(pattern) !== at) return [];
      const before = line.trim();
      if (before.length < 16 || countOf.get(before) !== 1) return [];
      const changed = line.replace(pattern, replacement);
      return isProgram(lines.with(i, changed).join('\n')) ? [{ file, before, after: changed.trim() }] : [];
    }),
  );
}

function isProgram(text: string): boolean {
  try {
    stripTypeScriptTypes(text);
    return true;
  } catch {
    return false;
  }
}

const listSources = (): string[] =>
  globSync('src/**/*.ts', { cwd: project })
    .filter((file) => !file.includes('/web/client/'))
    .sort();

/** How often each trimmed line occurs in src. */
function countLines(files: readonly string[]): Map<string, number> {
  const counts = new Map<string, number>();
  for (const file of files)
    for (const line of readFileSync(join(project, file), 'utf8').split('\n'))
      counts.set(line.trim(), (counts.get(line.trim()) ?? 0) + 1);
  return counts;
}

/** Draws lines weighted by the lines of their files, except from files whose path matches `skipped`. */
function drawFaults(draw: Draw, count: number, skipped: RegExp): DrawnFault[] {
  const sources = listSources();
  const counts = countLines(sources);
  const lengthOf = (file: string): number => readFileSync(join(project, file), 'utf8').split('\n').length;
  const weighted = sources
    .filter((file) => !skipped.test(file))
    .flatMap((file) => Array<string>(lengthOf(file)).fill(file));
  const faults: DrawnFault[] = [];
  while (faults.length < count) {
    const all = listFaults(draw.one(weighted), counts);
    if (all.length > 0) faults.push(draw.one(all));
  }
  return faults;
}

/** The file and line (from 1) of a fault; null if its line is no longer there, or more than once. */
function locate(fault: DrawnFault, sources: readonly string[]): { file: string; line: number } | null {
  const places = sources.flatMap((file) =>
    readFileSync(join(project, file), 'utf8')
      .split('\n')
      .flatMap((line, i) => (line.trim() === fault.before ? [{ file, line: i + 1 }] : [])),
  );
  const inFile = places.filter(({ file }) => file === fault.file);
  const sameName = places.filter(({ file }) => basename(file) === basename(fault.file));
  return [places, inFile, sameName].find((found) => found.length === 1)?.[0] ?? null;
}

async function runFaults(faults: readonly DrawnFault[], only: ReadonlySet<number>): Promise<void> {
  const sources = listSources();
  const resultsPath = process.env.RESULTS ?? join(project, 'output/drawn-faults.json');
  mkdirSync(dirname(resultsPath), { recursive: true });
  const outcomes: Outcome[] = existsSync(resultsPath)
    ? (JSON.parse(readFileSync(resultsPath, 'utf8')) as Outcome[])
    : [];
  await withCopy((copy) => {
    for (const [n, fault] of faults.entries()) {
      if (only.size > 0 && !only.has(n + 1)) continue;
      const place = locate(fault, sources);
      const label = `${n + 1}/${faults.length} ${fault.file}\n    - ${fault.before}\n    + ${fault.after}`;
      if (place === null) {
        console.log(`${label}\n    the line is not in src`);
        continue;
      }
      // The copy is no repository, as the test of the structure needs it; it runs no code of src anyway.
      const related = listTestsByDistance(copy, place.file).filter((test) => test !== 'test/structure.test.ts');
      const tests = related.slice(0, filesMax);
      const known = outcomes.findIndex(({ before }) => before === fault.before);
      const { caughtBy, files } = outcomes[known] ?? { caughtBy: null, files: -1 };
      if (caughtBy !== null || files >= tests.length) continue;
      const started = performance.now();
      const config = join(copy, 'test/mutation/nearest.config.ts');
      if (!existsSync(config)) writeFileSync(config, readFileSync(new URL('nearest.config.ts', import.meta.url)));
      const order = join(copy, 'output-nearest.json');
      writeFileSync(order, JSON.stringify(tests));
      process.env.NEAREST = order;
      const mutant = { ...place, before: fault.before, after: fault.after };
      const caught = findCatchingTest(mutant, copy, [['run', '--config', config]]);
      const seconds = Math.round((performance.now() - started) / 1000);
      const outcome = { ...fault, caughtBy: caught?.[1] ?? null, files: tests.length, seconds };
      outcomes.splice(known < 0 ? outcomes.length : known, 1, outcome);
      writeFileSync(resultsPath, `${JSON.stringify(outcomes, null, 2)}\n`);
      console.log(
        `${label}\n    ${caught === null ? 'not detected' : caught[1]} (${tests.length} files, ${seconds} s)`,
      );
    }
  }, project);
  const caught = outcomes.filter(({ caughtBy }) => caughtBy !== null).length;
  console.log(`${caught} of ${outcomes.length} detected`);
}

if (process.env.DRAW) {
  const skipped = new RegExp(process.env.SKIPPED || '^$');
  const faults = drawFaults(drawFrom(Number(process.env.DRAW)), Number(process.env.FAULTS || 40), skipped);
  console.log(JSON.stringify(faults, null, 2));
} else {
  const only = new Set((process.env.ONLY ?? '').split(',').filter(Boolean).map(Number));
  await runFaults(JSON.parse(readFileSync(listPath, 'utf8')) as DrawnFault[], only);
}
