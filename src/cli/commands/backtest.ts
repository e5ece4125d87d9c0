import { type Command, InvalidArgumentError, Option } from 'commander';
import type { Archive } from '../../archive/archive.ts';
import { objectives } from '../../backtest/engine/objectives.ts';
import { type BuiltinStrategy, builtinStrategies } from '../../backtest/strategy/builtin-strategies.ts';
import { exitCodes, UsageError } from '../../base/errors.ts';
import { systemClock } from '../../base/system.ts';
import { parseDuration } from '../../base/time.ts';
import type { Context } from '../../context/context.ts';
import {
  type BacktestSpec,
  type ObjectiveName,
  objectiveNames,
  parseBacktestSpec,
} from '../../contract/backtest-request.ts';
import type { BacktestResult } from '../../contract/backtests.ts';
import type { Fault } from '../../contract/parsed-schema.ts';
import { formatParameters } from '../../report/backtest-figures.ts';
import {
  type CliContext,
  type CommonFlags,
  createRepeatableOption,
  flagsUnusedByReaders,
  openReadableArchive,
  printResult,
  withArchive,
  withCommonFlags,
  withContext,
} from '../command-context.ts';
import { formatBacktestList, toBacktestListEntry } from '../format-lists.ts';
import { withHelp, withTerms } from '../help.ts';
import { requireOwner } from '../require-owner.ts';
import {
  createCsvSafeOption,
  createFromOption,
  createIntegerParser,
  createSinceOption,
  createSymbolOption,
  createToOption,
  parseTimeRange,
  readNamedFile,
  readSymbolsFile,
  type TimeRangeFlags,
} from '../shared-options.ts';

interface ListFlags extends CommonFlags {
  readonly rows: number;
}

interface ShowFlags extends CommonFlags {
  readonly out?: string;
}

const rowsMax = 1000;

/** `backtest run`, `backtest list`, `backtest show`: strategies on the archive's ticks. */
export function addBacktest(backtest: Command, shell: CliContext): void {
  const { version } = shell;

  addBacktestRun(shell, backtest);

  const list = backtest
    .command('list')
    .description('list saved backtests of all users, newest first')
    .option('--rows <n>', 'maximum number of rows', createIntegerParser(1, rowsMax), 50);
  withCommonFlags(list, flagsUnusedByReaders).action((flags: ListFlags) =>
    withArchive(flags, version, async (archive, context) => {
      const { listSavedBacktests } = await import('../../server/local-backtests.ts');
      const { rows, more } = await listSavedBacktests(context, archive, flags.rows);
      const entries = rows.map(toBacktestListEntry);
      printResult(flags, { backtests: entries, count: entries.length, more }, (style) =>
        formatBacktestList(entries, more, style),
      );
    }),
  );

  const show = backtest
    .command('show')
    .description('show the result of a saved backtest')
    .argument('<id>', 'ID as shown by oddslake backtest list')
    .option('--out <file>', 'write an HTML page; replaces an existing file atomically');
  withHelp(show, showNotes, showExamples);
  withCommonFlags(show, flagsUnusedByReaders).action((id: string, flags: ShowFlags) =>
    withArchive(flags, version, async (archive, context) => {
      const [{ getSavedBacktest }, { requirePageTarget, printBacktest, writeBacktestPage }] = await Promise.all([
        import('../../server/local-backtests.ts'),
        import('../format-backtest.ts'),
      ]);
      const file = flags.out === undefined ? null : requirePageTarget(archive, flags.out);
      const row = await getSavedBacktest(context, archive, id);
      if (row.result === null) throw new UsageError(createNoResultError(row));
      const result = JSON.parse(row.result) as BacktestResult;
      const page = file === null ? null : await writeBacktestPage(archive, context, file, result);
      printBacktest({ result, id, page, trades: null }, flags, { isNew: false });
    }),
  );
}

