import { rmSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { Selections, SymbolSelection } from '../../src/archive/format/selection.ts';
import { appendMarkets } from '../../src/archive/journal/journal.ts';
import { recordSelections } from '../../src/archive/journal/selection-store.ts';
import { recordMarkets } from '../../src/archive/journal/symbol-store.ts';
import type { SymbolsQuery, SymbolsResponse } from '../../src/contract/symbols.ts';
import {
  buildSymbolTable,
  foldText,
  type SymbolRow,
  searchSymbols,
  toSearchText,
} from '../../src/server/history/symbol-search.ts';
import { answer, append, day0, dayMs, hourMs, market, now, opened, publishNow } from '../archive/scratch.ts';
import { serving } from './serving.ts';
import { rubbish } from './web/lake.ts';

const row = (symbol: string, rest: Partial<SymbolRow> = {}): SymbolRow => ({
  symbol,
  canonical_id: null,
  source: 'kalshi',
  question: null,
  category: null,
  is_active: true,
  opens_at: null,
  ends_at: null,
  resolved_at: null,
  outcome: null,
  first_seen: day0,
  first_tick: null,
  last_tick: null,
  ticks: 0,
  ...rest,
});
const tableOf = (...rows: SymbolRow[]) => buildSymbolTable(rows, rows.map(toSearchText));
const find = (rows: SymbolRow[], query: SymbolsQuery = {}) =>
  searchSymbols(tableOf(...rows), query, now).symbols.map(({ symbol }) => symbol);

describe('search', () => {
  test('words match question, symbol, category, venue and canonical ID, in any order, case or accent', () => {
    const rows = [
      row('KXRAIN-26', { question: 'Will it rain in São Paulo?', category: 'Weather', canonical_id: 'm-77' }),
      row('KXSNOW-26', { question: 'Will it snow?', category: 'Weather', source: 'polymarket' }),
    ];
    for (const q of ['sao rain', 'RAIN são', 'paulo weather', 'kxrain', 'm-77', 'kalshi', ' rain\t\n paulo '])
      expect([q, find(rows, { q })]).toEqual([q, ['KXRAIN-26']]);
    expect(find(rows, { q: 'weather' })).toHaveLength(2);
    expect(find(rows, { q: '' })).toHaveLength(2);
    expect(find(rows, { q: 'rain snow' })).toEqual([]);
  });

  test('the symbol with exactly this name is first, whatever the sort', () => {
    const rows = [row('AB', { ticks: 9 }), row('A', { ticks: 1 }), row('ABC', { ticks: 5 })];
    expect(find(rows, { q: 'A' })).toEqual(['A', 'AB', 'ABC']);
    expect(find(rows, { q: 'A', limit: 1, offset: 1 })).toEqual(['AB']);
    expect(find(rows, { q: 'A', limit: 2, offset: 2 })).toEqual(['ABC']);
  });

  test('sorts by ticks, age, end and name', () => {
    const rows = [
      row('B', { ticks: 5, opens_at: now - 2 * dayMs, ends_at: now + dayMs }),
      row('A', { ticks: 5, opens_at: now - dayMs, ends_at: now - dayMs }),
      row('D', { ticks: 9, opens_at: now - 3 * dayMs }),
      row('C', { ticks: 0, opens_at: now, ends_at: now + hourMs }),
      row('E', { ticks: 0, ends_at: now - hourMs }),
    ];
    expect(find(rows)).toEqual(['D', 'A', 'B', 'C', 'E']);
    expect(find(rows, { sort: 'name' })).toEqual(['A', 'B', 'C', 'D', 'E']);
    expect(find(rows, { sort: 'newest' }).slice(0, 3)).toEqual(['C', 'A', 'B']);
    // The next end first, then those that ended, the latest first, then those without an end.
    expect(find(rows, { sort: 'ending' })).toEqual(['C', 'B', 'E', 'A', 'D']);
  });

  test('filters by venue, category and state', () => {
    const rows = [
      row('ACTIVE', { category: 'a', ends_at: now + 8 * dayMs }),
      row('SOON', { category: 'a', ends_at: now + 7 * dayMs }),
      row('CLOSED', { category: 'b', is_active: false, ends_at: now + dayMs }),
      row('RESOLVED', { category: 'b', outcome: 0 }),
      row('SETTLED', { category: 'b', resolved_at: now }),
      row('UNLISTED', { source: null, is_active: null }),
    ];
    expect(find(rows, { state: 'active' })).toEqual(['ACTIVE', 'SOON']);
    expect(find(rows, { state: 'ending' })).toEqual(['SOON']);
    expect(find(rows, { state: 'closed' })).toEqual(['CLOSED']);
    expect(find(rows, { state: 'resolved' })).toEqual(['RESOLVED', 'SETTLED']);
    expect(find(rows, { state: 'unlisted' })).toEqual(['UNLISTED']);
    expect(find(rows, { category: 'b', state: 'resolved', q: 'settled' })).toEqual(['SETTLED']);
    expect(find(rows, { source: 'kalshi' })).toHaveLength(5);
    expect(tableOf(...rows).categories).toEqual([
      { name: 'b', symbols: 3 },
      { name: 'a', symbols: 2 },
    ]);
  });

  test('pages are disjoint and complete, and equal a plain filter and sort', () => {
    const rows = fc.array(
      fc.record({
        name: fc.string({ unit: 'binary', minLength: 1, maxLength: 4 }),
        ticks: fc.nat(3),
        ends_at: fc.option(fc.integer({ min: now - 5, max: now + 5 })),
      }),
      { maxLength: 40 },
    );
    fc.assert(
      fc.property(
        rows,
        fc.string({ unit: 'binary', maxLength: 2 }),
        fc.integer({ min: 1, max: 7 }),
        fc.constantFrom('ticks', 'name', 'newest', 'ending'),
        (given, q, limit, sort) => {
          const all = [...new Map(given.map(({ name, ...rest }) => [name, row(name, rest)])).values()];
          const table = tableOf(...all);
          const seen: string[] = [];
          for (let page = 1; page <= 41; page++)
            seen.push(
              ...searchSymbols(table, { q, limit, offset: (page - 1) * limit, sort }, now).symbols.map(
                ({ symbol }) => symbol,
              ),
            );
          const words = foldText(q)
            .split(/\s+/u)
            .filter((word) => word !== '');
          const expected = all.filter(
            (one) =>
              words.every((word) => toSearchText(one).includes(word)) || (words.length > 0 && one.symbol === q.trim()),
          );
          expect(new Set(seen).size).toBe(seen.length);
          expect(seen.toSorted()).toEqual(expected.map(({ symbol }) => symbol).toSorted());
        },
      ),
    );
  });
});

async function published(symbols: readonly string[]) {
  const archive = opened();
  const markets = symbols.map((symbol) =>
    market(symbol, { question: `Question of ${symbol}`, category: 'weather', closesAt: now + dayMs }),
  );
  recordMarkets(archive.state.db, markets, now, true);
  appendMarkets(archive.state, { runId: 'run', observedAt: now, markets }, []);
  append(archive, answer(symbols[0]!, [[day0, 0.5]], { windows: [{ from: day0, to: now - hourMs }] }));
  await publishNow(archive);
  return archive;
}

test('finds symbols by words, filters and sorts, page by page', async () => {
  const archive = await published(['AAA', 'BBB', 'CCC']);
  const { json } = await serving(archive);
  const get = async (query: string) => (await json<SymbolsResponse>(`/api/v1/symbols?${query}`)).body;
  const first = await get('limit=2');
  expect(first).toMatchObject({ count: 2, total: 3, offset: 0, omitted: 0, generation: 1 });
  expect(first.symbols[0]).toMatchObject({
    symbol: 'AAA',
    ticks: 1,
    first_tick: day0,
    state: 'active',
    category: 'weather',
  });
  expect(first.categories).toEqual([{ name: 'weather', symbols: 3 }]);
  expect((await get('limit=2&offset=2')).symbols.map(({ symbol }) => symbol)).toEqual(['CCC']);
  expect((await get('offset=1000000')).symbols).toEqual([]);
  expect((await get('q=question+bbb&state=ending&sort=ending')).symbols.map(({ symbol }) => symbol)).toEqual(['BBB']);

  // A publish shows in the next response.
  append(
    archive,
    answer(
      'BBB',
      [
        [day0, 0.5],
        [day0 + 1, 0.6],
      ],
      { windows: [{ from: day0, to: now - hourMs }] },
    ),
  );
  await publishNow(archive);
  const after = await get('limit=1');
  expect([after.generation, after.symbols[0]!.symbol]).toEqual([2, 'BBB']);
});

describe('symbols that are not collected', () => {
  const open = (kind: 'excluded' | 'forgotten', from: number, reason: string | null = null) => ({
    unselected: [{ kind, from, to: Number.POSITIVE_INFINITY, reason, decidedAt: now }],
  });
  const never = Number.NEGATIVE_INFINITY;

  test('have a state of their own until their market ends', () => {
    const selections: Selections = new Map<string, SymbolSelection>([
      ['OUT', open('excluded', never)],
      ['GONE', open('forgotten', day0)],
      ['UNLISTED', open('forgotten', day0)],
      ['CLOSED', open('excluded', day0)],
      ['RESOLVED', open('forgotten', day0)],
      ['BACK', { unselected: [{ ...open('forgotten', day0).unselected[0]!, to: now }], watchedAt: now }],
    ]);
    const rows = [
      row('OUT', { ends_at: now + dayMs }),
      row('GONE'),
      row('UNLISTED', { is_active: null }),
      row('CLOSED', { is_active: false }),
      row('RESOLVED', { outcome: 1 }),
      row('BACK'),
    ];
    const { symbols } = searchSymbols(tableOf(...rows), { sort: 'name' }, now, selections);
    expect(symbols.map(({ symbol, state, not_collected }) => [symbol, state, not_collected?.kind])).toEqual([
      ['BACK', 'active', undefined],
      ['CLOSED', 'closed', 'excluded'],
      ['GONE', 'forgotten', 'forgotten'],
      ['OUT', 'excluded', 'excluded'],
      ['RESOLVED', 'resolved', 'forgotten'],
      ['UNLISTED', 'forgotten', 'forgotten'],
    ]);
    const count = (state: SymbolsQuery['state'] & string) =>
      searchSymbols(tableOf(...rows), { state }, now, selections).total;
    expect((['active', 'excluded', 'forgotten', 'ending'] as const).map(count)).toEqual([1, 1, 2, 0]);
  });

  test('are served with when and why, also without the state', async () => {
    const archive = await published(['AAA', 'BBB', 'CCC']);
    const root = archive.layout.root;
    const service = await serving(archive);
    const get = async ({ json }: typeof service, query: string) =>
      (await json<SymbolsResponse>(`/api/v1/symbols?${query}`)).body;
    expect((await get(service, 'state=forgotten')).total).toBe(0);
    // A decision changes the manifest alone: no row of a symbol differs.
    recordSelections(
      archive.state.db,
      new Map([
        ['AAA', open('forgotten', day0 + hourMs, rubbish[0]!)],
        ['BBB', open('excluded', never)],
      ]),
    );
    append(archive, answer('CCC', [[day0, 0.5]], { windows: [{ from: day0, to: now - hourMs }] }));
    await publishNow(archive);
    const expectDecided = async (on: typeof service) => {
      expect((await get(on, 'state=forgotten')).symbols).toMatchObject([
        {
          symbol: 'AAA',
          state: 'forgotten',
          not_collected: { kind: 'forgotten', since: day0 + hourMs, reason: rubbish[0], decided_at: now },
        },
      ]);
      expect((await get(on, 'state=excluded')).symbols).toMatchObject([
        { symbol: 'BBB', not_collected: { kind: 'excluded', since: null, reason: null, decided_at: now } },
      ]);
      expect((await get(on, 'state=active')).symbols).toMatchObject([{ symbol: 'CCC', not_collected: null }]);
    };
    await expectDecided(service);
    await service.stop();
    archive.close();
    rmSync(join(root, '.oddslake'), { recursive: true });
    await expectDecided(await serving(opened({ root })));
  });
});

test('an empty archive has no symbols', async () => {
  const { json } = await serving(opened());
  expect((await json('/api/v1/symbols?q=a')).body).toMatchObject({ symbols: [], total: 0, categories: [] });
});

test('hostile names and queries do no harm', async () => {
  const { json } = await serving(await published([...rubbish, '__proto__', '%_\\', "'; DROP TABLE symbols; --"]));
  for (const symbol of [...rubbish, '__proto__', '%_\\', "'; DROP TABLE symbols; --"]) {
    const { body } = await json<SymbolsResponse>(`/api/v1/symbols?q=${encodeURIComponent(symbol)}`);
    expect([symbol, body.symbols[0]?.symbol]).toEqual([symbol, symbol]);
  }
  for (const query of ['q=.*', 'q=%25', 'q=(a%2B)%2B%24', 'category=__proto__', `q=${'a%20'.repeat(300)}`])
    expect([query, (await json(`/api/v1/symbols?${query}`)).status]).toEqual([query, 200]);
  for (const query of [
    'offset=-1',
    'offset=1e3',
    'limit=0',
    'sort=ticks;',
    'state=',
    'source=',
    'q=%00',
    `q=${'a'.repeat(1001)}`,
    'q=a&q=b',
    'other=1',
  ])
    expect([query, (await json(`/api/v1/symbols?${query}`)).status]).toEqual([query, 400]);
});
