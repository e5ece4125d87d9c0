import type { RecordPaths } from '../../archive/format/parse-market.ts';
import { isSymbolName } from '../../base/symbol-name.ts';
import type { RejectedInput, TickColumns } from '../../base/ticks.ts';
import { timeEnd, timeMin } from '../../base/time.ts';
import type { TimeZone } from '../../base/time-zone.ts';
import { dayMs } from '../../base/window.ts';

/** How the rows of a file are read. */
export interface TickRowRules extends TimeRules {
  readonly priceScale: PriceScale;
}

/**
 * What prices are multiplied by: `factor` / `divisor`, both whole. Cents have the scale 1 / 100 and are divided: the
 * price is then the double nearest to the decimal number, which 35 * 0.01 is not.
 */
export interface PriceScale {
  readonly factor: number;
  readonly divisor: number;
}

/** How rows are read where nothing else is said: `t` in milliseconds, `p` as it comes. */
export const defaultRowRules: TickRowRules = {
  zone: null,
  unit: 'ms',
  truncates: false,
  priceScale: { factor: 1, divisor: 1 },
};

/** Reads a positive decimal number of at most 15 digits, e.g. `0.01`; undefined for anything else. */
export function parsePriceScale(text: string): PriceScale | undefined {
  const [, whole, fraction = ''] = /^(\d*)(?:\.(\d+))?$/.exec(text.trim()) ?? [];
  const digits = `${whole ?? ''}${fraction}`;
  if (whole === undefined || digits.length > 15 || !/[1-9]/.test(digits)) return undefined;
  return { factor: Number(digits), divisor: 10 ** fraction.length };
}

/** Rows of symbol, t and p as a file holds them, as columns of equal length. */
export interface RawTickRows {
  readonly symbol: readonly unknown[];
  /** Numbers are milliseconds: since the epoch, or of a wall clock where `local`. */
  readonly t: readonly unknown[];
  /** Text of a `t` whose number does not say all; others may be null. */
  readonly tText?: readonly unknown[];
  readonly p: readonly unknown[];
  readonly isLocalTime: boolean;
  /** Whether a price may be text, as a CSV has nothing else. */
  readonly hasTextPrices: boolean;
  /** The row as received, where that is known better than from its columns. */
  formatRaw?(row: number): string;
}

/** Characters that are kept of what is set aside. */
export const rawCharsMax = 4096;

export const truncateRaw = (text: string): string =>
  text.length > rawCharsMax ? `${text.slice(0, rawCharsMax)}…` : text;

export interface RowSink {
  accept(symbol: string, t: number, p: number): void;
  /** `symbol` is null where the row names none. */
  reject(symbol: string | null, rejected: RejectedInput): void;
}

/**
 * Reads rows into the sink: what has no symbol, no time or no price is rejected with the reason. Whether a time can be
 * is for `judge` to say, as with every other tick.
 */
export function readRows(rows: RawTickRows, rules: TickRowRules, sink: RowSink): void {
  const { factor, divisor } = rules.priceScale;
  for (let i = 0; i < rows.symbol.length; i++) {
    const symbol = rows.symbol[i];
    if (typeof symbol !== 'string' || !isSymbolName(symbol)) {
      const known = symbol === null || symbol === undefined || symbol === '';
      sink.reject(null, { reason: known ? 'symbol is missing' : 'symbol is no text', raw: formatRawRow(rows, i) });
      continue;
    }
    const t = parseRowTime(rows, i, rules);
    const p = parsePrice(rows.p[i], rows.hasTextPrices);
    if (typeof t !== 'number') sink.reject(symbol, { reason: `t ${t.reason}`, raw: formatRawRow(rows, i) });
    else if (typeof p !== 'number') sink.reject(symbol, { reason: `p ${p.reason}`, raw: formatRawRow(rows, i) });
    else if (!Number.isInteger(t) || !Number.isFinite(p)) {
      const reason = Number.isInteger(t) ? 'p is not finite' : 't is not a whole number of milliseconds';
      sink.reject(symbol, { reason, raw: formatRawRow(rows, i) });
    } else sink.accept(symbol, t, (p * factor) / divisor);
  }
}

