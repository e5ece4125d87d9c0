import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { timeEnd, timeMin } from '../../../src/base/time.ts';
import { openTimeZone, utcZone } from '../../../src/base/time-zone.ts';
import { hasObservedPrices } from '../../../src/collector/import/guess-columns.ts';
import {
  type EpochUnit,
  type ImportDataset,
  isWithoutZone,
  parsePriceScale,
  parseTimeText,
  type RawTickRows,
  rawCharsMax,
  readRows,
  resolveLocalTime,
  type TickRowRules,
  truncateRaw,
} from '../../../src/collector/import/import-rows.ts';
import { parseCsvHeader } from '../../../src/collector/import/preflight.ts';
import { createRowBuffer, type RowBuffer } from '../../../src/collector/import/row-buffer.ts';
import { detectDatasets } from '../../../src/collector/import/row-columns.ts';
import { noDetailPaths } from '../../archive/format/facts.ts';
import { defaultRowRules } from './row-rules.ts';

const seed = Number(process.env.SEED ?? Math.floor(Math.random() * 1e6));
console.log(`import rows: SEED=${seed}`);

const utc = { ...defaultRowRules, zone: utcZone };

describe('a time as text', () => {
  const noon = Date.UTC(2026, 6, 11, 12);

  test.each([
    ['1783771200000', noon],
    ['1783771200000.0', noon],
    ['2026-07-11T12:00:00Z', noon],
    ['2026-07-11 12:00:00+00', noon],
    ['2026-07-11 12:00:00 UTC', noon],
    ['2026-07-11T08:00:00-04:00', noon],
    ['2026-07-11T17:30:00.000000+0530', noon],
    ['2026-07-11T12:00Z', noon],
    [' 2026-07-11 12:00:00.1230000Z ', noon + 123],
    ['2026-07-11', Date.UTC(2026, 6, 11)],
    ['2026-07-11 12:00:00', noon],
    ['2024-02-29 00:00:00', Date.UTC(2024, 1, 29)],
  ])('is parsed from %s', (text, expected) => {
    expect(parseTimeText(text, utc)).toBe(expected);
  });

  test.each([
    ['', 'is not a time'],
    ['yesterday', 'is not a time'],
    ['11/07/2026 12:00', 'is not a time'],
    ['1783771200000.5', 'is finer than a millisecond (see --truncate-time)'],
    ['1e12', 'is not a time'],
    ['2026-07-11T12', 'is not a time'],
    ['2026-02-29 00:00:00', 'is an invalid date or time'],
    ['2026-13-01 00:00:00', 'is an invalid date or time'],
    ['2026-06-30 23:59:60', 'is an invalid date or time'],
    ['2026-07-11 24:00:00', 'is an invalid date or time'],
    ['2026-07-11 12:60:00', 'is an invalid date or time'],
    // A two-digit year would be read as one of the last century.
    ['0099-07-11 12:00:00', 'is an invalid date or time'],
    ['2026-07-11 12:00:00.0001', 'is finer than a millisecond (see --truncate-time)'],
    ['2026-07-11 12:00:00.123000001Z', 'is finer than a millisecond (see --truncate-time)'],
  ])('%j %s', (text, reason) => {
    expect(parseTimeText(text, utc)).toEqual({ reason });
  });

  test('without a zone is rejected unless a zone is given', () => {
    expect(parseTimeText('2026-07-11 12:00:00', defaultRowRules)).toEqual({ reason: 'has no zone (see --tz)' });
    expect(isWithoutZone('2026-07-11 12:00:00')).toBe(true);
    expect(isWithoutZone('2026-07-11')).toBe(true);
    expect(isWithoutZone(' 2026-07-11 ')).toBe(true);
    for (const text of ['2026-07-11 12:00:00+01', '2026-07-11T12:00:00Z', '1783771200000', 'x'])
      expect(isWithoutZone(text)).toBe(false);
  });

  test('agrees with Date.parse', () => {
    fc.assert(
      fc.property(fc.integer({ min: 946_684_800_000, max: 4_133_980_799_999 }), (ms) => {
        const iso = new Date(ms).toISOString();
        expect(parseTimeText(iso, defaultRowRules)).toBe(ms);
        expect(parseTimeText(iso.replace('T', ' ').replace('Z', ''), utc)).toBe(ms);
        expect(parseTimeText(iso.replace('Z', '+05:30'), defaultRowRules)).toBe(Date.parse(iso.replace('Z', '+05:30')));
      }),
      { seed },
    );
  });
});

