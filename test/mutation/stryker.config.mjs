import { globSync, readFileSync } from 'node:fs';
import { drawFrom } from '../faults/draw.ts';

// Mutation testing of one folder, ROOM, with the tests of the same folder only. SEED and LINES select the mutated
// lines; LINES=0 takes all, ONLY=merge those of files with that name. See test/README.md.

// As in vitest.config.ts; threads have the time zone of the process that starts them.
process.env.TZ = 'America/St_Johns';

const room = process.env.ROOM || 'base';
const lines = Number(process.env.LINES || 60);
const seed = Number(process.env.SEED || 1);

const files = globSync(`src/${room}/**/*.ts`)
  .filter((file) => file.includes(process.env.ONLY || ''))
  .sort();
/** Lines that may have an effect: no comments, imports, types or lone brackets. */
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
  // The compiler writes no output, so its settings do not matter.
  tsconfigFile: 'none.json',
  // Texts of messages are not mutated.
  mutator: { excludedMutations: ['StringLiteral', 'Regex'] },
  timeoutMS: 20_000,
  dryRunTimeoutMinutes: 20,
  reporters: ['progress-append-only', 'clear-text', 'json'],
  clearTextReporter: { allowColor: false, logTests: false, reportTests: false },
  jsonReporter: { fileName: `output/mutation-${room}.json` },
  tempDirName: `output/.mutation-${room}`,
  ignorePatterns: ['/output', '.node', 'dist', '/docs', 'test/mutation/node_modules'],
};
