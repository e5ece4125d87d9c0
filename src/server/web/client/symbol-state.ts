import { dayMs, minuteMs } from '../../../base/window.ts';

/** What the page of a symbol shows, as far as the URL contains it. An absent field is the default. */
export interface SymbolState {
  /** A range that ends at the last tick. An explicit range overrides it. */
  readonly span?: SpanName | undefined;
  /** `unit`: the price axis shows 0 to 1. Default: it fits the prices. */
  readonly scale?: 'unit' | undefined;
  /** A second symbol in the same plot. */
  readonly compare?: string | undefined;
  /** `trades`: the chart marks the trades. */
  readonly marks?: 'trades' | undefined;
  readonly tab?: TabName | undefined;
  readonly code?: LanguageName | undefined;
}

export const spans = [
  { name: '1h', label: '1 h', ms: 60 * minuteMs },
  { name: '6h', label: '6 h', ms: 360 * minuteMs },
  { name: '1d', label: '1 d', ms: dayMs },
  { name: '1w', label: '1 w', ms: 7 * dayMs },
  { name: 'all', label: 'All', ms: Number.POSITIVE_INFINITY },
] as const;
export type SpanName = (typeof spans)[number]['name'];
export const defaultSpan: SpanName = '1w';

const tabs = ['market', 'book', 'trades', 'conflicts'] as const;
export type TabName = (typeof tabs)[number];

export const languages = ['duckdb', 'polars', 'pandas', 'r', 'curl'] as const;
export type LanguageName = (typeof languages)[number];

/** Maximum length of a symbol in a URL, in UTF-16 code units, as in the API. */
const symbolLengthMax = 1000;

/** Parses the parameters of a symbol's page; invalid values are ignored. */
export function parseSymbolState(parameters: URLSearchParams): SymbolState {
  const choose = <const T extends string>(name: string, values: readonly T[]): T | undefined =>
    values.find((value) => value === parameters.get(name));
  const compare = parameters.get('compare') ?? '';
  const state = {
    span: choose(
      'span',
      spans.map(({ name }) => name),
    ),
    scale: choose('scale', ['unit']),
    compare: compare === '' || compare.length > symbolLengthMax ? undefined : compare,
    marks: choose('marks', ['trades']),
    tab: choose('tab', tabs),
    code: choose('code', languages),
  };
  return Object.fromEntries(Object.entries(state).filter(([, value]) => value !== undefined));
}

/** Adds the state to the parameters of a URL. Defaults are omitted. */
export function writeSymbolState(
  { span, scale, compare, marks, tab, code }: SymbolState,
  parameters: URLSearchParams,
): void {
  for (const [name, value] of Object.entries({ span, scale, compare, marks, tab, code }))
    if (value !== undefined) parameters.set(name, value);
}
