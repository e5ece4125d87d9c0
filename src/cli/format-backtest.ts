import { many, number } from '../core/format-quantity.ts';
import {
  amount,
  decimals,
  digitsFor,
  dollars,
  lackingWarning,
  noValue,
  objectiveTeller,
  objectiveText,
  parametersText,
  parameterText,
  plain,
  share,
  strategyName,
  windowText,
} from '../report/backtest-figures.ts';
import { bestPointsFirst } from '../report/grid-order.ts';
import type { BacktestResult } from '../research/result.ts';
import type { SymbolRow } from '../research/run-series.ts';
import { visible } from './escape-control.ts';
import { sparkline } from './sparkline.ts';
import { renderTable } from './table.ts';
import type { TableStyle } from './terminal-style.ts';
import { paints } from './terminal-style.ts';

const curveWidth = 48;
const symbolsShown = 5;
const pointsShown = 10;

/** A backtest for a person: what came of it in a block, then tables of where it came from. */
export function backtestText(result: BacktestResult, style: TableStyle): string {
  const tables = [gridTable(result, style), symbolsTable(result, style), calibrationTable(result, style)];
  return [summaryText(result, style), ...tables.filter((table) => table !== null)].join('\n');
}

/** In the columns of the other commands' blocks. */
function summaryText(result: BacktestResult, style: TableStyle): string {
  const { asked, summary, coverage, archive, equity } = result;
  const { trades, contracts, traded } = summary;
  const named = asked.objective;
  const lines: (readonly [name: string, value: string])[] = [
    ['strategy', strategyName(result)],
    ['', parametersText(result.strategy.parameters)],
    ['span', `${windowText(result)}${result.grid === null ? '' : ', held out'}`],
    [named, `${objectiveText(named, result.value)}${isDollars(named) ? ' dollars' : ''}`],
    ['symbols', `${number(summary.symbols)} played, ${number(traded)} traded, ${many(summary.ticks, 'tick')}`],
    [
      'trades',
      trades === 0
        ? `none: ${summary.ticks === 0 ? 'there is no tick in the span' : 'nothing met its conditions'}`
        : `${number(trades)} of ${many(round(contracts), 'contract')}, ${share(summary.win_rate)} won, fees ${amount(summary.fees)}`,
    ],
    ['pnl', `${dollars(summary.total_pnl)} in all, ${dollars(summary.avg_pnl)} a trade`],
    [
      'risk',
      `drawdown ${amount(summary.max_drawdown)}, sharpe ${objectiveText('sharpe', summary.sharpe)}, brier ${objectiveText('brier', summary.brier)}`,
    ],
    ...(trades === 0 ? [] : [['equity', sparkline([0, ...equity.value], curveWidth)] as const]),
    [
      'coverage',
      coverage.lacking_share === null
        ? 'no symbol lived in the span'
        : `${share(coverage.lacking_share, 2)} of the symbols' time is lacking`,
    ],
    ['archive', `generation ${archive.generation}, ${many(archive.files, 'file')} read`],
    ['manifest', archive.manifest_sha256],
    ['files', archive.files_sha256],
  ];
  const width = Math.max(...lines.map(([name]) => name.length));
  const text = lines
    .filter(([, value]) => value !== '')
    .map(([name, value]) => indented(`  ${name.padEnd(width)}  `, value, style, name === named))
    .join('');
  const warning = lackingWarning(coverage);
  return warning === null ? text : `${text}${indented(`  ${'warning'.padEnd(width)}  `, warning, style, true)}`;
}

const isDollars = (name: BacktestResult['asked']['objective']): boolean =>
  name === 'avg_pnl' || name === 'total_pnl' || name === 'max_drawdown';

const round = (contracts: number): number => Math.round(contracts * 100) / 100;

const bold = (text: string, { colour }: TableStyle): string => paints(colour).bold(text);

/** A line that goes on below itself where the terminal is narrower, broken at blanks. */
function indented(head: string, value: string, style: TableStyle, isStrong = false): string {
  const room = style.width === null ? Number.POSITIVE_INFINITY : Math.max(20, style.width - head.length);
  const lines = [''];
  for (const word of visible(value).split(' ')) {
    const line = lines.at(-1)!;
    const next = line === '' ? word : `${line} ${word}`;
    if (line !== '' && next.length > room) lines.push(word);
    else lines[lines.length - 1] = next;
  }
  const painted = lines.map((line) => (isStrong ? bold(line, style) : line));
  return painted.map((line, i) => `${i === 0 ? head : ' '.repeat(head.length)}${line}\n`).join('');
}

