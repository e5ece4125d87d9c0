import { formatIsoTime } from './format.ts';

/** What is looked at: all of it stands in the address, so that a view can be shared and the back button works. */
export interface View {
  readonly symbol: string | null;
  /** Epoch milliseconds, half-open; both or neither. */
  readonly range: TimeRange | null;
  readonly chart: 'price' | 'candles';
  /** YYYY-MM-DD, the day whose files are shown. */
  readonly day: string | null;
}

export interface TimeRange {
  readonly from: number;
  readonly to: number;
}

/** Reads what stands behind the # of an address; what makes no sense there counts as not said. */
export function parseView(hash: string): View {
  const said = new URLSearchParams(hash.replace(/^#/, ''));
  const [from, to] = [parseTime(said.get('from')), parseTime(said.get('to'))];
  const day = said.get('day') ?? '';
  return {
    symbol: said.get('symbol') || null,
    range: from !== null && to !== null && from < to ? { from, to } : null,
    chart: said.get('chart') === 'candles' ? 'candles' : 'price',
    day: /^\d{4}-\d\d-\d\d$/.test(day) && parseTime(day) !== null ? day : null,
  };
}

/** The same as text, without what is usual. */
export function formatHash({ symbol, range, chart, day }: View): string {
  const said = new URLSearchParams();
  if (symbol !== null) said.set('symbol', symbol);
  if (symbol !== null && range !== null) {
    said.set('from', formatIsoTime(range.from));
    said.set('to', formatIsoTime(range.to));
  }
  if (symbol !== null && chart === 'candles') said.set('chart', chart);
  if (day !== null) said.set('day', day);
  // Colons may stand there, and are easier to read.
  return `#${String(said).replaceAll('%3A', ':')}`;
}

const timePattern = /^\d{4}-\d\d-\d\d(T\d\d:\d\d(:\d\d(\.\d{1,3})?)?Z)?$/;

/** An instant of UTC, as links and the inputs of the page have it; null for anything else. */
export function parseTime(text: string | null): number | null {
  if (text === null || !timePattern.test(text)) return null;
  const ms = Date.parse(text);
  return Number.isFinite(ms) && ms >= 0 ? ms : null;
}
