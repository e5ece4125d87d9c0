import type { Archive } from '../archive/archive.ts';
import { requireWritableTarget, writeFileAtomically } from '../archive/read/export-file.ts';
import { inferTradesFormat, type TradesFormat } from '../backtest/data/trade-files.ts';
import { UsageError } from '../base/errors.ts';
import { formatBytes, formatCount, formatNumber } from '../base/format-quantity.ts';
import type { Context } from '../context/context.ts';
import type { BacktestResult } from '../contract/backtests.ts';
import {
  calibrationColumns,
  createGridColumns,
  createSymbolColumns,
  type FigureColumn,
  formatAmount,
  formatCosts,
  formatDollars,
  formatObjective,
  formatParameters,
  formatShare,
  formatStrategyName,
  formatUncoveredWarning,
  formatWindow,
  sortBestFirst,
} from '../report/backtest-figures.ts';
import type { WrittenTrades } from '../server/local-backtests.ts';
import type { CommonFlags } from './command-context.ts';
import { renderTable, wrapText } from './table.ts';
import { createPaints, escapeControls, getTerminalStyle, type TerminalStyle } from './terminal-style.ts';

const curveWidth = 48;
const symbolsShown = 5;
const pointsShown = 10;
/** Minimum width of wrapped values, in columns, even on a narrower terminal. */
const textWidthMin = 20;

/** Formats a backtest: a summary, then tables of the grid, the symbols and the calibration. */
export function formatBacktest(result: BacktestResult, style: TerminalStyle): string {
  const tables = [formatGrid(result, style), formatSymbolResults(result, style), formatCalibration(result, style)];
  return [formatBacktestSummary(result, style), ...tables.filter((table) => table !== null)].join('\n');
}

function formatBacktestSummary(result: BacktestResult, style: TerminalStyle): string {
  const { request, summary, coverage, archive, equity, assumptions } = result;
  const { note } = assumptions;
  const { trades, contracts, symbols_traded } = summary;
  const objective = request.objective;
  const lines: (readonly [name: string, value: string])[] = [
    ...(note === null ? [] : [['note', note] as const]),
    ['strategy', formatStrategyName(result)],
    ['', formatParameters(result.strategy.parameters)],
    ['window', `${formatWindow(result)}${result.grid === null ? '' : ', held out'}`],
    [objective, `${formatObjective(objective, result.value)}${isInDollars(objective) ? ' dollars' : ''}`],
    [
      'symbols',
      `${formatNumber(summary.symbols)} tested, ${formatNumber(symbols_traded)} traded, ${formatCount(summary.ticks, 'tick')}`,
    ],
    [
      'trades',
      trades === 0
        ? `none: ${summary.ticks === 0 ? 'no ticks in the window' : 'the conditions were never met'}`
        : `${formatNumber(trades)} of ${formatCount(roundContracts(contracts), 'contract')}, ${formatShare(summary.win_rate)} won, fees ${formatAmount(summary.fees)}`,
    ],
    ['costs', formatCosts(assumptions)],
    ['pnl', `${formatDollars(summary.total_pnl)} in total, ${formatDollars(summary.avg_pnl)} per trade`],
    [
      'risk',
      `drawdown ${formatAmount(summary.max_drawdown)}, sharpe ${formatObjective('sharpe', summary.sharpe)}, brier ${formatObjective('brier', summary.brier)}`,
    ],
    ...(trades === 0 ? [] : [['equity', formatSparkline([0, ...equity.value], curveWidth)] as const]),
    [
      'coverage',
      coverage.gap_share === null
        ? 'no symbol was live in the window'
        : `${formatShare(coverage.gap_share, 2)} of the symbols' lifetime is not covered`,
    ],
    ['archive', `generation ${archive.generation}, ${formatCount(archive.files, 'file')} read`],
    ['manifest', archive.manifest_sha256],
    ['files', archive.files_sha256],
  ];
  const width = Math.max(...lines.map(([name]) => name.length));
  const text = lines
    .filter(([, value]) => value !== '')
    .map(([name, value]) =>
      formatIndented(`  ${name.padEnd(width)}  `, value, style, name === objective || name === 'note'),
    )
    .join('');
  const warning = formatUncoveredWarning(coverage);
  return warning === null ? text : `${text}${formatIndented(`  ${'warning'.padEnd(width)}  `, warning, style, true)}`;
}

