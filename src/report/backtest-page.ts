import { grouped } from '../core/format-thousands.ts';
import { type Html, html } from '../core/html.ts';
import { isoUtc } from '../core/time.ts';
import { objectives } from '../research/objectives.ts';
import type { BacktestResult } from '../research/result.ts';
import type { SymbolRow } from '../research/run-series.ts';
import type { Trade } from '../research/simulate.ts';
import {
  amount,
  decimals,
  digitsFor,
  dollars,
  lackingWarning,
  noValue,
  objectiveText,
  parametersText,
  plain,
  share,
  spanText,
  strategyName,
  windowText,
} from './backtest-figures.ts';
import { gridSection } from './backtest-grid.ts';
import { type Column, facts, figure, figures, longTable, reportPage, section, table } from './page-parts.ts';
import { calibrationPlot, curvePlot } from './plots.ts';

const symbolsShown = 20;
const tradesShown = 50;

/** A backtest as one page of HTML that stands by itself. The same result gives the same text. */
export function backtestPage(result: BacktestResult, version: string): string {
  const { strategy, coverage } = result;
  const warning = lackingWarning(coverage);
  const body = [
    html`<h1>${strategyName(result)}</h1>
<p class="note">${parametersText(strategy.parameters)}</p>
<p class="note">Backtest on ${windowText(result)}${result.grid === null ? '' : ', held out: no point of the grid was chosen by it'}.</p>
`,
    ...(warning === null ? [] : [html`<p class="warning">${warning[0]!.toUpperCase()}${warning.slice(1)}.</p>\n`]),
    summary(result),
    ...(result.summary.trades === 0
      ? [html`<p class="warning">No trade: nothing met its conditions.</p>\n`]
      : curves(result)),
    ...gridSection(result),
    ...calibration(result),
    ...symbols(result),
    ...trades(result),
    grounds(result),
  ];
  return reportPage(`${strategyName(result)}: backtest`, body, version);
}

function summary({ asked, summary: of, value }: BacktestResult): Html {
  const told = (name: 'avg_pnl' | 'sharpe' | 'max_drawdown' | 'win_rate' | 'brier' | 'total_pnl', label: string) => ({
    label,
    value: objectiveText(name, of[name]),
    asked: name === asked.objective,
  });
  const all = [
    told('total_pnl', 'Total pnl, dollars'),
    told('avg_pnl', 'A trade, dollars'),
    told('sharpe', 'Sharpe, a year'),
    told('max_drawdown', 'Drawdown, dollars'),
    told('win_rate', 'Won'),
    told('brier', 'Brier'),
    {
      label: 'Trades',
      value: grouped(of.trades),
      note: `${decimals(of.contracts, Number.isInteger(of.contracts) ? 0 : 2)} contracts, fees ${amount(of.fees)}`,
    },
    { label: 'Symbols', value: grouped(of.symbols), note: `${grouped(of.traded)} traded, ${grouped(of.ticks)} ticks` },
  ];
  return html`${figures(all)}
<p class="note">Judged by ${asked.objective}, ${objectives[asked.objective].says}: ${objectiveText(asked.objective, value)}.</p>
`;
}

function curves({ equity: { t, value, step_ms } }: BacktestResult): Html[] {
  const under = drawdowns(value);
  const [last, deepest] = [value.at(-1) ?? 0, under.reduce((least, v) => Math.min(least, v), 0)];
  const each = `every ${spanText(step_ms)}`;
  return [
    section('Equity', [
      figure(
        `Dollars gained, ${each}, what is held at its last price`,
        curvePlot({
          t,
          value,
          yLabel: 'dollars',
          colour: 'var(--accent)',
          filled: true,
          label: `Equity curve, ${dollars(last)} dollars at its end`,
        }),
      ),
    ]),
    section('Drawdown', [
      figure(
        'Dollars below the highest point before',
        curvePlot({
          t,
          value: under,
          yLabel: 'dollars',
          colour: 'var(--down)',
          filled: true,
          label: `Drawdown, ${amount(deepest)} dollars at its deepest`,
        }),
      ),
    ]),
  ];
}

/** How far each value is below the highest before it, nothing included. */
function drawdowns(values: readonly number[]): number[] {
  let top = 0;
  return values.map((value) => {
    top = Math.max(top, value);
    return value - top;
  });
}

function calibration({ calibration: all }: BacktestResult): Html[] {
  const rows = all.filter(({ ticks }) => ticks > 0);
  if (rows.length === 0) return [];
  const columns: Column<(typeof rows)[number]>[] = [
    { name: 'Price', kind: 'left', of: ({ from, to }) => `${from.toFixed(1)} – ${to.toFixed(1)}` },
    { name: 'Ticks', of: ({ ticks }) => grouped(ticks) },
    { name: 'Mean price', of: ({ mean_price }) => decimals(mean_price!, 4) },
    { name: 'Share of yes', of: ({ mean_outcome }) => decimals(mean_outcome!, 4) },
    { name: 'Brier', of: ({ brier }) => decimals(brier!, 4) },
  ];
  const marks = rows.map(({ ticks, mean_price, mean_outcome }) => ({
    price: mean_price!,
    outcome: mean_outcome!,
    weight: ticks,
    title: `price ${decimals(mean_price!, 3)}, yes ${decimals(mean_outcome!, 3)}, ${grouped(ticks)} ticks`,
  }));
  const said =
    'Prices of symbols that were settled in the span, by decile: on the diagonal a price is the chance of yes';
  return [
    section('Calibration', [
      html`<p class="note">${said}.</p>
<div class="beside">${calibrationPlot(said, marks)}${table('Calibration', columns, rows)}</div>\n`,
    ]),
  ];
}

