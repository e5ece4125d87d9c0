import { describe, expect, test } from 'vitest';
import {
  createFieldCheck,
  decodeJsonPage,
  decodeMarketsPage,
  decodeOrderbook,
  decodeTickPage,
  extractElementTexts,
} from '../../src/client/decode.ts';
import { decodeCompactPage } from '../../src/client/fast-page-decoder.ts';
import { UnreadableResponseError } from '../../src/client/response-body.ts';

const bytes = (text: string) => new Uint8Array(Buffer.from(text));
const compact = (ticks: string, count: number) =>
  bytes(`{"symbol":"KXBTC-26","ticks":[${ticks}],"count":${count},"from":1,"to":9,"generated_at":10}`);

/** Prices of a compact page with one tick for each number text. */
function prices(texts: readonly string[]): number[] {
  const page = decodeCompactPage(compact(texts.map((text) => `{"t":1,"p":${text}}`).join(), texts.length));
  return [...page!.p];
}

describe('the compact layout', () => {
  test('is decoded by the fast decoder', () => {
    const page = decodeCompactPage(compact('{"t":1699999999999,"p":0.123},{"t":1700000000000,"p":1}', 2))!;
    expect([...page.t]).toEqual([1699999999999, 1700000000000]);
    expect([...page.p]).toEqual([0.123, 1]);
    const { t: _t, p: _p, ...rest } = page;
    expect(rest).toEqual({ symbol: 'KXBTC-26', received: 2, rejected: [], from: 1, to: 9, generatedAt: 10, gaps: [] });
  });

  test('may have no ticks', () => {
    expect(decodeCompactPage(compact('', 0))).toMatchObject({ received: 0 });
  });

  test('may be anywhere in a buffer, and keeps the shortest ticks', () => {
    const page = compact(Array(1000).fill('{"t":0,"p":0}').join(), 1000);
    const inside = new Uint8Array(page.length + 20).fill(0x7b);
    inside.set(page, 13);
    expect(decodeCompactPage(inside.subarray(13, 13 + page.length))!.t).toHaveLength(1000);
  });

  test('has the same doubles as JSON.parse', () => {
    const texts = [
      '0',
      '0.0',
      '0.1',
      '0.30000000000000004',
      '1.7976931348623157',
      '9007199254740991',
      '9007199254740993',
      '0.9007199254740993',
      '123456789012345678901234567890.5',
      `0.${'0'.repeat(21)}1`,
      `0.${'0'.repeat(22)}1`,
      `0.${'0'.repeat(400)}1`,
      '4503599627370497.5',
      '0.500000000000000166533453693773481063544750213623046875',
    ];
    expect(prices(texts)).toEqual(texts.map((text) => JSON.parse(text)));
  });

  test.each([
    ['white space', compact('{"t":1, "p":2}', 1)],
    ['a space at the end', bytes(`${Buffer.from(compact('', 0))} `)],
    ['another order of keys', compact('{"p":2,"t":1}', 1)],
    ['another field', compact('{"t":1,"p":2,"v":3}', 1)],
    ['a negative number', compact('{"t":1,"p":-0.5}', 1)],
    ['an exponent', compact('{"t":1,"p":1e-7}', 1)],
    ['null', compact('{"t":1,"p":null}', 1)],
    ['too large a number', compact(`{"t":1,"p":${'9'.repeat(400)}}`, 1)],
    ['an escape in the symbol', bytes('{"symbol":"A\\u0042","ticks":[],"count":0,"from":1,"to":2,"generated_at":3}')],
    ['non-ASCII characters', bytes('{"symbol":"Ä","ticks":[],"count":0,"from":1,"to":2,"generated_at":3}')],
    ['an unsafe time', bytes('{"symbol":"A","ticks":[],"count":0,"from":1,"to":9007199254740993,"generated_at":3}')],
  ])('excludes %s, which the reference decoder accepts', (_, page) => {
    expect(decodeCompactPage(page)).toBeUndefined();
    expect(decodeTickPage(page).received).toBeLessThan(2);
  });

  test.each([
    ...['01', '1.', '.5', '+1', '1.5.2', '0x1', 'NaN', '1_0', '-', '', '--1', '1e', '00'].map(
      (text) => `{"t":1,"p":${text}}`,
    ),
    '{"t":1,"p":2},',
    ',{"t":1,"p":2}',
    '{"t":1,"p":2}{"t":1,"p":2}',
    '{"t":1,"p":2',
    '{"t":1"p":2}',
  ])('excludes %s, which is invalid JSON', (tick) => {
    const page = compact(tick, 1);
    expect(decodeCompactPage(page)).toBeUndefined();
    expect(() => decodeTickPage(page)).toThrow('broken JSON');
  });
});

