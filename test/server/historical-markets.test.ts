import { expect, test } from 'vitest';
import { fullDetails } from '../archive/format/facts.ts';
import { day0, dayMs, hourMs, market, now, opened, publishNow } from '../archive/scratch.ts';
import { lake, pagesOf, poll, symbols, ticksOf } from './historical-archive.ts';
import { serving } from './serving.ts';

const base = '/api/v1/historical/markets';
interface Item {
  readonly canonical_id: string;
  readonly symbol: string;
  readonly history: readonly Record<string, unknown>[];
}

test('returns a market in its last known state with its history', async () => {
  const { json } = await serving(await lake());
  const { body } = await json<{ markets: Item[]; total: number }>(`${base}?symbol=BBB`);
  const ticks = [0, 1, 2].flatMap((day) => ticksOf('BBB', day));
  const state = { views: ['matched'], category: 'crypto', closes_at: null };
  expect(body).toMatchObject({ count: 1, total: 1, next_cursor: null, generated_at: now });
  expect(body.markets).toEqual([
    {
      canonical_id: 'id-1',
      symbol: 'BBB',
      source: 'polymarket',
      question: 'Will BBB rise above 100%?',
      ...state,
      confidence: 0.9,
      is_active: false,
      opens_at: null,
      resolved_at: day0 + 2 * dayMs,
      outcome: 1,
      outcome_source: 'reported',
      event: fullDetails.event,
      exclusive: true,
      strike_low: fullDetails.strikeLow,
      strike_high: fullDetails.strikeHigh,
      expected_end: fullDetails.expectedEnd,
      rules_sha256: fullDetails.rulesSha256,
      fee_schedule: fullDetails.feeSchedule,
      tick_size: 0.001,
      first_seen: day0 + hourMs,
      last_seen: day0 + 2 * dayMs + hourMs,
      first_tick: ticks[0]![0],
      last_tick: ticks.at(-1)![0],
      ticks: ticks.length,
      states: 2,
      history: [
        {
          first_seen: day0 + hourMs,
          last_seen: day0 + dayMs + hourMs,
          ...state,
          is_active: true,
          resolved_at: null,
          outcome: null,
        },
        {
          first_seen: day0 + 2 * dayMs + hourMs,
          last_seen: day0 + 2 * dayMs + hourMs,
          ...state,
          is_active: false,
          resolved_at: day0 + 2 * dayMs,
          outcome: 1,
        },
      ],
    },
  ]);
});

test('filters markets by venue, category, identifiers, words, resolution and time', async () => {
  const { json } = await serving(await lake());
  const found = async (query: Record<string, string | number>) => {
    const { status, body } = await json<{ markets: Item[]; total: number; count: number }>(
      `${base}?${new URLSearchParams(Object.entries(query).map(([name, value]): [string, string] => [name, String(value)]))}`,
    );
    expect([status, body.total, body.count]).toEqual([200, body.markets.length, body.markets.length]);
    return body.markets.map(({ symbol }) => symbol);
  };
  const by = (which: (symbol: string, i: number) => boolean) =>
    symbols
      .map((symbol, i) => ({ symbol, id: i % 3, fits: which(symbol, i) }))
      .filter(({ fits }) => fits)
      .sort((a, b) => a.id - b.id)
      .map(({ symbol }) => symbol);
  expect(await found({})).toEqual(by(() => true));
  expect(await found({ source: 'kalshi' })).toEqual(by((_, i) => i % 2 === 0));
  expect(await found({ category: 'space' })).toEqual(['🚀']);
  // The last known category in the window, as it changed on the second day.
  expect(await found({ category: 'space', to: day0 + dayMs })).toEqual([]);
  expect(await found({ category: 'crypto', to: day0 + dayMs })).toEqual(by(() => true));
  expect(await found({ canonical_id: 'id-2' })).toEqual(by((_, i) => i % 3 === 2));
  expect(await found({ event: 'KXBTC-26NOV20' })).toEqual(by(() => true));
  expect(await found({ event: 'KXBTC' })).toEqual([]);
  expect(await found({ symbol: 'a b?' })).toEqual(['a b?']);
  expect(await found({ resolved: 'true' })).toEqual(['BBB']);
  expect(await found({ resolved: 'false' })).toEqual(by((symbol) => symbol !== 'BBB'));
  expect(await found({ resolved: 'true', to: day0 + 2 * dayMs })).toEqual([]);
  expect(await found({ q: 'RISE   100%' })).toEqual(by(() => true));
  expect(await found({ q: "will o'neil" })).toEqual(["O'Neil; --"]);
  expect(await found({ q: 'kalshi id-0 aaa' })).toEqual(['AAA']);
  expect(await found({ q: 'aaa bbb' })).toEqual([]);
  expect(await found({ q: '%' })).toHaveLength(6);
  expect(await found({ q: '_' })).toEqual([]);
  expect(await found({ from: day0 + 2 * dayMs + hourMs + 1 })).toEqual([]);
  expect(await found({ from: day0 + 2 * dayMs + hourMs })).toHaveLength(6);
  expect(await found({ to: day0 + hourMs })).toEqual([]);
  for (const attack of ["' OR 1=1 --", 'x"; DROP TABLE markets', '$1', '\u0001\n', '\\', '🚀\ufffd'])
    for (const name of ['source', 'category', 'canonical_id', 'q'])
      expect(await found({ [name]: attack }), `${name}=${attack}`).toEqual([]);
});

test('pages have every market once, sorted by canonical_id and symbol, with the total', async () => {
  const { json } = await serving(await lake());
  const whole = (await json<{ markets: Item[] }>(base)).body.markets;
  expect(whole).toHaveLength(6);
  for (const limit of [1, 4, 6]) {
    const pages = await pagesOf<Item>(json, `${base}?limit=${limit}`, 'markets');
    expect(pages.flat()).toEqual(whole);
  }
  const { body } = await json(`${base}?limit=2&source=kalshi`);
  expect(body).toMatchObject({ count: 2, total: 3 });
  const { next_cursor } = (await json<{ next_cursor: string }>(`${base}?limit=2`)).body;
  const [kind, , , query] = JSON.parse(Buffer.from(next_cursor, 'base64url').toString('utf8'));
  const beyond = Buffer.from(JSON.stringify([kind, 'zzz', '', query])).toString('base64url');
  expect((await json(`${base}?cursor=${beyond}`)).body).toMatchObject({ markets: [], total: 6, next_cursor: null });
});

test('a long history is limited to the latest states, with their total number', async () => {
  const archive = opened();
  for (let i = 0; i < 60; i++) poll(archive, day0 + i * 60_000, [market('AAA', { outcome: i / 100 })]);
  await publishNow(archive);
  const { json } = await serving(archive);
  const { markets } = (await json<{ markets: (Item & { states: number; outcome: number })[] }>(base)).body;
  expect(markets).toHaveLength(1);
  expect([markets[0]!.states, markets[0]!.outcome]).toEqual([60, 0.59]);
  expect(markets[0]!.history.map(({ outcome }) => outcome)).toEqual(
    Array.from({ length: 50 }, (_, i) => (i + 10) / 100),
  );
});
