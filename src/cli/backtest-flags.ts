import { InvalidArgumentError, Option } from 'commander';
import { UsageError } from '../core/errors.ts';
import { parseDuration } from '../core/time.ts';
import { parametersText } from '../report/backtest-figures.ts';
import { type BacktestAsked, readAsked } from '../research/asked.ts';
import type { Executable } from '../research/executables.ts';
import { type ObjectiveName, objectiveNames } from '../research/objectives.ts';
import type { Fault } from '../research/reader.ts';
import { askedEnds, readSymbols } from './asked.ts';

/** What `backtest run` takes, beside what every command does. */
export interface RunFlags {
  readonly objective: ObjectiveName;
  readonly symbol: readonly string[];
  readonly symbolsFile?: string;
  readonly category: readonly string[];
  readonly source: readonly string[];
  readonly from?: string;
  readonly to?: string;
  readonly param: readonly Named<number>[];
  readonly grid: readonly Named<readonly number[]>[];
  readonly heldOut?: number;
}

type Named<T> = readonly [name: string, value: T];

export const objectiveOption = (): Option =>
  new Option('--objective <name>', 'what the run is judged by, and a grid is chosen by')
    .choices(objectiveNames)
    .default('total_pnl');

export const paramOption = (): Option =>
  new Option('--param <name=value>', "another value of one of the strategy's parameters; may be repeated")
    .argParser((text, before: readonly Named<number>[]) => [...before, named(text, numberIn)])
    .default([], 'its defaults');

export const gridOption = (): Option =>
  new Option('--grid <name=value,…>', 'values of a parameter to be tried, with several in every combination')
    .argParser((text, before: readonly Named<readonly number[]>[]) => [
      ...before,
      named(text, (values, name) => values.split(',').map((value) => numberIn(value, name))),
    ])
    .default([], 'one run');

export const heldOutOption = (): Option =>
  new Option(
    '--held-out <share>',
    'of a grid: the end of the span that it is judged on, and not chosen by (default: 0.3)',
  ).argParser((text) => numberIn(text, ''));

/** What the help says of the strategies that everybody has. Those that all of them take are said once. */
export function executableTerms(all: readonly Executable[]): Record<string, string> {
  const shared = Object.keys(all[0]!.strategy.parameters).filter((name) =>
    all.every(({ strategy }) => Object.hasOwn(strategy.parameters, name)),
  );
  const told = (parameters: Readonly<Record<string, number>>, isWanted: (name: string) => boolean): string =>
    parametersText(Object.fromEntries(Object.entries(parameters).filter(([name]) => isWanted(name))));
  const terms = all.map(({ name, says, strategy: { parameters } }) => {
    const own = told(parameters, (one) => !shared.includes(one));
    return [name, own === '' ? says : `${says} (${own})`];
  });
  const everywhere = told(all[0]!.strategy.parameters, (name) => shared.includes(name));
  return { ...Object.fromEntries(terms), 'each of them': `takes ${everywhere}` };
}

function named<T>(text: string, read: (value: string, name: string) => T): Named<T> {
  const [, name, value] = /^([^=]+)=(.+)$/s.exec(text) ?? [];
  if (name === undefined) throw new InvalidArgumentError('Expected name=value.');
  return [name.trim(), read(value!, name.trim())];
}

/** Parameters that are milliseconds may be said as `6h`, too. */
function numberIn(text: string, name: string): number {
  const value = Number(text);
  if (text.trim() !== '' && Number.isFinite(value)) return value;
  if (!name.endsWith('_ms')) throw new InvalidArgumentError(`Expected a number, not ${JSON.stringify(text)}.`);
  try {
    return parseDuration(text.trim(), name);
  } catch {
    throw new InvalidArgumentError(
      `Expected milliseconds or a duration such as 90s or 6h, not ${JSON.stringify(text)}.`,
    );
  }
}

/**
 * What the flags ask for.
 * @param given the name of a strategy, or the path of a file that has one: whatever ends so
 * @throws UsageError which names the flag, and of a file the field
 */
export async function askedBy(given: string, flags: RunFlags): Promise<BacktestAsked> {
  const isFile = given.toLowerCase().endsWith('.json');
  if (flags.heldOut !== undefined && flags.grid.length === 0)
    throw new UsageError('--held-out means nothing without --grid: nothing is chosen then.');
  const { from, to } = askedEnds(flags);
  const listed = flags.symbolsFile === undefined ? [] : await readSymbols(flags.symbolsFile);
  const symbols = [...flags.symbol, ...listed];
  const read = readAsked({
    entry_executable: isFile ? { name: nameOf(given), strategy: await strategyIn(given) } : { name: given },
    objective: flags.objective,
    ...(symbols.length === 0 ? {} : { symbols }),
    filter: { categories: flags.category, sources: flags.source },
    ...{ from, to, parameters: byName('--param', flags.param), grid: byName('--grid', flags.grid) },
    ...(flags.heldOut === undefined ? {} : { held_out: flags.heldOut }),
  });
  if ('asked' in read) return read.asked;
  throw unfit(read.faults, given);
}

/** Faults of what was asked, in the words of who asked: flags, and fields of a file. */
export const unfit = (faults: readonly Fault[], given: string): UsageError =>
  new UsageError(`The backtest cannot be run. ${faults.map((fault) => told(fault, given)).join('; ')}.`);

const flagOf: Readonly<Record<string, string>> = {
  ...{ objective: '--objective', symbols: '--symbol', from: '--from', to: '--to', held_out: '--held-out' },
  ...{ parameters: '--param', grid: '--grid', 'filter.categories': '--category', 'filter.sources': '--source' },
};

function told({ name, reason }: Fault, given: string): string {
  const inFile = /^entry_executable\.strategy\.?(.*)$/s.exec(name);
  if (inFile !== null) return `${given}: ${inFile[1] === '' ? '' : `${inFile[1]} `}${reason}`;
  if (name.startsWith('entry_executable.')) return `${given} ${reason}`;
  const field = Object.keys(flagOf).find(
    (each) => name === each || name.startsWith(`${each}.`) || name.startsWith(`${each}[`),
  );
  if (field === undefined) return `${name} ${reason}`;
  return `${flagOf[field]}${name.slice(field.length).replace(/^\./, ' ')} ${reason}`;
}

function byName<T>(flag: string, pairs: readonly Named<T>[]): Record<string, T> {
  const twice = pairs.find(([name], i) => pairs.findIndex(([other]) => other === name) < i);
  if (twice !== undefined) throw new UsageError(`${flag} ${twice[0]} is given twice: say once what it is.`);
  return Object.fromEntries(pairs);
}

const nameOf = (path: string): string =>
  path
    .replace(/^.*[\\/]/s, '')
    .replace(/\.json$/i, '')
    .slice(0, 200) || 'strategy';

async function strategyIn(path: string): Promise<unknown> {
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
