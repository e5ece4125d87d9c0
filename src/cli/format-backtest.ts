import type { Archive } from '../archive/open-archive.ts';
import { requireWritableTarget, writeFileAtomically } from '../archive/read/export-file.ts';
import type { SymbolRow } from '../backtest/engine/run-series.ts';
import type { BacktestResult } from '../backtest/result.ts';
import { formatBytes, formatCount, formatNumber } from '../base/format-quantity.ts';
import type { Context } from '../context/context.ts';
import {
  chooseDigits,
  createObjectiveFormat,
  formatAmount,
  formatDecimals,
  formatDollars,
  formatObjective,
  formatParameter,
  formatParameters,
  formatPlainNumber,
  formatShare,
  formatStrategyName,
  formatUncoveredWarning,
  formatWindow,
  noValue,
  sortBestFirst,
} from '../report/backtest-figures.ts';
import type { CommonFlags } from './command-context.ts';
import { renderTable } from './table.ts';
import { createPaints, escapeControls, getTerminalStyle, type TerminalStyle } from './terminal-style.ts';

const curveWidth = 48;
const symbolsShown = 5;
const pointsShown = 10;

/** A backtest for a person: what came of it in a block, then tables of where it came from. */
export function formatBacktest(result: BacktestResult, style: TerminalStyle): string {
  const tables = [formatGrid(result, style), formatSymbolResults(result, style), formatCalibration(result, style)];
  return [formatBacktestSummary(result, style), ...tables.filter((table) => table !== null)].join('\n');
}

/** In the columns of the other commands' blocks. */
function formatBacktestSummary(result: BacktestResult, style: TerminalStyle): string {
  const { asked, summary, coverage, archive, equity } = result;
  const { trades, contracts, traded } = summary;
  const named = asked.objective;
  const lines: (readonly [name: string, value: string])[] = [
    ['strategy', formatStrategyName(result)],
    ['', formatParameters(result.strategy.parameters)],
    ['span', `${formatWindow(result)}${result.grid === null ? '' : ', held out'}`],
    [named, `${formatObjective(named, result.value)}${isInDollars(named) ? ' dollars' : ''}`],
    [
      'symbols',
      `${formatNumber(summary.symbols)} played, ${formatNumber(traded)} traded, ${formatCount(summary.ticks, 'tick')}`,
    ],
    [
      'trades',
      trades === 0
        ? `none: ${summary.ticks === 0 ? 'there is no tick in the span' : 'nothing met its conditions'}`
        : `${formatNumber(trades)} of ${formatCount(roundContracts(contracts), 'contract')}, ${formatShare(summary.win_rate)} won, fees ${formatAmount(summary.fees)}`,
    ],
    ['pnl', `${formatDollars(summary.total_pnl)} in all, ${formatDollars(summary.avg_pnl)} a trade`],
    [
      'risk',
      `drawdown ${formatAmount(summary.max_drawdown)}, sharpe ${formatObjective('sharpe', summary.sharpe)}, brier ${formatObjective('brier', summary.brier)}`,
    ],
    ...(trades === 0 ? [] : [['equity', formatSparkline([0, ...equity.value], curveWidth)] as const]),
    [
      'coverage',
      coverage.lacking_share === null
        ? 'no symbol lived in the span'
        : `${formatShare(coverage.lacking_share, 2)} of the symbols' time is lacking`,
    ],
    ['archive', `generation ${archive.generation}, ${formatCount(archive.files, 'file')} read`],
    ['manifest', archive.manifest_sha256],
    ['files', archive.files_sha256],
  ];
  const width = Math.max(...lines.map(([name]) => name.length));
  const text = lines
    .filter(([, value]) => value !== '')
    .map(([name, value]) => formatIndented(`  ${name.padEnd(width)}  `, value, style, name === named))
    .join('');
  const warning = formatUncoveredWarning(coverage);
  return warning === null ? text : `${text}${formatIndented(`  ${'warning'.padEnd(width)}  `, warning, style, true)}`;
}

const isInDollars = (name: BacktestResult['asked']['objective']): boolean =>
  name === 'avg_pnl' || name === 'total_pnl' || name === 'max_drawdown';

const roundContracts = (contracts: number): number => Math.round(contracts * 100) / 100;

