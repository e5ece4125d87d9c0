import { zstdCompressSync } from 'node:zlib';
import {
  type ColumnPlan,
  codecs,
  doubles,
  element,
  encodeParquet,
  encodings,
  type FilePlan,
  list,
  longs,
  type PagePlan,
  physical,
  root,
  texts,
} from './made-parquet.ts';

// Files with the defects of the bad files in https://github.com/apache/parquet-testing, and similar ones.

/** Time of the ticks in them. */
const time = Date.UTC(2026, 5, 1);
/** The ticks of the file without a defect, as `symbol t p`. */
export const goodTicks = ['AAA', 'BBB', 'AAA', 'BBB'].map((symbol, i) => `${symbol} ${time + i} ${i / 4}`);

const required = 0;
const optional = 1;
const repeated = 2;
const page = (body: Buffer, encoding: number = encodings.plain): PagePlan => ({ kind: 0, body, values: 4, encoding });
const dictionary = (body: Buffer): PagePlan => ({ kind: 2, body, values: 2, encoding: encodings.plain });
/** Four indexes of two bits each: one run of eight, half of which is used. */
const indexes = (...of: number[]): Buffer =>
  Buffer.from([2, 0b11, of.reduce((bits, index, i) => bits | (index << (2 * i)), 0), 0]);

type Columns = [symbol: ColumnPlan, t: ColumnPlan, p: ColumnPlan];
type Plan = Omit<FilePlan, 'columns'> & { columns: Columns };

const createPlan = (): Plan => ({
  columns: [
    {
      name: 'symbol',
      type: physical.bytes,
      repetition: required,
      converted: 0,
      codec: codecs.none,
      stated: {},
      pages: [dictionary(texts(['AAA', 'BBB'])), page(indexes(0, 1, 0, 1), encodings.rleDictionary)],
    },
    {
      name: 't',
      type: physical.int64,
      repetition: required,
      codec: codecs.none,
      stated: {},
      pages: [page(longs([0, 1, 2, 3].map((i) => time + i)))],
    },
    {
      name: 'p',
      type: physical.double,
      repetition: required,
      codec: codecs.none,
      stated: {},
      pages: [page(doubles([0, 0.25, 0.5, 0.75]))],
    },
  ],
  rows: 4,
  groupRows: 4,
  head: 'PAR1',
  tail: 'PAR1',
});

export const createFile = (): Buffer => encodeParquet(createPlan());

/** Levels before the values of a page: a length, then a run. */
const withLevels = (levels: Buffer, values: Buffer): Buffer => {
  const length = Buffer.alloc(4);
  length.writeUInt32LE(levels.length);
  return Buffer.concat([length, levels, values]);
};

type Defect = (plan: Plan) => void;
const int32Max = 2 ** 31 - 1;

