import { expect, test } from 'vitest';
import { readSymbol } from '../../src/archive/journal/symbol-store.ts';
import { listGaps } from '../../src/archive/read/gaps.ts';
import { answer, append, day0, dayMs, hourMs, now, opened, publishNow, scratchFolder } from '../archive/scratch.ts';
import { lake, pagesOf, quoted, quotesOf, symbols, ticksOf } from './historical-archive.ts';
import { serving } from './serving.ts';

const base = '/api/v1/historical';
const all = symbols.flatMap((symbol) =>
  [0, 1, 2].flatMap((day) => ticksOf(symbol, day).map(([t, p]) => ({ symbol, t, p }))),
);

test('returns ticks of one symbol in [from, to), in order of time, from one generation', async () => {
  const archive = await lake();
  const { json } = await serving(archive);
  const symbol = "O'Neil; --";
  const [first, second, third] = ticksOf(symbol, 1);
  const query = `symbol=${encodeURIComponent(symbol)}&from=${first![0]}&to=${third![0]}`;
  const { status, headers, body } = await json(`${base}/ticks?${query}`);
  expect(status).toBe(200);
  expect(body).toEqual({
    ticks: [first, second].map((tick) => ({ symbol, t: tick![0], p: tick![1] })),
    count: 2,
    next_cursor: null,
    generated_at: now,
    generation: archive.readManifest().generation,
  });
  expect(headers.get('oddslake-generation')).toBe(String(archive.readManifest().generation));
  expect(headers.get('vary')).toBe('accept, accept-encoding, authorization');
});

test('pages of any size have every tick once, for one symbol and for all', async () => {
  const { json } = await serving(await lake());
  for (const limit of [9, 1000]) {
    const pages = await pagesOf(json, `${base}/ticks?limit=${limit}`, 'ticks');
    expect(pages.flat()).toEqual(all);
    expect(pages.slice(0, -1).every((page) => page.length === limit)).toBe(true);
  }
  for (const symbol of symbols.slice(-2)) {
    const path = `${base}/ticks?limit=4&symbol=${encodeURIComponent(symbol)}`;
    expect((await pagesOf(json, path, 'ticks')).flat()).toEqual(all.filter((tick) => tick.symbol === symbol));
  }
});

test('several symbols in one request are sorted, each once, in pages and in files', async () => {
  const { json, ask } = await serving(await lake());
  const chosen = ['🚀', 'AAA', 'ﬀ', 'AAA'];
  const query = chosen.map((symbol) => `symbol=${encodeURIComponent(symbol)}`).join('&');
  const wanted = all.filter(({ symbol }) => chosen.includes(symbol));
  expect((await pagesOf(json, `${base}/ticks?limit=4&${query}`, 'ticks')).flat()).toEqual(wanted);
  for (const [path, list] of [
    ['candles?interval=1h', 'candles'],
    ['candles?interval=5m', 'candles'],
    ['coverage?', 'coverage'],
    ['orderbooks?', 'orderbooks'],
    ['quotes?', 'quotes'],
    ['trades?', 'trades'],
  ] as const) {
    const whole = (await json<Record<string, { symbol: string }[]>>(`${base}/${path}`)).body[list]!;
    const own = whole.filter(({ symbol }) => chosen.includes(symbol));
    expect(own.length).toBeGreaterThan(0);
    expect((await pagesOf(json, `${base}/${path}&limit=4&${query}`, list)).flat(), path).toEqual(own);
    if (list === 'orderbooks') continue;
    const file = await ask(`${base}/${path}&format=ndjson&${query}`);
    expect(file.headers.get('content-disposition')).toContain('_3-symbols_');
    expect(
      (await file.text())
        .trim()
        .split('\n')
        .map((line) => JSON.parse(line).symbol),
    ).toEqual(own.map(({ symbol }) => symbol));
  }
  expect((await json(`${base}/coverage?${query}`)).body).not.toHaveProperty('gaps');
  const { next_cursor } = (await json<{ next_cursor: string }>(`${base}/ticks?limit=1&${query}`)).body;
  // The order and repetition of the symbols do not matter, but the list does.
  const reordered = [...chosen].reverse().map((symbol) => `symbol=${encodeURIComponent(symbol)}`);
  expect((await json(`${base}/ticks?${reordered.join('&')}&cursor=${next_cursor}`)).status).toBe(200);
  expect((await json(`${base}/ticks?${query}&symbol=BBB&cursor=${next_cursor}`)).status).toBe(400);
  expect((await json(`${base}/ticks?${query}&symbol=NONE`)).status).toBe(404);
  const repeat = (length: number): string => Array.from({ length }, () => 'symbol=BBB').join('&');
  expect((await json(`${base}/ticks?limit=1&${repeat(90)}`)).status).toBe(200);
  expect((await json(`${base}/ticks?limit=1&${repeat(91)}`)).status).toBe(400);
  expect((await json(`${base}/markets?symbol=AAA&symbol=BBB`)).status).toBe(400);
});