const createNoResultError = (row: {
  readonly id: string;
  readonly state: string;
  readonly error: string | null;
}): string => `The backtest ${row.id} has no result: it is ${row.state}${row.error === null ? '' : ` (${row.error})`}.`;

const showNotes = `
--json prints the response of POST /api/v1/research/backtest, with the file written by --out under "page".`;

const showExamples = `
  oddslake backtest show mwrt5zeezgvry21yze --out page.html`;

interface BacktestRunFlags extends CommonFlags, BacktestRequestFlags {
  readonly out?: string;
  readonly trades?: string;
  readonly csvSafe?: boolean;
  readonly save?: boolean;
  readonly user?: string;
  readonly workspace?: string;
}

/** `backtest run`: one strategy, or a grid of its parameters. */
function addBacktestRun(shell: CliContext, backtest: Command): void {
  const command = backtest
    .command('run')
    .description(
      "run a trading strategy on the archive's ticks; a decision uses only data known at that time, and its order is filled later",
    )
    .argument('<strategy>', 'a built-in strategy (listed below), the name of a saved one, or a JSON file')
    .addOption(createObjectiveOption())
    .addOption(createSymbolOption())
    .option('--symbols-file <file>', 'file with one symbol per line')
    .addOption(
      createRepeatableOption('--category <name>', 'only symbols of this category; can be repeated').default([], 'all'),
    )
    .addOption(
      createRepeatableOption('--source <name>', 'only symbols of this venue; can be repeated').default([], 'all'),
    )
    .addOption(createFromOption())
    .addOption(createToOption())
    .addOption(createSinceOption())
    .addOption(createParamOption())
    .addOption(createGridOption())
    .addOption(createHeldOutOption())
    .addOption(createFeesOption())
    .addOption(createWholeContractsOption())
    .option('--out <file>', 'write an HTML page with charts; replaces an existing file atomically')
    .option('--trades <file>', 'write all trades to a .parquet or .csv file; replaces an existing file atomically')
    .addOption(createCsvSafeOption())
    .option('--save', "save the backtest to the service's database, owned by --user")
    .option('--user <user>', 'owner of the saved strategies and, with --save, of the backtest (default: local)')
    .option('--workspace <workspace>', "workspace, as in that user's tokens (default: none)");
  withTerms(command, 'Built-in strategies with their parameters and defaults:', describeExecutables(builtinStrategies));
  withTerms(
    command,
    'Objectives:',
    Object.fromEntries(Object.entries(objectives).map(([name, { description }]) => [name, description])),
  );
  withHelp(command, notes, examples);
  withCommonFlags(command, ['--wait'], true).action((strategy: string, flags: BacktestRunFlags) =>
    runBacktestCommand(shell, strategy, flags),
  );
}