describe('rows', () => {
  const read = (
    rows: Partial<RawTickRows> & Pick<RawTickRows, 'symbol' | 't' | 'p'>,
    zone = utcZone,
    rules: Partial<TickRowRules> = {},
  ) => {
    const out: { accepted: unknown[]; rejected: unknown[] } = { accepted: [], rejected: [] };
    readRows(
      { isLocalTime: false, ...rows },
      { ...defaultRowRules, zone, ...rules },
      {
        accept: (...tick) => out.accepted.push(tick),
        reject: (symbol, { reason, raw }) => out.rejected.push([symbol, reason, raw]),
      },
    );
    return out;
  };

  test('are read unchanged', () => {
    const rows = { symbol: ['A', 'A', '😀'], t: [1e12, '1000000000001', 1e12], p: [0.1 + 0.2, ' 1e-3', -0] };
    expect(read(rows).accepted).toEqual([
      ['A', 1e12, 0.1 + 0.2],
      ['A', 1e12 + 1, 0.001],
      ['😀', 1e12, -0],
    ]);
  });

  test.each<[unknown, unknown, unknown, string | null, string]>([
    [null, 1e12, 0.5, null, 'symbol is missing'],
    ['', 1e12, 0.5, null, 'symbol is missing'],
    [undefined, 1e12, 0.5, null, 'symbol is missing'],
    [7, 1e12, 0.5, null, 'symbol is not text'],
    ['\ud800', 1e12, 0.5, null, 'symbol is not text'],
    ['A', null, 0.5, 'A', 't is missing'],
    ['A', '', 0.5, 'A', 't is missing'],
    ['A', undefined, 0.5, 'A', 't is missing'],
    ['A', true, 0.5, 'A', 't is not a number'],
    ['A', ' ', 0.5, 'A', 't is not a number'],
    ['A', 1e12 + 0.5, 0.5, 'A', 't is finer than a millisecond (see --truncate-time)'],
    ['A', Number.NaN, 0.5, 'A', 't is not a whole number of milliseconds'],
    ['A', 1e12, null, 'A', 'p is missing'],
    ['A', 1e12, '', 'A', 'p is missing'],
    ['A', 1e12, undefined, 'A', 'p is missing'],
    ['A', 1e12, 'n/a', 'A', 'p is not a number'],
    ['A', 1e12, '0,5', 'A', 'p is not a number, unless it has a decimal comma (see --decimal-comma)'],
    ['A', 1e12, '1.234,5', 'A', 'p is not a number'],
    ['A', 1e12, '0x10', 'A', 'p is not a number'],
    ['A', 1e12, {}, 'A', 'p is not a number'],
    ['A', 1e12, Number.NaN, 'A', 'p is not finite'],
    ['A', 1e12, '-inf', 'A', 'p is not finite'],
    ['A', 1e12, '1e400', 'A', 'p is not finite'],
  ])('of %j, %j, %j are rejected', (symbol, t, p, owner, reason) => {
    const { accepted, rejected } = read({ symbol: [symbol], t: [t], p: [p] });
    expect(accepted).toEqual([]);
    expect(rejected).toEqual([[owner, reason, expect.any(String)]]);
  });

  test('have decimal commas on demand, and no points then', () => {
    const rows = {
      symbol: ['A', 'A', 'A', 'A'],
      t: ['1000000000,001', 1e12, 1e12, 1e12],
      p: ['0,25', ',5', '0.5', 0.75],
    };
    expect(read(rows, utcZone, { hasDecimalComma: true, unit: 's' })).toEqual({
      accepted: [
        ['A', 1e12 + 1, 0.25],
        ['A', 1e12, 0.5],
        ['A', 1e12, 0.75],
      ],
      rejected: [['A', 'p has a decimal point, not a decimal comma', expect.any(String)]],
    });
  });

  test('have times in the unit in which each is a time, if a flag says so', () => {
    const t = ['1000000000', '1000000000.5', '1000000000001', '1000000000002000', '1000000000003000000', '5', '1e12'];
    const rows = { symbol: t.map(() => 'A'), t, p: t.map(() => 1) };
    const { accepted, rejected } = read(rows, utcZone, { unit: 'auto' });
    expect(accepted.map((row) => (row as [string, number])[1] - 1e12)).toEqual([0, 500, 1, 2, 3]);
    expect(rejected.map((row) => (row as [string, string])[1])).toEqual([
      't is not a time between the years 2000 and 2100 in any unit',
      't is not a time',
    ]);
  });

  test('have times truncated to milliseconds on demand', () => {
    const t = [1e12 + 0.999, '1000000000000.999', '2001-09-09T01:46:40.000999Z', '2001-09-09 01:46:40.0009999+00'];
    const rows = { symbol: t.map(() => 'A'), t, p: t.map(() => 1) };
    expect(read(rows).rejected).toHaveLength(4);
    expect(read(rows, utcZone, { truncates: true })).toEqual({ accepted: t.map(() => ['A', 1e12, 1]), rejected: [] });
  });

  test.each<[EpochUnit, string, string]>([
    ['s', '1000000000.001', '1000000000.0010001'],
    ['ms', '1000000000001', '1000000000001.1'],
    ['us', '1000000000001000', '1000000000001001'],
    ['ns', '1000000000001000000', '1000000000001000001'],
  ])('have times in %s parsed by their digits', (unit, text, finer) => {
    expect(parseTimeText(text, { ...defaultRowRules, unit })).toBe(1e12 + 1);
    expect(parseTimeText(finer, { ...defaultRowRules, unit })).toEqual({
      reason: 'is finer than a millisecond (see --truncate-time)',
    });
    expect(parseTimeText(finer, { ...defaultRowRules, unit, truncates: true })).toBe(1e12 + 1);
    expect(parseTimeText('5', { ...defaultRowRules, unit, truncates: true })).toBe(
      { s: 5000, ms: 5, us: 0, ns: 0 }[unit],
    );
  });

  test('in cents have exact decimal prices', () => {
    const cents = Array.from({ length: 101 }, (_, i) => i);
    const rows = { symbol: cents.map(() => 'A'), t: cents.map(() => 1e12), p: cents };
    for (const text of ['0.01', '.01']) {
      const { accepted } = read(rows, utcZone, { priceScale: parsePriceScale(text)! });
      expect(accepted).toEqual(cents.map((p) => ['A', 1e12, Number((p / 100).toFixed(2))]));
    }
    expect(read(rows, utcZone, { priceScale: parsePriceScale('0.5')! }).accepted[3]).toEqual(['A', 1e12, 1.5]);
    for (const text of ['', '.', '0', '0.00', '-1', '1e-2', '0,01', 'x', '1234567890.123456'])
      expect(parsePriceScale(text)).toBeUndefined();
  });

  test('with local times are converted by their zone', () => {
    const local = [Date.UTC(2026, 6, 11, 12), Date.UTC(2026, 10, 1, 1, 30), Date.UTC(2026, 2, 8, 2, 30), 1e300];
    const rows = { symbol: ['A', 'A', 'A', 'A'], t: local, p: [1, 1, 1, 1], isLocalTime: true };
    const { accepted, rejected } = read(rows, openTimeZone('America/New_York'));
    expect(accepted).toEqual([
      ['A', Date.UTC(2026, 6, 11, 16), 1],
      ['A', 1e300, 1],
    ]);
    expect(rejected).toEqual([
      ['A', expect.stringMatching(/ambiguous/), '{"symbol":"A","t":"2026-11-01T01:30:00.000","p":1}'],
      ['A', expect.stringMatching(/does not exist/), '{"symbol":"A","t":"2026-03-08T02:30:00.000","p":1}'],
    ]);
  });

  test('with absolute times are not affected by the zone', () => {
    const rows = { symbol: ['A', 'A'], t: [1e12, 1e12 + 0.5], p: [1, 1] };
    expect(read(rows, openTimeZone('America/New_York')).accepted).toEqual([['A', 1e12, 1]]);
    expect(read({ ...rows, isLocalTime: true }, openTimeZone('America/New_York'))).toEqual({
      accepted: [['A', 1e12 + 4 * 3_600_000, 1]],
      rejected: [['A', 't is finer than a millisecond (see --truncate-time)', expect.any(String)]],
    });
  });

  test('with local times are converted within the supported years only', () => {
    const zone = openTimeZone('America/New_York');
    const hour = 3_600_000;
    for (const t of [timeMin - 12 * hour, timeMin + 12 * hour, timeEnd - 12 * hour, timeEnd + 12 * hour])
      expect(resolveLocalTime(t, zone)).toBe(t + 5 * hour);
    for (const t of [-1e300, timeMin - 48 * hour, timeEnd + 48 * hour, 1e300])
      expect(resolveLocalTime(t, zone)).toBe(t);
  });

  test.each<[string, Partial<RawTickRows>, unknown]>([
    [
      'numbers that JSON cannot represent',
      { t: [Number.NaN], p: [Number.POSITIVE_INFINITY] },
      { t: 'NaN', p: 'Infinity' },
    ],
    ['integers of any length', { p: [2n ** 70n] }, { p: '1180591620717411303424' }],
    ['a local time in ISO format', { isLocalTime: true, t: [0], p: [null] }, { t: '1970-01-01T00:00:00.000', p: null }],
    ['an invalid local time as its number', { isLocalTime: true, t: [1e300], p: [null] }, { t: 1e300, p: null }],
    ['the text of a time if it is more precise', { t: [null], tText: ['12:00:00.0001'] }, { t: '12:00:00.0001' }],
    ['text as text', { isLocalTime: true, t: ['noon'] }, { t: 'noon' }],
  ])('show %s when rejected', (_, rest, local) => {
    const { rejected } = read({ symbol: ['A'], t: [1e12], p: ['x'], ...rest });
    const [, , raw] = rejected[0] as [string, string, string];
    expect(JSON.parse(raw)).toEqual({ symbol: 'A', t: 1e12, p: 'x', ...(local as object) });
  });

  test('show the row as received when rejected, if available', () => {
    const { rejected } = read({ symbol: ['A', 'A'], t: [1e12, null], p: [1, 1], formatRaw: (i) => `line ${i}` });
    expect(rejected).toEqual([['A', 't is missing', 'line 1']]);
  });

  test('with a time finer than a millisecond are rejected', () => {
    const { rejected } = read({ symbol: ['A'], t: [null], tText: ['2026-07-11 12:00:00.0001'], p: [1] });
    expect(rejected).toMatchObject([['A', 't is not a whole number of milliseconds', expect.any(String)]]);
  });

  test('are truncated to a maximum length when rejected', () => {
    expect(truncateRaw('x'.repeat(rawCharsMax))).toHaveLength(rawCharsMax);
    expect(truncateRaw('x'.repeat(1e6))).toHaveLength(rawCharsMax + 1);
  });
});

