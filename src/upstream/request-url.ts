import { UsageError } from '../core/errors.ts';
import type { Window } from '../core/window.ts';
import type { RequestSubject } from './request-error.ts';
import type { MarketsQuery, OrderbookQuery, TicksQuery } from './upstream.ts';

/** Where the service lives: the pool's origin, and what goes before every path. */
export interface ParsedBaseUrl {
  readonly origin: string;
  /** Empty, or with a slash in front and none behind. */
  readonly prefix: string;
}

/** @throws UsageError for what is not a plain http(s) address; credentials in it would end up in logs. */
export function parseBaseUrl(baseUrl: string): ParsedBaseUrl {
  const url = URL.canParse(baseUrl) ? new URL(baseUrl) : undefined;
  if (url === undefined || !['http:', 'https:'].includes(url.protocol)) {
    throw new UsageError('the base URL of the upstream must be an http or https address, e.g. https://example.org');
  }
  if (url.username !== '' || url.password !== '' || url.search !== '' || url.hash !== '') {
    throw new UsageError('the base URL of the upstream must have no user, password, query or fragment');
  }
  return { origin: url.origin, prefix: url.pathname.replace(/\/+$/, '') };
}

/** @throws UsageError for a key that no header can carry; the key itself is not shown. */
export function checkApiKey(apiKey: string): void {
  if (!/^[\x21-\x7e]+$/.test(apiKey)) {
    throw new UsageError('the API key must be printable ASCII without spaces or line breaks, and not empty');
  }
}

/** A path with its query; fields that are not given are left out. */
export function buildRequestPath(path: string, query: Readonly<Record<string, string | number | undefined>>): string {
  const fields = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value !== undefined) fields.append(name, String(value));
  }
  // A plus is a space to forms only; %20 is one everywhere. Real pluses are %2B already.
  const text = fields.toString().replaceAll('+', '%20');
  return text === '' ? path : `${path}?${text}`;
}

export function createTicksSubject({ symbol, from, to }: TicksQuery): RequestSubject {
  const window: Window = { from, to };
  return { describe: () => `ticks of ${symbol} [${formatInstant(from)}, ${formatInstant(to)})`, symbol, window };
}

export function createMarketsSubject({ view, source }: MarketsQuery): RequestSubject {
  const filters = [view === undefined ? '' : ` of view ${view}`, source === undefined ? '' : ` of source ${source}`];
  return { describe: () => `markets${filters.join('')}` };
}

export const createOrderbookSubject = ({ symbol }: OrderbookQuery): RequestSubject => ({
  describe: () => `order book of ${symbol}`,
  symbol,
});

function formatInstant(timeMs: number): string {
  const date = new Date(timeMs);
  return Number.isNaN(date.getTime()) ? String(timeMs) : date.toISOString();
}
