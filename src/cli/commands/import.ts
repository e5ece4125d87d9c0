import { type Command, InvalidArgumentError, Option } from 'commander';
import type { ColumnFilter, ColumnRename } from '../../archive/query/read-rows.ts';
import { UsageError } from '../../base/errors.ts';
import { parseTime } from '../../base/time.ts';
import { openTimeZone } from '../../base/time-zone.ts';
import type { Window } from '../../base/window.ts';
import { findArchiveArgument } from '../../collector/import/archive-argument.ts';
import type { ArchivePlan } from '../../collector/import/import-archive.ts';
import {
  type ImportDataset,
  type PriceScale,
  parsePriceScale,
  type TimeUnit,
} from '../../collector/import/import-rows.ts';
import type { ImportFlags } from '../../collector/import/prepare-import.ts';
import { type CliContext, type CommonFlags, createRepeatableOption, withCommonFlags } from '../command-context.ts';
import { formatArchivePlan, formatDryRun } from '../format-dry-run.ts';
import { withHelp } from '../help.ts';
import { runJobCommand, withScratchArchive } from '../run-job.ts';
import { createSourceOption } from '../shared-options.ts';
import { getTerminalStyle } from '../terminal-style.ts';

interface ImportOptions extends CommonFlags {
  readonly format?: ImportFlags['format'];
  readonly dataset?: string;
  readonly columns?: string;
  readonly where: readonly string[];
  readonly timeUnit?: TimeUnit;
  readonly truncateTime?: boolean;
  readonly priceScale?: string;
  readonly decimalComma?: boolean;
  readonly tz?: string;
  readonly covers?: string;
  readonly prefer?: 'import';
  readonly allowRejected?: string;
  readonly dryRun?: boolean;
}

/** `import`: imports recordings from files. */
export function addImport(command: Command, shell: CliContext): void {
  command
    .argument(
      '<archive|file|dir...>',
      'another archive (a folder or s3://BUCKET/PREFIX), or files or folders (searched recursively)',
    )
    .addOption(
      new Option('--dataset <name>', 'datasets that the files contain (default: one, inferred from their columns)')
        .choices(importChoices.dataset)
        .argParser(parseDatasets),
    )
    .addOption(
      new Option('--format <format>', 'file format (default: inferred from the file names)').choices(
        importChoices.format,
      ),
    )
    .option(
      '--columns <t=ts,...>',
      'columns with other names than symbol, t and p (quotes: symbol, t, bid, ask, bid_size, ask_size; order books: symbol, t, bids, asks), e.g. t=ts,symbol=ticker,p=msg/price',
    )
    .addOption(
      createRepeatableOption('--where <column=value>', 'import only rows whose column has this value; can be repeated'),
    )
    .addOption(
      new Option(
        '--time-unit <unit>',
        'unit of numeric Unix timestamps (default: ms); auto: by the size of each number',
      ).choices(importChoices.time_unit),
    )
    .option('--truncate-time', 'truncate times to milliseconds; without it, rows with finer times are rejected')
    .option(
      '--price-scale <number>',
      'factor by which prices are multiplied: 0.01 for cents, 1 for prices that only look like cents',
    )
    .option('--decimal-comma', 'numbers in text have a decimal comma: 0,45')
    .option('--tz <zone>', 'time zone for timestamps that have none, e.g. UTC or America/New_York')
    .option(
      '--covers <from..to>',
      'declare that the rows contain every tick, or every quote, of their symbols in this window',
    )
    .addOption(
      new Option(
        '--prefer <which>',
        'let imported prices and quotes replace polled ones of the same symbol and time',
      ).choices(['import']),
    )
    .option(
      '--allow-rejected <share>',
      'maximum share of rejected rows in a file, 0 to 1 (default: import.rejected_share_max)',
    )
    .addOption(
      createSourceOption('source of the files, whose name qualifies their symbols: required by an archive of several'),
    )
    .option(
      '--dry-run',
      'print the first rows as they would be stored and which rows would be rejected; import and create nothing',
    );
  withHelp(command, notes, examples);
  withCommonFlags(command).action((paths: string[], flags: ImportOptions) =>
    runJobCommand(
      shell,
      'import',
      flags,
      flags.dryRun === true ? async () => withScratchArchive(await shell.jobs.import(), false) : shell.jobs.import,
      async (): Promise<ImportFlags> => {
        const place = flags.dataset === undefined ? findArchiveArgument(paths) : null;
        if (place !== null) return toArchiveFlags(place, flags);
        const parsed = toImportFlags(paths, flags);
        return flags.dryRun === true ? { ...parsed, showCheck: createDryRunPrinter(flags) } : parsed;
      },
      flags.dryRun,
    ),
  );
}

