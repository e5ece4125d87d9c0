/**
 * Applies mutations to random places in src, one at a time, and reports which tests detect each: those of `make test`,
 * or only the rest of `make check` (without torture and readers). Of both it runs the files that import the mutated
 * one, and the end-to-end path. Run: node test/mutation/drawn-faults.ts; DRAW=1 is the seed, FAULTS=20 the number,
 * LIST=1 only lists them.
 */
import { globSync, readFileSync } from 'node:fs';
import { stripTypeScriptTypes } from 'node:module';
import { join } from 'node:path';
import { drawFrom } from '../faults/draw.ts';
import { findCatchingTest, type Mutant, root, withCopy } from './copy.ts';

const seed = Number(process.env.DRAW || 1);
const count = Number(process.env.FAULTS || 20);

/** Replacements; `$1` and so on as in String.replace. */
const changes: readonly (readonly [RegExp, string])[] = [
  ...([
    [/ === /, ' !== '],
    [/ !== /, ' === '],
    [/ <= /, ' < '],
    [/ < /, ' <= '],
    [/ >= /, ' > '],
    [/ > /, ' >= '],
  ] as const),
  ...([
    [/ && /, ' || '],
    [/ \|\| /, ' && '],
    [/ \+ /, ' - '],
    [/ - /, ' + '],
    [/ \+= /, ' -= '],
  ] as const),
  ...([
    [/\btrue\b/, 'false'],
    [/\bfalse\b/, 'true'],
    [/\bMath\.min\b/, 'Math.max'],
    [/\bMath\.max\b/, 'Math.min'],
  ] as const),
  ...([
    [/\b0\b/, '1'],
    [/\b1\b/, '0'],
    [/\bif \((.*)\) /, 'if (!($1)) '],
    [/\.filter\(.*\)(?=[.;,)])/, ''],
  ] as const),
  [/^\s*(?:await |void )?[\w.]+\(.*\);$/, ''],
];

/** Whether a position in a line is code: neither a comment nor a string, as far as one line shows. */
const isCode = (line: string, at: number): boolean =>
  !/^\s*(\/?\*|\/\/|import\b|export (type|interface)|readonly )/.test(line) &&
  !line.slice(0, at).includes('// ') &&
  ["'", '`', '"'].every((quote) => line.slice(0, at).split(quote).length % 2 === 1);

function listMutants(file: string): Mutant[] {
  const text = readFileSync(join(root, file), 'utf8');
  const lines = text.split('\n');
  const plain = stripTypeScriptTypes(text).split('\n');
  return lines.flatMap((before, i) =>
    changes.flatMap(([pattern, replacement]): Mutant[] => {
      const at = before.search(pattern);
      // Type stripping removes only types.
      if (at < 0 || !isCode(before, at) || plain[i]!.search(pattern) !== at) return [];
      const after = before.replace(pattern, replacement);
      return isProgram(lines.with(i, after).join('\n')) ? [{ file, line: i + 1, before, after }] : [];
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

const draw = drawFrom(seed);
const files = globSync('{src,jobs}/**/*.ts', { cwd: root })
  .filter((file) => !file.includes('/web/client/'))
  .sort();
// Weighted by lines, because a longer file has more places for faults.
const weighted = files.flatMap(
  (file) => Array(readFileSync(join(root, file), 'utf8').split('\n').length).fill(file) as string[],
);
const mutants: Mutant[] = [];
while (mutants.length < count) {
  const all = listMutants(draw.one(weighted));
  if (all.length > 0) mutants.push(draw.one(all));
}

const formatMutant = ({ file, line, before, after }: Mutant): string =>
  `${file}:${line}\n    - ${before.trim()}\n    + ${after.trim()}`;
console.log(`DRAW=${seed} FAULTS=${count}, of ${files.length} files`);
if (process.env.LIST) for (const mutant of mutants) console.log(formatMutant(mutant));
else
  await withCopy((copy) => {
    const names = ['make test', 'make test', 'make check'];
    const seen = new Map<string, number>();
    for (const [n, mutant] of mutants.entries()) {
      const related = (project: string): string[] => ['related', '--run', mutant.file, '--project', project];
      const caught = findCatchingTest(mutant, copy, [
        related('quick'),
        ['run', 'test/e2e/path.test.ts'],
        related('long'),
      ]);
      const outcome = caught === null ? 'not detected' : names[caught[0]]!;
      seen.set(outcome, (seen.get(outcome) ?? 0) + 1);
      console.log(
        `${n + 1}/${count} ${formatMutant(mutant)}\n    ${outcome}${caught === null ? '' : `: ${caught[1]}`}`,
      );
    }
    console.log([...seen].map(([outcome, times]) => `${times} ${outcome}`).join(', '));
  });
