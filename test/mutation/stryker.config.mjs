import { globSync, readFileSync } from 'node:fs';
import { drawFrom } from '../faults/draw.ts';

// Mutation testing of ROOM, one of those that must not be wrong, by the tests of the same room alone: SEED and LINES draw
// the lines that are changed; LINES=0 takes all, ONLY=merge those of files named so. See docs/RELIABILITY.md.

// As in vitest.config.ts; its threads have the zone of the process that starts them.
process.env.TZ = 'America/St_Johns';

const room = process.env.ROOM || 'core';
const lines = Number(process.env.LINES || 60);
const seed = Number(process.env.SEED || 1);

const files = globSync(`src/${room}/**/*.ts`)
  .filter((file) => file.includes(process.env.ONLY || ''))
  .sort();
/** Lines that may do something: no comment, import, type or bracket alone. */
const live = files.flatMap((file) =>
  readFileSync(file, 'utf8')
    .split('\n')
    .flatMap((text, at) =>
      /^\s*(\/?\*|\/\/|import\b|export (type|interface)|readonly |[})\];,]*$)/.test(text)
        ? []
        : [`${file}:${at + 1}-${at + 1}`],
    ),
);
const draw = drawFrom(seed);
const drawn = lines === 0 ? files : Array.from({ length: lines }, () => draw.one(live));
console.log(`mutants: ROOM=${room} SEED=${seed} LINES=${lines}, of ${live.length} lines in ${files.length} files`);

export default {
  plugins: [new URL('./node_modules/@stryker-mutator/vitest-runner/dist/src/index.js', import.meta.url).href],
  testRunner: 'vitest',
  vitest: { configFile: 'test/mutation/vitest.config.ts', related: false },
  mutate: [...new Set(drawn)].sort(),
  coverageAnalysis: 'perTest',
  concurrency: Number(process.env.WORKERS || 2),
  // Our compiler writes nothing: there is nothing to look up in its settings.
  tsconfigFile: 'none.json',
  // What a message says is not judged here.
  mutator: { excludedMutations: ['StringLiteral', 'Regex'] },
  timeoutMS: 20_000,
  dryRunTimeoutMinutes: 20,
  reporters: ['progress-append-only', 'clear-text', 'json'],
  clearTextReporter: { allowColor: false, logTests: false, reportTests: false },
  jsonReporter: { fileName: `output/mutation-${room}.json` },
  tempDirName: `output/.mutation-${room}`,
  ignorePatterns: ['/output', '.node', 'dist', '/docs', 'test/mutation/node_modules'],
};
