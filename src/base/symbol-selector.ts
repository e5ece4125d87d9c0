import { findNearestName } from './nearest-name.ts';

/** What a selector compares its pattern with. `venue` is the source that a market record names. */
const selectorFields = ['venue', 'category', 'symbol', 'question', 'event'] as const;
type SelectorField = (typeof selectorFields)[number];

/** What selectors compare. Null: the records do not say. */
interface SelectableSymbol {
  /** Qualified by its source, in an archive of several. */
  readonly symbol: string;
  readonly source: string | null;
  readonly category: string | null;
  readonly question: string | null;
  readonly event: string | null;
}

/** A regular expression for valid selectors, with the flag u. The pattern has at least one character that is no space. */
export const selectorPattern = `^(${selectorFields.join('|')}):[\\s\\S]*\\S[\\s\\S]*$`;

/** What `selectorPattern` accepts, for messages. */
export const selectorRule = `a selector FIELD:PATTERN with the field ${selectorFields.slice(0, -1).join(', ')} or ${selectorFields.at(-1)}, such as venue:kalshi or symbol:KXBTC*`;

/** Which symbols the market lists name that are collected: those that any of `include` matches, or all if it is empty, and none of `exclude`. */
export interface SelectionRules {
  readonly include: readonly string[];
  readonly exclude: readonly string[];
}

/**
 * Whether the rules select a symbol. A field that the records do not have matches no selector: such a symbol is neither
 * included nor excluded by it.
 */
export const isSelectedByRules = (facts: SelectableSymbol, { include, exclude }: SelectionRules): boolean =>
  (include.length === 0 || include.some((text) => matchesSelector(text, facts))) &&
  !exclude.some((text) => matchesSelector(text, facts));

/** Whether a selector matches a symbol. Ignores case; `*` matches any text, `?` any character. False if it is invalid. */
export function matchesSelector(text: string, facts: SelectableSymbol): boolean {
  const at = text.indexOf(':');
  const pattern = text.slice(at + 1).trim();
  return listFieldValues(text.slice(0, Math.max(0, at)), facts).some((value) => matchesGlob(pattern, value));
}

/** The values of a field that a pattern is compared with. */
function listFieldValues(field: string, facts: SelectableSymbol): readonly (string | null)[] {
  switch (field as SelectorField) {
    case 'venue':
      return [facts.source];
    case 'symbol':
      // The symbol as the archive names it, or as its source does.
      return [facts.symbol, facts.symbol.slice(facts.symbol.indexOf(':') + 1)];
    case 'category':
    case 'question':
    case 'event':
      return [facts[field as 'category' | 'question' | 'event']];
    default:
      return [];
  }
}

/** Values that a selector is compared with, so that a suggestion takes at most about a second. */
const comparedValuesMax = 200_000;

/** The selector with an existing value that one without a match probably means; null if none is similar or it has a glob. */
export function suggestExistingSelector(selector: string, symbols: readonly SelectableSymbol[]): string | null {
  const at = selector.indexOf(':');
  const [field, pattern] = [selector.slice(0, at), selector.slice(at + 1).trim()];
  if (/[*?]/.test(pattern)) return null;
  const values = new Set<string>();
  for (const facts of symbols) {
    if (values.size >= comparedValuesMax) break;
    for (const value of listFieldValues(field, facts)) if (value !== null && value !== '') values.add(value);
  }
  const nearest = findNearestName(pattern, [...values]);
  return nearest === undefined ? null : `${field}:${nearest}`;
}

/** Compares a whole text with a glob, in time proportional to the product of their lengths at most. */
function matchesGlob(pattern: string, text: string | null): boolean {
  if (text === null) return false;
  const [glob, chars] = [[...pattern.toLowerCase()], [...text.toLowerCase()]];
  let [g, c] = [0, 0];
  // Where to go on after a mismatch: the last `*`, and the first character that it does not match yet.
  let [starAt, resumeAt] = [-1, 0];
  while (c < chars.length) {
    if (glob[g] === '*') {
      starAt = g++;
      resumeAt = c;
    } else if (g < glob.length && (glob[g] === '?' || glob[g] === chars[c])) {
      g++;
      c++;
    } else if (starAt >= 0) {
      g = starAt + 1;
      c = ++resumeAt;
    } else return false;
  }
  while (glob[g] === '*') g++;
  return g === glob.length;
}

/** Other names of the fields, as in market records and in other programs. */
const fieldNames: ReadonlyMap<string, SelectorField> = new Map<string, SelectorField>([
  ...selectorFields.map((name) => [name, name] as const),
  ['source', 'venue'],
  ['platform', 'venue'],
  ['exchange', 'venue'],
  ['ticker', 'symbol'],
  ['title', 'question'],
  ['tag', 'category'],
]);

/**
 * The selector that an invalid value probably means; null if none does. YAML reads `venue: kalshi`, with a space, as an
 * object.
 */
export function suggestSelector(value: unknown): string | null {
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) {
    const [entry, ...others] = Object.entries(value);
    if (entry === undefined || others.length > 0 || !['string', 'number'].includes(typeof entry[1])) return null;
    const text = `${entry[0]}:${entry[1]}`;
    return isSelector(text) ? text : suggestSelector(text);
  }
  if (typeof value !== 'string' || value.trim() === '' || value.length > 200) return null;
  const at = value.indexOf(':');
  const pattern = value.slice(at + 1).trim();
  if (at < 0) return `symbol:${pattern}`;
  if (pattern === '') return null;
  const name = value.slice(0, at).trim().toLowerCase();
  const near = fieldNames.get(name) ?? fieldNames.get(findNearestName(name, [...fieldNames.keys()]) ?? '');
  // A symbol of one of several sources has a colon too.
  return near === undefined ? `symbol:${value.trim()}` : `${near}:${pattern}`;
}

const isSelector = (text: string): boolean => new RegExp(selectorPattern, 'u').test(text);
