import type { EpochUnit, TimeUnit } from '../../archive/query/read-rows.ts';
import { isSymbolName } from '../../base/symbol-name.ts';
import type { RejectedInput } from '../../base/ticks.ts';
import { timeEnd, timeMin } from '../../base/time.ts';
import type { TimeZone } from '../../base/time-zone.ts';
import { dayMs, minuteMs } from '../../base/window.ts';

/** How the rows of a file are read. */
export interface TickRowRules extends TimeRules {
  /** Null: prices are stored as they are. */
  readonly priceScale: PriceScale | null;
  /** Whether numbers in text have a comma as the decimal separator, and no point. */
  readonly hasDecimalComma: boolean;
}

/**
 * Scale of prices: `factor` / `divisor`, both integers. For cents, the scale is 1 / 100: dividing by 100 gives the
 * double nearest to the decimal number; 35 * 0.01 does not.
 */
export interface PriceScale {
  readonly factor: number;
  readonly divisor: number;
}

export const unscaledPrices: PriceScale = { factor: 1, divisor: 1 };

/** Parses a positive decimal number of at most 15 digits, e.g. `0.01`. Undefined for anything else. */
export function parsePriceScale(text: string): PriceScale | undefined {
  const [, whole, fraction = ''] = /^(\d*)(?:\.(\d+))?$/.exec(text.trim()) ?? [];
  const digits = `${whole ?? ''}${fraction}`;
  if (whole === undefined || digits.length > 15 || !/[1-9]/.test(digits)) return undefined;
  return { factor: Number(digits), divisor: 10 ** fraction.length };
}

/** Rows with symbol and t as stored in the file, as columns of equal length. */
export interface RawRows {
  readonly symbol: readonly unknown[];
  /** Numbers are milliseconds: since the epoch, or local time if `isLocalTime`. */
  readonly t: readonly unknown[];
  /** The text of each `t` that is not exact as a number. Others may be null. */
  readonly tText?: readonly unknown[];
  readonly isLocalTime: boolean;
  /** Finer times, if the file has them. */
  readonly event_at?: readonly unknown[];
  readonly received_at?: readonly unknown[];
  /** The row as received, if the reader has it. Otherwise it is formatted from the columns. */
  formatRaw?(row: number): string;
}

export interface RawTickRows extends RawRows {
  readonly p: readonly unknown[];
}

/** Maximum number of characters kept of a rejected row. */
export const rawCharsMax = 4096;

export const truncateRaw = (text: string): string =>
  text.length > rawCharsMax ? `${text.slice(0, rawCharsMax)}…` : text;

export interface RowSink {
  accept(symbol: string, t: number, p: number): void;
  /** `symbol` is null if the row has none. */
  reject(symbol: string | null, rejected: RejectedInput): void;
}

/**
 * Reads rows into the sink. A row without a symbol, time or price is rejected with the reason. `validateTicks` checks
 * the range of the time, as for polled ticks.
 */
export function readRows(rows: RawTickRows, rules: TickRowRules, sink: RowSink): void {
  const { factor, divisor } = rules.priceScale ?? unscaledPrices;
  const values = { p: rows.p };
  const format = (i: number): string => formatRawRow(rows, i, values);
  for (let i = 0; i < rows.symbol.length; i++) {
    const symbol = rows.symbol[i];
    if (!isUsableSymbol(symbol)) {
      sink.reject(null, { reason: explainSymbol(symbol), raw: format(i) });
      continue;
    }
    const t = parseRowTime(rows, i, rules);
    const p = parsePrice(rows.p[i], rules.hasDecimalComma);
    if (typeof t !== 'number') sink.reject(symbol, { reason: `t ${t.reason}`, raw: format(i) });
    else if (typeof p !== 'number') sink.reject(symbol, { reason: `p ${p.reason}`, raw: format(i) });
    else if (!Number.isInteger(t) || !Number.isFinite(p)) {
      const reason = Number.isInteger(t) ? 'p is not finite' : notWholeReason;
      sink.reject(symbol, { reason, raw: format(i) });
    } else sink.accept(symbol, t, (p * factor) / divisor);
  }
}

const notWholeReason = 't is not a whole number of milliseconds';

/** Whether a value can be the symbol of a row; see `explainSymbol`. */
export const isUsableSymbol = (symbol: unknown): symbol is string =>
  typeof symbol === 'string' && isSymbolName(symbol) && !isRoundedNumber(symbol);