describe('the buffer of ticks', () => {
  const add = (buffer: RowBuffer, symbol: string, t: number, p: number): void => {
    buffer.values[0]![buffer.add(symbol, t)] = p;
  };

  test('returns the ticks of each symbol in input order', () => {
    const anyTicks = fc.array(fc.record({ symbol: fc.constantFrom('', 'A', 'B', 'C'), t: fc.nat(9), p: fc.double() }), {
      maxLength: 50,
    });
    fc.assert(
      fc.property(anyTicks, anyTicks, (first, second) => {
        const buffer = createRowBuffer(50, 1);
        for (const ticks of [first, second]) {
          for (const { symbol, t, p } of ticks) add(buffer, symbol, t, p);
          expect(buffer.length).toBe(ticks.length);
          const drained = [...buffer.drain(true)].map(({ symbol, t, values: [p] }) => [symbol, [...t], [...p!]]);
          const groups = [...Map.groupBy(ticks, ({ symbol }) => symbol)];
          expect(drained).toEqual(
            groups.map(([symbol, rowsOfSymbol]) => [
              symbol,
              rowsOfSymbol.map(({ t }) => t),
              rowsOfSymbol.map(({ p }) => p),
            ]),
          );
          expect(buffer.length).toBe(0);
        }
      }),
      { seed },
    );
  });

  test('within a file keeps the last ticks of one time, which the next ticks may have too', () => {
    const anyTick = fc.record({ symbol: fc.constantFrom('A', 'B'), t: fc.nat(3), p: fc.double({ noNaN: true }) });
    fc.assert(
      fc.property(fc.array(fc.array(anyTick, { maxLength: 20 }), { maxLength: 4 }), (slices) => {
        const buffer = createRowBuffer(200, 1);
        const found = new Map<string, [number, number][]>();
        const take = (isEnd: boolean): void => {
          for (const { symbol, t, values } of buffer.drain(isEnd)) {
            const list = found.get(symbol) ?? [];
            // No time is split between two drains, unless it comes again later.
            if (list.length > 0 && t[0] === list.at(-1)![0]) throw new Error(`${symbol} ${t[0]} is split`);
            found.set(symbol, [...list, ...[...t].map((time, i): [number, number] => [time, values[0]![i]!])]);
          }
        };
        for (const ticks of slices) {
          for (const { symbol, t, p } of ticks) add(buffer, symbol, t, p);
          take(false);
        }
        take(true);
        expect(buffer.length).toBe(0);
        for (const [symbol, ticks] of Map.groupBy(slices.flat(), (one) => one.symbol))
          expect(found.get(symbol)).toEqual(ticks.map(({ t, p }) => [t, p]));
      }),
      { seed },
    );
  });

  test('keeps nothing if that would leave no room', () => {
    const buffer = createRowBuffer(4, 1);
    for (const symbol of ['A', 'B', 'C']) add(buffer, symbol, 1, 0.5);
    expect([...buffer.drain(false)].length).toBe(3);
    expect(buffer.length).toBe(0);
  });

  test('throws when it is full', () => {
    const buffer = createRowBuffer(1, 1);
    add(buffer, 'A', 1, 1);
    expect(() => add(buffer, 'A', 2, 1)).toThrow(RangeError);
  });
});