const paintBold = (text: string, { hasColour }: TerminalStyle): string => createPaints(hasColour).bold(text);

/** A line that goes on below itself where the terminal is narrower, broken at blanks. */
function formatIndented(head: string, value: string, style: TerminalStyle, isStrong = false): string {
  const room = style.width === null ? Number.POSITIVE_INFINITY : Math.max(20, style.width - head.length);
  const lines = [''];
  for (const word of escapeControls(value).split(' ')) {
    const line = lines.at(-1)!;
    const next = line === '' ? word : `${line} ${word}`;
    if (line !== '' && next.length > room) lines.push(word);
    else lines[lines.length - 1] = next;
  }
  const painted = lines.map((line) => (isStrong ? paintBold(line, style) : line));
  return painted.map((line, i) => `${i === 0 ? head : ' '.repeat(head.length)}${line}\n`).join('');
}

type CellFormatters<Row> = Readonly<Record<string, (row: Row) => string>>;

/** A table under its heading; `fixed`: columns that are no numbers, and may be cut where `text` names them. */
function formatHeadedTable<Row>(
  heading: string,
  rows: readonly Row[],
  cells: CellFormatters<Row>,
  style: TerminalStyle,
  below: { readonly counted: string; readonly text?: readonly string[]; readonly fixed?: readonly string[] },
): string {
  const names = Object.keys(cells);
  const kindOf = (name: string) =>
    below.text?.includes(name) ? 'text' : below.fixed?.includes(name) ? 'fixed' : 'number';
  const columns = names.map((name) => ({ name, kind: kindOf(name) }) as const);
  const cut = {
    columns,
    rows: rows.map((row) => names.map((name) => cells[name]!(row))),
    isComplete: true,
    plan: null,
  };
  const table = renderTable(cut, style, { counted: below.counted, advice: 'widen the terminal' });
  return `${paintBold(heading, style)}\n${table}`;
}

function formatGrid({ asked, grid }: BacktestResult, style: TerminalStyle): string | null {
  if (grid === null) return null;
  const names = Object.keys(asked.grid);
  const points = sortBestFirst(grid, asked.objective);
  const shown = points.slice(0, pointsShown);
  const told = createObjectiveFormat(
    asked.objective,
    points.flatMap(({ value, held_out_value }) => [value, held_out_value]),
  );
  const cells: CellFormatters<(typeof points)[number]> = {
    ...Object.fromEntries(
      names.map((name) => [
        name,
        ({ parameters }: (typeof points)[number]) => formatParameter(name, parameters[name]!),
      ]),
    ),
    chosen_by: ({ value }) => told(value),
    trades: (point) => formatNumber(point.trades),
    held_out: ({ held_out_value }) => told(held_out_value),
    'trades there': ({ held_out_trades }) => formatNumber(held_out_trades),
  };
  const rest = points.length - shown.length;
  const chosen = grid.best === null ? ', none with a value to choose by: the first was taken' : '';
  const counted = `${formatCount(points.length, 'point')}${rest === 0 ? '' : `, ${formatNumber(rest)} more in --out and --json`}${chosen}`;
  return formatHeadedTable(`Grid by ${asked.objective}, the best first`, shown, cells, style, { counted });
}

function formatSymbolResults({ symbols }: BacktestResult, style: TerminalStyle): string | null {
  if (symbols.count === 0) return null;
  const { listed } = symbols;
  const few = listed.length <= 2 * symbolsShown;
  const shown = few ? listed : [...listed.slice(0, symbolsShown), ...listed.slice(-symbolsShown)];
  const digits = chooseDigits(shown.map(({ pnl }) => pnl));
  const cells: CellFormatters<SymbolRow> = {
    symbol: (row) => row.symbol,
    pnl: (row) => formatDollars(row.pnl, digits),
    trades: (row) => formatNumber(row.trades),
    contracts: (row) => formatDecimals(row.contracts, Number.isInteger(row.contracts) ? 0 : 2),
    fees: (row) => formatAmount(row.fees, digits),
    outcome: (row) => (row.outcome === null ? noValue : formatPlainNumber(row.outcome)),
    ticks: (row) => formatNumber(row.ticks),
  };
  const counted = `${few ? '' : `${shown.length} of `}${formatCount(symbols.count, 'symbol')} with a trade`;
  const heading = few ? 'Symbols by pnl' : 'The best and the worst symbols by pnl';
  return formatHeadedTable(heading, shown, cells, style, { counted, text: ['symbol'] });
}

