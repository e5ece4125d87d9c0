import type { RecordPaths } from '../core/parse-market.ts';

export type ImportDataset = 'ticks' | 'markets';

const tickColumnNames = ['symbol', 't', 'p'];

/**
 * What rows with these columns are, or why they are nothing: a clause on the file. `given`: what they have to be; null
 * for what they look like.
 */
export function detectDataset(
  names: readonly string[],
  given: ImportDataset | null,
  { symbolPaths, fieldPaths }: RecordPaths,
): ImportDataset | { readonly lacks: string } {
  const has = new Set(names);
  const lacking = tickColumnNames.filter((name) => !has.has(name));
  const top = (paths: readonly string[]): boolean => paths.some((path) => has.has(path.split('/')[0]!));
  const isList = has.has('canonical_id') || has.has('symbol') || top(symbolPaths);
  const tellsOfMarkets = top([...Object.values(fieldPaths).flat(), 'category', 'is_active', 'confidence']);
  if (given !== 'markets' && lacking.length === 0) return 'ticks';
  if (given === 'markets' && isList) return 'markets';
  if (given === null && has.has('canonical_id')) return 'markets';
  if (given === null && isList && tellsOfMarkets && !has.has('t') && !has.has('p')) return 'markets';
  const found = `it has ${names.slice(0, 12).join(', ') || 'none'}${names.length > 12 ? ', …' : ''}`;
  if (given === 'markets') return { lacks: `it lacks a column symbol or canonical_id (${found})` };
  const hint = given === null ? '; a list of markets has a canonical_id, or say --dataset markets' : '';
  return { lacks: `it lacks the column${lacking.length > 1 ? 's' : ''} ${lacking.join(', ')} (${found})${hint}` };
}

const csvDelimiters = [',', ';', '\t', '|'];

/**
 * The names in the first line of a CSV and what stands between them, by RFC 4180; undefined where there is no whole line
 * or a name stands there twice, as DuckDB has it: whatever its case.
 */
export function parseCsvHeader(text: string): { names: string[]; delimiter: string } | undefined {
  const [line, ...rest] = text.replace(/^\ufeff/, '').split(/\r\n|\n|\r/, 2);
  if (line === undefined || line === '' || (rest.length === 0 && text.length > csvHeaderCharsMax)) return undefined;
  const candidates = csvDelimiters.map((delimiter) => ({ delimiter, names: splitCsvLine(line, delimiter) }));
  const best = candidates.reduce((a, b) => (b.names.length > a.names.length ? b : a));
  const different = new Set(best.names.map((name) => name.toLowerCase()));
  return different.size < best.names.length ? undefined : best;
}

const csvHeaderCharsMax = 60_000;

function splitCsvLine(line: string, delimiter: string): string[] {
  const fields: string[] = [];
  let field = '';
  let quoted = false;
  for (let i = 0; i < line.length; i++) {
    const char = line[i]!;
    if (quoted && char === '"' && line[i + 1] === '"') field += line[++i];
    else if (char === '"') quoted = !quoted;
    else if (char === delimiter && !quoted) {
      fields.push(field);
      field = '';
    } else field += char;
  }
  // A data frame's index comes without a name.
  return [...fields, field].map((name, i) => (name === '' ? `column_${i}` : name));
}
