import { existsSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import type { ColumnFilter, ColumnRename } from '../archive/query/read-rows.ts';
import { UsageError } from '../base/errors.ts';

/** The flags of an import that say how the rows of a feed are read. Each is undefined unless given. */
export interface ImportMapping {
  readonly format?: string;
  readonly dataset?: string;
  readonly columns?: readonly ColumnRename[];
  readonly where?: readonly ColumnFilter[];
  readonly timeUnit?: string;
  readonly truncateTime?: boolean;
  readonly priceScale?: string;
  readonly decimalComma?: boolean;
  readonly tz?: string;
}

/** The kind of value of each key in a mapping file, and the flag that it stands for. */
const keys = {
  format: { field: 'format', kind: 'text' },
  dataset: { field: 'dataset', kind: 'text' },
  columns: { field: 'columns', kind: 'pairs' },
  where: { field: 'where', kind: 'pairs' },
  time_unit: { field: 'timeUnit', kind: 'text' },
  truncate_time: { field: 'truncateTime', kind: 'boolean' },
  price_scale: { field: 'priceScale', kind: 'text' },
  decimal_comma: { field: 'decimalComma', kind: 'boolean' },
  tz: { field: 'tz', kind: 'text' },
} as const satisfies Record<string, { field: keyof ImportMapping; kind: 'text' | 'boolean' | 'pairs' }>;

/** Values that a text may have, for keys with few. */
export const mappingChoices = {
  format: ['pages', 'csv', 'ndjson', 'parquet', 'raw'],
  dataset: ['ticks', 'quotes', 'ticks,quotes', 'trades', 'markets', 'orderbooks'],
  time_unit: ['s', 'ms', 'us', 'ns', 'auto'],
} as const;

/** Finds the choice that names these datasets, in any order. Undefined if there is none. */
export function findDatasets(text: string): string | undefined {
  const sort = (list: string): string =>
    list
      .split(',')
      .map((name) => name.trim())
      .sort()
      .join();
  return mappingChoices.dataset.find((choice) => sort(choice) === sort(text));
}

/** Lists choices, of which one may contain a comma. */
export const formatChoices = (choices: readonly string[]): string =>
  choices.map((choice) => (choice.includes(',') ? `"${choice}"` : choice)).join(', ');

/**
 * Reads a mapping file: YAML with the keys `format`, `dataset`, `columns`, `where`, `time_unit`, `truncate_time`,
 * `price_scale`, `decimal_comma`, `tz`.
 * @throws UsageError that names the file and the key
 */
export async function readMapping(path: string): Promise<ImportMapping> {
  // Loaded on demand: the help of a command lists the choices above.
  const { parse } = await import('yaml');
  let value: unknown;
  try {
    // Every scalar is text, as it is written: 007 is not 7, and a token ID of 77 digits keeps them.
    value = parse(readFileSync(path, 'utf8'), { schema: 'failsafe', logLevel: 'error' });
  } catch (error) {
    const [reason] = (error as Error).message.split('\n');
    throw new UsageError(`--mapping ${path}: cannot be read: ${reason}`, { cause: error });
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    throw new UsageError(`--mapping ${path}: expected keys and values, e.g. "time_unit: us".`);
  const fields = Object.entries(value).map(([key, given]) => {
    if (!Object.hasOwn(keys, key))
      throw new UsageError(`--mapping ${path}: unknown key ${key}. The keys are ${Object.keys(keys).join(', ')}.`);
    const { field } = keys[key as keyof typeof keys];
    return [field, parseValue(path, key as keyof typeof keys, given)];
  });
  return Object.fromEntries(fields) as ImportMapping;
}

function parseValue(path: string, key: keyof typeof keys, value: unknown): unknown {
  const { kind } = keys[key];
  const fail = (expected: string): never => {
    throw new UsageError(`--mapping ${path}: ${key} is ${JSON.stringify(value)}, expected ${expected}.`);
  };
  if (kind === 'boolean') return value === 'true' || value === 'false' ? value === 'true' : fail('true or false');
  if (kind === 'text') {
    const text = typeof value === 'string' ? value : fail('text');
    const choices: readonly string[] | undefined = mappingChoices[key as keyof typeof mappingChoices];
    if (choices === undefined || choices.includes(text)) return text;
    return (key === 'dataset' ? findDatasets(text) : undefined) ?? fail(`one of ${formatChoices(choices)}`);
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return fail('names and their columns');
  return Object.entries(value).map(([name, own]) => {
    if (typeof own !== 'string') return fail('names as text');
    return key === 'columns' ? [name, own] : { column: name, value: own };
  });
}

/** Formats a mapping as the content of a mapping file. */
async function formatMapping(mapping: ImportMapping): Promise<string> {
  const { stringify } = await import('yaml');
  const values: Record<string, unknown> = {};
  for (const [key, { field }] of Object.entries(keys)) {
    const value = mapping[field];
    if (value === undefined || value === false) continue;
    if (field === 'columns') values[key] = Object.fromEntries(mapping.columns ?? []);
    else if (field === 'where')
      values[key] = Object.fromEntries((mapping.where ?? []).map(({ column, value: wanted }) => [column, wanted]));
    else values[key] = value;
  }
  return `# How oddslake import reads a feed: oddslake import FILE --mapping THIS_FILE\n${stringify(values)}`;
}

/**
 * Writes a mapping file, whole or not at all.
 * @throws UsageError if it cannot be written, or if there is a file that is no mapping
 */
export async function saveMapping(path: string, mapping: ImportMapping): Promise<void> {
  if (existsSync(path))
    await readMapping(path).catch((error: unknown) => {
      throw new UsageError(`--save-mapping ${path}: the file exists and is not a mapping.`, { cause: error });
    });
  const temporary = `${path}.${process.pid}.tmp`;
  const content = await formatMapping(mapping);
  try {
    writeFileSync(temporary, content);
    renameSync(temporary, path);
  } catch (error) {
    throw new UsageError(`--save-mapping ${path}: cannot be written: ${(error as Error).message}`, { cause: error });
  }
}
