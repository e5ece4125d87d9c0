/**
 * Measures each loop that a tick passes through between its page and its part file, in nanoseconds of CPU time per
 * tick. Run: node bench/loops.ts [--pages 200] [--seed 1] [--rounds 15]
 */
import { parseArgs } from 'node:util';
import { candleIntervals, computeCandles } from '../src/archive/format/candles.ts';
import { type MergedPart, mergePart } from '../src/archive/format/merge.ts';
import { type KnownPrecedence, precedenceRanks } from '../src/archive/format/precedence.ts';
import { emptyPart, type TickChunk } from '../src/archive/format/tick-columns.ts';
import { computeFileStatistics } from '../src/archive/publish/encode-partition.ts';
import { dayMs, floorToDay, union, type Window } from '../src/base/window.ts';
import { decodeTickPage } from '../src/client/decode.ts';
import type { DecodedTickPage } from '../src/client/upstream.ts';
import { validateTicks } from '../src/collector/paging/observation.ts';
import { formatTickPage } from '../src/sandbox/page-formats.ts';
import { generatedPages } from './generated-pages.ts';
import { spread } from './statistics.ts';

const { values } = parseArgs({
  options: {
    pages: { type: 'string', default: '200' },
    seed: { type: 'string', default: '1' },
    rounds: { type: 'string', default: '15' },
  },
});
if (![values.pages, values.seed, values.rounds].every((text) => /^[1-9]\d{0,8}$/.test(text))) {
  console.error('usage: node bench/loops.ts [--pages N] [--seed N] [--rounds N]');
  process.exit(2);
}
const rounds = Number(values.rounds);
const parts = 4;
const all: Window = { from: Number.NEGATIVE_INFINITY, to: Number.POSITIVE_INFINITY };
const futureMs = Date.UTC(2100, 0, 1);

/** No known precedence, as in an archive without conflicts. */
const unknown: KnownPrecedence = {
  getWindows: () => [],
  inferPrecedence: () => ({ rank: precedenceRanks.poll, observedAt: Number.NEGATIVE_INFINITY }),
};

const bodies = Array.from(generatedPages({ pages: Number(values.pages), seed: Number(values.seed) }), (page) =>
  Buffer.from(formatTickPage(page, 'compact')),
);
const pages = bodies.map((body) => decodeTickPage(body));
const ticks = pages.reduce((sum, { received }) => sum + received, 0);
const coverage = coverageOf(pages);

const symbolNames = [
  ...new Set(pages.flatMap((page) => chunksOf(page, precedenceRanks.poll).map(({ symbol }) => symbol))),
];

/** The chunks that the journal would return, by day and some of the symbols. */
const bins = (rank: number): readonly TickChunk[][] => [
  ...Map.groupBy(
    pages.flatMap((page) => chunksOf(page, rank)),
    ({ symbol, t }) => `${floorToDay(t[0]!)} ${symbolNames.indexOf(symbol) % parts}`,
  ).values(),
];
const polled = bins(precedenceRanks.poll);
const imported = bins(precedenceRanks.import);
const published = polled.map((chunks) => mergePart(emptyPart, chunks, unknown).columns);
const rows = published.reduce((sum, { t }) => sum + t.length, 0);
const newestFirst = polled.map((chunks) => chunks.toReversed());

const merges = (input: readonly TickChunk[][]): MergedPart[] =>
  input.map((chunks) => mergePart(emptyPart, chunks, unknown));

/** A loop over the whole input, and the number of its ticks. */
const loops: readonly (readonly [name: string, count: number, run: () => unknown])[] = [
  ['decode', ticks, () => bodies.map((body) => decodeTickPage(body))],
  ['judge', ticks, () => pages.map((page) => validateTicks(page, all, futureMs))],
  ['merge polled pages', ticks, () => merges(polled)],
  ['merge imported pages', ticks, () => merges(imported)],
  ['merge, newest page first', ticks, () => merges(newestFirst)],
  ['merge into the same ticks', ticks, () => polled.map((chunks, i) => mergePart(published[i]!, chunks, unknown))],
  [
    'candles of both intervals',
    rows,
    () => published.map((columns) => Object.values(candleIntervals).map((ms) => computeCandles(columns, coverage, ms))),
  ],
  ['facts', rows, () => published.map((columns) => computeFileStatistics(0, columns))],
];

const spent = loops.map((): number[] => []);
for (let round = -1; round < rounds; round++) {
  for (const [i, [, count, run]] of loops.entries()) {
    const before = process.cpuUsage();
    run();
    const { user, system } = process.cpuUsage(before);
    // The first round compiles the code.
    if (round >= 0) spent[i]!.push(((user + system) * 1000) / count);
  }
}
console.log(`${pages.length} pages, ${ticks.toLocaleString('en-US')} ticks, seed ${values.seed}, ${rounds} rounds`);
for (const [i, [name]] of loops.entries()) {
  const { median, min, max } = spread(spent[i]!);
  console.log(`${name.padEnd(28)}${median.toFixed(1).padStart(7)} ns (${min.toFixed(1)} to ${max.toFixed(1)})`);
}

function chunksOf({ symbol, t, p, generatedAt }: DecodedTickPage, rank: number): TickChunk[] {
  const chunks: TickChunk[] = [];
  for (let from = 0; from < t.length; ) {
    const end = floorToDay(t[from]!) + dayMs;
    let to = from;
    while (to < t.length && t[to]! < end) to++;
    const columns = { t: t.slice(from, to), p: p.slice(from, to) };
    chunks.push({ symbol: symbol!, ...columns, rank, observedAt: generatedAt!, runId: 'run' });
    from = to;
  }
  return chunks;
}

function coverageOf(answers: readonly DecodedTickPage[]): ReadonlyMap<string, readonly Window[]> {
  const bySymbol = Map.groupBy(answers, ({ symbol }) => symbol!);
  return new Map(
    [...bySymbol].map(([symbol, list]) => [symbol, union(list.map(({ from, to }) => ({ from: from!, to: to! })))]),
  );
}
