import { decodeCompactPage } from './fast-page-decoder.ts';
import { decodeJsonPage } from './json-page-decoder.ts';
import { decodeText, parseObject, toIntegerOrNull, UnreadableResponseError } from './json-response.ts';
import type { DecodedTickPage, MarketsPage } from './upstream.ts';

/**
 * Decodes one answer to GET /api/v1/ticks from its bytes (UTF-8 JSON, already decompressed).
 *
 * Every price is the double that JSON.parse gives. Times are not judged: a `t` of 1.5 or in the year 9999 is passed on.
 * @param asked the symbol the page must be of, unless it names none; leave it out to take any
 * @throws UnreadableAnswer for bad UTF-8, broken JSON, no `ticks` array, another symbol, a count that is off
 */
export function decodeTickPage(bytes: Uint8Array, asked?: string): DecodedTickPage {
  const page = decodeCompactPage(bytes) ?? decodeJsonPage(bytes);
  if (asked !== undefined && page.symbol !== null && page.symbol !== asked) {
    throw new UnreadableResponseError(`ticks of another symbol, ${JSON.stringify(page.symbol.slice(0, 80))}`);
  }
  return page;
}

/**
 * Decodes one answer to GET /api/v1/markets. Records are kept as received.
 * @throws UnreadableAnswer for bad UTF-8, broken JSON, no `markets` array
 */
export function decodeMarketsPage(bytes: Uint8Array): MarketsPage {
  const page = parseObject(decodeText(bytes));
  const markets: unknown = page.markets;
  if (!Array.isArray(markets)) throw new UnreadableResponseError('no markets array');
  return { markets, total: toIntegerOrNull(page.total), generatedAt: toIntegerOrNull(page.generated_at) };
}
