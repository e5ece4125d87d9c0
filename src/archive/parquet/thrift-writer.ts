/*
 * Writes Thrift's compact protocol, as far as Parquet's footer and page headers need it; `thrift.ts` reads it:
 * https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md
 */

/** A value as it is written, with the number of its type. */
export interface ThriftValue {
  readonly type: number;
  readonly bytes: readonly number[];
}

/** A whole number below 2^53, whose sign is its lowest bit when `zigzag` is done with it. */
function encodeVarint(value: number): number[] {
  const out: number[] = [];
  let rest = value;
  for (; rest >= 128; rest = Math.floor(rest / 128)) out.push((rest % 128) | 128);
  out.push(rest);
  return out;
}

const encodeZigzag = (value: number): number[] => encodeVarint(value < 0 ? -2 * value - 1 : 2 * value);

export const i32 = (value: number): ThriftValue => ({ type: 5, bytes: encodeZigzag(value) });
/** Up to 2^52 either way. */
export const i64 = (value: number): ThriftValue => ({ type: 6, bytes: encodeZigzag(value) });
export const i16 = (value: number): ThriftValue => ({ type: 4, bytes: encodeZigzag(value) });

/** A truth as a field of a struct, where its type is its value. */
export const bool = (value: boolean): ThriftValue => ({ type: value ? 1 : 2, bytes: [] });

export const binary = (value: Uint8Array): ThriftValue => ({
  type: 8,
  bytes: [...encodeVarint(value.length), ...value],
});

export const text = (value: string): ThriftValue => binary(Buffer.from(value, 'utf8'));

/** Values of one type, structs where there is none; truths are no part of a list here. */
export function list(values: readonly ThriftValue[]): ThriftValue {
  const type = values[0]?.type ?? 12;
  const head = values.length < 15 ? [(values.length << 4) | type] : [0xf0 | type, ...encodeVarint(values.length)];
  return { type: 9, bytes: [...head, ...values.flatMap(({ bytes }) => bytes)] };
}

/** A struct of fields by their numbers, at most 15 apart; those that are undefined are left out. */
export function struct(fields: Readonly<Record<number, ThriftValue | undefined>>): ThriftValue {
  const bytes: number[] = [];
  let latest = 0;
  // An object's keys that are whole numbers come in their order.
  for (const [key, field] of Object.entries(fields)) {
    if (field === undefined) continue;
    bytes.push(((Number(key) - latest) << 4) | field.type);
    for (const byte of field.bytes) bytes.push(byte);
    latest = Number(key);
  }
  bytes.push(0);
  return { type: 12, bytes };
}