type Cells<Row> = Readonly<Record<string, (row: Row) => string>>;

/** A table under its heading; `fixed`: columns that are no numbers, and may be cut where `text` names them. */
function tableOf<Row>(
  heading: string,
  rows: readonly Row[],
  cells: Cells<Row>,
  style: TableStyle,
  below: { readonly counted: string; readonly text?: readonly string[]; readonly fixed?: readonly string[] },
): string {
  const names = Object.keys(cells);
  const kindOf = (name: string) =>
    below.text?.includes(name) ? 'text' : below.fixed?.includes(name) ? 'fixed' : 'number';
  const columns = names.map((name) => ({ name, kind: kindOf(name) }) as const);
  const cut = { columns, rows: rows.map((row) => names.map((name) => cells[name]!(row))), complete: true, plan: null };
  const table = renderTable(cut, style, { counted: below.counted, advice: 'widen the terminal' });
  return `${bold(heading, style)}\n${table}`;
}

function gridTable({ asked, grid }: BacktestResult, style: TableStyle): string | null {
  if (grid === null) return null;
  const names = Object.keys(asked.grid);
  const points = bestPointsFirst(grid, asked.objective);
  const shown = points.slice(0, pointsShown);
  const told = objectiveTeller(
    asked.objective,
    points.flatMap(({ value, held_out_value }) => [value, held_out_value]),
  );
  const cells: Cells<(typeof points)[number]> = {
    ...Object.fromEntries(
      names.map((name) => [name, ({ parameters }: (typeof points)[number]) => parameterText(name, parameters[name]!)]),
    ),
    chosen_by: ({ value }) => told(value),
    trades: (point) => number(point.trades),
    held_out: ({ held_out_value }) => told(held_out_value),
    'trades there': ({ held_out_trades }) => number(held_out_trades),
  };
  const rest = points.length - shown.length;
  const chosen = grid.best === null ? ', none with a value to choose by: the first was taken' : '';
  const counted = `${many(points.length, 'point')}${rest === 0 ? '' : `, ${number(rest)} more in --out and --json`}${chosen}`;
  return tableOf(`Grid by ${asked.objective}, the best first`, shown, cells, style, { counted });
}

function symbolsTable({ symbols }: BacktestResult, style: TableStyle): string | null {
  if (symbols.count === 0) return null;
  const { listed } = symbols;
  const few = listed.length <= 2 * symbolsShown;
  const shown = few ? listed : [...listed.slice(0, symbolsShown), ...listed.slice(-symbolsShown)];
  const digits = digitsFor(shown.map(({ pnl }) => pnl));
  const cells: Cells<SymbolRow> = {
    symbol: (row) => row.symbol,
    pnl: (row) => dollars(row.pnl, digits),
    trades: (row) => number(row.trades),
    contracts: (row) => decimals(row.contracts, Number.isInteger(row.contracts) ? 0 : 2),
    fees: (row) => amount(row.fees, digits),
    outcome: (row) => (row.outcome === null ? noValue : plain(row.outcome)),
    ticks: (row) => number(row.ticks),
  };
  const counted = `${few ? '' : `${shown.length} of `}${many(symbols.count, 'symbol')} with a trade`;
  const heading = few ? 'Symbols by pnl' : 'The best and the worst symbols by pnl';
  return tableOf(heading, shown, cells, style, { counted, text: ['symbol'] });
}

function calibrationTable({ calibration }: BacktestResult, style: TableStyle): string | null {
  const rows = calibration.filter(({ ticks }) => ticks > 0);
  if (rows.length === 0) return null;
  const cells: Cells<(typeof rows)[number]> = {
    price: ({ from, to }) => `${from.toFixed(1)} – ${to.toFixed(1)}`,
    ticks: ({ ticks }) => number(ticks),
    'mean price': ({ mean_price }) => decimals(mean_price!, 4),
    'share of yes': ({ mean_outcome }) => decimals(mean_outcome!, 4),
    'off by': ({ mean_price, mean_outcome }) => signed(mean_outcome! - mean_price!),
    brier: ({ brier }) => decimals(brier!, 4),
  };
  const ticks = rows.reduce((sum, row) => sum + row.ticks, 0);
  const counted = `${many(ticks, 'tick')} of symbols that were settled in the span`;
  return tableOf('Calibration: prices against outcomes', rows, cells, style, { counted, fixed: ['price'] });
}

const signed = (value: number): string => `${value > 0 ? '+' : ''}${decimals(value, 4)}`;
