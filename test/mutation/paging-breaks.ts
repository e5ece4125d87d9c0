/**
 * Breaks the paging rules one at a time and prints the habits of servers with which test/collector/proof detects the break.
 * Run: node test/mutation/paging-breaks.ts. The exit code is 1 if a break stays undetected.
 */
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { type SourceBreak, withBreak, withCopy } from './copy.ts';

export const pagingBreaks: readonly SourceBreak[] = [
  {
    name: 'windows that no page contradicts count as confirmed',
    edits: [
      [
        'src/collector/paging/fetch-window.ts',
        "yield* claim(progress, inW(covered), 'inferred', observedAt);",
        "yield* claim(progress, inW(covered), 'confirmed', observedAt);",
      ],
    ],
  },
  {
    name: 'a page that reaches further counts as the last one',
    edits: [['src/collector/paging/fetch-side.ts', '    page = next;\n  }', "    return end('repeated', next);\n  }"]],
  },
  {
    name: 'ticks beyond the previous page are ignored',
    edits: [
      [
        'src/collector/paging/fetch-side.ts',
        '!hasTick || next.times.length === 1',
        'hasTick || next.times.length === 1',
      ],
    ],
  },
  {
    name: 'gaps stated by the service are claimed if the response is empty',
    edits: [['src/collector/paging/fetch-window.ts', 'subtract([covered], progress.excludedWindows)', '[covered]']],
  },
  {
    name: 'excluded windows are claimed',
    edits: [
      ['src/collector/paging/fetch-steps.ts', 'subtract([window], progress.excludedWindows)', 'subtract([window], [])'],
    ],
  },
  {
    name: 'pages of a service that ignores from/to count as confirmed',
    edits: [
      [
        'src/collector/paging/fetch-window.ts',
        "yield* claim(progress, covered, 'inferred', o.observedAt);",
        "yield* claim(progress, w, 'confirmed', o.observedAt);",
      ],
    ],
  },
  {
    name: 'a poll confirms the previous poll without repeating its last tick',
    edits: [
      [
        'src/collector/paging/fetch-window.ts',
        'const isAnchored = knownTick !== null && o.times.includes(knownTick);',
        'const isAnchored = knownTick !== null;',
      ],
    ],
  },
  {
    name: '`from` always counts as inclusive',
    edits: [
      ['src/collector/paging/server-behavior.ts', 'from: isExact && behavior.fromInclusive ? from : from - 1', 'from'],
    ],
  },
  {
    name: 'what follows a response that lacks the tick before it is dropped',
    edits: [['src/collector/paging/fetch-window.ts', 'progress.pending.push({ ...rest, isPart: true });', '']],
  },
  {
    name: 'windows that a response excludes are not requested again',
    edits: [
      [
        'src/collector/paging/fetch-window.ts',
        '  for (const rest of unspoken) {',
        '  for (const rest of [] as typeof unspoken) {',
      ],
    ],
  },
  {
    name: 'a truncated millisecond counts as complete',
    edits: [
      ['src/collector/paging/fetch-side.ts', 'return !hasFarEnd && count', 'return false && count'],
      [
        'src/collector/paging/fetch-side.ts',
        'received < crowdedTicksMin || received <= 0.5 * page.received',
        'received < crowdedTicksMin || page.received > 0',
      ],
      [
        'src/collector/paging/fetch-side.ts',
        'second.countAtLast < page.countAtLast : second.countAtFirst < page.countAtFirst',
        'false : false',
      ],
    ],
  },
];

/** Far more than a run without a break takes. */
const limitMs = 300_000;

async function main(copy: string): Promise<void> {
  const detect = (): string[] => {
    const script = join(copy, 'test/collector/proof/measure.ts');
    const env = { ...process.env, SEEDS: '1', NIGHTS: '3' };
    const { stdout, error } = spawnSync(process.execPath, [script], { encoding: 'utf8', timeout: limitMs, env });
    if (error !== undefined) return ['does not end'];
    // Habits that are marked are not promised.
    return [...stdout.matchAll(/^\| ([^|]*[^|*]) \| (\d+) \(\d+\) \| (\d+) \|/gm)]
      .filter(([, , claims, forgotten]) => Number(claims) + Number(forgotten) > 0)
      .map(([, name]) => name!);
  };
  const falseAlarms = detect();
  if (falseAlarms.length > 0) throw new Error(`Without a break the check fails: ${falseAlarms.join(' · ')}`);
  let undetected = 0;
  for (const one of pagingBreaks) {
    const detected = withBreak(one, copy, detect);
    if (detected.length === 0) undetected++;
    process.stdout.write(`${detected.length === 0 ? 'NOT SEEN' : detected.join(' · ')} | ${one.name}\n`);
  }
  process.exitCode = undetected > 0 ? 1 : 0;
}

if (import.meta.main) await withCopy(main);