const planDefects: Readonly<Record<string, Defect>> = {
  'an unknown type': ({ columns: [symbol] }) => (symbol.type = 99),
  'a negative type': ({ columns: [, t] }) => (t.type = -7),
  'a dictionary with a negative number of values': ({ columns: [symbol] }) => (symbol.pages[0]!.values = -2),
  'a dictionary with too many values': ({ columns: [symbol] }) => (symbol.pages[0]!.values = int32Max),
  'a missing dictionary': ({ columns: [symbol] }) => symbol.pages.shift(),
  'a dictionary of another type than the column': ({ columns: [symbol] }) => {
    symbol.type = physical.fixed;
    symbol.length = 3;
    symbol.converted = undefined as never;
  },
  'an index beyond the dictionary': ({ columns: [symbol] }) => (symbol.pages[1]!.body = indexes(0, 1, 3, 1)),
  'indexes of 255 bits': ({ columns: [symbol] }) => (symbol.pages[1]!.body = Buffer.from([255, 8, 0])),
  'indexes of zero bits into several values': ({ columns: [symbol] }) => (symbol.pages[1]!.body = Buffer.from([0, 8])),
  'too few repetition levels': ({ columns: [, , p] }) => {
    p.repetition = repeated;
    p.pages[0]!.body = withLevels(Buffer.from([2, 0]), withLevels(Buffer.from([8, 1]), doubles([0, 1, 2, 3])));
  },
  'repetition levels that begin with 1': ({ columns: [, , p] }) => {
    p.repetition = repeated;
    p.pages[0]!.body = withLevels(Buffer.from([8, 1]), withLevels(Buffer.from([8, 1]), doubles([0, 1, 2, 3])));
  },
  'too few definition levels': ({ columns: [, , p] }) => {
    p.repetition = optional;
    p.pages[0]!.body = withLevels(Buffer.from([4, 1]), doubles([0, 1]));
  },
  'definition levels above the maximum': ({ columns: [, , p] }) => {
    p.repetition = optional;
    p.pages[0]!.body = withLevels(Buffer.from([8, 7]), doubles([0, 1, 2, 3]));
  },
  'levels longer than their page': ({ columns: [, , p] }) => {
    p.repetition = optional;
    p.pages[0]!.body = Buffer.concat([Buffer.from([255, 255, 255, 127]), doubles([0, 1, 2, 3])]);
  },
  'a required column with fewer values than rows': ({ columns: [, , p] }) => (p.pages[0]!.body = doubles([0, 1])),
  'a column shorter than the others': ({ columns: [, , p] }) => {
    p.pages[0] = { ...page(doubles([0, 1])), values: 2 };
    p.stated.values = 2;
  },
  'a page with a negative number of values': ({ columns: [, , p] }) => (p.pages[0]!.values = -1),
  'a page with too many values': ({ columns: [, , p] }) => (p.pages[0]!.values = int32Max),
  'a page of negative size': ({ columns: [, , p] }) => (p.pages[0]!.size = -1),
  'a page larger than its file': ({ columns: [, , p] }) => (p.pages[0]!.size = int32Max),
  'a page that unpacks to two gigabytes': ({ columns: [, , p] }) => {
    p.codec = codecs.zstd;
    p.pages[0] = { ...page(zstdCompressSync(doubles([0, 1, 2, 3]))), plainSize: int32Max };
  },
  'a page that unpacks to more than its header says': ({ columns: [, , p] }) => {
    p.codec = codecs.zstd;
    p.pages[0] = { ...page(zstdCompressSync(Buffer.alloc(1 << 26))), plainSize: 32 };
  },
  'a page with a negative unpacked size': ({ columns: [, , p] }) => {
    p.codec = codecs.zstd;
    p.pages[0] = { ...page(zstdCompressSync(doubles([0, 1, 2, 3]))), plainSize: -1 };
  },
  'pages of an unknown kind': ({ columns: [, , p] }) => (p.pages[0]!.kind = 9),
  'an unknown encoding': ({ columns: [, , p] }) => (p.pages[0]!.encoding = 77),
  ...Object.fromEntries(
    [codecs.snappy, codecs.gzip, codecs.lzo, codecs.zstd, 99].map((codec): [string, Defect] => [
      `plain bytes under the codec ${codec}`,
      ({ columns: [, , p] }) => (p.codec = codec),
    ]),
  ),
  'a chunk of negative size': ({ columns: [, , p] }) => (p.stated.size = -5),
  'a chunk larger than its file': ({ columns: [, , p] }) => (p.stated.size = 2n ** 62n),
  'a chunk that begins after the end of its file': ({ columns: [, , p] }) => (p.stated.at = 2n ** 40n),
  'a chunk that begins before its file': ({ columns: [, , p] }) => (p.stated.at = -4),
  'a chunk that begins in the magic bytes': ({ columns: [, , p] }) => (p.stated.at = 0),
  'a dictionary beyond its file': ({ columns: [symbol] }) => (symbol.stated.dictionaryAt = 2n ** 40n),
  'a chunk with a negative number of values': ({ columns: [, , p] }) => (p.stated.values = -4),
  'a chunk with too many values': ({ columns: [, , p] }) => (p.stated.values = 2n ** 60n),
  'a chunk in another file': ({ columns: [, , p] }) => (p.stated.file = '/etc/passwd'),
  'too many rows': (plan) => (plan.rows = plan.groupRows = 2n ** 60n),
  'fewer rows than its row group': (plan) => (plan.rows = 2),
  'a negative number of rows': (plan) => (plan.rows = plan.groupRows = -4),
  'a row group with more rows than the file': (plan) => (plan.groupRows = 1_000_000),
  'a text longer than its page': ({ columns: [symbol] }) =>
    (symbol.pages[0]!.body = texts(['AAA', 'BBB'], 2 ** 32 - 1)),
  'a text that is not UTF-8': ({ columns: [symbol] }) =>
    (symbol.pages[0]!.body = texts([Buffer.from([0xff, 0xfe, 0x80]), 'BBB'])),
  'no column': (plan) => {
    plan.columns = [] as unknown as Columns;
    plan.schema = list(12, [root(0)]);
  },
  'no schema': (plan) => (plan.schema = list(12, [])),
  'more columns than schema elements': (plan) => (plan.schema = list(12, [root(1000), ...plan.columns.map(element)])),
  'a negative number of columns': (plan) => (plan.schema = list(12, [root(-3), ...plan.columns.map(element)])),
  'a schema that is longer than its file': (plan) =>
    (plan.schema = list(12, [root(3), ...plan.columns.map(element)], int32Max)),
  'a schema nested ten thousand levels deep': (plan) => {
    const inner = element({ name: 'a', type: 0, repetition: optional, children: 1 });
    plan.schema = list(12, [root(1), ...Array.from({ length: 10_000 }, () => inner), ...plan.columns.map(element)]);
  },
  'a symbol that is a group': (plan) => {
    const [symbol, t, p] = plan.columns;
    const group = element({ name: 'symbol', type: 0, repetition: optional, children: 1 });
    plan.schema = list(12, [root(3), group, element(symbol), element(t), element(p)]);
  },
  'two columns with the same name': ({ columns: [, , p] }) => (p.name = 't'),
  'a footer longer than its file': (plan) => (plan.footerLength = 1_000_000),
  'a footer of the maximum length': (plan) => (plan.footerLength = 2 ** 32 - 1),
  'a footer of length zero': (plan) => (plan.footerLength = 0),
  'a footer that begins too late': (plan) => (plan.footerLength = 20),
  'an encrypted footer': (plan) => (plan.head = plan.tail = 'PARE'),
  'other magic bytes at its end': (plan) => (plan.tail = 'PAR2'),
};

