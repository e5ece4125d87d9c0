import { listFactColumns, timeNames } from '../../archive/format/series-datasets.ts';
import { findTimeFlaw } from '../paging/observation.ts';
import {
  explainSymbol,
  formatRawRow,
  isUsableSymbol,
  type ParsedTime,
  parsePrice,
  parseRowTime,
  parseTimeText,
  type RawRows,
  type RowSink,
  type TickRowRules,
  unscaledPrices,
} from './import-rows.ts';
import type { SeriesSink } from './series-writer.ts';

/** The number columns of a quote, in the order of the dataset. */
export const quoteValueNames = listFactColumns('quotes').map(({ name }) => name as QuoteValueName);

type QuoteValueName = 'bid' | 'ask' | 'bid_size' | 'ask_size';

const noTexts: readonly string[] = [];

/** Index of the first column that is a size. */
const firstSize = 2;

/** Rows of quotes, and of ticks if they have `p` too. A column that the file does not have is undefined. */
export interface RawQuoteRows extends RawRows, Readonly<Partial<Record<QuoteValueName | 'p', readonly unknown[]>>> {}

/** Where the rows of a file go. `ticks` is null unless the rows also feed ticks. */
interface QuoteRowSinks {
  readonly quotes: SeriesSink;
  readonly ticks: RowSink | null;
}

/**
 * Reads rows with quotes into the sinks. A quote without a symbol, a time, or both prices is rejected with the reason, and so
 * is one with a number that cannot be used. If the rows also feed ticks, each row is a tick if it has `p`, and a quote if it
 * has a bid or an ask; each of them is accepted or rejected on its own. A row that is neither is a rejected tick.
 * @param futureMs latest time accepted, epoch ms
 */
export function readQuoteRows(
  rows: RawQuoteRows,
  rules: TickRowRules,
  futureMs: number,
  { quotes, ticks }: QuoteRowSinks,
): void {
  const { factor, divisor } = rules.priceScale ?? unscaledPrices;
  const values = new Float64Array(quoteValueNames.length + countTimes(rows));
  const sources = quoteValueNames.map((name) => rows[name]);
  const columns = selectColumns(rows, [...quoteValueNames, ...timeNames]);
  const readQuote = (symbol: string, t: number, i: number): void => {
    const reason =
      findTimeFlaw(t, futureMs) ??
      parseQuoteValues(sources, i, rules, values) ??
      parseTimes(rows, i, rules, futureMs, values, quoteValueNames.length);
    if (reason === undefined) quotes.accept(symbol, t, values, noTexts);
    else quotes.reject(symbol, { reason, raw: formatRawRow(rows, i, columns) });
  };
  const readTick = (symbol: string, t: number, i: number): void => {
    const p = parsePrice(rows.p?.[i], rules.hasDecimalComma);
    const reason = typeof p !== 'number' ? `p ${p.reason}` : Number.isFinite(p) ? undefined : 'p is not finite';
    if (reason === undefined) ticks?.accept(symbol, t, ((p as number) * factor) / divisor);
    else ticks?.reject(symbol, { reason, raw: formatRawRow(rows, i, { p: rows.p }) });
  };
  for (let i = 0; i < rows.symbol.length; i++) {
    const hasQuote = !isMissing(rows.bid?.[i]) || !isMissing(rows.ask?.[i]);
    const hasTick = ticks !== null && !isMissing(rows.p?.[i]);
    const isTick = hasTick || (ticks !== null && !hasQuote);
    const isQuote = hasQuote || ticks === null;
    const symbol = rows.symbol[i];
    const t = parseRowTime(rows, i, rules);
    const reason = explainRow(symbol, t) ?? (isTick && !hasTick ? 'p, bid and ask are missing' : undefined);
    if (reason !== undefined) {
      const known = isUsableSymbol(symbol) ? symbol : null;
      if (isTick) ticks?.reject(known, { reason, raw: formatRawRow(rows, i, { p: rows.p, ...columns }) });
      if (isQuote) quotes.reject(known, { reason, raw: formatRawRow(rows, i, columns) });
      continue;
    }
    if (isTick) readTick(symbol as string, t as number, i);
    if (isQuote) readQuote(symbol as string, t as number, i);
  }
}

/** The columns that a file has, for the text of a rejected row. */
export const selectColumns = (rows: RawRows, names: readonly string[]): Record<string, readonly unknown[]> =>
  Object.fromEntries(Object.entries(rows).filter(([name, column]) => names.includes(name) && column !== undefined));

/** The number of finer times of rows: none, unless the file has a column of them. */
export const countTimes = (rows: RawRows): number => (timeNames.some((name) => rows[name]) ? timeNames.length : 0);

/** Parses the finer times of row `i` into `values`, from index `at` on. Returns why they cannot be used; undefined if they can. */
export function parseTimes(
  rows: RawRows,
  i: number,
  rules: TickRowRules,
  futureMs: number,
  values: Float64Array,
  at: number,
): string | undefined {
  for (let c = 0; at + c < values.length; c++) {
    const name = timeNames[c]!;
    const value = rows[name]?.[i];
    values[at + c] = Number.NaN;
    if (isMissing(value)) continue;
    const text = rules.hasDecimalComma ? String(value).replace(',', '.') : String(value);
    const us = parseTimeText(text, { ...rules, unit: 'auto', truncates: true }, 3);
    if (typeof us !== 'number') return `${name} ${us.reason}`;
    const flaw = findTimeFlaw(Math.floor(us / 1000), futureMs, name);
    if (flaw !== undefined) return flaw;
    values[at + c] = us;
  }
  return undefined;
}

/** Why a row cannot be used, whatever its numbers are; undefined if it can. */
export function explainRow(symbol: unknown, t: ParsedTime): string | undefined {
  if (!isUsableSymbol(symbol)) return explainSymbol(symbol);
  if (typeof t !== 'number') return `t ${t.reason}`;
  return Number.isInteger(t) ? undefined : 't is not a whole number of milliseconds';
}

/** Parses the numbers of row `i` into `values`. Returns why they cannot be used; undefined if they can. */
function parseQuoteValues(
  sources: readonly (readonly unknown[] | undefined)[],
  i: number,
  { priceScale, hasDecimalComma }: TickRowRules,
  values: Float64Array,
): string | undefined {
  const { factor, divisor } = priceScale ?? unscaledPrices;
  for (let c = 0; c < sources.length; c++) {
    const value = sources[c]?.[i];
    values[c] = Number.NaN;
    if (isMissing(value)) continue;
    const parsed = parsePrice(value, hasDecimalComma);
    if (typeof parsed !== 'number') return `${quoteValueNames[c]} ${parsed.reason}`;
    const isSize = c >= firstSize;
    const number = isSize ? parsed : (parsed * factor) / divisor;
    if (!Number.isFinite(number)) return `${quoteValueNames[c]} is not finite`;
    if (isSize && number < 0) return `${quoteValueNames[c]} is negative`;
    values[c] = number;
  }
  return Number.isNaN(values[0]!) && Number.isNaN(values[1]!) ? 'bid and ask are missing' : undefined;
}

/** Whether a value stands for no number: programs write it as null, as nothing, or as NaN. */
export function isMissing(value: unknown): boolean {
  if (typeof value === 'number') return Number.isNaN(value);
  if (typeof value !== 'string') return value === null || value === undefined;
  const first = value.charCodeAt(0);
  // Most texts need no pattern: they start with another ASCII character than a space or the letter N.
  if (first > 0x20 && first < 0x7f && first !== 0x4e && first !== 0x6e) return false;
  return /^\s*(?:nan)?\s*$/i.test(value);
}