function parseRowTime(rows: RawTickRows, i: number, rules: TimeRules): ParsedTime {
  const t = rows.t[i];
  if (typeof t === 'number') {
    if (!Number.isFinite(t)) return t;
    if (!rules.truncates && !Number.isInteger(t)) return tooFineError;
    return rows.isLocalTime ? resolveLocalTime(Math.floor(t), rules.zone) : Math.floor(t);
  }
  if (typeof t === 'string' && t.trim() !== '') return parseTimeText(t, rules);
  const text = rows.tText?.[i];
  if (typeof text === 'string') return { reason: 'is not a whole number of milliseconds' };
  return { reason: t === null || t === undefined || t === '' ? 'is missing' : 'is not a number' };
}

/** A price as a number, or as JSON or a spreadsheet writes one: nothing that has to be guessed at. */
function parsePrice(p: unknown, mayBeText: boolean): number | { reason: string } {
  if (typeof p === 'number') return p;
  if (p === null || p === undefined || p === '') return { reason: 'is missing' };
  if (typeof p !== 'string' || !mayBeText) return { reason: 'is not a number' };
  const text = p.trim();
  if (/^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i.test(text)) return Number(text);
  return { reason: /^[+-]?(nan|inf(inity)?)$/i.test(text) ? 'is not finite' : 'is not a number' };
}

function formatRawRow(rows: RawTickRows, i: number): string {
  if (rows.formatRaw !== undefined) return truncateRaw(rows.formatRaw(i));
  const number = (value: unknown): unknown =>
    typeof value === 'number' && !Number.isFinite(value)
      ? String(value)
      : typeof value === 'bigint'
        ? `${value}`
        : value;
  const shown = (t: unknown): unknown =>
    rows.isLocalTime && typeof t === 'number' && Math.abs(t) < 8.64e15
      ? new Date(t).toISOString().slice(0, -1)
      : number(t);
  const t = rows.tText?.[i] ?? shown(rows.t[i]);
  return truncateRaw(JSON.stringify({ symbol: rows.symbol[i], t, p: number(rows.p[i]) }));
}

/** Ticks in the order of a file, given back by symbol: bounded, so that memory does not grow with the file. */
export interface TickBuffer {
  readonly length: number;
  /** Throws RangeError where it is full. */
  add(symbol: string, t: number, p: number): void;
  /** The ticks of each symbol, in the order they came; empties the heap. */
  drain(): Generator<TickColumns & { readonly symbol: string }>;
}

export function createTickBuffer(ticksMax: number): TickBuffer {
  const ids = new Map<string, number>();
  const names: string[] = [];
  const id = new Uint32Array(ticksMax);
  const t = new Float64Array(ticksMax);
  const p = new Float64Array(ticksMax);
  let length = 0;
  let latest: { readonly symbol: string | null; readonly id: number } = { symbol: null, id: 0 };
  return {
    get length() {
      return length;
    },
    add(symbol, time, price) {
      if (length === ticksMax) throw new RangeError(`more than ${ticksMax} ticks`);
      if (symbol !== latest.symbol) {
        let found = ids.get(symbol);
        if (found === undefined) {
          found = names.push(symbol) - 1;
          ids.set(symbol, found);
        }
        latest = { symbol, id: found };
      }
      id[length] = latest.id;
      t[length] = time;
      p[length++] = price;
    },
    *drain() {
      const starts = new Uint32Array(names.length + 1);
      for (let i = 0; i < length; i++) starts[id[i]! + 1]!++;
      for (let i = 0; i < names.length; i++) starts[i + 1]! += starts[i]!;
      const at = starts.slice();
      const sortedT = new Float64Array(length);
      const sortedP = new Float64Array(length);
      for (let i = 0; i < length; i++) {
        const to = at[id[i]!]!++;
        sortedT[to] = t[i]!;
        sortedP[to] = p[i]!;
      }
      const drained = [...names];
      length = 0;
      ids.clear();
      names.length = 0;
      latest = { symbol: null, id: 0 };
      for (const [i, symbol] of drained.entries()) {
        const [from, to] = [starts[i]!, starts[i + 1]!];
        yield { symbol, t: sortedT.subarray(from, to), p: sortedP.subarray(from, to) };
      }
    },
  };
}