const isInDollars = (name: BacktestResult['request']['objective']): boolean =>
  name === 'avg_pnl' || name === 'total_pnl' || name === 'max_drawdown';

const roundContracts = (contracts: number): number => Math.round(contracts * 100) / 100;

const paintBold = (text: string, { hasColour }: TerminalStyle): string => createPaints(hasColour).bold(text);

/** A labelled line, wrapped at spaces to the width of the terminal. */
function formatIndented(label: string, value: string, style: TerminalStyle, isStrong = false): string {
  const lines = wrapText(
    escapeControls(value),
    style.width === null ? null : Math.max(textWidthMin, style.width - label.length),
  );
  const painted = lines.map((line) => (isStrong ? paintBold(line, style) : line));
  return painted.map((line, i) => `${i === 0 ? label : ' '.repeat(label.length)}${line}\n`).join('');
}

const columnKinds = { left: 'fixed', text: 'text' } as const;

/** A table with a heading, and `counted` below it. */
function formatHeadedTable<Row>(
  heading: string,
  rows: readonly Row[],
  figures: readonly FigureColumn<Row>[],
  style: TerminalStyle,
  counted: string,
): string {
  const table = {
    columns: figures.map(
      ({ name, kind }) => ({ name, kind: kind === undefined ? 'number' : columnKinds[kind] }) as const,
    ),
    rows: rows.map((row) => figures.map(({ format }) => format(row))),
    isComplete: true,
    plan: null,
  };
  return `${paintBold(heading, style)}\n${renderTable(table, style, { counted, advice: 'widen the terminal' })}`;
}

function formatGrid({ request, grid }: BacktestResult, style: TerminalStyle): string | null {
  if (grid === null) return null;
  const points = sortBestFirst(grid, request.objective);
  const shown = points.slice(0, pointsShown);
  const hiddenCount = points.length - shown.length;
  const chosenText = grid.best === null ? ', none with a value: the first one was used' : '';
  const countText = `${formatCount(points.length, 'point')}${hiddenCount === 0 ? '' : `, ${formatNumber(hiddenCount)} more in --out and --json`}${chosenText}`;
  const columns = createGridColumns(grid, request);
  return formatHeadedTable(`Grid by ${request.objective}, best first`, shown, columns, style, countText);
}

function formatSymbolResults({ symbols }: BacktestResult, style: TerminalStyle): string | null {
  if (symbols.count === 0) return null;
  const { items } = symbols;
  const areAllShown = items.length <= 2 * symbolsShown;
  const shown = areAllShown ? items : [...items.slice(0, symbolsShown), ...items.slice(-symbolsShown)];
  const countText = `${areAllShown ? '' : `${shown.length} of `}${formatCount(symbols.count, 'symbol')} with a trade`;
  const heading = areAllShown ? 'Symbols by pnl' : 'Best and worst symbols by pnl';
  return formatHeadedTable(heading, shown, createSymbolColumns(shown), style, countText);
}

function formatCalibration({ calibration }: BacktestResult, style: TerminalStyle): string | null {
  const rows = calibration.filter(({ ticks }) => ticks > 0);
  if (rows.length === 0) return null;
  const ticks = rows.reduce((sum, row) => sum + row.ticks, 0);
  const countText = `${formatCount(ticks, 'tick')} of symbols that settled in the window`;
  return formatHeadedTable('Calibration: prices against outcomes', rows, calibrationColumns, style, countText);
}

interface WrittenFile {
  readonly file: string;
  readonly bytes: number;
  readonly sha256: string;
}

/** Resolves the path of a page. Throws UsageError if it is not writable. */
export const requirePageTarget = ({ disk, layout }: Archive, path: string): string =>
  requireWritableTarget(disk, layout.root, path);

