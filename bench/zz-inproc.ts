import { openArchive } from '../src/archive/archive.ts';
import { systemDisk } from '../src/archive/disk/disk.ts';
import { openEngine } from '../src/query/engine.ts';
import { planBatches } from '../src/reading/backtests/batches.ts';
import { openGround } from '../src/reading/backtests/ground.ts';
import { playBatch } from '../src/reading/backtests/play-batch.ts';
import { readUniverse, spanOf } from '../src/reading/backtests/universe.ts';
import { executables } from '../src/research/executables.ts';
import { looksOf } from '../src/research/looks.ts';

const [root, name, max = '99'] = process.argv.slice(2);
const archive = openArchive(
  { root: root!, create: false, upstream: null, parts: 1, writer: 'x', settleMs: 0 },
  systemDisk,
);
const signal = new AbortController().signal;
const strategy = executables.find((e) => e.name === name)!.strategy;
const ground = await openGround(archive, { from: null, to: null, states: false }, Math.random, signal);
const universe = await readUniverse(ground.query, { symbols: null, filter: { categories: [], sources: [] } }, signal);
const span = spanOf(universe.members, { from: null, to: null })!;
const batches = planBatches(universe, span, ground.parts, false).slice(0, Number(max));
const engine = await openEngine(ground.root, { threads: 1, memoryBytesMax: 2 ** 29, scratch: ground.scratch });
const phase = performance.now(); console.log('opened', phase.toFixed(0), batches.length, batches.map((b) => b.members.length).join());
let ticks = 0;
const u = process.cpuUsage(),
  w = performance.now();
for (const batch of batches) {
  const { sources } = ground.files(
    [...batch.members, ...batch.beside].map(({ symbol }) => symbol),
    { from: span.from, to: span.to },
    span.from,
  );
  const q = await engine.over(sources, []);
  const { run } = await playBatch(
    q,
    batch,
    {
      plan: { strategies: [strategy], spans: [span], detailed: true },
      parts: ground.parts,
      span,
      lookFrom: span.from - looksOf(strategy).backMs,
      statesFrom: span.from,
      states: false,
      books: false,
    },
    { time: false, symbols: true }, { signal, look() {} },
  );
  await q.close();
  ticks += run.ticks;
}
const { user, system } = process.cpuUsage(u);
console.log(
  batches.length,
  'batches',
  ticks,
  'ticks',
  'cpu ns/tick',
  (((user + system) * 1000) / ticks).toFixed(1),
  'wall',
  (((performance.now() - w) * 1e6) / ticks).toFixed(1),
  'rss',
  process.memoryUsage.rss() / 2 ** 20,
);
await engine.close();
await ground.close();
archive.close();