async function runBacktestCommand(shell: CliContext, strategy: string, flags: BacktestRunFlags): Promise<void> {
  // Usage errors must end the command before the archive is opened.
  if (flags.user === '') throw new UsageError('--user must not be empty.');
  if (flags.csvSafe === true && flags.trades === undefined) throw new UsageError('--csv-safe requires --trades.');
  const request = await buildBacktestRequest(strategy, flags, systemClock.nowMs());
  // Its --source is the venue of a market.
  await withContext({ ...flags, source: [] }, shell.version, false, async (context) => {
    const { bucketUrl } = context.settings.archive;
    if (flags.save === true && bucketUrl !== null)
      throw new UsageError(
        `--save stores the backtest with the archive, and ${bucketUrl} is in object storage. Leave it out, or pull the archive: oddslake pull ${bucketUrl} DIR`,
      );
    if (flags.save === true && context.settings.service.databaseUrl === null) requireOwner(context.settings);
    await openReadableArchive(context, (archive) => runOnArchive(archive, context));
  });

  async function runOnArchive(archive: Archive, context: Context): Promise<void> {
    const [
      { runLocalBacktest },
      { InvalidBacktestError },
      { formatUncoveredWarning },
      { requirePageTarget, requireTradesTarget, printBacktest, writeBacktestPage },
    ] = await Promise.all([
      import('../../server/local-backtests.ts'),
      import('../../backtest/resolve-strategy.ts'),
      import('../../report/backtest-figures.ts'),
      import('../format-backtest.ts'),
    ]);
    const file = flags.out === undefined ? null : requirePageTarget(archive, flags.out);
    const tradesTarget =
      flags.trades === undefined ? null : requireTradesTarget(archive, flags.trades, flags.csvSafe === true);
    if (file !== null && file === tradesTarget?.file) throw new UsageError('--out and --trades name the same file.');
    const owner = { user: flags.user ?? 'local', workspace: flags.workspace ?? null };
    const display = await context.startDisplay('backtest', 1, 'batches');
    try {
      const progress = (done: number, total: number): void => display.update({ done, total });
      const job = { request, owner, save: flags.save === true, trades: tradesTarget };
      const { result, id, trades } = await runLocalBacktest(context, archive, job, progress).finally(() =>
        display.stop(),
      );
      const page = file === null ? null : await writeBacktestPage(archive, context, file, result);
      printBacktest({ result, id, page, trades }, flags, { isNew: true });
      if (context.strict && formatUncoveredWarning(result.coverage) !== null) shell.setExitCode(exitCodes.incomplete);
    } catch (error) {
      throw error instanceof InvalidBacktestError ? toUsageError(error.faults, strategy) : error;
    }
  }
}

const notes = `
An order is filled at the first tick after its decision: from a recent order book, or at the bid or ask in force, if there is
one, otherwise at the price of the tick. The position is held until exit or settlement. A grid is evaluated on all but the end of the window; the best parameters are then run on that held-out
end. --symbol, --category and --source select the symbols. Parameters that end in _ms also accept durations such as 6h. The
first line says if the result leaves out fees or the spread. --trades writes the trades of the printed result, sorted by fill
time, symbol and rule. See docs/BACKTESTS.md; docs/STRATEGIES.md explains how to write a strategy. --strict: exit 4 if much
of the window is not covered.`;

const examples = `
  oddslake backtest run buy_and_hold --category crypto --objective brier
  oddslake backtest run threshold --param buy_below=0.1 --from 2026-07-01 --to 2026-08-01 --out page.html
  oddslake backtest run favourite_longshot --source kalshi --fees kalshi --trades trades.parquet
  oddslake backtest run mean_reversion --objective sharpe --grid window_ms=1h,6h,1d --grid enter_beyond=1.5,2,3
  oddslake backtest run mine.json --save
  oddslake backtest run threshold --archive s3://lakes/markets --from 2026-07-01 --to 2026-08-01`;

const createObjectiveOption = (): Option =>
  new Option('--objective <name>', 'performance measure to report; it also selects the best point of a grid')
    .choices(objectiveNames)
    .default('total_pnl');

const createFeesOption = (): Option =>
  new Option(
    '--fees <schedule>',
    "fees of a venue in place of the strategy's, or none: kalshi, or polymarket,rate=0.05; with further fields such as kalshi,liquidity=maker",
  ).argParser(parseFees);

const createWholeContractsOption = (): Option =>
  new Option(
    '--whole-contracts <choice>',
    'whether to round orders down to whole contracts (default: as in the strategy, else yes with kalshi fees)',
  ).choices(['yes', 'no']);

const createParamOption = (): Option =>
  new Option('--param <name=value>', 'value of a strategy parameter; can be repeated')
    .argParser((text, previous: readonly NamedValue<number>[]) => [...previous, parseNamed(text, parseNumber)])
    .default([], "the strategy's defaults");

const createGridOption = (): Option =>
  new Option('--grid <name=value,…>', 'values to try for a parameter; with several parameters, every combination')
    .argParser((text, previous: readonly NamedValue<readonly number[]>[]) => [
      ...previous,
      parseNamed(text, (values, name) => values.split(',').map((value) => parseNumber(value, name))),
    ])
    .default([], 'one run');