test('pages stay consistent while new generations are published', async () => {
  const root = scratchFolder();
  const { json } = await serving(await lake(root));
  const writer = opened({ root });
  const pages = await pagesOf<{ symbol: string; t: number }>(json, `${base}/ticks?limit=5`, 'ticks', async (page) => {
    if (page % 2 === 0 || page > 8) return;
    append(writer, ...symbols.map((symbol) => answer(symbol, [[day0 + hourMs * page + 7, 0.5]])));
    await publishNow(writer, now + page);
  });
  const keys = pages.flat().map(({ symbol, t }) => `${symbol} ${t}`);
  expect(new Set(keys).size).toBe(keys.length);
  expect(all.filter(({ symbol, t }) => !keys.includes(`${symbol} ${t}`))).toEqual([]);
  expect(keys.length).toBeGreaterThan(all.length);
});

test('reduces a limit above the maximum of the service', async () => {
  const { json } = await serving(await lake(), { set: ['service.ticks_limit_max=4', 'service.rows_limit_max=3'] });
  for (const limit of [1_000_000_000, Number.MAX_SAFE_INTEGER])
    expect((await json(`${base}/ticks?limit=${limit}`)).body.count).toBe(4);
  expect((await json(`${base}/ticks`)).body.count).toBe(4);
  for (const path of [
    'candles?interval=1h',
    'candles?interval=15m',
    'coverage?',
    'orderbooks?',
    'quotes?',
    'trades?',
    'markets?',
  ])
    expect((await json(`${base}/${path}&limit=1000`)).body.count).toBe(3);
});

test('returns coverage, and for one symbol the gaps of oddslake gaps', async () => {
  const archive = await lake();
  const { json } = await serving(archive);
  const pages = await pagesOf<{ symbol: string; t_from: number; t_to: number }>(
    json,
    `${base}/coverage?limit=4`,
    'coverage',
  );
  expect(pages.flat().map(({ symbol, t_from }) => [symbol, t_from])).toEqual(
    symbols.flatMap((symbol) => [0, 1, 2].map((day) => [symbol, day0 + day * dayMs])),
  );
  const { body } = await json(`${base}/coverage?symbol=AAA&from=${day0 + dayMs}&to=${day0 + 2 * dayMs}`);
  expect(body.coverage).toEqual([
    {
      dataset: 'ticks',
      symbol: 'AAA',
      t_from: day0 + dayMs,
      t_to: day0 + dayMs + 12 * hourMs,
      ticks: 3,
      fetched_at: now,
      origin: 'poll',
      evidence: 'confirmed',
      grain_ms: null,
    },
  ]);
  expect(body.gaps).toEqual([{ symbol: 'AAA', from: day0 + 1.5 * dayMs, to: day0 + 2 * dayMs, reason: 'never asked' }]);
  expect(body.gaps_count).toBe(1);
  const whole = (await json(`${base}/coverage?symbol=AAA`)).body;
  const facts = readSymbol(archive.state.db, 'AAA')!;
  expect(whole.gaps).toEqual(
    listGaps(
      archive,
      { from: null, to: null, symbols: [facts] },
      {
        namedSymbols: null,
        views: [],
        lifetimeRules: { lookbackMs: 7 * dayMs, lingerMs: 7 * dayMs },
      },
      now,
    ).gaps,
  );
  expect((await json(`${base}/coverage?symbol=AAA&from=${now + 1}&to=${now + 2}`)).body).toMatchObject({
    coverage: [],
    gaps: [],
    gaps_count: 0,
  });
  for (const dataset of ['orderbooks', 'quotes', 'trades']) {
    const { body } = await json<{ coverage: { dataset: string }[] }>(`${base}/coverage?symbol=AAA&dataset=${dataset}`);
    expect(body).not.toHaveProperty('gaps');
    expect(new Set(body.coverage.map((window) => window.dataset))).toEqual(new Set([dataset]));
  }
});

