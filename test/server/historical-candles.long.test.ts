import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { openArchiveQuery } from '../../src/archive/query/pinned-query.ts';
import { answer, append, day0, dayMs, hourMs, now, opened, publishNow } from '../archive/scratch.ts';
import { lake, pagesOf } from './historical-archive.ts';
import { serving } from './serving.ts';

const base = '/api/v1/historical';

test('returns the candles of the archive for every interval, by symbol, window and page', async () => {
  const archive = await lake();
  const { json } = await serving(archive);
  const sql = await openArchiveQuery(archive, "FROM candles('1m'), candles_1d, candles_1h", Math.random);
  const computed = 'symbol, epoch_ms(t)::DOUBLE AS t, open, high, low, close, ticks, covered';
  const window = { from: day0 + 3 * hourMs, to: day0 + dayMs + 5 * hourMs };
  try {
    for (const interval of ['1m', '5m', '15m', '30m', '1h', '4h', '6h', '12h', '1d', '1w']) {
      const isPublished = interval === '1h' || interval === '1d';
      const source = isPublished ? `candles_${interval}` : `candles('${interval}')`;
      const columns = isPublished ? `${computed}, bid, ask, volume, trades, vwap` : computed;
      const wanted = await sql.query.readRows(`SELECT ${columns} FROM ${source} ORDER BY symbol, t`);
      expect(wanted.length).toBeGreaterThan(0);
      if (isPublished) expect(wanted.filter(({ bid, ask }) => (bid ?? ask) !== null).length).toBeGreaterThan(0);
      const path = `${base}/candles?interval=${interval}`;
      expect((await pagesOf(json, `${path}&limit=120`, 'candles')).flat(), interval).toEqual(wanted);
      const inside = wanted.filter(({ t }) => window.from <= (t as number) && (t as number) < window.to);
      const cut = `from=${window.from}&to=${window.to}`;
      expect((await pagesOf(json, `${path}&${cut}`, 'candles')).flat(), interval).toEqual(inside);
      const mine = inside.filter(({ symbol }) => symbol === '🚀');
      const own = `${path}&${cut}&limit=4&symbol=${encodeURIComponent('🚀')}`;
      expect((await pagesOf(json, own, 'candles')).flat(), interval).toEqual(mine);
    }
  } finally {
    await sql.close();
  }
});

test('computes candles that the archive does not store', async () => {
  const archive = opened();
  append(
    archive,
    answer(
      'AAA',
      [
        [day0, 0.5],
        [day0 + 1, 0.7],
      ],
      { windows: [{ from: day0, to: day0 + dayMs }] },
    ),
  );
  await publishNow(archive, now, 'run', { candles: [] });
  const { json } = await serving(archive);
  const { body } = await json(`${base}/candles?interval=1h`);
  expect(body).toMatchObject({
    interval: '1h',
    candles: [{ symbol: 'AAA', t: day0, open: 0.5, high: 0.7, low: 0.5, close: 0.7, ticks: 2, covered: 1 }],
  });
});

test('gives 503 for candles that are missing because a part of ticks is damaged', async () => {
  const archive = opened();
  const mine = 'AAA';
  const other = 'BBB';
  append(archive, answer(mine, [[day0, 0.5]]), answer(other, [[day0, 0.7]]));
  await publishNow(archive, now, 'run', { candles: [] });
  const partOfMine = 'ticks/date=2026-06-01/part-00.parquet';
  const file = join(archive.layout.root, partOfMine);
  const bytes = readFileSync(file);
  writeFileSync(file, bytes.with(20, bytes[20]! ^ 1));
  const { refused } = await publishNow(archive, now, 'run', { candles: ['1h', '1d'] });
  expect(refused).toHaveLength(1);
  const { json } = await serving(archive);
  const of = (symbol: string) =>
    json<{ candles: object[] }>(`${base}/candles?interval=1h&symbol=${symbol}`).then(({ status, body }) => [
      status,
      body.candles?.length,
    ]);
  expect(await of(other)).toEqual([200, 1]);
  expect(await of(mine)).toEqual([503, undefined]);
  writeFileSync(file, bytes);
  expect(await of(mine)).toEqual([200, 1]);
});
