import { describe, expect, test } from 'vitest';
import type { FileSample, GivenFlags } from '../../../src/collector/import/guess-columns.ts';
import { guessFlags, guessTrades } from '../../../src/collector/import/guess-flags.ts';
import { parseLevels, readBookRow } from '../../../src/collector/import/import-books.ts';
import { looksLikeCents } from '../../../src/collector/import/price-range.ts';
import {
  listFields,
  listUnusedColumns,
  matchesFilters,
  readField,
  renameColumns,
  resolveColumns,
} from '../../../src/collector/import/row-columns.ts';
import { defaultRowRules } from './row-rules.ts';

const given: GivenFlags = { datasets: null, renames: [], filters: [], rows: defaultRowRules };

/** A sample of ten rows, each with the same texts but for `{i}`, the number of the row. */
function sampleOf(columns: Readonly<Record<string, string | null>>, rows = 10): FileSample {
  const names = Object.keys(columns);
  const fill = (text: string | null, i: number): string | null => text?.replaceAll('{i}', String(i)) ?? null;
  return { names, rows: Array.from({ length: rows }, (_, i) => names.map((name) => fill(columns[name]!, i))) };
}

describe('the flags that are guessed', () => {
  test.each<[string, Record<string, string>, string[]]>([
    [
      'known names',
      { ticker: 'A', timestamp: '178377120{i}000', price: '0.5' },
      ['--columns symbol=ticker,t=timestamp,p=price'],
    ],
    [
      'microseconds',
      { ticker: 'A', timestamp: '2026-07-11T12:00:0{i}.123456+00:00', price: '0.5' },
      ['--columns symbol=ticker,t=timestamp,p=price', '--truncate-time'],
    ],
    ['nanoseconds', { symbol: 'A', t: '178377120{i}000000000', p: '0.5' }, ['--time-unit ns']],
    [
      'nanoseconds that are not whole milliseconds',
      { symbol: 'A', t: '178377120{i}000000001', p: '0.5' },
      ['--time-unit ns', '--truncate-time'],
    ],
    ['cents', { symbol: 'A', t: '178377120{i}000', p: '4{i}' }, ['--price-scale 0.01']],
    ['decimal commas', { symbol: 'A', t: '178377120{i}000', p: '0,4{i}' }, ['--decimal-comma']],
    ['no zone', { symbol: 'A', t: '2026-07-11 12:00:0{i}', p: '0.4' }, ['--tz UTC']],
    [
      'a column of times under an unknown name',
      { symbol: 'A', when: '178377120{i}', p: '0.4' },
      ['--columns t=when', '--time-unit s'],
    ],
    [
      'columns of nested objects',
      { type: 'ticker', 'msg/market_ticker': 'A', 'msg/ts': '178377120{i}', 'msg/price': '48' },
      ['--columns symbol=msg/market_ticker,t=msg/ts,p=msg/price', '--time-unit s', '--price-scale 0.01'],
    ],
    [
      'order books',
      { asset_id: 'A', ts: '178377120{i}000', bids: '[[0.4, 100]]', asks: '[[0.5, 7]]' },
      ['--dataset orderbooks', '--columns symbol=asset_id,t=ts'],
    ],
    [
      'the price of a candle, not its bid',
      { symbol: 'A', t: '178377120{i}000', 'yes_bid/close': '0.4', 'yes_ask/close': '0.6', 'price/close': '0.5' },
      ['--columns p=price/close'],
    ],
    [
      'order books beside other columns',
      { market: 'M', asset_id: 'A', ts: '178377120{i}000', bids: '[]', asks: '[[0.5, 7]]', hash: '0x1' },
      ['--dataset orderbooks', '--columns symbol=asset_id,t=ts'],
    ],
    [
      'the token of a market, whose tokens have different prices',
      { market: 'M', slug: 'm', asset_id: 'A{i}', timestamp: '178377120{i}000', price: '0.5' },
      ['--columns symbol=asset_id,t=timestamp,p=price'],
    ],
    [
      'quotes',
      { ticker: 'A', timestamp: '178377120{i}000', bid: '0.4', ask: '0.5' },
      ['--dataset quotes', '--columns symbol=ticker,t=timestamp'],
    ],
    [
      'quotes of YES in cents, with sizes, beside those of NO',
      {
        ticker: 'A',
        ts: '178377120{i}000',
        yes_bid: '4{i}',
        yes_ask: '51',
        no_bid: '49',
        bid_qty: '1000',
        yes_ask_size: '7',
      },
      [
        '--dataset quotes',
        '--columns symbol=ticker,t=ts,bid=yes_bid,ask=yes_ask,bid_size=bid_qty,ask_size=yes_ask_size',
        '--price-scale 0.01',
      ],
    ],
    [
      'quotes with one side',
      { symbol: 'A', t: '178377120{i}', best_ask: '0.5' },
      ['--dataset quotes', '--columns ask=best_ask', '--time-unit s'],
    ],
    [
      'the price of a file that has quotes too',
      { ticker: 'A', t: '178377120{i}000', bid: '0.4', ask: '0.5', last: '0.4' },
      ['--columns symbol=ticker,p=last'],
    ],
    [
      'order books in cents',
      { symbol: 'A', t: '178377120{i}000', bids: '[[40, 100]]', asks: "[{'price': 50, 'size': 7}]" },
      ['--price-scale 0.01'],
    ],
    [
      'a name that a shell would split',
      { 'the ticker': 'A', t: '178377120{i}000', p: '0.4' },
      ["--columns 'symbol=the ticker'"],
    ],
  ])('for %s', (_, columns, flags) => {
    const guess = guessFlags(sampleOf(columns), given)!;
    expect(guess.flags).toEqual(flags);
    expect([guess.rows, guess.readable]).toEqual([10, 10]);
  });

  test('name several units if times have several', () => {
    const { names, rows } = sampleOf({ symbol: 'A', t: '178377120{i}', p: '0.5' });
    const mixed = { names, rows: [...rows, ...rows.map(([symbol, t, p]) => [symbol!, `${t}000`, p!])] };
    expect(guessFlags(mixed, given)).toMatchObject({ flags: ['--time-unit auto'], rows: 20, readable: 20 });
  });

  test('select the rows that have all columns, if one column tells them apart', () => {
    const ticks = sampleOf({ type: 'ticker', ticker: 'A', ts: '178377120{i}000', price: '0.5' });
    const others = sampleOf({ type: 'subscribed', ticker: null, ts: null, price: null }, 5);
    const guess = guessFlags({ names: ticks.names, rows: [...others.rows, ...ticks.rows] }, given)!;
    expect(guess.flags).toEqual(['--columns symbol=ticker,t=ts,p=price', '--where type=ticker']);
    expect([guess.rows, guess.readable]).toEqual([10, 10]);
    const undivided = [...others.rows.map(([, ...rest]) => ['ticker', ...rest]), ...ticks.rows];
    const none = guessFlags({ names: ticks.names, rows: undivided }, given)!;
    expect(none.flags).toEqual(['--columns symbol=ticker,t=ts,p=price']);
    expect([none.rows, none.readable]).toEqual([15, 10]);
  });

  test.each([
    ['outcome', ['No', 'Yes'], ['--where outcome=Yes']],
    ['side', ['bid', 'ask'], ['--where side=bid']],
    ['event_type', ['last_trade_price', 'price_change'], ['--where event_type=last_trade_price']],
    ['type', ['buy', 'sell'], []],
  ])('select one kind of the rows of one symbol, by %s', (column, [one, other], flags) => {
    const ofOne = sampleOf({ market: 'M', [column]: one!, timestamp: '178377120{i}000', price: '0.4' });
    const ofOther = sampleOf({ market: 'M', [column]: other!, timestamp: '178377120{i}000', price: '0.6' });
    const guess = guessFlags({ names: ofOne.names, rows: [...ofOne.rows, ...ofOther.rows] }, given)!;
    expect(guess.flags).toEqual(['--columns symbol=market,t=timestamp,p=price', ...flags]);
    expect(guess.clauses.join()).toMatch(flags.length > 0 ? /is only an example/ : /price/);
  });

  test('keep what was given, and add nothing to what suffices', () => {
    const sample = sampleOf({ ticker: 'A', other: 'B', ts: '178377120{i}', price: '45' });
    const renames = [['symbol', 'other']] as const;
    const rows = { ...defaultRowRules, unit: 's', priceScale: { factor: 1, divisor: 1 } } as const;
    expect(guessFlags(sample, { ...given, renames, rows })!.flags).toEqual(['--columns symbol=other,t=ts,p=price']);
    expect(guessFlags(sampleOf({ symbol: 'A', t: '178377120{i}000', p: '0.5' }), given)).toBeNull();
  });

  test.each<[string, Record<string, string>]>([
    ['no price', { ticker: 'A', timestamp: '178377120{i}000', note: 'x' }],
    ['a bid and an ask of NO', { ticker: 'A', timestamp: '178377120{i}000', no_bid: '0.4', no_ask: '0.5' }],
    [
      'two columns of times with unknown names',
      { symbol: 'A', began: '178377120{i}000', ended: '178377120{i}000', p: '0.5' },
    ],
    ['days whose times are in another column', { symbol: 'A', date: '2026-07-11', time: '12:00:0{i}', p: '0.5' }],
    ['a time at which no price was observed', { symbol: 'A', close_time: '178377120{i}000', p: '0.5' }],
    ['a column of the right name with other values', { symbol: 'A', t: '178377120{i}000', price: 'cheap' }],
    ['names that --columns cannot hold', { 'a,b': 'A', t: '178377120{i}000', p: '0.5' }],
  ])('are none for %s', (_, columns) => {
    expect(guessFlags(sampleOf(columns), given)).toBeNull();
  });
});