/** A time of a row in epoch milliseconds, or why it is none: a clause on `t`. */
export type ParsedTime = number | { readonly reason: string };

const timestampPattern =
  /^(\d{4})-(\d\d)-(\d\d)(?:[T ](\d\d):(\d\d)(?::(\d\d)(?:[.,](\d{1,12}))?)?)? ?(?:(Z|UTC)|([+-])(\d\d)(?::?(\d\d))?)?$/i;

/** What a number stands for that is a time: so many of these since the epoch. */
export type TimeUnit = 's' | 'ms' | 'us' | 'ns';

/** How the times of a file are read. */
export interface TimeRules {
  /** The zone of timestamps that name none; null where it is not known. */
  readonly zone: TimeZone | null;
  /** The unit of times that are numbers. */
  readonly unit: TimeUnit;
  /** Whether a time that is finer than a millisecond is cut down to one; otherwise it is rejected. */
  readonly truncates: boolean;
}

/** Powers of ten from a unit to milliseconds. */
const unitExponent: Readonly<Record<TimeUnit, number>> = { s: 3, ms: 0, us: -3, ns: -6 };

export const tooFineError = { reason: 'is finer than a millisecond (see --truncate-time)' } as const;

const numberPattern = /^(-?)(\d{1,22})(?:\.(\d{1,12}))?$/;

/**
 * A time as text: a number of the unit since the epoch, or a timestamp as databases and pandas write it, with `T` or a
 * space. Nothing is rounded. Numbers are read by their digits: a double has too few of them for nanoseconds.
 */
export function parseTimeText(text: string, { zone, unit, truncates }: TimeRules): ParsedTime {
  const trimmed = text.trim();
  const digits = numberPattern.exec(trimmed);
  if (digits !== null) return parseDigits(digits[1]!, digits[2]!, digits[3] ?? '', unitExponent[unit], truncates);
  const match = timestampPattern.exec(trimmed);
  if (match === null) return { reason: 'is no time' };
  const [, year, month, day, hour = '0', minute = '0', second = '0', fraction = '', utc, sign, zh, zm = '0'] = match;
  const midnight = Date.UTC(Number(year), Number(month) - 1, Number(day));
  const dayExists = new Date(midnight).getUTCDate() === Number(day) && Number(month) <= 12 && Number(year) >= 1000;
  if (!dayExists || Number(hour) > 23 || Number(minute) > 59 || Number(second) > 59)
    return { reason: 'is a time that does not exist' };
  if (!truncates && /[1-9]/.test(fraction.slice(3))) return tooFineError;
  const inDay = (Number(hour) * 60 + Number(minute)) * 60_000 + Number(second) * 1000;
  const shown = midnight + inDay + Number(fraction.slice(0, 3).padEnd(3, '0'));
  if (utc !== undefined) return shown;
  if (sign === undefined) return resolveLocalTime(shown, zone);
  const offset = (Number(zh) * 60 + Number(zm)) * 60_000;
  return sign === '-' ? shown + offset : shown - offset;
}

function parseDigits(sign: string, whole: string, fraction: string, exponent: number, truncates: boolean): ParsedTime {
  const all = whole.padStart(whole.length + 6, '0') + fraction.padEnd(6, '0');
  const point = whole.length + 6 + exponent;
  if (!truncates && /[1-9]/.test(all.slice(point))) return tooFineError;
  return Number(sign + all.slice(0, point));
}