/** Why a value is not a usable symbol. */
export function explainSymbol(symbol: unknown): string {
  if (symbol === null || symbol === undefined || symbol === '') return 'symbol is missing';
  return typeof symbol === 'string' && isSymbolName(symbol) ? roundedReason : 'symbol is not text';
}

/** Whether an identifier is a long number that a program wrote as a floating-point number: several IDs may become the same. */
export const isRoundedNumber = (id: string): boolean => /^\d\.\d+e\+\d+$/i.test(id);

const roundedReason = 'symbol is a rounded number: its last digits are lost';

/** Parses the time of row `i`. The result may be a fraction of a millisecond, or not finite. */
export function parseRowTime(rows: RawRows, i: number, rules: TickRowRules): ParsedTime {
  const t = rows.t[i];
  if (typeof t === 'number') {
    if (!Number.isFinite(t)) return t;
    if (!rules.truncates && !Number.isInteger(t)) return tooFineError;
    return rows.isLocalTime ? resolveLocalTime(Math.floor(t), rules.zone) : Math.floor(t);
  }
  if (typeof t === 'string' && t.trim() !== '')
    return parseTimeText(rules.hasDecimalComma ? t.replace(',', '.') : t, rules);
  const text = rows.tText?.[i];
  if (typeof text === 'string') return { reason: 'is not a whole number of milliseconds' };
  return { reason: t === null || t === undefined || t === '' ? 'is missing' : 'is not a number' };
}

/** Parses a number, or text in the form that JSON and spreadsheets write. Anything ambiguous is rejected. */
export function parsePrice(p: unknown, hasDecimalComma: boolean): number | { reason: string } {
  if (typeof p === 'number') return p;
  if (p === null || p === undefined || p === '') return { reason: 'is missing' };
  if (typeof p !== 'string') return { reason: 'is not a number' };
  const trimmed = p.trim();
  if (!hasDecimalComma && /^[+-]?\d*,\d+$/.test(trimmed)) return decimalCommaError;
  if (hasDecimalComma && trimmed.includes('.')) return { reason: 'has a decimal point, not a decimal comma' };
  const text = hasDecimalComma ? trimmed.replace(',', '.') : trimmed;
  if (/^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i.test(text)) return Number(text);
  return { reason: /^[+-]?(nan|inf(inity)?)$/i.test(text) ? 'is not finite' : 'is not a number' };
}

/** Formats row `i` as received. `values`: its columns beside symbol and t. */
export function formatRawRow(
  rows: RawRows,
  i: number,
  values: Readonly<Record<string, readonly unknown[] | undefined>>,
): string {
  if (rows.formatRaw !== undefined) return truncateRaw(rows.formatRaw(i));
  const number = (value: unknown): unknown =>
    typeof value === 'number' && !Number.isFinite(value)
      ? String(value)
      : typeof value === 'bigint'
        ? `${value}`
        : value;
  const formatTime = (t: unknown): unknown =>
    rows.isLocalTime && typeof t === 'number' && Math.abs(t) < 8.64e15
      ? new Date(t).toISOString().slice(0, -1)
      : number(t);
  const t = rows.tText?.[i] ?? formatTime(rows.t[i]);
  const cells = Object.entries(values).map(([name, column]) => [name, number(column?.[i])] as const);
  return truncateRaw(JSON.stringify({ symbol: rows.symbol[i], t, ...Object.fromEntries(cells) }));
}

/** A time in epoch milliseconds, or why it cannot be parsed. The reason completes "t …". */
export type ParsedTime = number | { readonly reason: string };

const timestampPattern =
  /^(\d{4})-(\d\d)-(\d\d)(?:[T ](\d\d):(\d\d)(?::(\d\d)(?:[.,](\d{1,12}))?)?)? ?(?:(Z|UTC)|([+-])(\d\d)(?::?(\d\d))?)?$/i;

export type { EpochUnit, TimeUnit };

/** How the times of a file are read. */
interface TimeRules {
  /** Time zone of timestamps without an offset. Null if unknown. */
  readonly zone: TimeZone | null;
  /** The unit of numeric timestamps. */
  readonly unit: TimeUnit;
  /** Whether a time finer than a millisecond is truncated. Otherwise it is rejected. */
  readonly truncates: boolean;
}

/** Exponent of the power of ten that converts a unit to milliseconds. */
const unitExponent: Readonly<Record<EpochUnit, number>> = { s: 3, ms: 0, us: -3, ns: -6 };

const msPerUnit: readonly (readonly [unit: EpochUnit, ms: number])[] = [
  ['s', 1000],
  ['ms', 1],
  ['us', 1e-3],
  ['ns', 1e-6],
];

