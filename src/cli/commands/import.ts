import { Option } from 'commander';
import type { ColumnRename } from '../../archive/query/read-rows.ts';
import { UsageError } from '../../base/errors.ts';
import { formatCount, formatNumber } from '../../base/format-quantity.ts';
import { parseTime } from '../../base/time.ts';
import { openTimeZone } from '../../base/time-zone.ts';
import type { Window } from '../../base/window.ts';
import {
  defaultRowRules,
  type PriceScale,
  parsePriceScale,
  type TimeUnit,
} from '../../collector/import/import-rows.ts';
import type { CheckedFile, ImportFlags } from '../../collector/import/import-step.ts';
import { type CliContext, type CommonFlags, withCommonFlags } from '../command-context.ts';
import { withExamples, withNotes } from '../help.ts';
import { runJobCommand } from '../run-job.ts';
import { escapeControls } from '../terminal-style.ts';

interface ImportOptions extends CommonFlags {
  readonly dataset?: ImportFlags['dataset'];
  readonly format?: ImportFlags['format'];
  readonly columns?: string;
  readonly timeUnit?: TimeUnit;
  readonly truncateTime?: boolean;
  readonly priceScale?: string;
  readonly tz?: string;
  readonly covers?: string;
  readonly prefer?: 'import';
  readonly allowRejected?: string;
  readonly dryRun?: boolean;
}

/** `import`: imports recordings from files. */
export function addImport(shell: CliContext): void {
  const command = shell.program
    .command('import')
    .description(
      'import recordings from files: saved pages, CSV, NDJSON or Parquet, optionally compressed with gzip or zstd',
    )
    .argument('<file|dir...>', 'files or folders (searched recursively)')
    .addOption(
      new Option('--dataset <name>', 'dataset that the files contain (default: inferred from their columns)').choices([
        'ticks',
        'markets',
      ]),
    )
    .addOption(
      new Option('--format <format>', 'file format (default: inferred from the file names)').choices([
        'pages',
        'csv',
        'ndjson',
        'parquet',
        'raw',
      ]),
    )
    .option('--columns <t=ts,...>', 'column names that differ from symbol, t and p, e.g. t=ts,symbol=ticker,p=price')
    .addOption(
      new Option('--time-unit <unit>', 'unit of numeric Unix timestamps (default: ms)').choices([
        's',
        'ms',
        'us',
        'ns',
      ]),
    )
    .option('--truncate-time', 'truncate times to milliseconds; without it, rows with finer times are rejected')
    .option('--price-scale <number>', 'factor by which prices are multiplied, e.g. 0.01 for cents (default: 1)')
    .option('--tz <zone>', 'time zone for timestamps that have none, e.g. UTC or America/New_York')
    .option('--covers <from..to>', 'declare that the rows contain every tick of their symbols in this window')
    .addOption(
      new Option('--prefer <which>', 'let imported prices replace polled prices of the same symbol and time').choices([
        'import',
      ]),
    )
    .option(
      '--allow-rejected <share>',
      'maximum share of rejected rows in a file, 0 to 1 (default: import.rejected_share_max)',
    )
    .option('--dry-run', 'print which rows would be imported and rejected, and import nothing');
  withNotes(command, notes);
  withExamples(command, examples);
  withCommonFlags(command).action((paths: string[], flags: ImportOptions) =>
    runJobCommand(
      shell,
      'import',
      flags,
      shell.jobs.import,
      (): ImportFlags => ({
        paths,
        dataset: flags.dataset ?? null,
        format: flags.format ?? null,
        rows: {
          zone: flags.tz === undefined ? null : openTimeZone(flags.tz),
          unit: flags.timeUnit ?? 'ms',
          truncates: flags.truncateTime === true,
          priceScale: readPriceScale(flags.priceScale),
        },
        renames: flags.columns === undefined ? [] : parseRenames(flags.columns),
        rejectedShareMax: flags.allowRejected === undefined ? null : parseRejectedShare(flags.allowRejected),
        showCheck: flags.dryRun === true ? (files) => process.stdout.write(formatDryRun(files, flags)) : null,
        covers: flags.covers === undefined ? null : parseCoveredWindow(flags.covers),
        preferred: flags.prefer === 'import',
      }),
      flags.dryRun,
    ),
  );
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
  return pairs.filter(([name, column]) => name !== column);
}

function readPriceScale(value: string | undefined): PriceScale {
  const scale = value === undefined ? defaultRowRules.priceScale : parsePriceScale(value);
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

const reasonsShown = 5;

/** Formats the result of a dry run: one line per file, and below it the reasons for rejected rows. */
function formatDryRun(files: readonly CheckedFile[], { json }: ImportOptions): string {
  if (json === true) {
    const checked = files.map(({ path, rows, rejected, reasons, fault, isOverShare, flags }) => ({
      path,
      rows,
      rejected,
      is_over_share: isOverShare,
      fault,
      flags,
      reasons: reasons.slice(0, reasonsShown),
    }));
    return `${JSON.stringify({ files: checked.slice(0, filesShown), files_count: files.length })}\n`;
  }
  const lines = files.slice(0, filesShown).flatMap((file) => {
    const { rows, rejected, reasons, fault, isOverShare, flags } = file;
    const shareText = isOverShare ? ': too many, nothing would be imported' : '';
    return [
      `${escapeControls(file.path)}: ${formatCount(rows, 'row')}, ${formatNumber(rejected)} rejected${shareText}`,
      ...(fault === null ? [] : [`  ${escapeControls(fault)}`]),
      ...reasons
        .slice(0, reasonsShown)
        .map((r) => `  ${formatNumber(r.count)} × ${r.reason}, first ${escapeControls(r.first.slice(0, 120))}`),
      ...(flags.length === 0 ? [] : [`  add ${flags.join(' ')}`]),
    ];
  });
  const more = files.length > filesShown ? [`… and ${formatCount(files.length - filesShown, 'file')} more`] : [];
  return `${[...lines, ...more].join('\n')}\n`;
}

const filesShown = 20;

const notes = `
Tick rows have the columns symbol, t and p; t is a number (--time-unit) or a timestamp. Use --columns for other column names.
Saved pages are unmodified responses of the service (JSON, one per file); they cover only the range that they prove to be
complete. Rows cover only the window given with --covers. All other windows remain gaps, which backfill fetches. Markets are
rows with a symbol or canonical_id, or saved responses; source.field_paths maps their fields. Rejected rows go to
.oddslake/quarantine; if they exceed import.rejected_share_max of a file's rows, nothing is imported. Raw responses, which
every job keeps in .oddslake/raw for raw.keep_days, can be imported to reprocess them, for example after a decoder fix.
Importing a file again changes no ticks.`;

const examples = `
  oddslake import --output lake saved-pages/
  oddslake import --output lake lake/.oddslake/raw
  oddslake import --output lake ticks.parquet --tz UTC --covers 2026-07-11..2026-07-13
  oddslake import --output lake ticks.csv.gz --tz America/New_York --prefer import
  oddslake import --output lake trades.csv --columns t=ts,symbol=ticker,p=cents --time-unit us --truncate-time --price-scale 0.01 --dry-run
  oddslake import --output new-lake ticks.ndjson.zst --set source.name=https://example.org
  oddslake import --output lake markets.parquet --dataset markets --set 'source.field_paths.outcome=["resolved_yes"]'`;
