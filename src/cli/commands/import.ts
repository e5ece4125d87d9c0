import { Option } from 'commander';
import type { CheckedFile, ImportFlags } from '../../app/import/import-step.ts';
import { UsageError } from '../../core/errors.ts';
import { parseTime } from '../../core/time.ts';
import { openZone } from '../../core/time-zone.ts';
import type { Window } from '../../core/window.ts';
import { type PriceScale, plainRows, readPriceScale } from '../../ingest/import-rows.ts';
import type { TimeUnit } from '../../ingest/import-time.ts';
import type { Rename } from '../../query/read-rows.ts';
import { type CommonFlags, withCommonFlags } from '../command-context.ts';
import type { Shell } from '../command-types.ts';
import { visible } from '../escape-control.ts';
import { many, number } from '../format-quantity.ts';
import { withExamples, withNotes } from '../help.ts';
import { runAndTell } from '../run-job.ts';

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

/** `import`: recordings from files. */
export function addImport(shell: Shell): void {
  const command = shell.program
    .command('import')
    .description('take recordings from files: saved pages, CSV, NDJSON, Parquet, gzip and zstd of each')
    .argument('<file|dir...>', 'files, or folders with all files below them')
    .addOption(
      new Option('--dataset <name>', 'what they hold (default: what their columns say)').choices(['ticks', 'markets']),
    )
    .addOption(
      new Option('--format <format>', 'how they are written (default: what their names say)').choices([
        'pages',
        'csv',
        'ndjson',
        'parquet',
        'raw',
      ]),
    )
    .option('--columns <t=ts,...>', 'columns of rows that have other names, e.g. t=ts,symbol=ticker,p=price')
    .addOption(
      new Option('--time-unit <unit>', 'what times that are numbers count since 1970 (default: ms)').choices([
        's',
        'ms',
        'us',
        'ns',
      ]),
    )
    .option('--truncate-time', 'cut times that are finer than a millisecond down to one; otherwise they are rejected')
    .option('--price-scale <number>', 'multiply prices by it, e.g. 0.01 for cents (default: 1)')
    .option('--tz <zone>', 'the time zone of timestamps that name none, e.g. UTC or America/New_York')
    .option('--covers <from..to>', 'rows hold every tick of their symbols in this window; none is missing there')
    .addOption(
      new Option('--prefer <which>', 'imported prices replace polled ones of the same moment').choices(['import']),
    )
    .option(
      '--allow-rejected <share>',
      'rejected rows of a file that may be, 0 to 1 (default: import.rejected_share_max)',
    )
    .option('--dry-run', 'read the files and print what would be taken and rejected; nothing is imported');
  withNotes(command, notes);
  withExamples(command, examples);
  withCommonFlags(command).action((paths: string[], flags: ImportOptions) =>
    runAndTell(
      shell,
      'import',
      flags,
      shell.jobs.import,
      (): ImportFlags => ({
        ...{ paths, dataset: flags.dataset ?? null, format: flags.format ?? null },
        rows: {
          zone: flags.tz === undefined ? null : openZone(flags.tz),
          ...{
            unit: flags.timeUnit ?? 'ms',
            truncates: flags.truncateTime === true,
            priceScale: scaleOf(flags.priceScale),
          },
        },
        renames: flags.columns === undefined ? [] : renamesOf(flags.columns),
        rejectedShareMax: flags.allowRejected === undefined ? null : shareOf(flags.allowRejected),
        showCheck: flags.dryRun === true ? (files) => process.stdout.write(checkText(files, flags)) : null,
        covers: flags.covers === undefined ? null : windowOf(flags.covers),
        preferred: flags.prefer === 'import',
      }),
      flags.dryRun,
    ),
  );
}

function windowOf(text: string): Window {
  const [from, to, ...rest] = text.split('..');
  if (from === undefined || to === undefined || rest.length > 0)
    throw new UsageError(
      `--covers ${JSON.stringify(text)}: expected two times with .. between, e.g. 2026-07-11..2026-07-13`,
    );
  const window = { from: parseTime(from, '--covers'), to: parseTime(to, '--covers') };
  if (window.from >= window.to) throw new UsageError('--covers: its start must be before its end.');
  return window;
}