function formatCalibration({ calibration }: BacktestResult, style: TerminalStyle): string | null {
  const rows = calibration.filter(({ ticks }) => ticks > 0);
  if (rows.length === 0) return null;
  const cells: CellFormatters<(typeof rows)[number]> = {
    price: ({ from, to }) => `${from.toFixed(1)} – ${to.toFixed(1)}`,
    ticks: ({ ticks }) => formatNumber(ticks),
    'mean price': ({ mean_price }) => formatDecimals(mean_price!, 4),
    'share of yes': ({ mean_outcome }) => formatDecimals(mean_outcome!, 4),
    'off by': ({ mean_price, mean_outcome }) => formatSigned(mean_outcome! - mean_price!),
    brier: ({ brier }) => formatDecimals(brier!, 4),
  };
  const ticks = rows.reduce((sum, row) => sum + row.ticks, 0);
  const counted = `${formatCount(ticks, 'tick')} of symbols that were settled in the span`;
  return formatHeadedTable('Calibration: prices against outcomes', rows, cells, style, { counted, fixed: ['price'] });
}

const formatSigned = (value: number): string => `${value > 0 ? '+' : ''}${formatDecimals(value, 4)}`;

export interface WrittenBacktestPage {
  readonly file: string;
  readonly bytes: number;
  readonly sha256: string;
}

/** Where a page is written to. Throws UsageError where nothing may be written there. */
export const requirePageTarget = ({ disk, layout }: Archive, path: string): string =>
  requireWritableTarget(disk, layout.root, path);

/** Writes the page of a backtest, whole or not at all. */
export async function writeBacktestPage(
  { disk }: Archive,
  { random, version }: Context,
  file: string,
  result: BacktestResult,
): Promise<WrittenBacktestPage> {
  // What draws takes its time to load, and few ask for it.
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
  /** What it is kept as; null where it is not. */
  readonly id: string | null;
  readonly page: WrittenBacktestPage | null;
}

/** Prints a backtest: for a person with what to do next, or as one JSON line. */
export function printBacktest(
  { result, id, page }: PrintedBacktest,
  flags: Pick<CommonFlags, 'json' | 'quiet'>,
  { isNew }: { readonly isNew: boolean },
): void {
  if (flags.json === true) {
    const rest = { ...(id === null ? {} : { id }), ...(page === null ? {} : { page }) };
    process.stdout.write(`${JSON.stringify({ ...result, ...rest })}\n`);
    return;
  }
  process.stdout.write(formatBacktest(result, getTerminalStyle(process.stdout)));
  if (flags.quiet === true) return;
  const lines = [
    ...(page === null ? [] : [`page ${page.file}, ${formatBytes(page.bytes)}: open it in a browser`]),
    ...(id === null || !isNew ? [] : [`kept as ${id}: oddslake backtest show ${id}`]),
    ...(page === null ? ['--out page.html writes its curves, trades and every symbol listed'] : []),
    ...(id === null && isNew ? ['--save keeps it for oddslake backtest list and the service'] : []),
  ];
  process.stderr.write(`${lines.join('\n')}\n`);
}

const sparkLevels = '▁▂▃▄▅▆▇█';

/** A curve in one line of so many characters, from the least of its values to the greatest. */
export function formatSparkline(values: readonly number[], width: number): string {
  if (values.length === 0) return '';
  const [least, most] = [
    values.reduce((a, b) => Math.min(a, b), Number.POSITIVE_INFINITY),
    values.reduce((a, b) => Math.max(a, b), Number.NEGATIVE_INFINITY),
  ];
  const shown = Math.min(width, values.length);
  return Array.from({ length: shown }, (_, i) => {
    // The last of each stretch: a curve ends where its values end.
    const value = values[Math.ceil(((i + 1) * values.length) / shown) - 1]!;
    const height = most === least ? 0 : (value - least) / (most - least);
    return sparkLevels[Math.min(sparkLevels.length - 1, Math.floor(height * sparkLevels.length))];
  }).join('');
}
