import type { Archive } from '../../../src/archive/archive.ts';
import type { MarketFacts } from '../../../src/archive/format/market.ts';
import { appendMarkets } from '../../../src/archive/journal/journal.ts';
import { recordMarkets } from '../../../src/archive/journal/symbol-store.ts';
import { answer, append, day0, dayMs, hourMs, market, now, publishNow } from '../../archive/scratch.ts';
import { madeOnce } from '../made-once.ts';

// The archive of the page tests: two days of a symbol, each with a gap and covered time without ticks.

export const rain = 'KXRAIN-26JUN';
export const question = 'Will it rain in São Paulo?';
export const gap = { from: day0 + 8 * hourMs, to: day0 + 11 * hourMs };
export const quiet = { from: day0 + 16 * hourMs, to: day0 + 20 * hourMs };

/** Texts that are harmful if they are not escaped. */
export const rubbish = [
  '<script>globalThis.hit = 1</script>',
  '<img src=x onerror="globalThis.hit = 2">',
  '"quotes" \' &amp; <b>bold</b>',
  '🦆 ducks? #a=b&c%20d',
  `long${'x'.repeat(296)}`,
  'two\nlines',
];

/** Ticks every five minutes of a day, except in the gap and the quiet time; prices oscillate. */
const ticksOf = (day: number): [number, number][] =>
  Array.from(
    { length: 288 },
    (_, i) => [day + i * 300_000, 0.5 + Math.round(Math.sin(i / 20) * 40) / 100] as [number, number],
  ).filter(([t]) => ![gap, quiet].some(({ from, to }) => from <= t - day + day0 && t - day + day0 < to));

/** An archive of these symbols, made when it is first needed. */
export const lakeOf = (symbols: readonly string[], facts: Partial<MarketFacts> = {}) =>
  madeOnce((archive) => fill(archive, symbols, facts));

/** The archive with one symbol. */
export const rainLake = lakeOf([rain]);

export const lakeWith = (symbols: readonly string[], facts?: Partial<MarketFacts>): Promise<Archive> =>
  lakeOf(symbols, facts)();

async function fill(archive: Archive, symbols: readonly string[], facts: Partial<MarketFacts>): Promise<void> {
  const markets = symbols.map((symbol) => market(symbol, { question, category: 'weather', ...facts }));
  for (const symbol of symbols) {
    append(
      archive,
      ...[day0, day0 + dayMs].map((day) =>
        answer(symbol, ticksOf(day), {
          windows: [
            { from: day, to: day + 8 * hourMs },
            { from: day + 11 * hourMs, to: day + dayMs },
          ],
        }),
      ),
    );
  }
  recordMarkets(archive.state.db, markets, now, true);
  appendMarkets(archive.state, { runId: 'run', observedAt: now, markets }, []);
  await publishNow(archive);
}
