import { UsageError } from '../base/errors.ts';
import type { ObjectiveName } from '../contract/backtest-request.ts';
import { type BacktestSpec, parseBacktestSpec } from '../contract/backtest-request.ts';
import type { Fault } from '../contract/parsed-schema.ts';
import { parseTimeRange, readSymbolsFile, type TimeRangeFlags } from './shared-options.ts';

/** Flags of `backtest run`, without the common flags. */
export interface BacktestRequestFlags extends TimeRangeFlags {
  readonly objective: ObjectiveName;
  readonly symbol: readonly string[];
  readonly symbolsFile?: string;
  readonly category: readonly string[];
  readonly source: readonly string[];
  readonly param: readonly NamedValue<number>[];
  readonly grid: readonly NamedValue<readonly number[]>[];
  readonly heldOut?: number;
  readonly fees?: FeesJson;
  readonly wholeContracts?: 'yes' | 'no';
}

/** Fees in the format of a strategy, not validated. */
export type FeesJson = Readonly<Record<string, string | number>>;

export type NamedValue<T> = readonly [name: string, value: T];

/**
 * Builds the backtest request from the flags.
 * @param strategyArg name of a strategy, or path of a strategy file, which ends in .json
 * @param nowMs epoch ms, for times relative to now
 * @throws UsageError that names the flag, or the file and its field
 */
export async function buildBacktestRequest(
  strategyArg: string,
  flags: BacktestRequestFlags,
  nowMs: number,
): Promise<BacktestSpec> {
  const isFile = strategyArg.toLowerCase().endsWith('.json');
  if (flags.heldOut !== undefined && flags.grid.length === 0) throw new UsageError('--held-out requires --grid.');
  const { from, to } = parseTimeRange(flags, nowMs);
  const fileSymbols = flags.symbolsFile === undefined ? [] : await readSymbolsFile(flags.symbolsFile);
  const symbols = [...flags.symbol, ...fileSymbols];
  const parsed = parseBacktestSpec({
    entry_executable: isFile
      ? { name: getStrategyName(strategyArg), strategy: await readStrategyFile(strategyArg) }
      : { name: strategyArg },
    objective: flags.objective,
    ...(symbols.length === 0 ? {} : { symbols }),
    filter: { categories: flags.category, sources: flags.source },
    from,
    to,
    parameters: collectByName('--param', flags.param),
    grid: collectByName('--grid', flags.grid),
    ...(flags.heldOut === undefined ? {} : { held_out: flags.heldOut }),
    fees: flags.fees ?? null,
    whole_contracts: flags.wholeContracts === undefined ? null : flags.wholeContracts === 'yes',
  });
  if ('spec' in parsed) return parsed.spec;
  throw toUsageError(parsed.faults, strategyArg);
}

/** Describes the faults of a request in terms of flags and of strategy file fields. */
export const toUsageError = (faults: readonly Fault[], strategyArg: string): UsageError =>
  new UsageError(`The backtest cannot be run. ${faults.map((fault) => formatFault(fault, strategyArg)).join('; ')}.`);

const flagsByField: Readonly<Record<string, string>> = {
  objective: '--objective',
  symbols: '--symbol',
  from: '--from',
  to: '--to',
  held_out: '--held-out',
  fees: '--fees',
  parameters: '--param',
  grid: '--grid',
  'filter.categories': '--category',
  'filter.sources': '--source',
  filter: '--category, --source',
};

function formatFault({ name, reason }: Fault, strategyArg: string): string {
  const inFile = /^entry_executable\.strategy\.?(.*)$/s.exec(name);
  if (inFile !== null) return `${strategyArg}: ${inFile[1] === '' ? '' : `${inFile[1]} `}${reason}`;
  if (name.startsWith('entry_executable.')) return `${strategyArg} ${reason}`;
  const field = Object.keys(flagsByField).find(
    (each) => name === each || name.startsWith(`${each}.`) || name.startsWith(`${each}[`),
  );
  if (field === undefined) return `${name} ${reason}`;
  const within = name.slice(field.length).replace(/^\./, '');
  return `${flagsByField[field]}${within === '' || within.startsWith('[') ? within : ` ${within}`}: ${reason}`;
}

function collectByName<T>(flag: string, pairs: readonly NamedValue<T>[]): Record<string, T> {
  const duplicate = pairs.find(([name], i) => pairs.findIndex(([other]) => other === name) < i);
  if (duplicate !== undefined) throw new UsageError(`${flag} ${duplicate[0]} is given twice.`);
  return Object.fromEntries(pairs);
}

const getStrategyName = (path: string): string =>
  path
    .replace(/^.*[\\/]/s, '')
    .replace(/\.json$/i, '')
    .slice(0, 200) || 'strategy';

async function readStrategyFile(path: string): Promise<unknown> {
  const { readFile } = await import('node:fs/promises');
  let text: string;
  try {
    text = await readFile(path, 'utf8');
  } catch (error) {
    throw new UsageError(`The strategy ${path} cannot be read: ${(error as Error).message}`, { cause: error });
  }
  try {
    return JSON.parse(text.replace(/^\ufeff/, ''));
  } catch (error) {
    throw new UsageError(`The strategy ${path} is not JSON: ${(error as Error).message}`, { cause: error });
  }
}
