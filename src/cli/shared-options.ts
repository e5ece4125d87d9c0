import { readFileSync } from 'node:fs';
import { InvalidArgumentError, Option } from 'commander';
import type { Archive } from '../archive/archive.ts';
import type { SymbolFacts } from '../archive/format/market.ts';
import { requireKnownSymbol } from '../archive/journal/symbol-names.ts';
import { UsageError } from '../base/errors.ts';
import { parseRelativeTime } from '../base/time.ts';
import type { Window } from '../base/window.ts';
import { formatErrorMessage } from '../collector/run/error-message.ts';
import { createRepeatableOption } from './command-context.ts';

/** Options that several commands share. */
export const createSymbolOption = (): Option =>
  createRepeatableOption('--symbol <symbol>', 'only this symbol; can be repeated').default([], 'all');

/** What a command does with the sources that --source names. */
export const createSourceOption = (use = 'only this source of an archive with several'): Option =>
  createRepeatableOption('--source <name>', `${use}; can be repeated`).default([], 'all');

export const createFromOption = (byDefault = ''): Option =>
  new Option(
    '--from <time>',
    `start, inclusive: epoch ms, YYYY-MM-DD, an ISO-8601 instant with a zone, 24h or 7d ago, today or yesterday${byDefault}`,
  );

export const createToOption = (byDefault = ''): Option => new Option('--to <time>', `end, exclusive${byDefault}`);

/** The short way to a window that ends now. */
export const createSinceOption = (): Option =>
  new Option(
    '--since <time>',
    'start of a window that ends now, e.g. 24h, 7d or yesterday; in place of --from and --to',
  ).conflicts(['from', 'to']);

export const createCsvSafeOption = (): Option =>
  new Option('--csv-safe', 'CSV for spreadsheets: text that begins like a formula gets a leading apostrophe');

/** Whether `--csv-safe` is set. Throws UsageError if the format is not CSV. */
export function parseCsvSafe(flag: boolean | undefined, format: string): boolean {
  if (flag === true && format !== 'csv') throw new UsageError(`--csv-safe requires the format csv, not ${format}.`);
  return flag === true;
}

/** The flags of a window. */
export interface TimeRangeFlags {
  readonly from?: string;
  readonly to?: string;
  readonly since?: string;
}

/**
 * Parses `--from` and `--to`, or `--since`; an omitted end is null.
 * @param nowMs epoch ms
 * @throws UsageError for an invalid time or an empty window
 */
export function parseTimeRange(
  flags: TimeRangeFlags,
  nowMs: number,
): {
  from: number | null;
  to: number | null;
} {
  if (flags.since !== undefined) {
    const from = parseRelativeTime(flags.since, '--since', nowMs);
    if (from < nowMs) return { from, to: nowMs };
    throw new UsageError(`--since must be in the past: ${flags.since} is not.`);
  }
  const from = flags.from === undefined ? null : parseRelativeTime(flags.from, '--from', nowMs);
  const to = flags.to === undefined ? null : parseRelativeTime(flags.to, '--to', nowMs);
  if (from !== null && to !== null && from >= to)
    throw new UsageError(`--from must be before --to, which is exclusive: ${flags.from} is not before ${flags.to}.`);
  return { from, to };
}

/**
 * Like parseTimeRange, for commands that need both ends.
 * @param what the command, for the error
 */
export function parseTimeWindow(flags: TimeRangeFlags, nowMs: number, what: string): Window {
  const { from, to } = parseTimeRange(flags, nowMs);
  if (from !== null && to !== null) return { from, to };
  throw new UsageError(`${what} needs both --from and --to, or --since.`);
}

/** Facts of the symbols given by `--symbol`, without duplicates. Throws UsageError for an unknown symbol. */
export const findKnownSymbols = (archive: Archive, symbols: readonly string[]): SymbolFacts[] =>
  [...new Set(symbols)].map((symbol) => requireKnownSymbol(archive.state.db, symbol, `--symbol ${symbol}`));

/** Creates a parser of flags whose value is a whole number from `min` to `max`. */
export const createIntegerParser =
  (min: number, max = Number.MAX_SAFE_INTEGER) =>
  (text: string): number => {
    const value = Number(text);
    if (/^\d+$/.test(text) && min <= value && value <= max) return value;
    throw new InvalidArgumentError(
      `Expected a whole number, ${min} ${max === Number.MAX_SAFE_INTEGER ? 'or more' : `to ${max}`}.`,
    );
  };

/** Reads a file that the user named. @param what the flag or the argument, for the UsageError if it cannot be read */
export function readNamedFile(path: string, what: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch (error) {
    throw new UsageError(`${what}: ${formatErrorMessage(error)}`, { cause: error });
  }
}

/** Reads the symbols of `--symbols-file`, one per line. Throws UsageError if it cannot be read or is empty. */
export function readSymbolsFile(path: string): string[] {
  const symbols = readNamedFile(path, '--symbols-file')
    .split(/\r?\n/)
    .filter((line) => line.trim() !== '');
  if (symbols.length === 0) throw new UsageError(`--symbols-file ${path} contains no symbol.`);
  return symbols;
}
