/**
 * Compares the tick-page decoder with JSON.parse plus conversion to columns, alternately on the same page of 5,000
 * ticks. Prints medians of 15 rounds. Run: node bench/decode.ts
 */
import { decodeTickPage } from '../src/client/decode.ts';

const ticks = 5000;
const rounds = 15;
const pagesPerRound = 100;

const body = JSON.stringify({
  symbol: 'KXBTC-26NOV20-T95000',
  ticks: Array.from({ length: ticks }, (_, i) => ({ t: 1_795_000_000_000 + i * 1717, p: ((i * 7919) % 1000) / 1000 })),
  count: ticks,
  from: 1_795_000_000_000,
  to: 1_796_000_000_000,
  generated_at: 1_796_000_000_001,
});
const bytes = Buffer.from(body);

function plain(page: Uint8Array): Float64Array {
  const { ticks: list } = JSON.parse(Buffer.from(page).toString('utf8')) as { ticks: { t: number; p: number }[] };
  const t = new Float64Array(list.length);
  const p = new Float64Array(list.length);
  list.forEach((tick, i) => {
    t[i] = tick.t;
    p[i] = tick.p;
  });
  return t;
}

function ticksPerSecond(decode: (page: Uint8Array) => unknown): number {
  const startedAt = performance.now();
  for (let i = 0; i < pagesPerRound; i++) decode(bytes);
  return (pagesPerRound * ticks * 1000) / (performance.now() - startedAt);
}

const ours: number[] = [];
const theirs: number[] = [];
for (let round = 0; round < rounds; round++) {
  ours.push(ticksPerSecond((page) => decodeTickPage(page)));
  theirs.push(ticksPerSecond(plain));
}
const median = (values: number[]): number => values.sort((a, b) => a - b)[values.length >> 1]!;
const [own, parse] = [median(ours), median(theirs)];
console.log(
  `decoder ${(own / 1e6).toFixed(1)} M ticks/s, JSON.parse ${(parse / 1e6).toFixed(1)} M ticks/s, ratio ${(own / parse).toFixed(2)}`,
);