describe('any layout', () => {
  test('rejects elements that are not ticks, as received', () => {
    const ticks = [
      '{"t":1,"p":0.5}',
      '{"t":"1","p":2}',
      '{"t":1,"p":"2"}',
      '{"t":1}',
      '{"p":1}',
      'null',
      '[1,2]',
      '7',
      '{ "t" : 1, "p":1e400 , "x":[{"a":"]}\\\\\\""}] }',
      '{"t":-1e999,"p":0}',
      '{"t":1,"p":null}',
      '"t"',
    ];
    const page = decodeTickPage(bytes(`{"ticks":[ ${ticks.join(' ,\n')}\t]}`));
    expect([...page.t]).toEqual([1]);
    expect(page.received).toBe(12);
    expect(page.rejected.map(({ raw }) => raw)).toEqual(ticks.slice(1));
    expect(page.rejected.map(({ reason }) => reason)).toEqual([
      't is not a number',
      'p is not a number',
      'p is missing',
      't is missing',
      'is not an object',
      'is not an object',
      'is not an object',
      'p is not finite',
      't is not finite',
      'p is not a number',
      'is not an object',
    ]);
  });

  test('keeps -0, fractions of a millisecond and distant years for later validation', () => {
    const page = decodeTickPage(bytes('{"ticks":[{"t":1.5,"p":-0},{"p":-0.25,"t":-1},{"t":1e300,"p":2E-1}]}'));
    expect([...page.t]).toEqual([1.5, -1, 1e300]);
    expect([...page.p]).toEqual([-0, -0.25, 0.2]);
  });

  test('uses the last of repeated keys', () => {
    const text = '{"ticks":[7],"symbol":"X","\\u0074icks":[{"t":1,"p":2,"p":3},8],"symbol":"Y"}';
    const page = decodeTickPage(bytes(text));
    expect([...page.p]).toEqual([3]);
    expect(page).toMatchObject({ symbol: 'Y', rejected: [{ raw: '8' }] });
  });

  test('treats times that are not integers as absent', () => {
    const page = decodeTickPage(bytes('{"ticks":[],"from":"1","to":2.5,"generated_at":1e300,"count":"7"}'));
    expect(page).toMatchObject({ from: null, to: null, generatedAt: null, symbol: null });
  });

  test.each([
    [
      '[{"from":1,"to":2},{"from":5,"to":9,"why":"x"}]',
      [
        { from: 1, to: 2 },
        { from: 5, to: 9 },
      ],
    ],
    [
      '[[1,2],[5.5,8.2]]',
      [
        { from: 1, to: 2 },
        { from: 5, to: 9 },
      ],
    ],
    ['[{"from":2,"to":2},{"from":3,"to":1},null,7,[1],{"from":"1","to":2}]', []],
    ['{"from":1,"to":2}', []],
    ['3', []],
  ])('has gaps parsed from %s', (gaps, expected) => {
    expect(decodeTickPage(bytes(`{"ticks":[],"gaps":${gaps}}`)).gaps).toEqual(expected);
  });

  test('joins more than 1,000 gaps to one', () => {
    const gapsOf = (count: number) => {
      const gaps = Array.from({ length: count }, (_, i) => [10 * i, 10 * i + 5]);
      return decodeTickPage(bytes(JSON.stringify({ ticks: [], gaps }))).gaps;
    };
    expect(gapsOf(1_000).length).toBe(1_000);
    expect(gapsOf(200_000)).toEqual([{ from: 0, to: 1_999_995 }]);
  });

  test('may have a byte order mark', () => {
    const page = decodeTickPage(Uint8Array.of(0xef, 0xbb, 0xbf, ...compact('{"t":1,"p":2}', 1)), 'KXBTC-26');
    expect([...page.t]).toEqual([1]);
  });

  test.each([
    ['text that is not UTF-8', Uint8Array.of(...bytes('{"ticks":[],"symbol":"'), 0xff, ...bytes('"}'))],
    ['an empty body', bytes(' \n')],
    ['broken JSON', bytes('{"ticks":[')],
    ['JSON that is not an object', bytes('[]')],
    ['JSON that is not an object', bytes('null')],
    ['no ticks array', bytes('{"ticks":{}}')],
    ['a count of 2 over 1 ticks', compact('{"t":1,"p":2}', 2)],
  ])('is rejected with %s', (reason, page) => {
    expect(() => decodeTickPage(page)).toThrow(reason);
  });

  test('is rejected for another symbol, and accepted without one', () => {
    expect(() => decodeTickPage(compact('', 0), 'KXETH')).toThrow('ticks of another symbol, "KXBTC-26"');
    expect(decodeTickPage(compact('', 0), 'KXBTC-26').symbol).toBe('KXBTC-26');
    expect(decodeTickPage(bytes('{"ticks":[],"symbol":5}'), 'KXETH').symbol).toBeNull();
  });

  test('may be nested deeper than any stack', () => {
    const deep = `${'['.repeat(200_000)}${']'.repeat(200_000)}`;
    expect(decodeJsonPage(bytes(`{"ticks":[${deep}]}`)).rejected[0]!.raw).toBe(deep);
  });
});

