import { decodeText, parseObjectOrList, toIntegerOrNull, UnreadableResponseError } from './json-response.ts';
import type { OrderbookResponse } from './upstream.ts';

/** How deep in an answer its symbol is looked for. */
const depthMax = 5;

/**
 * Decodes one answer to GET /api/v1/orderbook as far as any shape allows.
 * @param asked the symbol it must be of, unless it names none
 * @throws UnreadableAnswer for bad UTF-8, broken JSON, a scalar, books of other symbols only
 */
export function decodeOrderbook(bytes: Uint8Array, asked: string): OrderbookResponse {
  const text = decodeText(bytes);
  const body = parseObjectOrList(text);
  const named = new Set<string>();
  collectSymbols(body, depthMax, named);
  if (named.size > 0 && !named.has(asked)) {
    const [other] = named;
    throw new UnreadableResponseError(`an order book of another symbol, ${JSON.stringify(other!.slice(0, 80))}`);
  }
  const { generated_at: generatedAt } = body as { generated_at?: unknown };
  return { body, text, generatedAt: toIntegerOrNull(generatedAt) };
}

function collectSymbols(value: object, depth: number, into: Set<string>): void {
  const { symbol } = value as { symbol?: unknown };
  if (typeof symbol === 'string') into.add(symbol);
  if (depth === 0) return;
  for (const member of Object.values(value)) {
    if (typeof member === 'object' && member !== null) collectSymbols(member as object, depth - 1, into);
  }
}