function symbols({ symbols: { count, listed } }: BacktestResult): Html[] {
  if (count === 0) return [];
  const digits = digitsFor(listed.map(({ pnl }) => pnl));
  const columns: Column<SymbolRow>[] = [
    { name: 'Symbol', kind: 'text', of: ({ symbol }) => symbol },
    { name: 'Pnl', of: ({ pnl }) => dollars(pnl, digits), isLoss: ({ pnl }) => pnl < 0 },
    { name: 'Trades', of: (row) => grouped(row.trades) },
    { name: 'Contracts', of: ({ contracts }) => decimals(contracts, Number.isInteger(contracts) ? 0 : 2) },
    { name: 'Fees', of: ({ fees }) => amount(fees, digits) },
    { name: 'Outcome', of: ({ outcome }) => (outcome === null ? noValue : plain(outcome)) },
    { name: 'Ticks', of: ({ ticks }) => grouped(ticks) },
  ];
  const cut = listed.length < count ? `, the ${grouped(listed.length)} that gained and lost most are listed` : '';
  const said = html`<p class="note">${grouped(count)} with a trade${cut}, by pnl.</p>\n`;
  if (listed.length <= 2 * symbolsShown) return [section('Symbols', [said, table('Symbols', columns, listed)], true)];
  const middle = listed.slice(symbolsShown, -symbolsShown);
  const body = [
    said,
    table('The best symbols', columns, listed.slice(0, symbolsShown)),
    html`<details><summary>${grouped(middle.length)} in between</summary>${table('Symbols in between', columns, middle)}</details>\n`,
    html`<p class="note">The last of them:</p>\n`,
    table('The last symbols', columns, listed.slice(-symbolsShown)),
  ];
  return [section('Symbols', body, true)];
}

function trades({ trades: { count, listed } }: BacktestResult): Html[] {
  if (count === 0) return [];
  const digits = digitsFor(listed.map(({ pnl }) => pnl));
  const columns: Column<Trade>[] = [
    { name: 'Filled', kind: 'left', of: ({ filled_at }) => isoUtc(filled_at) },
    { name: 'Symbol', kind: 'text', of: ({ symbol }) => symbol },
    { name: 'Side', kind: 'left', of: ({ side }) => side },
    { name: 'Contracts', of: ({ contracts }) => plain(contracts) },
    { name: 'Paid', of: ({ paid }) => plain(paid) },
    { name: 'Got', of: ({ got }) => plain(got) },
    { name: 'Exit', kind: 'left', of: ({ exit }) => exit },
    { name: 'Exited', kind: 'left', of: ({ exited_at }) => isoUtc(exited_at) },
    { name: 'Pnl', of: ({ pnl }) => dollars(pnl, digits), isLoss: ({ pnl }) => pnl < 0 },
  ];
  const cut = listed.length < count ? `the first ${grouped(listed.length)} of ${grouped(count)}` : grouped(count);
  const rest = `${grouped(listed.length - tradesShown)} more`;
  return [
    section(
      'Trades',
      [
        html`<p class="note">In the order of their fills, ${cut}.</p>\n`,
        ...longTable('Trades', columns, listed, { shown: tradesShown, rest }),
      ],
      true,
    ),
  ];
}

/** What the result rests on, so that it can be had again. */
function grounds({ asked, strategy, coverage, archive }: BacktestResult): Html {
  const hash = (text: string): Html => html`<span class="hash">${text}</span>`;
  const { symbols: named, filter } = asked;
  const chosen = [
    named === null ? 'all' : `${grouped(named.length)} named`,
    ...(filter.categories.length === 0 ? [] : [`of ${filter.categories.join(', ')}`]),
    ...(filter.sources.length === 0 ? [] : [`from ${filter.sources.join(', ')}`]),
  ];
  return section('What it rests on', [
    facts([
      ['Generation', grouped(archive.generation)],
      ['Manifest', hash(archive.manifest_sha256)],
      ['Files', html`${grouped(archive.files)}, ${hash(archive.files_sha256)}`],
      ['Symbols', chosen.join(' ')],
      [
        'Coverage',
        coverage.lacking_share === null
          ? 'no symbol lived in the span'
          : `${share(coverage.lacking_share, 2)} of the symbols' time in the span is lacking`,
      ],
    ]),
    html`<details><summary>The strategy and what was asked</summary><pre>${JSON.stringify(strategy, null, 2)}</pre>
<pre>${JSON.stringify({ ...asked, entry_executable: { ...asked.entry_executable, strategy: undefined } }, null, 2)}</pre></details>\n`,
  ]);
}