test('finds the text of each element', () => {
  const text = ' { "a" : "[", "k" : [ 1 , "x,]\\"" , [ 2 , 3 ] , {"k":[4]} , true ] , "z" : {"k":[9]} } ';
  expect(extractElementTexts(text, 'k')).toEqual(['1', '"x,]\\""', '[ 2 , 3 ]', '{"k":[4]}', 'true']);
  expect(extractElementTexts('{"k":[]}', 'k')).toEqual([]);
});

test('rejects a markets response without markets', () => {
  expect(() => decodeMarketsPage(bytes('{"markets":null}'))).toThrow('no markets array');
  const page = decodeMarketsPage(bytes('{"markets":[1],"total":3,"generated_at":4}'));
  expect(page).toEqual({ markets: [1], total: 3, generatedAt: 4 });
});

describe('a response with a success status that is a failure', () => {
  const ticks = (fields: object) =>
    bytes(JSON.stringify({ symbol: 'A', ticks: [], count: 0, from: 1, to: 2, generated_at: 3, ...fields }));
  const detailOf = (fields: object): unknown => {
    try {
      decodeTickPage(ticks(fields));
      return 'decoded';
    } catch (error) {
      return error instanceof UnreadableResponseError ? error.detail : error;
    }
  };

  test.each([
    [{ error: 'no backend' }, 'no backend'],
    [{ error: { code: 5, message: 'no backend' } }, 'no backend'],
    [{ errors: [{ message: 'no backend' }] }, 'no backend'],
    [{ error: true, message: 'no backend' }, 'no backend'],
    [{ error: 17 }, '17'],
    [{ success: false, message: 'no backend' }, 'no backend'],
    [{ success: false }, undefined],
    [{ ticks: undefined, message: 'no backend' }, 'no backend'],
  ])('is unreadable, with its text: %j', (fields, detail) => {
    expect(detailOf(fields)).toBe(detail);
  });

  test.each([{ error: null }, { errors: [] }, { error: '' }, { error: false }, { success: true }])(
    'is not meant by %j',
    (fields) => {
      expect(detailOf(fields)).toBe('decoded');
    },
  );

  test('is not taken for a list of markets or an order book', () => {
    const page = bytes('{"markets":[],"bids":[],"asks":[],"error":"x"}');
    expect(() => decodeMarketsPage(page)).toThrow(new UnreadableResponseError('an error', 'x'));
    expect(() => decodeOrderbook(page, 'A')).toThrow(new UnreadableResponseError('an error', 'x'));
  });

  test('lacks fields that most responses before had', () => {
    const check = createFieldCheck();
    const decode = (fields: object) => decodeTickPage(ticks(fields), 'A', undefined, check);
    const bare = { symbol: undefined, count: undefined, from: undefined, to: undefined };
    // Empty ones are refused from the first on.
    expect(() => decode(bare)).toThrow('no symbol, count, from, to');
    for (let i = 0; i < 5; i++) decode({});
    decode({ generated_at: 4, extra: 1 });
    expect(() => decode(bare)).toThrow('no symbol, count, from, to');
    decode({});
  });

  test('is not meant by a service that never sends some of the fields', () => {
    const check = createFieldCheck();
    const decode = (rows: number) =>
      decodeTickPage(bytes(JSON.stringify({ ticks: Array(rows).fill({ t: 1, p: 1 }) })), 'A', undefined, check)
        .received;
    for (let i = 0; i < 4; i++) expect(decode(1)).toBe(1);
    expect(decode(0)).toBe(0);
    const other = createFieldCheck();
    const empty = () => decodeTickPage(bytes('{"ticks":[]}'), 'A', undefined, other);
    // The retries of one request suffice.
    for (let i = 0; i < 4; i++) expect(empty).toThrow(UnreadableResponseError);
    expect(empty().received).toBe(0);
  });

  test('lacks fields that compact pages had', () => {
    const check = createFieldCheck();
    for (let i = 0; i < 3; i++) decodeTickPage(compact('', 0), undefined, undefined, check);
    expect(() => decodeTickPage(bytes('{"ticks":[]}'), 'A', undefined, check)).toThrow(UnreadableResponseError);
  });
});
