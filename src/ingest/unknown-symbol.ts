import type { UpstreamError } from '../core/errors.ts';

/** Statuses by which a service says that it has no such thing, whatever else it says. */
const unknownStatuses: readonly (number | undefined)[] = [404, 410];

/**
 * Whether a service says by an error that it does not know the symbol: 404, 410, or a 400 whose words name the symbol. All
 * else, an outage above all, is no statement on the symbol.
 */
export const isUnknownSymbolError = (
  { status, reason }: Pick<UpstreamError, 'status' | 'reason'>,
  symbol: string,
): boolean => unknownStatuses.includes(status) || (status === 400 && containsSymbol(reason, symbol));

/** Whether a text holds the symbol as a word of its own: a short one may be a piece of any word. */
function containsSymbol(text: string, symbol: string): boolean {
  // The reason quotes what the service said as JSON.
  const quoted = JSON.stringify(symbol).slice(1, -1);
  for (const word of new Set([symbol, quoted])) {
    for (let at = text.indexOf(word); at >= 0; at = text.indexOf(word, at + 1)) {
      const [before, after] = [text.slice(0, at).at(-1), text[at + word.length]];
      if (!isWordCharacter(before) && !isWordCharacter(after)) return true;
    }
  }
  return false;
}

const isWordCharacter = (character: string | undefined): boolean =>
  character !== undefined && /[\p{L}\p{N}]/u.test(character);