/** A wall-clock time, in milliseconds as if it were UTC, as the instant it means. */
export function resolveLocalTime(shownMs: number, zone: TimeZone | null): ParsedTime {
  if (zone === null) return { reason: 'has no zone (see --tz)' };
  // Zones know nothing of times that are refused anyway.
  if (!(shownMs >= timeMin - dayMs && shownMs < timeEnd + dayMs)) return shownMs;
  const instant = zone.toInstant(shownMs);
  if (instant === 'skipped') return { reason: `does not exist in ${zone.name}, where clocks were put forward` };
  if (instant === 'twice') return { reason: `is ambiguous in ${zone.name}, where clocks were put back` };
  return instant;
}

/** Whether a text is a timestamp that says nothing of its zone. */
export function lacksZone(text: string): boolean {
  const match = timestampPattern.exec(text.trim());
  return match !== null && match[8] === undefined && match[9] === undefined;
}

export type ImportDataset = 'ticks' | 'markets';

const tickColumnNames = ['symbol', 't', 'p'];

/**
 * What rows with these columns are, or why they are nothing: a clause on the file. `given`: what they have to be; null
 * for what they look like.
 */
export function detectDataset(
  names: readonly string[],
  given: ImportDataset | null,
  { symbolPaths, fieldPaths }: RecordPaths,
): ImportDataset | { readonly lacks: string } {
  const has = new Set(names);
  const lacking = tickColumnNames.filter((name) => !has.has(name));
  const top = (paths: readonly string[]): boolean => paths.some((path) => has.has(path.split('/')[0]!));
  const isList = has.has('canonical_id') || has.has('symbol') || top(symbolPaths);
  const tellsOfMarkets = top([...Object.values(fieldPaths).flat(), 'category', 'is_active', 'confidence']);
  if (given !== 'markets' && lacking.length === 0) return 'ticks';
  if (given === 'markets' && isList) return 'markets';
  if (given === null && has.has('canonical_id')) return 'markets';
  if (given === null && isList && tellsOfMarkets && !has.has('t') && !has.has('p')) return 'markets';
  const found = `it has ${names.slice(0, 12).join(', ') || 'none'}${names.length > 12 ? ', …' : ''}`;
  if (given === 'markets') return { lacks: `it lacks a column symbol or canonical_id (${found})` };
  const hint = given === null ? '; a list of markets has a canonical_id, or say --dataset markets' : '';
  return { lacks: `it lacks the column${lacking.length > 1 ? 's' : ''} ${lacking.join(', ')} (${found})${hint}` };
}

const csvDelimiters = [',', ';', '\t', '|'];

/**
 * The names in the first line of a CSV and what stands between them, by RFC 4180; undefined where there is no whole line
 * or a name stands there twice, as DuckDB has it: whatever its case.
 */
export function parseCsvHeader(text: string): { names: string[]; delimiter: string } | undefined {
  const [line, ...rest] = text.replace(/^\ufeff/, '').split(/\r\n|\n|\r/, 2);
  if (line === undefined || line === '' || (rest.length === 0 && text.length > csvHeaderCharsMax)) return undefined;
  const candidates = csvDelimiters.map((delimiter) => ({ delimiter, names: splitCsvLine(line, delimiter) }));
  const best = candidates.reduce((a, b) => (b.names.length > a.names.length ? b : a));
  const different = new Set(best.names.map((name) => name.toLowerCase()));
  return different.size < best.names.length ? undefined : best;
}

const csvHeaderCharsMax = 60_000;

function splitCsvLine(line: string, delimiter: string): string[] {
  const fields: string[] = [];
  let field = '';
  let quoted = false;
  for (let i = 0; i < line.length; i++) {
    const char = line[i]!;
    if (quoted && char === '"' && line[i + 1] === '"') field += line[++i];
    else if (char === '"') quoted = !quoted;
    else if (char === delimiter && !quoted) {
      fields.push(field);
      field = '';
    } else field += char;
  }
  // A data frame's index comes without a name.
  return [...fields, field].map((name, i) => (name === '' ? `column_${i}` : name));
}
