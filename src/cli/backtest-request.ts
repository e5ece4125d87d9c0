import { type BacktestSpec, parseBacktestSpec } from '../backtest/backtest-spec.ts';
import type { Fault } from '../backtest/strategy/json-validator.ts';
import { UsageError } from '../base/errors.ts';
import type { BacktestRequestFlags, NamedValue } from './backtest-flags.ts';
import { parseTimeRange, readSymbolsFile } from './options.ts';

/**
 * What the flags ask for.
 * @param given the name of a strategy, or the path of a file that has one: whatever ends so
 * @throws UsageError which names the flag, and of a file the field
 */
export async function buildBacktestRequest(given: string, flags: BacktestRequestFlags): Promise<BacktestSpec> {
  const isFile = given.toLowerCase().endsWith('.json');
  if (flags.heldOut !== undefined && flags.grid.length === 0)
    throw new UsageError('--held-out means nothing without --grid: nothing is chosen then.');
  const { from, to } = parseTimeRange(flags);
  const listed = flags.symbolsFile === undefined ? [] : await readSymbolsFile(flags.symbolsFile);
  const symbols = [...flags.symbol, ...listed];
  const read = parseBacktestSpec({
    entry_executable: isFile
      ? { name: getStrategyName(given), strategy: await readStrategyFile(given) }
      : { name: given },
    objective: flags.objective,
    ...(symbols.length === 0 ? {} : { symbols }),
    filter: { categories: flags.category, sources: flags.source },
    from,
    to,
    parameters: collectByName('--param', flags.param),
    grid: collectByName('--grid', flags.grid),
    ...(flags.heldOut === undefined ? {} : { held_out: flags.heldOut }),
  });
  if ('asked' in read) return read.asked;
  throw toUsageError(read.faults, given);
}

/** Faults of what was asked, in the words of who asked: flags, and fields of a file. */
export const toUsageError = (faults: readonly Fault[], given: string): UsageError =>
  new UsageError(`The backtest cannot be run. ${faults.map((fault) => formatFault(fault, given)).join('; ')}.`);

const flagsByField: Readonly<Record<string, string>> = {
  objective: '--objective',
  symbols: '--symbol',
  from: '--from',
  to: '--to',
  held_out: '--held-out',
  parameters: '--param',
  grid: '--grid',
  'filter.categories': '--category',
  'filter.sources': '--source',
  filter: '--category, --source',
};

function formatFault({ name, reason }: Fault, given: string): string {
  const inFile = /^entry_executable\.strategy\.?(.*)$/s.exec(name);
  if (inFile !== null) return `${given}: ${inFile[1] === '' ? '' : `${inFile[1]} `}${reason}`;
  if (name.startsWith('entry_executable.')) return `${given} ${reason}`;
  const field = Object.keys(flagsByField).find(
    (each) => name === each || name.startsWith(`${each}.`) || name.startsWith(`${each}[`),
  );
  if (field === undefined) return `${name} ${reason}`;
  const within = name.slice(field.length).replace(/^\./, '');
  return `${flagsByField[field]}${within === '' || within.startsWith('[') ? within : ` ${within}`}: ${reason}`;
}

function collectByName<T>(flag: string, pairs: readonly NamedValue<T>[]): Record<string, T> {
  const twice = pairs.find(([name], i) => pairs.findIndex(([other]) => other === name) < i);
  if (twice !== undefined) throw new UsageError(`${flag} ${twice[0]} is given twice: say once what it is.`);
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