function renamesOf(text: string): Rename[] {
  const pairs = text.split(',').map((pair): Rename => {
    const at = pair.indexOf('=');
    return [pair.slice(0, at).trim(), pair.slice(at + 1).trim()];
  });
  const isPair = ([name, own]: Rename): boolean => name !== '' && own !== '';
  const names = new Set(pairs.map(([name]) => name));
  if (!text.split(',').every((pair) => pair.includes('=')) || !pairs.every(isPair) || names.size < pairs.length)
    throw new UsageError(
      `--columns ${JSON.stringify(text)}: expected name=column pairs with commas between, each name once, e.g. t=ts,symbol=ticker`,
    );
  return pairs.filter(([name, own]) => name !== own);
}

function scaleOf(text: string | undefined): PriceScale {
  const scale = text === undefined ? plainRows.priceScale : readPriceScale(text);
  if (scale === undefined)
    throw new UsageError(
      `--price-scale ${JSON.stringify(text)}: expected a decimal number above 0, e.g. 0.01 for cents`,
    );
  return scale;
}

function shareOf(text: string): number {
  const share = text.trim() === '' ? Number.NaN : Number(text);
  if (!(share >= 0 && share <= 1))
    throw new UsageError(`--allow-rejected ${JSON.stringify(text)}: expected a share from 0 to 1, e.g. 0.05`);
  return share;
}

const reasonsShown = 5;

/** What a dry run has found, a file a line, and under it why rows would be rejected. */
function checkText(files: readonly CheckedFile[], { json }: ImportOptions): string {
  if (json === true) {
    const checked = files.map(({ path, rows, rejected, reasons, fault, isOverShare, flags }) => ({
      ...{ path, rows, rejected, is_over_share: isOverShare, fault, flags, reasons: reasons.slice(0, reasonsShown) },
    }));
    return `${JSON.stringify({ files: checked.slice(0, filesShown), files_count: files.length })}\n`;
  }
  const lines = files.slice(0, filesShown).flatMap((file) => {
    const { rows, rejected, reasons, fault, isOverShare, flags } = file;
    const verdict = isOverShare ? ': too many, nothing would be imported' : '';
    return [
      `${visible(file.path)}: ${many(rows, 'row')}, ${number(rejected)} rejected${verdict}`,
      ...(fault === null ? [] : [`  ${visible(fault)}`]),
      ...reasons
        .slice(0, reasonsShown)
        .map((r) => `  ${number(r.count)} × ${r.reason}, first ${visible(r.first.slice(0, 120))}`),
      ...(flags.length === 0 ? [] : [`  say ${flags.join(' ')}`]),
    ];
  });
  const more = files.length > filesShown ? [`… and ${many(files.length - filesShown, 'file')} more`] : [];
  return `${[...lines, ...more].join('\n')}\n`;
}

const filesShown = 20;

const notes = `
Ticks are rows of symbol, t, p: t a number (--time-unit) or a timestamp; p as the price came. Other names: --columns. Saved
pages are responses of the service as they were received (JSON, one a file); they cover only what they show that they were
not cut in, rows only what --covers says, and the rest stays a gap that backfill asks for. Markets are rows with a symbol or
canonical_id, or saved responses; fields are found by source.field_paths. Rejected rows go to .oddslake/quarantine; where
they are more than import.rejected_share_max of a file's rows, nothing is imported. Raw responses, which every job keeps in
.oddslake/raw for raw.keep_days, are read again as if they came now: that makes good what a fault of this program made of
them. Importing a file again changes no tick.`;

const examples = `
  oddslake import --output lake saved-pages/
  oddslake import --output lake lake/.oddslake/raw
  oddslake import --output lake ticks.parquet --tz UTC --covers 2026-07-11..2026-07-13
  oddslake import --output lake ticks.csv.gz --tz America/New_York --prefer import
  oddslake import --output lake trades.csv --columns t=ts,symbol=ticker,p=cents --time-unit us --truncate-time --price-scale 0.01 --dry-run
  oddslake import --output new-lake ticks.ndjson.zst --set source.name=https://example.org
  oddslake import --output lake markets.parquet --dataset markets --set 'source.field_paths.outcome=["resolved_yes"]'`;
