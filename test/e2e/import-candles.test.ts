import { expect, test } from 'vitest';
import { day0, put } from './import-lake.ts';
import { expectDone, folder, minuteMs, rowHashes } from './lake.ts';
import { run } from './run-program.ts';

// Bid and ask of candles from a wide file with ticks and quotes, imported in any order, checked by DuckDB.

const symbols = ['KXBTCD-26NOV20-B90025', 'KXRAIN-26NOV20', 'KXSNOW-26NOV20'];

/** Rows of two days in which every third has no price and every second no quote, and hours that have only one of both. */
function* listRows(): Generator<string> {
  for (const [s, symbol] of symbols.entries()) {
    for (let i = 0; i < 200; i++) {
      const t = day0 + i * 14 * minuteMs + s;
      const isQuiet = Math.floor(i / 9) % 3 === s;
      const p = i % 3 === 0 || (isQuiet && i % 2 === 0) ? '' : String(((i * 7) % 97) / 100);
      const [bid, ask] =
        i % 2 === 0 || isQuiet ? ['', ''] : [(i % 40) / 100, i % 11 === 0 ? '' : (i % 40) / 100 + 0.02];
      if (p !== '' || bid !== '' || ask !== '') yield [symbol, t, p, bid, ask].join();
    }
  }
}

const wide = (): string => put(folder(), 'wide.csv', `symbol,t,p,bid,ask\n${[...listRows()].join('\n')}\n`);

async function select(output: string, sql: string): Promise<Record<string, unknown>[]> {
  const { stdout } = await expectDone(run(['sql', sql, '--format', 'json', '--output', output]));
  return JSON.parse(stdout) as Record<string, unknown>[];
}

/** The candles of an interval whose sides differ from those of the last quote of the day before their end. */
const formatDifferences = (dataset: string, interval: string): string => `
  SELECT c.symbol, c.t, c.bid, c.ask, q.found
  FROM ${dataset} AS c
  LEFT JOIN (
    SELECT k.symbol, k.t, arg_max({'bid': q.bid, 'ask': q.ask}, q.t) AS found
    FROM ${dataset} AS k JOIN quotes AS q
      ON q.symbol = k.symbol AND q.t < k.t + ${interval} AND CAST(q.t AS DATE) = CAST(k.t AS DATE)
    GROUP BY ALL
  ) AS q ON q.symbol = c.symbol AND q.t = c.t
  WHERE c.bid IS DISTINCT FROM q.found.bid OR c.ask IS DISTINCT FROM q.found.ask`;

test('candles of a wide file have the same bytes in any order of its datasets, and the sides that SQL finds', async () => {
  const path = wide();
  const imported = async (...orders: readonly string[]): Promise<string> => {
    const output = folder();
    for (const dataset of orders) {
      const args = ['--dataset', dataset, '--allow-rejected', '1', '--set', 'source.name=box'];
      await expectDone(run(['import', path, ...args, '--output', output]));
    }
    return output;
  };
  const output = await imported('ticks,quotes');
  const expected = rowHashes(output, 'candles_1h', 'candles_1d', 'ticks', 'quotes');
  expect(Object.keys(expected).filter((name) => name.startsWith('candles_')).length).toBeGreaterThan(3);
  for (const orders of [
    ['ticks', 'quotes'],
    ['quotes', 'ticks'],
    ['ticks', 'ticks,quotes'],
  ])
    expect(rowHashes(await imported(...orders), 'candles_1h', 'candles_1d', 'ticks', 'quotes'), orders.join()).toEqual(
      expected,
    );

  expect(await select(output, formatDifferences('candles_1h', 'INTERVAL 1 HOUR'))).toEqual([]);
  expect(await select(output, formatDifferences('candles_1d', 'INTERVAL 1 DAY'))).toEqual([]);
  const counts = `SELECT count(*)::INTEGER AS n, count(bid)::INTEGER AS bids, count(ask)::INTEGER AS asks,
    count(coalesce(volume, trades, vwap))::INTEGER AS traded FROM candles_1h`;
  const [hours] = (await select(output, counts)) as { n: number; bids: number; asks: number; traded: number }[];
  // Hours before the first quote of a day have none, and some quotes have no ask.
  expect(hours!.bids).toBeGreaterThan(hours!.n / 2);
  expect(hours!.bids).toBeLessThan(hours!.n);
  expect(hours!.asks).toBeLessThan(hours!.bids);
  expect(hours!.traded).toBe(0);
  const older = `SELECT count(*)::INTEGER AS n FROM candles_1h AS c WHERE bid IS NOT NULL AND NOT EXISTS (
    FROM quotes AS q WHERE q.symbol = c.symbol AND q.t >= c.t AND q.t < c.t + INTERVAL 1 HOUR)`;
  const [carried] = await select(output, older);
  expect(carried!.n).toBeGreaterThan(0);
});