/** The unit in which a number is a time between the years 2000 and 2100; null if there is none. There is never a second one. */
export const findTimeUnit = (value: number): EpochUnit | null =>
  msPerUnit.find(([, ms]) => value * ms >= timeMin && value * ms < timeEnd)?.[0] ?? null;

const decimalCommaError = { reason: 'is not a number, unless it has a decimal comma (see --decimal-comma)' } as const;
const tooFineError = { reason: 'is finer than a millisecond (see --truncate-time)' } as const;

const numberPattern = /^(-?)(\d{1,22})(?:\.(\d{1,12}))?$/;

/**
 * Parses a time from text: a Unix timestamp in the given unit, or a timestamp as databases and pandas write it, with
 * `T` or a space. Nothing is rounded. Numbers are parsed from their digits, because a double cannot hold all digits of
 * a time in nanoseconds.
 * @param digits 3 for epoch microseconds, 0 for milliseconds
 */
export function parseTimeText(text: string, { zone, unit, truncates }: TimeRules, digits: 0 | 3 = 0): ParsedTime {
  const trimmed = text.trim();
  const number = numberPattern.exec(trimmed);
  if (number !== null) {
    const [, sign, whole, fraction = ''] = number as unknown as [string, string, string, string?];
    const numberUnit = unit === 'auto' ? findTimeUnit(Number(trimmed)) : unit;
    if (numberUnit === null) return { reason: 'is not a time between the years 2000 and 2100 in any unit' };
    return parseDigits(sign, whole, fraction, unitExponent[numberUnit] + digits, truncates);
  }
  const match = timestampPattern.exec(trimmed);
  if (match === null) return { reason: 'is not a time' };
  const [, year, month, day, hour = '0', minute = '0', second = '0', fraction = '', utc, sign, zh, zm = '0'] = match;
  const midnight = Date.UTC(Number(year), Number(month) - 1, Number(day));
  const dayExists = new Date(midnight).getUTCDate() === Number(day) && Number(month) <= 12 && Number(year) >= 1000;
  if (!dayExists || Number(hour) > 23 || Number(minute) > 59 || Number(second) > 59)
    return { reason: 'is an invalid date or time' };
  if (!truncates && /[1-9]/.test(fraction.slice(3 + digits))) return tooFineError;
  const inDay = (Number(hour) * 60 + Number(minute)) * minuteMs + Number(second) * 1000;
  const shownMs = midnight + inDay + Number(fraction.slice(0, 3).padEnd(3, '0'));
  const offset = sign === undefined ? 0 : Number(`${sign}1`) * (Number(zh) * 60 + Number(zm)) * minuteMs;
  const ms = utc === undefined && sign === undefined ? resolveLocalTime(shownMs, zone) : shownMs - offset;
  return digits === 0 || typeof ms !== 'number' ? ms : 1000 * ms + Number(fraction.slice(3, 6).padEnd(3, '0'));
}

function parseDigits(sign: string, whole: string, fraction: string, exponent: number, truncates: boolean): ParsedTime {
  const all = whole.padStart(whole.length + 6, '0') + fraction.padEnd(6, '0');
  const point = whole.length + 6 + exponent;
  if (!truncates && /[1-9]/.test(all.slice(point))) return tooFineError;
  return Number(sign + all.slice(0, point));
}

/** Converts a local time, given in milliseconds as if it were UTC, to epoch milliseconds. */
export function resolveLocalTime(shownMs: number, zone: TimeZone | null): ParsedTime {
  if (zone === null) return { reason: 'has no zone (see --tz)' };
  // Times outside the supported years are rejected later: zone data does not cover them.
  if (!(shownMs >= timeMin - dayMs && shownMs < timeEnd + dayMs)) return shownMs;
  const instant = zone.toInstant(shownMs);
  if (instant === 'skipped') return { reason: `does not exist in ${zone.name}, where clocks were put forward` };
  if (instant === 'twice') return { reason: `is ambiguous in ${zone.name}, where clocks were put back` };
  return instant;
}

/** Whether a text is a timestamp without a time zone. */
export function isWithoutZone(text: string): boolean {
  const match = timestampPattern.exec(text.trim());
  return match !== null && match[8] === undefined && match[9] === undefined;
}

export type ImportDataset = 'ticks' | 'quotes' | 'trades' | 'markets' | 'orderbooks';

/** The datasets whose rows are read by symbol and time, and that `--covers` covers. */
export const timedDatasets: readonly ImportDataset[] = ['ticks', 'quotes', 'trades'];