/** The flags that say how files are read. */
const fileFlags = [
  ...([
    'format',
    'dataset',
    'columns',
    'where',
    'timeUnit',
    'truncateTime',
    'priceScale',
    'decimalComma',
    'tz',
  ] as const),
  ...(['covers', 'prefer', 'allowRejected'] as const),
];

/** @throws UsageError if a flag for files is given */
function toArchiveFlags(place: string, flags: ImportOptions): ImportFlags {
  const name = fileFlags.find((flag) => isGiven(flags[flag]));
  if (name !== undefined)
    throw new UsageError(
      `--${name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)} does not apply to ${place}: an archive is taken as it is.`,
    );
  const showPlan = (plan: ArchivePlan): void => void process.stdout.write(formatArchivePlan(plan, flags.json === true));
  return { ...toImportFlags([], flags), archive: { place, showPlan: flags.dryRun === true ? showPlan : null } };
}

/** Prints the result of a dry run. */
const createDryRunPrinter =
  ({ json }: ImportOptions): ImportFlags['showCheck'] =>
  (files) =>
    process.stdout.write(formatDryRun(files, json === true, getTerminalStyle(process.stdout)));

function toImportFlags(paths: readonly string[], flags: ImportOptions): ImportFlags {
  return {
    paths,
    datasets: flags.dataset === undefined ? null : (flags.dataset.split(',') as ImportDataset[]),
    format: flags.format ?? null,
    rows: {
      zone: flags.tz === undefined ? null : openTimeZone(flags.tz),
      unit: flags.timeUnit ?? 'ms',
      truncates: flags.truncateTime === true,
      priceScale: flags.priceScale === undefined ? null : readPriceScale(flags.priceScale),
      hasDecimalComma: flags.decimalComma === true,
    },
    renames: (flags.columns === undefined ? [] : parseRenames(flags.columns)).filter(
      ([name, column]) => name !== column,
    ),
    filters: parseFilters(flags.where),
    rejectedShareMax: flags.allowRejected === undefined ? null : parseRejectedShare(flags.allowRejected),
    showCheck: null,
    covers: flags.covers === undefined ? null : parseCoveredWindow(flags.covers),
    preferred: flags.prefer === 'import',
  };
}

function parseDatasets(value: string): string {
  const found = findDatasets(value);
  if (found === undefined)
    throw new InvalidArgumentError(`Allowed choices are ${formatChoices(importChoices.dataset)}.`);
  return found;
}

/** Whether a flag was given; one that can be repeated is an empty list otherwise. */
const isGiven = (value: unknown): boolean => value !== undefined && !(Array.isArray(value) && value.length === 0);

/** @throws UsageError if a column is named twice */
function parseFilters(values: readonly string[]): ColumnFilter[] {
  const filters = values.map(parseFilter);
  const twice = filters.find(({ column }, i) => filters.findIndex((other) => other.column === column) < i);
  if (twice === undefined) return filters;
  throw new UsageError(`--where names ${twice.column} twice: a row has to match each --where, and has one value.`);
}

function parseFilter(value: string): ColumnFilter {
  const separator = value.indexOf('=');
  const column = value.slice(0, separator).trim();
  if (separator < 1 || column === '')
    throw new UsageError(`--where ${JSON.stringify(value)}: expected column=value, e.g. type=ticker`);
  return { column, value: value.slice(separator + 1).trim() };
}

function parseCoveredWindow(value: string): Window {
  const [from, to, ...rest] = value.split('..');
  if (from === undefined || to === undefined || rest.length > 0)
    throw new UsageError(
      `--covers ${JSON.stringify(value)}: expected two times separated by .., e.g. 2026-07-11..2026-07-13`,
    );
  const window = { from: parseTime(from, '--covers'), to: parseTime(to, '--covers') };
  if (window.from >= window.to) throw new UsageError('--covers: the start must be before the end.');
  return window;
}

function parseRenames(value: string): ColumnRename[] {
  const pairs = value.split(',').map((pair): ColumnRename => {
    const separator = pair.indexOf('=');
    return [pair.slice(0, separator).trim(), pair.slice(separator + 1).trim()];
  });
  const isPair = ([name, column]: ColumnRename): boolean => name !== '' && column !== '';
  const names = new Set(pairs.map(([name]) => name));
  if (!value.split(',').every((pair) => pair.includes('=')) || !pairs.every(isPair) || names.size < pairs.length)
    throw new UsageError(
      `--columns ${JSON.stringify(value)}: expected comma-separated name=column pairs, each name once, e.g. t=ts,symbol=ticker`,
    );
  return pairs;
}

