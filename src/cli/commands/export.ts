import { type Command, Option } from 'commander';
import { datasetNames, datasets } from '../../archive/format/datasets.ts';
import type { ExportResult } from '../../archive/query/export.ts';
import { UsageError } from '../../base/errors.ts';
import { formatBytes, formatCount } from '../../base/format-quantity.ts';
import { suggestName } from '../../base/nearest-name.ts';
import { formatIsoUtc } from '../../base/time.ts';
import {
  type CliContext,
  type CommonFlags,
  openReadableArchive,
  printResult,
  type SourceFlags,
  withCommonFlags,
  withContext,
} from '../command-context.ts';
import { withExamples, withNotes } from '../help.ts';
import {
  createCsvSafeOption,
  createFromOption,
  createSinceOption,
  createSourceOption,
  createSymbolOption,
  createToOption,
  findKnownSymbols,
  parseCsvSafe,
  parseTimeRange,
  type TimeRangeFlags,
} from '../shared-options.ts';

interface ExportFlags extends CommonFlags, SourceFlags, TimeRangeFlags {
  readonly out: string;
  readonly dataset: string;
  readonly symbol: readonly string[];
  readonly format?: 'parquet' | 'csv' | 'ndjson' | 'arrow';
  readonly csvSafe?: boolean;
}

/** `export`: writes one slice of a dataset to one file. */
export function addExport(command: Command, shell: CliContext): void {
  command
    .requiredOption(
      '--out <file>',
      'output file: .parquet, .csv, .csv.gz, .csv.zst, .ndjson(.gz|.zst), .jsonl(.gz|.zst), .arrow or .feather (required)',
    )
    .option('--dataset <name>', 'ticks, symbols, markets, orderbooks, candles_1h, …', 'ticks')
    .addOption(createSymbolOption())
    .addOption(createSourceOption())
    .addOption(createFromOption())
    .addOption(createToOption())
    .addOption(createSinceOption())
    .addOption(
      new Option('--format <format>', 'file format (default: inferred from the file extension)').choices([
        'parquet',
        'csv',
        'ndjson',
        'arrow',
      ]),
    )
    .addOption(createCsvSafeOption());
  withNotes(command, notes);
  withExamples(command, examples);
  withCommonFlags(command, ['--wait', '--strict'], true).action((flags: ExportFlags) =>
    withContext(flags, shell.version, false, async (context) => {
      const [{ inferExportFormat, requireWritableTarget }, { writeExport }] = await Promise.all([
        import('../../archive/read/export-file.ts'),
        import('../../archive/query/export.ts'),
      ]);
      const dataset = datasetNames.find((name) => name === flags.dataset);
      if (dataset === undefined)
        throw new UsageError(
          `--dataset ${flags.dataset}: expected one of ${datasetNames.join(', ')}.${suggestName(flags.dataset, datasetNames)}`,
        );
      const range = parseTimeRange(flags, context.clock.nowMs());
      if (datasets[dataset].time === null && (range.from !== null || range.to !== null))
        throw new UsageError(
          `--from and --to cannot be used with --dataset ${dataset}: it has one row per symbol and no time column.`,
        );
      const { format, compression } = inferExportFormat(flags.out, flags.format);
      const isCsvSafe = parseCsvSafe(flags.csvSafe, format);
      await openReadableArchive(context, async (archive) => {
        const file = requireWritableTarget(archive.disk, archive.layout.root, flags.out);
        const symbols = findKnownSymbols(archive, flags.symbol).map((facts) => facts.symbol);
        const display = await context.startDisplay('export', 1, 'rows');
        const exported = await writeExport(
          archive,
          { file, format, compression, isCsvSafe, dataset, symbols, sources: flags.source ?? [], ...range },
          { ...context, progress: (done, total) => display.update({ done, total }) },
        ).finally(() => display.stop());
        printResult(flags, exported, () => formatExported(exported));
      });
    }),
  );
}

function formatExported({ file, dataset, rows, bytes, generation, from, to }: ExportResult): string {
  const rangeText = `${from === null ? '' : ` from ${formatIsoUtc(from)}`}${to === null ? '' : ` to ${formatIsoUtc(to)}`}`;
  return `${file}: ${formatCount(rows, 'row')} of ${dataset}${rangeText}, ${formatBytes(bytes)}, generation ${generation}\n`;
}

const notes = `
Windows are half-open. Rows of coverage and markets are exported if their time range overlaps the window. Times are UTC:
millisecond timestamps in Parquet and Arrow, ISO-8601 with Z in CSV and NDJSON.`;

const examples = `
  oddslake export --out july.parquet --from 2026-07-01 --to 2026-08-01
  oddslake export --out out/day.csv.gz --since 24h
  oddslake export --out btc.csv --symbol KXBTC-26DEC0204-T28 --symbol KXBTC-26NOV2305-T25.5
  oddslake export --out markets.arrow --dataset markets --from 2026-11-19 --to 2026-11-20
  oddslake export --archive s3://lakes/markets --out day.parquet --from 2026-11-19 --to 2026-11-20`;
