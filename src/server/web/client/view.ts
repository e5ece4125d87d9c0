import { formatIsoTime } from './format.ts';
import { appendListView, type ListView, parseListView } from './list-view.ts';
import { parseSymbolState, type SymbolState, writeSymbolState } from './symbol-state.ts';

/** The view of the page. The URL contains it, so that a view can be shared and the back button works. */
export interface View extends SymbolState {
  readonly symbol: string | null;
  /** Epoch milliseconds, half-open; both or neither. */
  readonly range: TimeRange | null;
  readonly chart: 'price' | 'candles';
  /** YYYY-MM-DD, the selected day. */
  readonly day: string | null;
  /** The list of symbols, to which the page of a symbol leads back; undefined: the whole list. */
  readonly list?: ListView | undefined;
}

export interface TimeRange {
  readonly from: number;
  readonly to: number;
}

/** Parses the fragment of a URL; invalid values are ignored. */
export function parseView(hash: string): View {
  const parameters = new URLSearchParams(hash.replace(/^#/, ''));
  const [from, to] = [parseTime(parameters.get('from')), parseTime(parameters.get('to'))];
  const day = parameters.get('day') ?? '';
  return {
    symbol: parameters.get('symbol') || null,
    range: from !== null && to !== null && from < to ? { from, to } : null,
    chart: parameters.get('chart') === 'candles' ? 'candles' : 'price',
    ...parseSymbolState(parameters),
    day: /^\d{4}-\d\d-\d\d$/.test(day) && parseTime(day) !== null ? day : null,
    list: parseListView(parameters),
  };
}

/** Formats a view as a fragment; default values are omitted. */
export function formatHash({ symbol, range, chart, day, list, ...state }: View): string {
  const parameters = new URLSearchParams();
  if (symbol !== null) parameters.set('symbol', symbol);
  if (symbol !== null && range !== null) {
    parameters.set('from', formatIsoTime(range.from));
    parameters.set('to', formatIsoTime(range.to));
  }
  if (symbol !== null && chart === 'candles') parameters.set('chart', chart);
  if (symbol !== null) writeSymbolState(state, parameters);
  if (day !== null) parameters.set('day', day);
  if (list !== undefined) appendListView(parameters, list);
  // Colons are allowed in a fragment and easier to read.
  return `#${String(parameters).replaceAll('%3A', ':')}`;
}

const timePattern = /^\d{4}-\d\d-\d\d(T\d\d:\d\d(:\d\d(\.\d{1,3})?)?Z)?$/;

/** Parses a UTC time in the formats of links and inputs; returns null if it is invalid. */
function parseTime(text: string | null): number | null {
  if (text === null || !timePattern.test(text)) return null;
  const ms = Date.parse(text);
  return Number.isFinite(ms) && ms >= 0 ? ms : null;
}

/** Parses a UTC time as the page formats it, or as ISO 8601; null if it is invalid. */
export function parseEnteredTime(text: string): number | null {
  const match = /^(\d{4}-\d\d-\d\d)(?:[ T](\d\d:\d\d(?::\d\d(?:\.\d{1,3})?)?)Z?)?$/.exec(text.trim());
  return match === null ? null : parseTime(match[2] === undefined ? match[1]! : `${match[1]}T${match[2]}Z`);
}
