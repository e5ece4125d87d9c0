import { isSymbolName } from '../core/symbol-name.ts';
import type { RejectedInput, TickColumns } from '../core/tick.ts';
import { type ParsedTime, parseTimeText, resolveLocalTime, type TimeRules, tooFineError } from './import-time.ts';

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