describe('columns that look like trades', () => {
  const ofTrades = { ticker: 'A', created_time: '178377120{i}000', trade_id: 'x{i}', count: '3' };

  test('are named with the flags that import them, beside the flags for ticks', () => {
    const guess = guessFlags(sampleOf({ ...ofTrades, yes_price: '0.4', taker_side: 'yes' }), given)!;
    expect(guess.flags).toEqual(['--columns symbol=ticker,t=created_time,p=yes_price']);
    expect(guess.clauses.at(-1)).toBe(
      'trade_id, count and taker_side look like trades: --dataset trades --columns symbol=ticker,t=created_time,price=yes_price,size=count,aggressor=taker_side imports them; without it, prices are stored as ticks',
    );
  });

  test.each<[string, Record<string, string>, Partial<GivenFlags>, string[], string[]]>([
    [
      'an identifier and a size',
      { symbol: 'A', t: '178377120{i}000', price: '0.4', size: '2', trade_id: 'x{i}' },
      { renames: [['p', 'price']] },
      ['trade_id', 'size'],
      ['--dataset trades', '--columns price=price'],
    ],
    [
      'a side and a volume, in cents and in seconds',
      { symbol: 'A', t: '178377120{i}', p: '4{i}', volume: '2.5', side: 'BUY' },
      {},
      ['volume', 'side'],
      ['--dataset trades', '--columns price=p,size=volume,aggressor=side', '--time-unit s', '--price-scale 0.01'],
    ],
    [
      'an identifier of any name beside a quantity',
      { symbol: 'A', t: '178377120{i}000', p: '0.4', quantity: '2', id: '{i}' },
      {},
      ['id', 'quantity'],
      ['--dataset trades', '--columns price=p,size=quantity,trade_id=id'],
    ],
    [
      'columns of nested objects, under given names',
      { 'msg/a': 'A', ts: '178377120{i}000', 'msg/last': '0.4', 'msg/qty': '2', 'msg/side': 'sell' },
      {
        renames: [
          ['symbol', 'msg/a'],
          ['t', 'ts'],
          ['p', 'msg/last'],
        ],
      },
      ['msg/qty', 'msg/side'],
      ['--dataset trades', '--columns symbol=msg/a,t=ts,price=msg/last,size=msg/qty,aggressor=msg/side'],
    ],
  ])('are %s', (_, columns, more, names, flags) => {
    expect(guessTrades(sampleOf(columns), { ...given, ...more })).toEqual({ columns: names, flags });
  });

  test.each<[string, Record<string, string>]>([
    ['a size alone', { size: '2' }],
    ['a side alone', { side: 'buy' }],
    ['the number of a row beside a volume', { id: '{i}', volume: '100' }],
    ['a side of an order book', { side: 'bid', size: '2' }],
    ['a size that is no number', { side: 'buy', size: 'large' }],
    ['sizes that no trade has', { side: 'buy', size: '0' }],
  ])('are not %s', (_, columns) => {
    const sample = sampleOf({ symbol: 'A', t: '178377120{i}000', p: '0.4', ...columns });
    expect(guessTrades(sample, given)).toBeNull();
  });

  test('are not mentioned if the dataset is given', () => {
    const sample = sampleOf({ ...ofTrades, yes_price: '0.4', taker_side: 'yes' });
    for (const dataset of ['ticks', 'trades'] as const)
      expect(guessFlags(sample, { ...given, datasets: [dataset] })!.clauses.join()).not.toContain('look like trades');
  });
});