const numbers = (count: number) => Array.from({ length: count }, (_, i) => String(i + 1));

describe('the columns of a file', () => {
  const list = {
    question: ['question'],
    source: ['source'],
    opensAt: [],
    closesAt: [],
    resolvedAt: [],
    outcome: ['won'],
    ...noDetailPaths,
  };
  const paths = { symbolPaths: ['symbol', 'venues/*/ticker'], fieldPaths: list };

  test.each<[string[], string | null, unknown]>([
    [['p', 'symbol', 't', 'more'], null, 'ticks'],
    [['symbol', 't', 'p', 'canonical_id'], 'markets', 'markets'],
    [['canonical_id', 'venues'], null, 'markets'],
    [['symbol', 'question'], null, 'markets'],
    [['symbol', 'won'], null, 'markets'],
    [['venues'], 'markets', 'markets'],
    [['symbol', 't'], null, { fault: expect.stringMatching(/missing column p .*--dataset markets/) }],
    [
      ['symbol', 'time', 'price'],
      null,
      { fault: expect.stringMatching(/missing columns t, p \(found: symbol, time, price\)/) },
    ],
    [['symbol', 'question'], 'ticks', { fault: expect.stringMatching(/missing columns t, p [^;]*$/) }],
    [['t', 'p'], 'markets', { fault: expect.stringMatching(/symbol or canonical_id/) }],
    [['canonical_id'], 'ticks', { fault: expect.stringMatching(/missing columns symbol, t, p/) }],
    [numbers(12), null, { fault: expect.stringMatching(/\(found: 1, 2, .*, 11, 12\)/) }],
    [numbers(13), null, { fault: expect.stringMatching(/\(found: 1, 2, .*, 11, 12, …\)/) }],
    [[], null, { fault: expect.stringMatching(/\(found: none\)/) }],
    [['symbol', 't', 'bids', 'asks'], null, 'orderbooks'],
    [['symbol', 't', 'bids'], null, 'orderbooks'],
    [['symbol', 't', 'side', 'level', 'price', 'quantity'], null, 'orderbooks'],
    // These may be trades.
    [['symbol', 't', 'side', 'price', 'quantity'], null, { fault: expect.stringMatching(/missing column p /) }],
    [['symbol', 't', 'side', 'price', 'quantity'], 'orderbooks', 'orderbooks'],
    [['symbol', 't', 'p', 'bids', 'asks'], null, 'ticks'],
    [['symbol', 't', 'p', 'bids', 'asks'], 'orderbooks', 'orderbooks'],
    [['symbol', 't', 'p'], 'orderbooks', { fault: expect.stringMatching(/missing columns bids, asks/) }],
    [['symbol', 't', 'bid', 'ask', 'bid_size'], null, 'quotes'],
    [['symbol', 't', 'ask', 'price'], null, 'quotes'],
    [['symbol', 't', 'bid', 'ask', 'p'], null, 'ticks'],
    [['symbol', 't', 'bid', 'ask', 'p'], 'quotes', 'quotes'],
    [['symbol', 't', 'bid', 'p'], 'ticks,quotes', 'ticks,quotes'],
    [['symbol', 't', 'bid', 'ask', 'bids'], null, 'orderbooks'],
    [['canonical_id', 'symbol', 't', 'bid', 'ask'], null, 'quotes'],
    [['canonical_id', 'symbol', 'bid', 'ask'], null, 'markets'],
    [
      ['canonical_id', 'ts', 'size'],
      null,
      { fault: expect.stringMatching(/; a market list with times and prices needs/) },
    ],
    [['canonical_id', 'ts', 'size'], 'markets', 'markets'],
    [['symbol', 't', 'bid'], 'ticks,quotes', { fault: expect.stringMatching(/missing column p /) }],
    [['symbol', 'p'], 'ticks,quotes', { fault: expect.stringMatching(/missing columns t, bid, ask /) }],
    [['symbol', 't', 'bid_size'], 'quotes', { fault: expect.stringMatching(/missing columns bid, ask /) }],
  ])('%j with dataset %s', (names, given, expected) => {
    const datasets = given === null ? null : (given.split(',') as ImportDataset[]);
    const hasPrices = hasObservedPrices({ names, rows: [] }, paths);
    const detected = detectDatasets(names, datasets, paths, names, hasPrices);
    expect('fault' in detected ? detected : detected.join()).toEqual(expected);
  });

  test.each(['symbol', 'canonical_id'])('of a market list include %s, whatever the paths', (name) => {
    expect(detectDatasets([name], ['markets'], { ...paths, symbolPaths: ['ticker'] }, [name], false)).toEqual([
      'markets',
    ]);
  });

  test.each<[string, unknown]>([
    [`symbol,p\n${'x'.repeat(70_000)}`, { names: ['symbol', 'p'], delimiter: ',' }],
    ['x'.repeat(60_000), { names: ['x'.repeat(60_000)], delimiter: ',' }],
    ['a,b;c\n', { names: ['a', 'b;c'], delimiter: ',' }],
    ['symbol,t,p\nA,1,2\n', { names: ['symbol', 't', 'p'], delimiter: ',' }],
    ['\ufeff"symbol";"t";"p"\r\n', { names: ['symbol', 't', 'p'], delimiter: ';' }],
    ['symbol\tt\tp', { names: ['symbol', 't', 'p'], delimiter: '\t' }],
    [',symbol,t,p\n0,A,1,2', { names: ['column_0', 'symbol', 't', 'p'], delimiter: ',' }],
    ['"a,""b""",p\n', { names: ['a,"b"', 'p'], delimiter: ',' }],
    [' symbol ; t;p\n', { names: ['symbol', 't', 'p'], delimiter: ';' }],
    ['t,t,p\n', undefined],
    ['symbol,t,p,P\n', undefined],
    ['', undefined],
    ['x'.repeat(70_000), undefined],
  ])('are parsed from the header %.30j', (text, expected) => {
    expect(parseCsvHeader(text)).toEqual(expected);
  });
});
