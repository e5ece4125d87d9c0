/**
 * Breaks what paging rests on, one rule at a time, and prints at which seed the drawn servers of test/collector/paging/adversary show
 * it, of 200 for each kind of server: `node test/mutation/paging-breaks.ts`. Exit code 1 where one is not seen.
 */
import { spawnSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { withCopy } from './copy.ts';

interface Break {
  readonly what: string;
  /** Texts of files in src/collector/paging, and what is written in their place. */
  readonly edits: readonly (readonly [file: string, before: string, after: string])[];
}

const breaks: readonly Break[] = [
  {
    what: 'what a page says nothing against is taken for confirmed',
    edits: [
      [
        'fetch-window',
        "yield* claim(work, inW(spoken), 'inferred', observedAt);",
        "yield* claim(work, inW(spoken), 'confirmed', observedAt);",
      ],
    ],
  },
  {
    what: 'a page that goes further is taken for the last',
    edits: [
      [
        'fetch-side',
        '      page = next;\n      furthest = side',
        "      return end('confirmed', begin, [page, next]);\n      furthest = side",
      ],
    ],
  },
  {
    what: 'ticks beyond the page before are overlooked',
    edits: [['fetch-side', "if (relation === 'further') {", "if (relation === 'further' && false) {"]],
  },
  {
    what: 'gaps that the service names are claimed where a response is empty',
    edits: [['fetch-window', 'subtract([spoken], work.lacking)', '[spoken]']],
  },
  {
    what: 'claims are made over what the service lacks',
    edits: [['fetch-steps', 'subtract([window], work.lacking)', 'subtract([window], [])']],
  },
  {
    what: 'a service that ignores the window is believed',
    edits: [
      [
        'fetch-window',
        "yield* claim(work, spoken, 'inferred', o.observedAt);",
        "yield* claim(work, w, 'confirmed', o.observedAt);",
      ],
    ],
  },
  {
    what: 'a poll confirms the one before though the known tick does not come again',
    edits: [
      [
        'fetch-window',
        'const isAnchored = knownTick !== null && includes(o.times, knownTick);',
        'const isAnchored = knownTick !== null;',
      ],
    ],
  },
  {
    what: 'starts are taken to be included',
    edits: [['server-behavior', 'from: isExact && behavior.fromInclusive ? from : from - 1', 'from']],
  },
  {
    what: 'the last part of a split window is forgotten',
    edits: [['fetch-window', 'const bounds = [w.from, ...cutsHere, w.to];', 'const bounds = [w.from, ...cutsHere];']],
  },
  {
    what: 'what a response states that it does not speak for is forgotten',
    edits: [['fetch-window', '  for (const rest of unspoken) {', '  for (const rest of [] as typeof unspoken) {']],
  },
  {
    what: 'a crowded millisecond is taken for whole',
    edits: [
      ['fetch-side', 'return !hasFarEnd && count', 'return false && count'],
      [
        'fetch-side',
        'received < crowdMin || received <= 0.5 * page.received',
        'received < crowdMin || page.received > 0',
      ],
      ['fetch-side', "(side === 'high' ? o.countAtLast : o.countAtFirst)", "(side === 'high' ? 0 * o.countAtLast : 0)"],
    ],
  },
];

/** Many times what it takes where nothing is broken. */
const limitMs = 60_000;

let unseen = 0;
await withCopy((copy) => {
  const firstSeen = (): string[] => {
    const script = join(copy, 'test/collector/paging/adversary/first-seen.ts');
    const { stdout, error } = spawnSync(process.execPath, [script], { encoding: 'utf8', timeout: limitMs });
    if (error !== undefined) return ['it does not end'];
    // What no page shows of the other kinds is found by rechecks.
    const kinds = /^(contiguous|contiguous, polled|several replicas): \d/;
    return stdout
      .trim()
      .split(' · ')
      .filter((part) => kinds.test(part));
  };
  const before = firstSeen();
  if (before.length > 0) throw new Error(`Nothing is broken, and yet: ${before.join(' · ')}`);
  for (const { what, edits } of breaks) {
    const texts = new Map<string, string>();
    for (const [file, before, after] of edits) {
      const path = join(copy, 'src/collector/paging', `${file}.ts`);
      const text = readFileSync(path, 'utf8');
      if (!text.includes(before)) throw new Error(`${file} has no more: ${before}`);
      if (!texts.has(path)) texts.set(path, text);
      writeFileSync(
        path,
        text.replace(before, () => after),
      );
    }
    const seen = firstSeen();
    for (const [path, text] of texts) writeFileSync(path, text);
    if (seen.length === 0) unseen++;
    process.stdout.write(`${seen.length === 0 ? 'NOT SEEN' : seen.join(' · ')} | ${what}\n`);
  }
});
process.exitCode = unseen > 0 ? 1 : 0;
