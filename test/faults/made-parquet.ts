// A small Parquet writer that writes any plan, valid or not: https://parquet.apache.org/docs/file-format/ and Thrift's
// compact protocol, https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md

/** A Thrift value with its type number. */
interface Value {
  readonly type: number;
  readonly bytes: Buffer;
}

const varint = (value: bigint): Buffer => {
  const out: number[] = [];
  let rest = BigInt.asUintN(64, value);
  for (; rest > 127n; rest >>= 7n) out.push(Number(rest & 127n) | 128);
  return Buffer.from([...out, Number(rest)]);
};

const zigzag = (value: number | bigint): Buffer => {
  const wide = BigInt(value);
  return varint((wide << 1n) ^ (wide >> 63n));
};

const i32 = (value: number): Value => ({ type: 5, bytes: zigzag(value) });
const i64 = (value: number | bigint): Value => ({ type: 6, bytes: zigzag(value) });
export const text = (value: string | Buffer): Value => {
  const bytes = Buffer.from(value as string);
  return { type: 8, bytes: Buffer.concat([varint(BigInt(bytes.length)), bytes]) };
};
/** `stated`: the length in its header, if it is to differ. */
export const list = (type: number, items: readonly Value[], stated = items.length): Value => ({
  type: 9,
  bytes: Buffer.concat([Buffer.from([0xf0 | type]), varint(BigInt(stated)), ...items.map(({ bytes }) => bytes)]),
});
const struct = (fields: Readonly<Record<number, Value | undefined>>): Value => {
  const pieces = Object.entries(fields).flatMap(([id, value]) =>
    value === undefined ? [] : [Buffer.from([value.type]), zigzag(Number(id)), value.bytes],
  );
  return { type: 12, bytes: Buffer.concat([...pieces, Buffer.from([0])]) };
};

export const physical = { int64: 2, double: 5, bytes: 6, fixed: 7 } as const;
export const encodings = { plain: 0, rle: 3, rleDictionary: 8 } as const;
export const codecs = { none: 0, snappy: 1, gzip: 2, lzo: 3, zstd: 6 } as const;

/** A page and the values in its header, which need not match. */
export interface PagePlan {
  kind: number;
  body: Buffer;
  values: number;
  encoding: number;
  plainSize?: number;
  size?: number;
}

export interface ColumnPlan {
  name: string;
  type: number;
  length?: number;
  repetition: number;
  converted?: number;
  children?: number;
  pages: PagePlan[];
  codec: number;
  /** Values of the chunk in the footer, if they are to differ. */
  stated: {
    values?: number | bigint;
    size?: number | bigint;
    at?: number | bigint;
    dictionaryAt?: number | bigint;
    file?: string;
  };
}

export interface FilePlan {
  columns: ColumnPlan[];
  rows: number | bigint;
  groupRows: number | bigint;
  /** Schema elements in place of the columns'. */
  schema?: Value;
  footerLength?: number;
  head: string;
  tail: string;
}

const header = ({ kind, body, values, encoding, plainSize = body.length, size = body.length }: PagePlan): Buffer => {
  const common = { 1: i32(kind), 2: i32(plainSize), 3: i32(size) };
  const stated = { 1: i32(values), 2: i32(encoding) };
  return kind === 2
    ? struct({ ...common, 7: struct(stated) }).bytes
    : struct({ ...common, 5: struct({ ...stated, 3: i32(encodings.rle), 4: i32(encodings.rle) }) }).bytes;
};

export const root = (children: number): Value => struct({ 4: text('schema'), 5: i32(children) });
export const element = ({
  type,
  length,
  repetition,
  name,
  children,
  converted,
}: Omit<ColumnPlan, 'pages' | 'codec' | 'stated'>) =>
  struct({
    1: children === undefined ? i32(type) : undefined,
    2: length === undefined ? undefined : i32(length),
    3: i32(repetition),
    4: text(name),
    5: children === undefined ? undefined : i32(children),
    6: converted === undefined ? undefined : i32(converted),
  });

/** The file of a plan. */
export function encodeParquet(plan: FilePlan): Buffer {
  const pieces: Buffer[] = [Buffer.from(plan.head)];
  let at = plan.head.length;
  const chunks = plan.columns.map((column) => {
    const start = at;
    let dictionaryAt: number | undefined;
    let dataAt: number | undefined;
    for (const page of column.pages) {
      if (page.kind === 2) dictionaryAt ??= at;
      else dataAt ??= at;
      const bytes = Buffer.concat([header(page), page.body]);
      pieces.push(bytes);
      at += bytes.length;
    }
    const { stated } = column;
    const meta = struct({
      1: i32(column.type),
      2: list(5, [i32(0), i32(3), i32(8)]),
      3: list(8, [text(column.name)]),
      4: i32(column.codec),
      5: i64(stated.values ?? plan.groupRows),
      6: i64(stated.size ?? at - start),
      7: i64(stated.size ?? at - start),
      9: i64(stated.at ?? dataAt ?? start),
      11: (stated.dictionaryAt ?? dictionaryAt) === undefined ? undefined : i64(stated.dictionaryAt ?? dictionaryAt!),
    });
    return struct({ 1: stated.file === undefined ? undefined : text(stated.file), 2: i64(start), 3: meta });
  });
  const schema = plan.schema ?? list(12, [root(plan.columns.length), ...plan.columns.map(element)]);
  const groups = [struct({ 1: list(12, chunks), 2: i64(at), 3: i64(plan.groupRows) })];
  const footer = struct({ 1: i32(1), 2: schema, 3: i64(plan.rows), 4: list(12, groups), 6: text('made') }).bytes;
  const length = Buffer.alloc(4);
  length.writeUInt32LE(plan.footerLength ?? footer.length);
  return Buffer.concat([...pieces, footer, length, Buffer.from(plan.tail)]);
}

export const doubles = (values: readonly number[]): Buffer => Buffer.from(Float64Array.from(values).buffer);
export const longs = (values: readonly number[]): Buffer => Buffer.from(BigInt64Array.from(values.map(BigInt)).buffer);
/** `stated`: the length before each text, if it is to differ. */
export const texts = (values: readonly (string | Buffer)[], stated?: number): Buffer =>
  Buffer.concat(
    values.map((value) => {
      const bytes = Buffer.from(value as string);
      const length = Buffer.alloc(4);
      length.writeUInt32LE(stated ?? bytes.length);
      return Buffer.concat([length, bytes]);
    }),
  );