const createHeldOutOption = (): Option =>
  new Option(
    '--held-out <share>',
    'with --grid: share of the window to hold out at its end, to evaluate the chosen parameters (default: 0.3)',
  ).argParser((text) => parseNumber(text, ''));

/** Help texts of the built-in strategies. Parameters that all of them have are listed once. */
export function describeExecutables(all: readonly BuiltinStrategy[]): Record<string, string> {
  const shared = Object.keys(all[0]!.strategy.parameters).filter((name) =>
    all.every(({ strategy }) => Object.hasOwn(strategy.parameters, name)),
  );
  const formatSubset = (parameters: Readonly<Record<string, number>>, isIncluded: (name: string) => boolean): string =>
    formatParameters(Object.fromEntries(Object.entries(parameters).filter(([name]) => isIncluded(name))));
  const terms = all.map(({ name, description, strategy: { parameters } }) => {
    const ownText = formatSubset(parameters, (one) => !shared.includes(one));
    return [name, ownText === '' ? description : `${description} (${ownText})`];
  });
  const sharedText = formatSubset(all[0]!.strategy.parameters, (name) => shared.includes(name));
  return { ...Object.fromEntries(terms), 'all of them': `(${sharedText})` };
}

/** Parses `kalshi,liquidity=maker` to the fees of a strategy. Their fields are validated with the request. */
function parseFees(text: string): FeesJson {
  const [schedule = '', ...fields] = text.split(',').map((part) => part.trim());
  if (schedule === 'none' && fields.length === 0) return {};
  const parsed = fields.map((field) =>
    parseNamed(field, (value) => (value.trim() === '' || Number.isNaN(Number(value)) ? value.trim() : Number(value))),
  );
  return { schedule, ...Object.fromEntries(parsed) };
}

function parseNamed<T>(text: string, read: (value: string, name: string) => T): NamedValue<T> {
  const [, name, value] = /^([^=]+)=(.+)$/s.exec(text) ?? [];
  if (name === undefined) throw new InvalidArgumentError('Expected name=value.');
  return [name.trim(), read(value!, name.trim())];
}

/** Parses a number. Parameters in milliseconds also accept durations such as `6h`. */
function parseNumber(text: string, name: string): number {
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

/** Flags of `backtest run`, without the common flags. */
interface BacktestRequestFlags extends TimeRangeFlags {
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
type FeesJson = Readonly<Record<string, string | number>>;

type NamedValue<T> = readonly [name: string, value: T];

/**
 * Builds the backtest request from the flags.
 * @param strategyArg name of a strategy, or path of a strategy file, which ends in .json
 * @param nowMs epoch ms, for times relative to now
 * @throws UsageError that names the flag, or the file and its field
 */
async function buildBacktestRequest(
  strategyArg: string,
  flags: BacktestRequestFlags,
  nowMs: number,
): Promise<BacktestSpec> {
  const isFile = strategyArg.toLowerCase().endsWith('.json');
  if (flags.heldOut !== undefined && flags.grid.length === 0) throw new UsageError('--held-out requires --grid.');
  const { from, to } = parseTimeRange(flags, nowMs);
  const fileSymbols = flags.symbolsFile === undefined ? [] : readSymbolsFile(flags.symbolsFile);
  const symbols = [...flags.symbol, ...fileSymbols];
  const parsed = parseBacktestSpec({
    entry_executable: isFile
      ? { name: getStrategyName(strategyArg), strategy: readStrategyFile(strategyArg) }
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
const toUsageError = (faults: readonly Fault[], strategyArg: string): UsageError =>
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

function readStrategyFile(path: string): unknown {
  const text = readNamedFile(path, `The strategy ${path} cannot be read`);
  try {
    return JSON.parse(text.replace(/^\ufeff/, ''));
  } catch (error) {
    throw new UsageError(`The strategy ${path} is not JSON: ${(error as Error).message}`, { cause: error });
  }
}