test.each<[number[], boolean]>([
  [[12, 45, 99], true],
  [[0, 1, 100], true],
  [[45.5, 0.5, 99.5], true],
  [[0, 1, 1], false],
  [[0.4, 0.5], false],
  [[0.4, 0.5, 0.6, 1.2], false],
  [[45, 101], false],
  [[45, -1], false],
  [[], false],
])('prices %j look like cents: %s', (prices, expected) => {
  expect(looksLikeCents(prices)).toBe(expected);
});

describe('columns', () => {
  const none = { renames: [], filters: [] };

  test('are found in any case, if only one differs', () => {
    expect(resolveColumns(['SYMBOL', 'T', 'P', 'x'], none)).toEqual({
      renames: [
        ['symbol', 'SYMBOL'],
        ['t', 'T'],
        ['p', 'P'],
      ],
      filters: [],
    });
    expect(resolveColumns(['symbol', 'T', 'Ts', 'P', 'p'], { renames: [['t', 'TS']], filters: [] })).toEqual({
      renames: [['t', 'Ts']],
      filters: [],
    });
    expect(resolveColumns(['Ticker', 'TICKER'], { renames: [['symbol', 'ticker']], filters: [] })).toEqual({
      fault: 'missing column ticker named by --columns (found: Ticker, TICKER)',
    });
    const twice = {
      renames: [
        ['symbol', 'X'],
        ['t', 'x'],
      ] as const,
      filters: [],
    };
    expect(resolveColumns(['x', 'p'], twice)).toEqual({ fault: 'column x is named twice by --columns' });
    expect(resolveColumns(['Type'], { renames: [], filters: [{ column: 'type', value: 'a' }] })).toEqual({
      renames: [],
      filters: [{ column: 'Type', value: 'a' }],
    });
    expect(resolveColumns(['a'], { renames: [], filters: [{ column: 'type', value: 'a' }] })).toEqual({
      fault: 'missing column type named by --where (found: a)',
    });
  });

  test('that no dataset reads are listed', () => {
    const names = ['ticker', 't', 'p', 'bid', 'ask', 'column_0', 'kind'];
    const found = { renames: [['symbol', 'ticker']] as const, filters: [{ column: 'kind', value: 'x' }] };
    expect(listUnusedColumns(names, ['ticks'], found)).toEqual(['bid', 'ask']);
    expect(listUnusedColumns(['symbol', 't', 'ts', 'p'], ['ticks'], { renames: [['t', 'ts']], filters: [] })).toEqual([
      't',
    ]);
    expect(listUnusedColumns(names, ['markets'], none)).toEqual([]);
  });

  test('of nested objects have paths', () => {
    const row = { type: 'x', msg: { a: 1, deep: { b: null } }, 'msg/a': 2, list: [{ c: 1 }] };
    expect(listFields([row])).toEqual(['type', 'msg/a', 'msg/deep/b', 'list']);
    expect(readField(row, 'msg/a')).toBe(2);
    expect(readField({ msg: { a: 1 } }, 'msg/a')).toBe(1);
    expect(readField({ msg: { a: 1 } }, 'msg/a/b')).toBeNull();
    expect(readField({ msg: 7 }, 'toString')).toBeNull();
    expect(matchesFilters({ msg: { a: 1 } }, [{ column: 'msg/a', value: '1' }])).toBe(true);
    expect(matchesFilters({}, [{ column: 'msg/a', value: 'null' }])).toBe(false);
    expect(renameColumns({ msg: { a: 1 }, symbol: 'S' }, [['t', 'msg/a']])).toEqual({
      msg: { a: 1 },
      symbol: 'S',
      t: 1,
    });
  });
});

