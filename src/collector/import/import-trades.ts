import { listFactColumns, timeNames } from '../../archive/format/series-datasets.ts';
import { findTimeFlaw } from '../paging/observation.ts';
import { countTimes, explainRow, isMissing, parseTimes, selectColumns } from './import-quotes.ts';
import {
  formatRawRow,
  isRoundedNumber,
  isUsableSymbol,
  parsePrice,
  parseRowTime,
  type RawRows,
  type TickRowRules,
  unscaledPrices,
} from './import-rows.ts';
import type { SeriesSink } from './series-writer.ts';
import type { TradeIds } from './trade-ids.ts';

/** The columns of a trade that a file may have, besides symbol and its times. */
export const tradeColumnNames: readonly string[] = listFactColumns('trades').map(({ name }) => name);

/** Those that are read as text, whatever their type. */
export const tradeTextNames = tradeColumnNames.filter((name) => name !== 'price' && name !== 'size');

type TradeColumn = 'trade_id' | 'price' | 'size' | 'aggressor' | 'block' | 'tx_hash' | 'price_text' | 'size_text';

/** Rows of trades. A column that the file does not have is undefined. */
export interface RawTradeRows extends RawRows, Readonly<Partial<Record<TradeColumn, readonly unknown[]>>> {}

/** The length of an identifier or hash, in UTF-16 code units. */
const textCharsMax = 256;
/** The length of an identifier that was made from the content of a trade, which includes its hash. */
const madeIdCharsMax = textCharsMax + 128;

/**
 * Reads rows with trades into the sink. A trade without a symbol, a time, a price or a size is rejected with the reason, and so
 * is one with a value that cannot be used. A trade without an identifier gets one from `ids`.
 * @param futureMs latest time accepted, epoch ms
 */
export function readTradeRows(
  rows: RawTradeRows,
  rules: TickRowRules,
  futureMs: number,
  sink: SeriesSink,
  ids: TradeIds,
): void {
  const columns = selectColumns(rows, [...tradeColumnNames, ...timeNames]);
  const values = new Float64Array(3 + countTimes(rows));
  const texts: (string | null)[] = new Array(5).fill(null);
  for (let i = 0; i < rows.symbol.length; i++) {
    const symbol = rows.symbol[i];
    const t = parseRowTime(rows, i, rules);
    const reason =
      explainRow(symbol, t) ??
      findTimeFlaw(t as number, futureMs) ??
      parseTrade(rows, i, rules, values, texts) ??
      parseTimes(rows, i, rules, futureMs, values, 3) ??
      nameTrade(ids, symbol as string, t as number, values, texts);
    if (reason === undefined) sink.accept(symbol as string, t as number, values, texts);
    else sink.reject(isUsableSymbol(symbol) ? symbol : null, { reason, raw: formatRawRow(rows, i, columns) });
  }
}

/**
 * Parses the facts of row `i`: price, size and block into `values`, trade_id, aggressor, tx_hash, price_text and size_text into
 * `texts`. Returns why they cannot be used; undefined if they can.
 */
function parseTrade(
  rows: RawTradeRows,
  i: number,
  { priceScale, hasDecimalComma }: TickRowRules,
  values: Float64Array,
  texts: (string | null)[],
): string | undefined {
  const { factor, divisor } = priceScale ?? unscaledPrices;
  const price = parsePrice(rows.price?.[i], hasDecimalComma);
  if (typeof price !== 'number') return `price ${price.reason}`;
  const size = parsePrice(rows.size?.[i], hasDecimalComma);
  if (typeof size !== 'number') return `size ${size.reason}`;
  if (!Number.isFinite(price)) return 'price is not finite';
  if (!Number.isFinite(size)) return 'size is not finite';
  if (!(size > 0)) return size < 0 ? 'size is negative' : 'size is zero';
  const aggressor = parseAggressor(rows.aggressor?.[i]);
  if (typeof aggressor === 'object' && aggressor !== null) return `aggressor ${aggressor.reason}`;
  const block = parseBoolean(rows.block?.[i]);
  if (typeof block !== 'number') return `block ${block.reason}`;
  const flaw = findTextFlaw('trade_id', rows.trade_id?.[i]) ?? findTextFlaw('tx_hash', rows.tx_hash?.[i]);
  if (flaw !== undefined) return flaw;
  values[0] = (price * factor) / divisor;
  values[1] = size;
  values[2] = block;
  texts[0] = toText(rows.trade_id?.[i]);
  texts[1] = aggressor;
  texts[2] = toText(rows.tx_hash?.[i]);
  texts[3] =
    priceScale === null
      ? (toText(rows.price_text?.[i]) ?? findInexactText(rows.price![i], price, hasDecimalComma))
      : null;
  texts[4] = toText(rows.size_text?.[i]) ?? findInexactText(rows.size![i], size, hasDecimalComma);
  return undefined;
}

