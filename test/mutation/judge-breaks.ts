/**
 * Breaks the one judge in one place at a time, in a copy of the project, and looks for the first seed whose nights show
 * it: test/whole has to see each. Run: node test/mutation/judge-breaks.ts [SEEDS] [NAME]
 */
import { spawnSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { withCopy } from './copy.ts';

interface Break {
  readonly name: string;
  readonly file: string;
  readonly before: string;
  readonly after: string;
}

const breaks: readonly Break[] = [
  {
    name: 'inferred windows count as proven',
    file: 'src/archive/completeness/symbol-completeness.ts',
    before: 'const proven = answers.filter(isProven);',
    after: 'const proven = answers.filter((one) => isProven(one) || true);',
  },
  {
    name: 'suspended symbols are forgotten',
    file: 'src/archive/completeness/symbol-completeness.ts',
    before:
      'export function judgeSymbol(facts: SymbolFacts, known: KnownWindows, by: SymbolRules): JudgedSymbol | null {',
    after:
      'export function judgeSymbol(facts: SymbolFacts, known: KnownWindows, by: SymbolRules): JudgedSymbol | null {\n  if (facts.suspendedAt !== null) return null;',
  },
  {
    name: 'damage is forgotten',
    file: 'src/archive/completeness/symbol-completeness.ts',
    before: 'const answers = withoutDamaged(known.answers, known.damaged);',
    after: 'const answers = withoutDamaged(known.answers, []);',
  },
  {
    name: 'lost windows count as covered',
    file: 'src/archive/completeness/symbol-completeness.ts',
    before: 'const answers = withoutDamaged(known.answers, known.damaged);',
    after:
      "const answers: readonly Covered[] = [...withoutDamaged(known.answers, known.damaged), ...known.lost.map(({ from, to }) => ({ from, to, fetchedAt: to + 10 * 86_400_000, origin: 'poll' as const, evidence: 'confirmed' as const }))];",
  },
  {
    name: 'lists that are cut off are taken for whole',
    file: 'src/archive/completeness/completeness.ts',
    before: 'const isListedWhole = named !== null || listedWhole?.(day) !== false;',
    after: 'const isListedWhole = named !== null || listedWhole?.(day) !== false || true;',
  },
  {
    name: 'symbols without coverage are forgotten, whatever is owed of them',
    file: 'src/archive/completeness/symbol-completeness.ts',
    before: 'if (isUnasked && !isKnown) return null;',
    after: 'if (known.answers.length === 0 || (isUnasked && !isKnown)) return null;',
  },
  {
    name: 'failed windows are no gaps',
    file: 'src/archive/completeness/symbol-completeness.ts',
    before: 'gaps: by.isEndOpen ?',
    after: "gaps: by.isEndOpen && gaps.some(({ reason }) => reason === 'failed') ? [] : by.isEndOpen ?",
  },
];

const seeds = process.argv[2] ?? '200';
const only = process.argv[3] ?? '';
const secondsMax = 900;

await withCopy((copy) => {
  for (const { name, file, before, after } of breaks.filter((one) => one.name.includes(only))) {
    const path = join(copy, file);
    const text = readFileSync(path, 'utf8');
    if (!text.includes(before)) throw new Error(`${file} does not say: ${before}`);
    writeFileSync(path, text.replace(before, after));
    const search = [String(secondsMax), process.execPath, 'test/whole/search.ts', seeds];
    const { status, stdout } = spawnSync('timeout', search, { cwd: copy, encoding: 'utf8' });
    writeFileSync(path, text);
    const [first, what] = stdout.split('\n');
    console.log(`${name}: ${status === 1 ? `${first} ${what?.trim()}` : `NOT SEEN (${status})`}`);
  }
});