describe('order books in rows', () => {
  test.each<[string, [unknown, unknown][] | null]>([
    [
      '[[0.45, 100], [0.44, 5]]',
      [
        [0.45, 100],
        [0.44, 5],
      ],
    ],
    ['[["0.45","100"]]', [['0.45', '100']]],
    [
      '[(0.45, 100), (0.44, 5)]',
      [
        [0.45, 100],
        [0.44, 5],
      ],
    ],
    ['((0.45, 100),)', [[0.45, 100]]],
    ["[{'price': 0.45, 'size': 100}]", [[0.45, 100]]],
    ['[{"px":0.45,"qty":100}]', [[0.45, 100]]],
    ['{"0.45": 100}', [['0.45', 100]]],
    ['[]', []],
    ['', null],
    ['0.45', null],
    ['[0.45, 0.44]', null],
    ['[[0.45]]', null],
    ['[[0.45, 100, 7]]', null],
    ['[{"price":0.45}]', null],
    ['[[0.45, 100]', null],
    ['[[0.45, os.remove("x")]]', null],
  ])('have the levels of %s', (text, expected) => {
    expect(parseLevels(text)).toEqual(expected?.map(([price, quantity]) => ({ price, quantity })) ?? null);
  });

  const row = { symbol: 'A', t: '1783771200000', bids: '[[0.4, 100], [0.45, 5]]', asks: '[]' };

  test('become snapshots, best level first', () => {
    const read = readBookRow(row, defaultRowRules, 2e12);
    expect(read).toMatchObject({ symbol: 'A', snapshot: { t: 1783771200000 } });
    const { bids, asks } = (read as { snapshot: { bids: { prices: Float64Array }; asks: { prices: Float64Array } } })
      .snapshot;
    expect([[...bids.prices], [...asks.prices]]).toEqual([[0.45, 0.4], []]);
    const cents = { ...row, bids: '[[40, 100]]' };
    const scaled = readBookRow(cents, { ...defaultRowRules, priceScale: { factor: 1, divisor: 100 } }, 2e12);
    expect(scaled).toMatchObject({ snapshot: { bids: { prices: Float64Array.of(0.4) } } });
  });

  test.each<[Partial<typeof row>, RegExp]>([
    [{ symbol: '' }, /^symbol is missing/],
    [{ t: '' }, /^t is missing/],
    [{ t: 'noon' }, /^t is not a time/],
    [{ t: '9783771200000' }, /./],
    [{ bids: '', asks: '' }, /^bids and asks are missing/],
    [{ bids: 'none' }, /^bids is not a list of levels/],
    [{ bids: '[[40, 100]]' }, /outside 0 to 1/],
    [{ bids: '[[0.4, -1]]' }, /negative/],
  ])('are rejected with %j', (change, reason) => {
    expect(readBookRow({ ...row, ...change }, defaultRowRules, 2e12)).toEqual({
      reason: expect.stringMatching(reason),
    });
  });
});