function readPriceScale(value: string): PriceScale {
  const scale = parsePriceScale(value);
  if (scale === undefined)
    throw new UsageError(
      `--price-scale ${JSON.stringify(value)}: expected a decimal number above 0, e.g. 0.01 for cents`,
    );
  return scale;
}

function parseRejectedShare(value: string): number {
  const share = value.trim() === '' ? Number.NaN : Number(value);
  if (!(share >= 0 && share <= 1))
    throw new UsageError(`--allow-rejected ${JSON.stringify(value)}: expected a share from 0 to 1, e.g. 0.05`);
  return share;
}

const notes = `
A folder with the manifest of an archive, or an address such as s3://BUCKET/PREFIX, is another archive of the same source. It is
taken whole: rows, coverage with its evidence, market lists, conflicts and the states of days that follow. A folder that does not
exist yet becomes an archive of its source.

Tick rows have the columns symbol, t and p, in any case; t is a number (--time-unit) or a timestamp. Quote rows have symbol, t,
and bid or ask or both; bid_size and ask_size are optional, and a number may be missing. Order book rows have symbol, t, bids
and asks; a side is a list of [price, quantity]. --dataset ticks,quotes imports both from the same rows. Trade rows have symbol,
t, price and size (--dataset trades); trade_id, aggressor, block and tx_hash are optional. A trade without a trade_id gets one
from its content and its number among the equal rows of its file. Quotes and trades may have event_at and received_at, which keep
microseconds.

--columns maps other names, in nested JSON by a path. Where a file cannot be read as it is, the error says what its columns look
like and which flags may help: look at --dry-run then.

Saved pages are unmodified responses of the service (JSON, one per file); they cover only the range that they prove to be
complete. Rows cover only the window given with --covers. All other windows remain gaps, which backfill fetches.

Markets are rows with a symbol or canonical_id, or saved responses; source.field_paths maps their fields; first_seen, last_seen
or observed_at say when they were seen, otherwise the modification time of the file.

Rejected rows go to .oddslake/quarantine; if they exceed import.rejected_share_max of a file's rows, nothing is imported. Raw
responses, which every job keeps in .oddslake/raw for raw.keep_days, can be imported to reprocess them, for example after a
decoder fix. Importing a file again changes no ticks, no quotes and no trades.`;

const examples = `
  oddslake import --output lake other-lake
  oddslake import --output lake s3://backups/lake
  oddslake import --output lake saved-pages/
  oddslake import --output lake lake/.oddslake/raw
  oddslake import --output lake ticks.parquet --tz UTC --covers 2026-07-11..2026-07-13
  oddslake import --output lake ticks.csv.gz --tz America/New_York --prefer import
  oddslake import --output lake trades.csv --columns t=ts,symbol=ticker,p=cents --time-unit us --truncate-time --price-scale 0.01 --dry-run
  oddslake import --output lake feed.jsonl --where type=ticker --columns symbol=msg/market_ticker,t=msg/ts,p=msg/price
  oddslake import --output lake wide.csv --dataset ticks,quotes --columns p=last,bid=yes_bid,ask=yes_ask --price-scale 0.01
  oddslake import --output lake trades.parquet --dataset trades --columns t=created_time,symbol=ticker,size=count,aggressor=taker_side
  oddslake import --output new-lake ticks.ndjson.zst --set source.name=https://example.org
  oddslake import --output lake markets.parquet --dataset markets --set 'source.field_paths.outcome=["resolved_yes"]'`;

/** Values that a flag may have. */
const importChoices = {
  format: ['pages', 'csv', 'ndjson', 'parquet', 'raw'],
  dataset: ['ticks', 'quotes', 'ticks,quotes', 'trades', 'markets', 'orderbooks'],
  time_unit: ['s', 'ms', 'us', 'ns', 'auto'],
} as const;

/** Finds the choice that names these datasets, in any order. Undefined if there is none. */
function findDatasets(text: string): string | undefined {
  const sort = (list: string): string =>
    list
      .split(',')
      .map((name) => name.trim())
      .sort()
      .join();
  return importChoices.dataset.find((choice) => sort(choice) === sort(text));
}

/** Lists choices, of which one may contain a comma. */
const formatChoices = (choices: readonly string[]): string =>
  choices.map((choice) => (choice.includes(',') ? `"${choice}"` : choice)).join(', ');
