import {
  DuckDBArrayValue,
  DuckDBDecimalValue,
  DuckDBListValue,
  DuckDBMapValue,
  DuckDBStructValue,
  DuckDBTimestampMillisecondsValue,
  DuckDBTimestampNanosecondsValue,
  DuckDBTimestampSecondsValue,
  DuckDBTimestampTZValue,
  DuckDBTimestampValue,
  DuckDBUnionValue,
  type DuckDBValue,
} from '@duckdb/node-api';

/** A value of `Query.rows`. */
export type Cell = string | number | boolean | null | readonly Cell[] | { readonly [name: string]: Cell };

/** A value for a `$1` of a statement. */
export type Parameter = string | number | boolean | null;

/** A value as a field of text; nested ones as JSON, null as null. */
export function textOf(value: DuckDBValue): string | null {
  if (typeof value === 'string') return value;
  if (value === null) return null;
  if (typeof value !== 'object') return String(value);
  if (value instanceof DuckDBTimestampTZValue) return isoOf(value.micros, 'Z') ?? value.toString();
  if (value instanceof DuckDBTimestampValue) return isoOf(value.micros, '') ?? value.toString();
  const micros = microsOf(value);
  if (micros !== undefined) return isoOf(micros, '') ?? value.toString();
  if (value instanceof DuckDBUnionValue) return textOf(value.value);
  return isNested(value) ? jsonOf(value) : value.toString();
}

/** A value as JSON. Numbers keep all their digits; those that are not finite are null, as JSON knows none. */
export function jsonOf(value: DuckDBValue): string {
  if (typeof value === 'number') return Number.isFinite(value) ? String(value) : 'null';
  if (typeof value === 'string') return JSON.stringify(value);
  if (value === null || typeof value !== 'object') return String(value);
  if (value instanceof DuckDBDecimalValue) return value.toString();
  if (value instanceof DuckDBListValue || value instanceof DuckDBArrayValue) return `[${value.items.map(jsonOf)}]`;
  if (value instanceof DuckDBUnionValue) return jsonOf(value.value);
  const entries = entriesOf(value);
  if (entries !== undefined) return `{${entries.map(([key, item]) => `${JSON.stringify(key)}:${jsonOf(item)}`)}}`;
  return JSON.stringify(textOf(value));
}

/** A value for use inside: times are epoch milliseconds. Throws RangeError for integers beyond 2^53. */
export function cellOf(value: DuckDBValue): Cell {
  if (value === null || typeof value === 'number' || typeof value === 'string' || typeof value === 'boolean') {
    return value;
  }
  if (typeof value === 'bigint') return exact(value);
  if (value instanceof DuckDBTimestampTZValue || value instanceof DuckDBTimestampValue)
    return exact(value.micros) / 1000;
  const micros = microsOf(value);
  if (micros !== undefined) return exact(micros) / 1000;
  if (value instanceof DuckDBDecimalValue) return value.toDouble();
  if (value instanceof DuckDBListValue || value instanceof DuckDBArrayValue) return value.items.map(cellOf);
  if (value instanceof DuckDBUnionValue) return cellOf(value.value);
  const entries = entriesOf(value);
  if (entries !== undefined) return Object.fromEntries(entries.map(([key, item]) => [key, cellOf(item)]));
  return value.toString();
}

const isNested = (value: DuckDBValue): boolean =>
  value instanceof DuckDBListValue || value instanceof DuckDBArrayValue || entriesOf(value) !== undefined;

function entriesOf(value: DuckDBValue): [string, DuckDBValue][] | undefined {
  if (value instanceof DuckDBStructValue) return Object.entries(value.entries);
  if (value instanceof DuckDBMapValue) return value.entries.map((entry) => [textOf(entry.key) ?? '', entry.value]);
  return undefined;
}

/** Microseconds of the rarer types of time; what is finer is dropped. */
function microsOf(value: DuckDBValue): bigint | undefined {
  if (value instanceof DuckDBTimestampMillisecondsValue) return value.millis * 1000n;
  if (value instanceof DuckDBTimestampSecondsValue) return value.seconds * 1_000_000n;
  if (value instanceof DuckDBTimestampNanosecondsValue) return value.nanos / 1000n;
  return undefined;
}

const dayMs = 86_400_000;
const digits = (count: number, width: number): string[] =>
  Array.from({ length: count }, (_, i) => String(i).padStart(width, '0'));
const twoDigits = digits(60, 2);
const threeDigits = digits(1000, 3);
let latestDay = { day: 0, text: '1970-01-01T' };

/** ISO-8601 with milliseconds, and microseconds only where there are any; undefined beyond what Date knows. */
function isoOf(micros: bigint, zone: 'Z' | ''): string | undefined {
  const us = Number(micros);
  const ms = Math.floor(us / 1000);
  const day = Math.floor(ms / dayMs);
  if (Math.abs(day) > 99_000_000 || !Number.isSafeInteger(us)) return undefined;
  // Rows of a result mostly share their day: twice as fast as a Date for each.
  if (day !== latestDay.day) latestDay = { day, text: new Date(day * dayMs).toISOString().slice(0, -13) };
  const inDay = ms - day * dayMs;
  const hour = twoDigits[Math.floor(inDay / 3_600_000)];
  const minute = twoDigits[Math.floor(inDay / 60_000) % 60];
  const second = twoDigits[Math.floor(inDay / 1000) % 60];
  const rest = us - ms * 1000;
  const micro = rest === 0 ? '' : threeDigits[rest];
  return `${latestDay.text}${hour}:${minute}:${second}.${threeDigits[inDay % 1000]}${micro}${zone}`;
}

function exact(value: bigint): number {
  const number = Number(value);
  if (Number.isSafeInteger(number)) return number;
  throw new RangeError(`${value} is beyond the integers that a number holds`);
}
