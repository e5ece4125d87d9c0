import { createRandom, hashNumber } from '../src/base/random.ts';
import { dayMs } from '../src/base/window.ts';
import type { SandboxTickPage } from '../src/sandbox/page-formats.ts';
import { createMarketNames } from '../src/sandbox/simulated-markets.ts';

/**
 * Generates the pages that a collector would have saved over several days. In each round every symbol is requested
 * once, from shortly before the end of its last page; busy symbols get more rounds than quiet ones.
 */

export const ticksPerPage = 5000;
/** Ticks that a page shares with the symbol's previous page: the overlap, read again for late ticks. */
const repeatedTicks = 250;
/** Ticks in the overlap that the previous page did not contain. */
const lateTicks = 10;
/** Repeated ticks with a different price; the later response is right. */
const correctedTicks = 2;
/** A symbol has between 1 and this many pages, 10 on average. */
const pagesPerSymbolMax = 19;
const days = 5;
const firstDay = Date.UTC(2026, 2, 2);
/** Share of the days that the ticks of a symbol cover. */
const spanShare = 0.9;
/** Probability that a tick repeats the previous price. */
const sameShare = 0.5;
const stepMax = 2;

interface GeneratedOptions {
  readonly pages: number;
  readonly seed: number;
}

interface Walk {
  readonly symbol: string;
  readonly random: () => number;
  readonly gapMs: number;
  /** Prices are multiples of `1 / gridParts` between 0 and 1. */
  readonly gridParts: number;
  pagesLeft: number;
  at: number;
  price: number;
  /** The last ticks of the previous page. */
  tail: [t: number, p: number][];
}

/**
 * Yields the pages one at a time, the same ones for the same options. Keeps only the last ticks of each symbol in
 * memory.
 */
export function* generatedPages({ pages, seed }: GeneratedOptions): Generator<SandboxTickPage, void, undefined> {
  for (let walks = startWalks(pages, seed); walks.length > 0; walks = walks.filter(({ pagesLeft }) => pagesLeft > 0)) {
    for (const walk of walks) yield nextPage(walk);
  }
}

function startWalks(pages: number, seed: number): Walk[] {
  const walks: Walk[] = [];
  for (let left = pages; left > 0; left -= walks.at(-1)!.pagesLeft) walks.push(startWalk(walks.length, left, seed));
  return walks;
}

function startWalk(slot: number, pagesMax: number, seed: number): Walk {
  const random = createRandom(hashNumber(seed, slot));
  const pagesLeft = Math.min(pagesMax, 1 + Math.floor(random() * pagesPerSymbolMax));
  const names = createMarketNames(seed, slot, firstDay + days * dayMs);
  const gridParts = random() < 0.5 ? 100 : 1000;
  return {
    symbol: random() < 0.5 ? names.kalshi : names.polymarket,
    random,
    gapMs: (spanShare * days * dayMs) / (pagesLeft * (ticksPerPage - repeatedTicks)),
    gridParts,
    pagesLeft,
    at: firstDay + Math.floor(random() * (1 - spanShare) * days * dayMs),
    price: 1 + Math.floor(random() * (gridParts - 1)),
    tail: [],
  };
}

function nextPage(walk: Walk): SandboxTickPage {
  const ticks = repeatTail(walk);
  while (ticks.length < ticksPerPage) ticks.push(step(walk));
  walk.tail = ticks.slice(-repeatedTicks);
  walk.pagesLeft--;
  const to = walk.at + 1;
  return {
    symbol: walk.symbol,
    t: Float64Array.from(ticks, ([t]) => t),
    p: Float64Array.from(ticks, ([, p]) => p),
    count: ticks.length,
    from: ticks[0]![0],
    to,
    generatedAt: to + Math.floor(walk.random() * 1000),
  };
}

/** The end of the previous page, with some prices corrected and late ticks added. */
function repeatTail({ tail, random, gridParts }: Walk): [number, number][] {
  if (tail.length === 0) return [];
  const ticks = new Map(tail);
  const drawn = (): [number, number] => tail[Math.floor(random() * tail.length)]!;
  for (let i = 0; i < correctedTicks; i++) {
    const [t, p] = drawn();
    const steps = Math.round(p * gridParts);
    ticks.set(t, (steps > 1 ? steps - 1 : steps + 1) / gridParts);
  }
  const [first, last] = [tail[0]![0], tail.at(-1)![0]];
  for (let i = 0; i < lateTicks; i++) {
    const t = first + Math.floor(random() * (last - first));
    if (!ticks.has(t)) ticks.set(t, drawn()[1]);
  }
  return [...ticks].sort(([a], [b]) => a - b);
}

/** Exponential gaps, shorter by day than by night; at most one tick per millisecond. */
function step(walk: Walk): [number, number] {
  const { random, gridParts } = walk;
  const daily = 1 + 0.6 * Math.sin(((walk.at / dayMs) * 2 - 0.75) * Math.PI);
  const gap = (-Math.log(1 - random()) * walk.gapMs) / daily;
  walk.at = Math.max(walk.at + 1, Math.floor(walk.at + gap));
  if (random() >= sameShare) {
    const steps = (1 + Math.floor(random() * stepMax)) * (random() < 0.5 ? -1 : 1);
    walk.price = Math.min(gridParts - 1, Math.max(1, walk.price + steps));
  }
  return [walk.at, walk.price / gridParts];
}