/** Why a value cannot be an identifier or a hash: other values might be stored as the same text. Undefined if it can. */
function findTextFlaw(name: 'trade_id' | 'tx_hash', value: unknown): string | undefined {
  if (isMissing(value)) return undefined;
  if (typeof value === 'object') return `${name} is neither text nor a number`;
  const text = String(value);
  const max = name === 'trade_id' && text.startsWith('=') ? madeIdCharsMax : textCharsMax;
  if (text.length > max) return `${name} is longer than ${max} characters`;
  if (!text.isWellFormed()) return `${name} contains half of a surrogate pair`;
  return isRoundedNumber(text) ? `${name} is a rounded number: its last digits are lost` : undefined;
}

/** Gives a trade without an identifier one. Returns why it cannot have one; undefined if it has. */
function nameTrade(
  ids: TradeIds,
  symbol: string,
  t: number,
  values: Float64Array,
  texts: (string | null)[],
): string | undefined {
  if (texts[0] !== null) return undefined;
  const made = ids.next(symbol, t, values, texts);
  if (typeof made !== 'string') return made.reason;
  texts[0] = made;
  return undefined;
}

const toText = (value: unknown): string | null => (isMissing(value) ? null : String(value));

/** The sides that feeds name. A taker of YES buys, and a taker of NO sells. */
const [buy, sell] = [
  { buy: 'buy', b: 'buy', yes: 'buy' },
  { sell: 'sell', s: 'sell', no: 'sell' },
];
const aggressors = new Map(Object.entries<string | null>({ ...buy, ...sell, unknown: null, none: null }));

function parseAggressor(value: unknown): string | null | { readonly reason: string } {
  if (isMissing(value)) return null;
  const text = String(value);
  const side = aggressors.get(text) ?? aggressors.get(text.trim().toLowerCase());
  return side === undefined ? { reason: 'is none of buy, sell, b, s, yes, no, unknown' } : side;
}

const booleans = new Map(Object.entries({ true: 1, t: 1, yes: 1, 1: 1, false: 0, f: 0, no: 0, 0: 0 }));

/** 1, 0, or NaN for a missing value. */
function parseBoolean(value: unknown): number | { readonly reason: string } {
  if (isMissing(value)) return Number.NaN;
  return booleans.get(String(value).trim().toLowerCase()) ?? { reason: 'is neither true nor false' };
}

/** The text of a number that a double does not hold: parsing it lost digits. Null if it does, or if it arrived as a double. */
export function findInexactText(value: unknown, parsed: number, hasDecimalComma: boolean): string | null {
  if (typeof value !== 'string' || value.length <= exactDigits) return null;
  const text = value.trim();
  const read = toDecimal(hasDecimalComma ? text.replace(',', '.') : text);
  return read !== null && read !== toDecimal(String(parsed)) ? text : null;
}

/** A decimal of this many digits is the shortest text of its double. */
const exactDigits = 15;

/** The digits without leading and trailing zeros, and the exponent of the last one. Null if it is no decimal number. */
function toDecimal(text: string): string | null {
  const match = /^([+-]?)(\d*)\.?(\d*)(?:e([+-]?\d+))?$/i.exec(text);
  if (match === null) return null;
  const [, sign, whole = '', fraction = '', exponent = '0'] = match;
  const digits = `${whole}${fraction}`.replace(/^0+/, '');
  const significant = digits.replace(/0+$/, '');
  const power = Number(exponent) - fraction.length + digits.length - significant.length;
  return significant === '' ? '0' : `${sign === '-' ? '-' : ''}${significant}e${power}`;
}