const byteDefects: Readonly<Record<string, (good: Buffer) => Buffer>> = {
  nothing: () => Buffer.alloc(0),
  'only the magic bytes': () => Buffer.from('PAR1'),
  'only the magic bytes, twice': () => Buffer.from('PAR1PAR1'),
  'a truncated footer': (good) => good.subarray(0, -20),
  'a footer cut in its middle': (good) => Buffer.concat([good.subarray(0, -60), good.subarray(-8)]),
  'a footer of zeros': (good) =>
    Buffer.concat([good.subarray(0, 60), Buffer.alloc(good.length - 68), good.subarray(-8)]),
};

/**
 * Files that a reader may accept, because the defect is in a number that it does not need, or because it contains,
 * unusually encoded, the first symbol only.
 */
export const readable: ReadonlyMap<string, readonly string[]> = new Map([
  ...[
    'a page with a negative number of values',
    'a page with too many values',
    'fewer rows than its row group',
    'a chunk of negative size',
    'a chunk larger than its file',
    'a chunk with a negative number of values',
    'a chunk with too many values',
  ].map((name): [string, readonly string[]] => [name, goodTicks]),
  ['indexes of zero bits into several values', goodTicks.map((tick) => tick.replace('BBB', 'AAA'))],
]);

/** Files by their defect. */
export const badFiles: ReadonlyMap<string, Buffer> = new Map([
  ...Object.entries(planDefects).map(([name, spoil]): [string, Buffer] => {
    const plan = createPlan();
    spoil(plan);
    return [name, encodeParquet(plan)];
  }),
  ...Object.entries(byteDefects).map(([name, spoil]): [string, Buffer] => [name, spoil(createFile())]),
]);
