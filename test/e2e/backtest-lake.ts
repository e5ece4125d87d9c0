import { join } from 'node:path';
import type { MarketFacts } from '../../src/archive/format/market.ts';
import { appendMarkets } from '../../src/archive/journal/journal.ts';
import { recordMarkets } from '../../src/archive/journal/symbol-store.ts';
import { answer, append, day0, hourMs, market, now, type Pairs, publishNow } from '../archive/scratch.ts';
import { madeOnce } from '../server/made-once.ts';
import { folder } from './lake.ts';

// An archive for backtests computed by hand: three symbols with hourly ticks, two of them settled.

interface LakeFacts extends Pick<MarketFacts, 'outcome' | 'category' | 'source'> {
  readonly prices: readonly number[];
}

const facts: Readonly<Record<string, LakeFacts>> = {
  RAIN: { prices: [0.3, 0.4, 0.6], outcome: 1, category: 'weather', source: 'kalshi' },
  SNOW: { prices: [0.5, 0.2, 0.1], outcome: 0, category: 'weather', source: 'kalshi' },
  TEAM: { prices: [0.5, 0.5, 0.75], outcome: null, category: 'sports', source: 'polymarket' },
};

/** Time of settlement. Four hours are covered. */
export const settledAt = day0 + 3 * hourMs;

export const madeBacktestLake = madeOnce(async (archive) => {
  const covered = [{ from: day0, to: day0 + 4 * hourMs }];
  const markets = Object.entries(facts).map(([symbol, { outcome, category, source }]) =>
    market(symbol, {
      category,
      source,
      opensAt: day0,
      outcome,
      isActive: outcome === null,
      resolvedAt: outcome === null ? null : settledAt,
    }),
  );
  for (const [symbol, { prices }] of Object.entries(facts)) {
    const pairs: Pairs = prices.map((p, i) => [day0 + i * hourMs, p]);
    append(archive, answer(symbol, pairs, { windows: covered }));
  }
  recordMarkets(archive.state.db, markets, now, true);
  appendMarkets(archive.state, { runId: 'run', observedAt: now, markets }, []);
  await publishNow(archive);
});

/** Copies it, below `beside` if given, and returns its root. */
export async function backtestLake(beside = folder()): Promise<string> {
  const root = join(beside, 'lake');
  await madeBacktestLake.copyTo(root);
  return root;
}