/** Resolves the path and format of `--trades`. Throws UsageError for another extension, or if it is not writable. */
export function requireTradesTarget(
  { disk, layout }: Archive,
  path: string,
  isCsvSafe: boolean,
): { file: string; format: TradesFormat } {
  const format = inferTradesFormat(path);
  if (format === null) throw new UsageError(`--trades ${path} must end in .parquet or .csv.`);
  if (isCsvSafe && format !== 'csv')
    throw new UsageError('--csv-safe requires --trades with a file that ends in .csv.');
  const file = requireWritableTarget(disk, layout.root, path, '--trades');
  return { file, format: isCsvSafe ? 'csv_safe' : format };
}

/** Writes the page of a backtest atomically. */
export async function writeBacktestPage(
  { disk }: Archive,
  { random, version }: Context,
  file: string,
  result: BacktestResult,
): Promise<WrittenFile> {
  // Loaded lazily: the plotting library is slow to load, and few commands need it.
  const { renderBacktestPage } = await import('../report/backtest-page.ts');
  const id = Math.floor(random() * 36 ** 8).toString(36);
  const bytes = Buffer.from(renderBacktestPage(result, version), 'utf8');
  async function* pieces() {
    yield bytes;
  }
  return { file, ...(await writeFileAtomically(disk, file, id, pieces())) };
}

interface PrintedBacktest {
  readonly result: BacktestResult;
  /** ID if it is saved, otherwise null. */
  readonly id: string | null;
  readonly page: WrittenFile | null;
  readonly trades: WrittenTrades | null;
}

/** Prints a backtest as text with next steps, or as one JSON line. */
export function printBacktest(
  { result, id, page, trades }: PrintedBacktest,
  flags: Pick<CommonFlags, 'json' | 'quiet'>,
  { isNew }: { readonly isNew: boolean },
): void {
  if (flags.json === true) {
    const extra = {
      ...(id === null ? {} : { id }),
      ...(page === null ? {} : { page }),
      ...(trades === null ? {} : { trades_file: trades }),
    };
    process.stdout.write(`${JSON.stringify({ ...result, ...extra })}\n`);
    return;
  }
  process.stdout.write(formatBacktest(result, getTerminalStyle(process.stdout)));
  if (flags.quiet === true) return;
  const lines = [
    ...(page === null ? [] : [`wrote ${page.file}, ${formatBytes(page.bytes)}: open it in a browser`]),
    ...(trades === null
      ? []
      : [`wrote ${trades.file}, ${formatCount(trades.rows, 'trade')}, ${formatBytes(trades.bytes)}`]),
    ...(id === null || !isNew ? [] : [`saved as ${id}; to show it: oddslake backtest show ${id}`]),
    ...(page === null ? ['--out page.html writes a page with charts, trades and all symbols'] : []),
    ...(trades === null && isNew && result.trades.count > result.trades.items.length
      ? ['--trades trades.parquet writes all trades']
      : []),
    ...(id === null && isNew ? ['--save saves it for oddslake backtest list and the service'] : []),
  ];
  process.stderr.write(`${lines.join('\n')}\n`);
}

const sparkLevels = '▁▂▃▄▅▆▇█';

/** A curve as one line of at most `width` characters, scaled from the minimum to the maximum value. */
export function formatSparkline(values: readonly number[], width: number): string {
  if (values.length === 0) return '';
  const [min, max] = [
    values.reduce((a, b) => Math.min(a, b), Number.POSITIVE_INFINITY),
    values.reduce((a, b) => Math.max(a, b), Number.NEGATIVE_INFINITY),
  ];
  const shown = Math.min(width, values.length);
  return Array.from({ length: shown }, (_, i) => {
    // The last value of each section, so that the line ends at the last value.
    const value = values[Math.ceil(((i + 1) * values.length) / shown) - 1]!;
    const height = max === min ? 0 : (value - min) / (max - min);
    return sparkLevels[Math.min(sparkLevels.length - 1, Math.floor(height * sparkLevels.length))];
  }).join('');
}
