import { InvalidArgumentError, Option } from 'commander';
import type { SymbolFacts } from '../archive/format/market.ts';
import { readSymbol } from '../archive/journal/symbols.ts';
import type { Archive } from '../archive/open-archive.ts';
import { UsageError } from '../base/errors.ts';
import { parseTime } from '../base/time.ts';
import type { Window } from '../base/window.ts';
import { formatErrorMessage } from '../collector/run/error-message.ts';
import { createRepeatableOption } from './command-context.ts';

/** What several commands take alike: `--symbol`, `--from`, `--to`, a number of rows. */
export const createSymbolOption = (): Option =>
  createRepeatableOption('--symbol <symbol>', 'only this symbol; can be repeated').default([], 'all of them');

export const createFromOption = (byDefault = ''): Option =>
  new Option('--from <time>', `start, included: epoch ms, YYYY-MM-DD or an ISO-8601 instant with a zone${byDefault}`);

export const createToOption = (byDefault = ''): Option => new Option('--to <time>', `end, excluded${byDefault}`);

/** `--from` and `--to` as given; an end that is not given is null. Throws UsageError for times that are none. */
export function parseTimeRange(flags: { readonly from?: string; readonly to?: string }): {
  from: number | null;
  to: number | null;
} {
  const from = flags.from === undefined ? null : parseTime(flags.from, '--from');
  const to = flags.to === undefined ? null : parseTime(flags.to, '--to');
  if (from !== null && to !== null && from >= to)
    throw new UsageError(
      `--from must be before --to: ${flags.from} is not before ${flags.to}, and the end is excluded.`,
    );
  return { from, to };
}

/** The same with both ends given, as an option of the command requires. */
export function parseTimeWindow(flags: { readonly from: string; readonly to: string }): Window {
  const { from, to } = parseTimeRange(flags);
  return { from: from!, to: to! };
}

/** The facts of symbols named by `--symbol`, each once. Throws UsageError for one that the archive does not know. */
export const findKnownSymbols = (archive: Archive, symbols: readonly string[]): SymbolFacts[] =>
  [...new Set(symbols)].map((symbol) => {
    const facts = readSymbol(archive.state.db, symbol);
    if (facts !== undefined) return facts;
    throw new UsageError(
      `--symbol ${symbol} is not known in this archive. oddslake symbols ${symbol.slice(0, 20)} looks for ones like it.`,
    );
  });

/** Takes a flag whose value is a whole number of at least `least`, and at most `most`. */
export const createIntegerParser =
  (least: number, most = Number.MAX_SAFE_INTEGER) =>
  (text: string): number => {
    const value = Number(text);
    if (/^\d+$/.test(text) && least <= value && value <= most) return value;
    throw new InvalidArgumentError(
      `Expected a whole number, ${least} ${most === Number.MAX_SAFE_INTEGER ? 'or more' : `to ${most}`}.`,
    );
  };

/** The symbols that `--symbols-file` names, one a line. Throws UsageError where it cannot be read, or names none. */
export async function readSymbolsFile(path: string): Promise<string[]> {
  const { readFile } = await import('node:fs/promises');
  let text: string;
  try {
    text = await readFile(path, 'utf8');
  } catch (error) {
    throw new UsageError(`--symbols-file: ${formatErrorMessage(error)}`, { cause: error });
  }
  const symbols = text.split(/\r?\n/).filter((line) => line.trim() !== '');
  if (symbols.length === 0) throw new UsageError(`--symbols-file ${path} names no symbol.`);
  return symbols;
}
