/**
 * Breaks the completeness rules one at a time in a copy of the project and prints the first seed at which test/whole
 * detects the break. Every break has to be detected. Run: node test/mutation/judge-breaks.ts [SEEDS] [NAME]
 */
import { spawnSync } from 'node:child_process';
import { type SourceBreak, withBreak, withCopy } from './copy.ts';

const symbolRules = 'src/archive/completeness/symbol-completeness.ts';
const archiveRules = 'src/archive/completeness/completeness.ts';
const withoutDamage = 'subtractDamage(known.coverage, known.damaged)';

export const judgeBreaks: readonly SourceBreak[] = [
  {
    name: 'inferred windows count as proven',
    edits: [
      [symbolRules, 'const isAllProven = responses.every(isProven);', 'const isAllProven = responses.length >= 0;'],
    ],
  },
  {
    name: 'suspended symbols are dropped',
    edits: [
      [
        symbolRules,
        'if (isUnrequested && !isKnown) return null;',
        'if ((isUnrequested && !isKnown) || facts.suspendedAt !== null) return null;',
      ],
    ],
  },
  {
    name: 'damage is ignored',
    edits: [[symbolRules, withoutDamage, 'subtractDamage(known.coverage, [])']],
  },
  {
    name: 'lost windows count as covered',
    edits: [
      [
        symbolRules,
        withoutDamage,
        `([...${withoutDamage}, ...known.lost.map(({ from, to }) => ({ from, to, fetchedAt: to + 10 * 86_400_000, origin: 'poll' as const, evidence: 'confirmed' as const }))] as readonly CoveredWindow[])`,
      ],
    ],
  },
  {
    name: 'truncated market lists count as complete',
    edits: [[archiveRules, 'hasWholeLists?.(day) !== false;', 'hasWholeLists?.(day) !== false || true;']],
  },
  {
    name: 'symbols without coverage are dropped even if windows of them are owed',
    edits: [
      [
        symbolRules,
        'if (isUnrequested && !isKnown) return null;',
        'if (known.coverage.length === 0 || (isUnrequested && !isKnown)) return null;',
      ],
    ],
  },
  {
    name: 'failed windows are not gaps',
    edits: [
      [
        symbolRules,
        'gaps: query.isEndOpen ?',
        "gaps: query.isEndOpen && gaps.some(({ reason }) => reason === 'failed') ? [] : query.isEndOpen ?",
      ],
    ],
  },
];

const secondsMax = 900;

function main(copy: string): void {
  const seeds = process.argv[2] ?? '200';
  const only = process.argv[3] ?? '';
  for (const one of judgeBreaks.filter(({ name }) => name.includes(only))) {
    const search = [String(secondsMax), process.execPath, 'test/whole/search.ts', seeds];
    const { status, stdout } = withBreak(one, copy, () =>
      spawnSync('timeout', search, { cwd: copy, encoding: 'utf8' }),
    );
    const [first, detail] = stdout.split('\n');
    console.log(`${one.name}: ${status === 1 ? `${first} ${detail?.trim()}` : `NOT SEEN (${status})`}`);
  }
}

if (import.meta.main) await withCopy(main);
