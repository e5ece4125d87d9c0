import { globSync, readFileSync } from 'node:fs';
import { basename } from 'node:path';
import { defineConfig } from 'vitest/config';
import { drawFrom } from './test/faults/draw.ts';
import { orderLongestFirst } from './test/harness/longest-first.ts';
import { common } from './vitest.config.ts';

// The search for faults, apart from the tests that every change waits for: `make torture`. With MINUTES it takes that long
// (test/faults/seeds.ts), and of the tests that search nothing it runs half, so that the searches have most of the time.

const minutes = Number(process.env.MINUTES || 0);
/** Another one each time. It selects the seeds of the searches, the calls of the sweeps, and the tests without a search. */
const seed = Number(process.env.SEARCH_SEED || process.env.SEED || Math.floor(Math.random() * 2 ** 31));
/** With this time or more, every test runs. */
const minutesOfAll = 20;

const files = globSync('test/faults/**/*.test.ts').sort();
const isSearch = (path: string): boolean => /\b(?:search|listSweptCalls)\(/.test(readFileSync(path, 'utf8'));

/** Every search, and of the other files all or half. */
function selectFiles(): string[] {
  if (minutes === 0 || minutes >= minutesOfAll) return files;
  const draw = drawFrom(seed);
  const others = files
    .filter((path) => !isSearch(path))
    .map((path) => ({ path, rank: draw() }))
    .sort((a, b) => a.rank - b.rank)
    .map(({ path }) => path);
  const left = others.slice(Math.ceil(others.length / 2));
  console.log(`left to other seeds: ${left.map((path) => basename(path, '.test.ts')).join(', ')}`);
  return files.filter((path) => !left.includes(path));
}

/** These use the time that the others leave. */
const last = ['kills.test.ts', 'simulation.test.ts'];
/** Takes minutes each. */
const longest = ['sweep.test.ts', 'races.test.ts', ...(minutes > 0 ? [] : last)];

console.log(`search for faults: SEED=${seed}${minutes > 0 ? ` MINUTES=${minutes}` : ''}`);

export default defineConfig({
  test: {
    ...common,
    include: [...selectFiles(), 'test/server/generated.long.test.ts'],
    env: {
      ...common.env,
      CASES: process.env.CASES ?? (minutes > 0 ? '1500' : '5000'),
      SEARCH_SEED: `${seed}`,
      ...(minutes > 0 ? { SEARCH_END: `${Date.now() + minutes * 60_000}` } : {}),
    },
    sequence: { sequencer: orderLongestFirst(longest, last) },
  },
});
