import { type Command, Option } from 'commander';
import { datasetNames, datasets } from '../../archive/format/datasets.ts';
import type { ExportResult } from '../../archive/query/export.ts';
import { UsageError } from '../../base/errors.ts';
import { formatBytes, formatCount } from '../../base/format-quantity.ts';
import { suggestName } from '../../base/nearest-name.ts';
import { quoteShellWord } from '../../base/shell-quote.ts';
import { formatIsoUtc } from '../../base/time.ts';
import {
  type CliContext,
  type CommonFlags,
  flagsUnusedByReaders,
  openReadableArchive,
  printResult,
  type SourceFlags,
  withCommonFlags,
  withContext,
  withReadableArchive,
} from '../command-context.ts';
import { withHelp, withTerms } from '../help.ts';
import {
  createCsvSafeOption,
  createFromOption,
  createIntegerParser,
  createSinceOption,
  createSourceOption,
  createSymbolOption,
  createToOption,
  findKnownSymbols,
  parseCsvSafe,
  parseTimeRange,
  type TimeRangeFlags,
} from '../shared-options.ts';
import { getTerminalStyle } from '../terminal-style.ts';

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
  withHelp(command, exportNotes, exportExamples);
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

const exportNotes = `
Windows are half-open. Rows of coverage and markets are exported if their time range overlaps the window. Times are UTC:
millisecond timestamps (event_at, received_at: microsecond) in Parquet and Arrow, ISO-8601 with Z in CSV and NDJSON.`;

const exportExamples = `
  oddslake export --out july.parquet --from 2026-07-01 --to 2026-08-01
  oddslake export --out out/day.csv.gz --since 24h
  oddslake export --out btc.csv --symbol KXBTC-26DEC0204-T28 --symbol KXBTC-26NOV2305-T25.5
  oddslake export --out markets.arrow --dataset markets --from 2026-11-19 --to 2026-11-20
  oddslake export --archive s3://lakes/markets --out day.parquet --from 2026-11-19 --to 2026-11-20`;

interface SqlFlags extends CommonFlags {
  readonly format: 'table' | 'csv' | 'json' | 'parquet';
  readonly rows: number;
  readonly csvSafe?: boolean;
}

/** `sql`: read-only DuckDB SQL over the published datasets. */
export function addSql(command: Command, shell: CliContext): void {
  command
    .argument('<statement>', 'a SELECT statement, e.g. "SELECT symbol, count(*) FROM ticks GROUP BY 1"')
    .addOption(
      new Option('--format <format>', 'format of the result; a table shows only the first rows')
        .choices(['table', 'csv', 'json', 'parquet'])
        .default('table'),
    )
    .addOption(createCsvSafeOption())
    .option('--rows <n>', 'maximum number of rows of the table', createIntegerParser(1), 100);
  withTerms(command, "Other views and functions, as defined in the archive's views.sql:", sqlTerms);
  withHelp(command, sqlNotes, sqlExamples);
  withCommonFlags(command, flagsUnusedByReaders, true).action((statement: string, flags: SqlFlags) => {
    // A usage error must end the command before anything is opened.
    if (/^\S+\.sql$/i.test(statement.trim()))
      throw new UsageError(
        `${JSON.stringify(statement)} is the name of a file, not a statement. To run what the file holds: oddslake sql "$(cat ${quoteShellWord(statement.trim())})"`,
      );
    const format = flags.json === true ? 'json' : flags.format;
    const isCsvSafe = parseCsvSafe(flags.csvSafe, format);
    if (format === 'parquet' && process.stdout.isTTY) {
      throw new UsageError('--format parquet writes binary data: redirect it to a file, e.g. > result.parquet');
    }
    return withReadableArchive(flags, shell.version, async (archive, context) => {
      const { openArchiveQuery } = await import('../../archive/query/pinned-query.ts');
      const { query, close } = await openArchiveQuery(archive, statement, context.random);
      try {
        if (format !== 'table')
          return await query.write(statement, isCsvSafe ? 'csv_safe' : format, process.stdout, context.signal);
        const { renderTable } = await import('../table.ts');
        const table = await query.readTable(statement, flags.rows, context.signal);
        process.stdout.write(renderTable(table, getTerminalStyle(process.stdout), undefined, textLinesMax));
      } finally {
        await close();
      }
    });
  });
}

/** Maximum number of lines of a text on a terminal. */
const textLinesMax = 8;

const sqlNotes = `
This command checks the sizes of the files, not their content. To check the content, run oddslake verify. Of an archive in
object storage it downloads the datasets that the statement names, and checks their content.`;

const sqlTerms = {
  'candles(step, since, until)': "candles of any step: '15m', '4h', INTERVAL '1 day'; since and until are optional",
  'candles_filled(step, since, until)':
    'a candle for every step, with the last close carried forward; covered is false in a gap',
  ticks_with_markets: 'every tick with the state of its market at the time of the tick',
  top_of_book: 'best bid and ask of each order book, with quantities, mid price, spread and imbalance',
  'book_depth(distance)':
    'quantity, levels and imbalance of each order book within a distance of the best prices, e.g. 0.03',
  spreads: 'mid price and spread of each quote',
  quotes_with_ticks: 'every quote with the last tick at or before it',
  gaps: "windows of a symbol's lifetime that are not covered, between the first and the last covered time",
  days: 'how complete each day is: state, symbols expected and covered, why it is not complete, and what completes it',
  'is_covered(symbol, t)': 'whether a time is covered',
  lifetimes: 'lifetime of each symbol; t_to is NULL while the symbol is live',
};

const sqlExamples = `
  oddslake sql "SELECT date, count(*) AS ticks, count(DISTINCT symbol) AS symbols FROM ticks GROUP BY 1 ORDER BY 1"
  oddslake sql "SELECT date, state, reason FROM days WHERE reason IS NOT NULL"
  oddslake sql "SELECT t, p FROM ticks WHERE date = '2026-11-19' AND symbol = 'KXBTC'" --format csv > btc.csv
  oddslake sql "FROM candles('15m', since := '2026-11-19', until := '2026-11-20') ORDER BY symbol, t"
  oddslake sql "SELECT symbol, t, p, is_active FROM ticks_with_markets WHERE date = '2026-11-19'"
  oddslake sql "SELECT t, bid, ask, spread FROM top_of_book WHERE date = '2026-11-19' AND symbol = 'KXBTC' ORDER BY t"
  oddslake sql --archive s3://lakes/markets "SELECT date, count(*) FROM candles_1h GROUP BY 1 ORDER BY 1"`;
