/**
 * Breaks what paging rests on, one rule at a time, and prints at which seed the drawn servers of test/ingest/adversary show
 * it, of 200 for each kind of server: `node test/mutation/paging-breaks.ts`. Exit code 1 where one is not seen.
 */
import { spawnSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { withCopy } from './copy.ts';

interface Break {
  readonly what: string;
  readonly file: string;
  readonly before: string;
  readonly after: string;
}

const ingest = (file: string, what: string, before: string, after: string): Break => ({
  ...{ what, file: `src/ingest/${file}.ts`, before, after },
});

const breaks: readonly Break[] = [
  ingest(
    'fetch-window',
    'a page is believed from its first to its last tick and beyond: no side is confirmed',
    'freeEnd(w, o) : yield* fetchSide(work, w, o, side, mode, widest)',
    'freeEnd(w, o) : freeEnd(w, o)',
  ),
  ingest(
    'fetch-side',
    'the tick that a side was confirmed from need not come again',
    "if (relation === 'contradicts' || isShort",
    'if (isShort',
  ),
  ingest(
    'fetch-side',
    'a page that goes further is taken for the last',
    '      page = next;\n      furthest = side',
    "      return end('confirmed', begin, [page, next]);\n      furthest = side",
  ),
  ingest(
    'fetch-side',
    'what the echo of a request states is believed',
    "if (relation === 'further') {",
    "if (relation === 'further' && false) {",
  ),
  ingest(
    'fetch-window',
    'a withdrawn claim is forgotten',
    "if (work.claimed) yield { kind: 'withdraw', window: { from: w.from, to: w.to } };",
    '',
  ),
  ingest(
    'fetch-side',
    'a crowded millisecond is taken for whole',
    'return !hasFarEnd && count',
    'return false && count',
  ),
  ingest(
    'fetch-side',
    'an end is never checked from the last tick',
    '(isDoubtful || needsEndCheck(behavior, next.received, page.received))',
    'isDoubtful && false',
  ),
  ingest('fetch-window', 'gaps that the service names are claimed', 'subtract([spoken], work.lacking)', '[spoken]'),
  ingest(
    'fetch-steps',
    'claims are made over what the service lacks',
    'subtract([window], work.lacking)',
    'subtract([window], [])',
  ),
  ingest(
    'fetch-steps',
    'a claim reaches beyond the moment of its response',
    'const piece = { from, to: Math.min(to, observedAt) };',
    'const piece = { from, to };',
  ),
  ingest(
    'observation',
    'a response may speak for what came after it was generated',
    'to: Math.min(asked.to, observedAt) },',
    'to: asked.to },',
  ),
  ingest(
    'observation',
    'ends that a response states narrower are overlooked',
    '{ from: from ?? asked.from, to: to ?? asked.to }',
    '{ from: asked.from, to: asked.to }',
  ),
  ingest(
    'fetch-window',
    'a poll confirms whatever the one before left, though late ticks came',
    'const isLate = o.times.some((t) => t > knownTick && t < to);',
    'const isLate = false;',
  ),
  ingest(
    'fetch-steps',
    'pages with many unusable ticks count as any other',
    'rejected > rejectedShareMax * received',
    'rejected > received',
  ),
];

/** Many times what it takes where nothing is broken. */
const limitMs = 60_000;

let unseen = 0;
await withCopy((copy) => {
  const firstSeen = (): string[] => {
    const script = join(copy, 'test/ingest/adversary/first-seen.ts');
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
  for (const { what, file, before, after } of breaks) {
    const path = join(copy, file);
    const text = readFileSync(path, 'utf8');
    if (!text.includes(before)) throw new Error(`${file} has no more: ${before}`);
    writeFileSync(
      path,
      text.replace(before, () => after),
    );
    const seen = firstSeen();
    writeFileSync(path, text);
    if (seen.length === 0) unseen++;
    process.stdout.write(`${seen.length === 0 ? 'NOT SEEN' : seen.join(' · ')} | ${what}\n`);
  }
});
process.exitCode = unseen > 0 ? 1 : 0;
