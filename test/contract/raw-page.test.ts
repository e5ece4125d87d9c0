import { describe, expect, test } from 'vitest';
import { decodeRawPages, encodeRawPages, type RawPage } from '../../src/contract/raw-page.ts';

const page = (asked: unknown, rest: Partial<RawPage> = {}): RawPage => ({
  run: 'run',
  askedAt: 1000,
  receivedAt: 2000,
  servedAt: null,
  status: 200,
  redacted: false,
  asked: asked as RawPage['asked'],
  body: Buffer.from('{}\n\n'),
  ...rest,
});

const book = { route: 'orderbook', symbol: 'S "1"\n😀' };
const ticks = { route: 'ticks', symbol: 'x', from: -1, to: 9.5, limit: 5000, meaning: null };
const lists = { route: 'markets', view: 'matched', source: 'a', limit: 5 };
const parent = { count: 7, first: 1, last: 2, observedAt: 3 };
const meaning = { origin: 'poll', asked: { from: 0.5, to: 9 }, kind: 'whole' };

const reported = [
  book,
  ticks,
  lists,
  { ...lists, view: null, source: null, limit: null },
  ...['poll', 'backfill', 'import'].map((origin) => ({ ...ticks, meaning: { ...meaning, origin } })),
  ...['whole', 'low', 'high', 'earlier'].map((kind) => ({ ...ticks, meaning: { ...meaning, kind, parent } })),
];

describe('raw pages', () => {
  test('are decoded as they were encoded, for every kind of request', () => {
    const pages = reported.map((asked) => page(asked));
    pages.push(page(book, { servedAt: 5, redacted: true, status: 0, body: Buffer.alloc(0) }));
    expect(decodeRawPages(encodeRawPages(pages))).toStrictEqual(pages);
    expect(decodeRawPages(Buffer.alloc(0))).toEqual([]);
  });

  test('are decoded from a view into a larger buffer', () => {
    const bytes = encodeRawPages([page(book)]);
    const amid = new Uint8Array(bytes.length + 20).fill(0x0a);
    amid.set(bytes, 7);
    expect(decodeRawPages(amid.subarray(7, 7 + bytes.length))).toEqual([page(book)]);
  });

  test('are rejected if truncated', () => {
    const bytes = encodeRawPages([page(book)]);
    for (let length = 1; length < bytes.length; length++)
      expect(() => decodeRawPages(bytes.subarray(0, length)), `${length}`).toThrow(SyntaxError);
    // A complete head without a body.
    expect(() => decodeRawPages(Buffer.from(JSON.stringify({ ...page(book), bytes: 0 })))).toThrow('not terminated');
  });

  test('are rejected if the length in the head is wrong', () => {
    for (const bytes of [3, 5, 500]) {
      const head = JSON.stringify({ ...page(book), body: undefined, bytes });
      expect(() => decodeRawPages(Buffer.from(`${head}\nBODY\n`))).toThrow('differs from');
    }
  });
});

const badMeanings: readonly unknown[] = [
  [],
  5,
  { ...meaning, origin: 'me' },
  { ...meaning, kind: 'odd' },
  { ...meaning, asked: null },
  ...[{ from: '1', to: 2 }, { from: 1 }].map((window) => ({ ...meaning, asked: window })),
  ...['count', 'first', 'last', 'observedAt'].map((name) => ({ ...meaning, parent: { ...parent, [name]: '1' } })),
  ...[5, null, []].map((wrong) => ({ ...meaning, parent: wrong })),
];
const badFields: readonly object[] = [
  { run: 5 },
  { run: undefined },
  { redacted: 0 },
  { redacted: null },
  ...['askedAt', 'receivedAt', 'status', 'bytes'].flatMap((name) => [-1, 1.5, '1', null].map((n) => ({ [name]: n }))),
  { servedAt: 1.5 },
  { servedAt: '5' },
  { servedAt: undefined },
];
const badQuestions: readonly unknown[] = [
  null,
  [],
  'ticks',
  ...[book, lists, ticks].map((asked) => ({ ...asked, route: 'odd' })),
  { ...book, symbol: 5 },
  ...[{ view: 5 }, { source: 5 }, { view: undefined }, { limit: 1.5 }, { limit: '5' }].map((w) => ({ ...lists, ...w })),
  ...[{ symbol: 5 }, { from: null }, { from: '1' }, { to: null }, { to: '1' }].map((w) => ({ ...ticks, ...w })),
  ...[{ limit: 1.5 }, { limit: null }, ...badMeanings.map((wrong) => ({ meaning: wrong }))].map((w) => ({
    ...ticks,
    ...w,
  })),
];
const badHeads: readonly unknown[] = [
  null,
  5,
  'text',
  [],
  [page(book)],
  ...[...badFields, ...badQuestions.map((asked) => ({ asked }))].map((wrong) => ({
    ...page(book),
    body: undefined,
    bytes: 4,
    ...wrong,
  })),
];

test.each(badHeads.map((head) => JSON.stringify(head)))('rejects the head %s', (head) => {
  expect(() => decodeRawPages(Buffer.from(`${head}\nBODY\n`))).toThrow(SyntaxError);
});
