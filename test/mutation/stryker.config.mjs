import { globSync, readFileSync } from 'node:fs';

// Mutation testing of the rooms that must not be wrong: SEED and LINES draw the lines that are changed, in proportion to
// what each room has of them; LINES=0 takes all. See docs/RELIABILITY.md.

const rooms = (process.env.ROOMS || 'core,archive,ingest').split(',');
const lines = Number(process.env.LINES || 60);
const seed = Number(process.env.SEED || 1);

/** Numbers in [0, 1). Source: mulberry32, Tommy Ettinger, public domain. */
function drawFrom(start) {
  let state = start >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let x = Math.imul(state ^ (state >>> 15), state | 1);
    x ^= x + Math.imul(x ^ (x >>> 7), x | 61);
    return ((x ^ (x >>> 14)) >>> 0) / 2 ** 32;
  };
}

const files = rooms.flatMap((room) => globSync(`src/${room}/**/*.ts`)).sort();
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
const drawn = lines === 0 ? files : Array.from({ length: lines }, () => live[Math.floor(draw() * live.length)]);
console.log(`mutants: SEED=${seed} LINES=${lines}, of ${live.length} lines in ${files.length} files`);

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
  reporters: ['clear-text', 'json'],
  clearTextReporter: { allowColor: false, logTests: false, reportTests: false },
  jsonReporter: { fileName: 'output/mutation.json' },
  tempDirName: 'output/.mutation',
  ignorePatterns: ['/output', '.node', 'dist', '/docs', 'test/mutation/node_modules'],
};