test('the gaps of a symbol follow what another process journals and publishes of other symbols', async () => {
  const root = scratchFolder();
  const [writer, reader] = [opened({ root }), opened({ root })];
  append(writer, answer('AAA', [[day0, 1]], { windows: [{ from: day0, to: day0 + hourMs }] }));
  await publishNow(writer);
  const { json } = await serving(reader);
  const gapsEnd = async () =>
    (await json<{ gaps: { to: number }[] }>(`${base}/coverage?symbol=AAA`)).body.gaps.at(-1)?.to;
  expect(await gapsEnd()).toBeUndefined();
  for (const hours of [2, 5, 9]) {
    const to = day0 + hours * hourMs;
    append(writer, answer('BBB', [[to - 1, 1]], { windows: [{ from: day0, to }] }));
    expect(await gapsEnd()).toBe(to);
    await publishNow(writer);
    expect(await gapsEnd()).toBe(to);
  }
});

test('returns complete order book snapshots with best levels first, including empty ones', async () => {
  const { json } = await serving(await lake());
  const book = (symbol: string, day: number, i: number) => ({
    symbol,
    t: day0 + day * dayMs + i * 60_000,
    bids:
      i === 1
        ? []
        : [
            { price: 0.4, quantity: i + 1 },
            { price: 0.39, quantity: 5 },
          ],
    asks: i === 1 ? [] : [{ price: 0.5, quantity: 2 }],
  });
  const wanted = ['AAA', 'BBB'].flatMap((symbol) =>
    [0, 1, 2].flatMap((day) => [0, 1, 2].map((i) => book(symbol, day, i))),
  );
  for (const limit of [1, 5]) {
    const path = `${base}/orderbooks?limit=${limit}`;
    expect((await pagesOf(json, path, 'orderbooks')).flat()).toEqual(wanted);
    const own = wanted.filter(({ symbol, t }) => symbol === 'BBB' && t >= day0 + dayMs);
    expect((await pagesOf(json, `${path}&symbol=BBB&from=${day0 + dayMs}`, 'orderbooks')).flat()).toEqual(own);
  }
});

test('returns quotes sorted by symbol and time, with null for a missing side or size', async () => {
  const { json } = await serving(await lake());
  const all = quoted
    .flatMap((symbol) => [0, 1, 2].flatMap((day) => quotesOf(symbol, day)))
    .map((one) => ({ ...one, event_at: null, received_at: null }));
  expect(all.filter(({ bid, ask_size: size }) => bid === null || size === null)).toHaveLength(18);
  const [from, to] = [day0 + 60_000, day0 + 2 * dayMs + 2];
  const inWindow = all.filter(({ t }) => t >= from && t < to);
  for (const limit of [1, 4, 1000]) {
    const pages = (query: string) => pagesOf(json, `${base}/quotes?limit=${limit}${query}`, 'quotes');
    expect((await pages('')).flat()).toEqual(all);
    expect((await pages(`&from=${from}&to=${to}`)).flat()).toEqual(inWindow);
    const named = ['🚀', 'AAA', 'BBB'].map((symbol) => `&symbol=${encodeURIComponent(symbol)}`).join('');
    const own = inWindow.filter(({ symbol }) => symbol !== "O'Neil; --");
    expect((await pages(`&from=${from}&to=${to}${named}`)).flat()).toEqual(own);
  }
  // A known symbol without quotes.
  expect((await json(`${base}/quotes?symbol=BBB`)).body).toMatchObject({ quotes: [], count: 0, next_cursor: null });
});

test('an empty archive gives empty responses', async () => {
  const { json } = await serving(opened());
  for (const [path, name] of [
    ['ticks?', 'ticks'],
    ['candles?interval=1d', 'candles'],
    ['candles?interval=5m', 'candles'],
    ['coverage?', 'coverage'],
    ['orderbooks?', 'orderbooks'],
    ['quotes?', 'quotes'],
    ['trades?', 'trades'],
    ['markets?', 'markets'],
  ] as [string, string][]) {
    const { status, body } = await json(`${base}/${path}`);
    expect([status, body[name], body.count, body.next_cursor], path).toEqual([200, [], 0, null]);
  }
});
