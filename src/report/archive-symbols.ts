import { formatCount, formatDuration, formatNumber, shortenText } from '../base/format-quantity.ts';
import { Html, html } from '../base/html.ts';
import { formatMinute } from '../base/time.ts';
import { hourMs } from '../base/window.ts';
import { chartPointsMin } from './archive-days.ts';
import type { ProblemSymbol } from './data/problem-symbols.ts';
import type { ReportData } from './data/report-data.ts';
import type { BusySymbol, HourPrice, SilentSymbol } from './data/tick-cadence.ts';
import {
  type HtmlColumn,
  type ReportPart,
  renderCards,
  renderHtmlTable,
  renderLongTable,
  renderSection,
  renderSymbol,
} from './page-parts.ts';

const noValue = '–';
const problemRowsMax = 15;
/** Maximum length of a failure, in characters. */
const reasonLettersMax = 160;

const createSymbolColumn = (
  catalogueUrl: string | null,
): HtmlColumn<{ readonly symbol: string; readonly question: string | null }> => ({
  name: 'Symbol',
  kind: 'text',
  format: ({ symbol, question }) => renderSymbol(symbol, question, catalogueUrl),
});

export function renderProblemSymbolsSection({ problems, status, rules }: ReportData): ReportPart[] {
  const { listed, counts } = problems;
  const heading = 'Failing, suspended and late symbols';
  if (listed.length === 0) {
    const text = status.symbols.live === 0 ? 'No live symbols.' : 'All live symbols are covered equally far.';
    return [{ name: heading, text }];
  }
  const columns: HtmlColumn<ProblemSymbol>[] = [
    createSymbolColumn(rules.catalogueUrl),
    { name: 'State', kind: 'left', format: ({ state }) => state, isLoss: ({ state }) => state === 'failing' },
    { name: 'Since', kind: 'left', format: ({ since }) => (since === null ? noValue : formatMinute(since)) },
    {
      name: 'Covered up to',
      kind: 'left',
      format: ({ coveredTo }) => (coveredTo === null ? noValue : formatMinute(coveredTo)),
    },
    { name: 'Missing', format: ({ missingMs }) => formatDuration(missingMs) },
    { name: 'Reason', kind: 'text', format: describeProblem },
  ];
  const countsText = (['failing', 'suspended', 'late'] as const)
    .filter((state) => counts[state] > 0)
    .map((state) => `${formatNumber(counts[state])} ${state}`)
    .join(', ');
  const total = counts.failing + counts.suspended + counts.late;
  const cutText = total > listed.length ? ` The ${formatNumber(listed.length)} with the most missing are listed.` : '';
  const suspendedText =
    counts.suspended > 0 ? ' Suspended symbols are requested once a day; at once: oddslake symbols retry' : '';
  return [
    renderSection(
      heading,
      [
        html`<p class="note">${countsText}.${cutText}${suspendedText}</p>\n`,
        renderCards(
          renderLongTable(heading, columns, listed, {
            shown: problemRowsMax,
            rest: `${listed.length - problemRowsMax} more`,
          }),
        ),
      ],
      true,
    ),
  ];
}

function describeProblem({ state, reason, missingMs }: ProblemSymbol): string {
  if (state === 'failing') return shortenText(reason ?? '', reasonLettersMax);
  if (state === 'suspended') return 'the service reports it as unknown';
  return `${formatDuration(missingMs)} behind the other live symbols`;
}

/** Symbols with the most ticks, and symbols that have become silent. */
export function renderSymbolsSection({ cadence, rules }: ReportData): ReportPart[] {
  const { busiest, silent, days, error } = cadence;
  if (error !== null)
    return [renderSection('Symbols', [html`<p class="warning">Ticks could not be read: ${error}</p>\n`])];
  const silentColumns: HtmlColumn<SilentSymbol>[] = [
    createSymbolColumn(rules.catalogueUrl),
    { name: 'Last tick', kind: 'left', format: ({ lastTick }) => formatMinute(lastTick) },
    { name: 'Silent for', format: ({ quietMs }) => formatDuration(quietMs) },
    {
      name: 'Longest earlier pause',
      format: ({ longestPauseHours }) => formatDuration(Math.max(1, longestPauseHours) * hourMs),
    },
  ];
  const silentPart: ReportPart =
    silent.length === 0
      ? { name: 'Newly silent symbols', text: 'No active symbol stopped ticking.' }
      : renderSection(
          'Newly silent symbols',
          [
            html`<p class="note">Live, covered symbols with ticks in many hours of the last ${days} days that have been silent for more than twice their longest pause:</p>\n`,
            renderCards(renderHtmlTable('Newly silent symbols', silentColumns, silent)),
          ],
          true,
        );
  return [silentPart, ...renderBusiestSection(busiest, days, rules.catalogueUrl)];
}

function renderBusiestSection(busiest: readonly BusySymbol[], days: number, catalogueUrl: string | null): ReportPart[] {
  if (busiest.length === 0) return [];
  const times = busiest.flatMap(({ prices }) => prices.map(({ t }) => t));
  const span = {
    from: times.reduce((a, b) => Math.min(a, b), Number.POSITIVE_INFINITY),
    to: times.reduce((a, b) => Math.max(a, b), Number.NEGATIVE_INFINITY),
  };
  const columns: HtmlColumn<BusySymbol>[] = [
    createSymbolColumn(catalogueUrl),
    ...(busiest.some(({ prices }) => prices.length >= chartPointsMin)
      ? [
          {
            name: 'Price',
            kind: 'left' as const,
            format: ({ prices }: BusySymbol) => renderSparkline(prices, span) ?? '',
          },
        ]
      : []),
    { name: 'Last', format: ({ prices }) => (prices.length === 0 ? noValue : formatPrice(prices.at(-1)!.p)) },
    { name: 'Ticks', format: ({ ticks }) => formatNumber(ticks) },
    { name: 'Hours with ticks', format: ({ hours }) => formatNumber(hours) },
  ];
  const drawnText = Number.isFinite(span.from) ? `, with hourly prices since ${formatMinute(span.from)}` : '';
  return [
    renderSection(
      'Busiest symbols',
      [
        html`<p class="note">By ticks in the last ${formatCount(days, 'day')}${drawnText}.</p>\n`,
        html`<div class="busiest">${renderHtmlTable('Busiest symbols', columns, busiest)}</div>\n`,
      ],
      true,
    ),
  ];
}

const formatPrice = (price: number): string => formatNumber(Number(price.toPrecision(4)));

const sparkline = { width: 132, height: 26, inset: 2, pointsMax: 120 };

/**
 * The course of a price, from its own lowest to its own highest value. All sparklines of a table have one time axis.
 * Null for fewer points than a chart needs.
 */
export function renderSparkline(
  prices: readonly HourPrice[],
  { from, to }: { readonly from: number; readonly to: number },
): Html | null {
  if (prices.length < chartPointsMin) return null;
  const { width, height, inset, pointsMax } = sparkline;
  const [low, high] = prices.reduce(
    ([min, max], { p }) => [Math.min(min, p), Math.max(max, p)],
    [Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY],
  );
  const x = (t: number): number => inset + ((width - 2 * inset) * (t - from)) / Math.max(1, to - from);
  const y = (p: number): number =>
    high === low ? height / 2 : height - inset - ((height - 2 * inset) * (p - low)) / (high - low);
  // The last price of each step of the axis.
  const steps = new Map(
    prices.map((price) => [Math.floor((pointsMax * (price.t - from)) / Math.max(1, to - from)), price]),
  );
  const points = [...steps.values()].map(({ t, p }) => `${x(t).toFixed(1)},${y(p).toFixed(1)}`).join(' ');
  const last = prices.at(-1)!;
  const label = `Price from ${formatPrice(low)} to ${formatPrice(high)}, last ${formatPrice(last.p)}`;
  return new Html(
    `<svg class="spark" role="img" aria-label="${label}" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}"><polyline points="${points}" fill="none" stroke="var(--accent)" stroke-width="1.5" stroke-linejoin="round"/><circle cx="${x(last.t).toFixed(1)}" cy="${y(last.p).toFixed(1)}" r="2" fill="var(--accent)"/></svg>`,
  );
}

export const symbolsStyle = `
svg.spark { width: 132px; min-width: 132px; height: 26px; overflow: visible; }
@media (max-width: 640px) {
  /* A symbol, and below it its price and its counts. */
  .busiest thead { display: none; }
  .busiest table, .busiest tbody { display: block; }
  .busiest tr { display: flex; flex-wrap: wrap; align-items: center; gap: 2px 14px; padding: 6px 0; border-bottom: 1px solid var(--line); }
  .busiest td { padding: 0; border: 0; }
  .busiest td:first-child { flex-basis: 100%; }
  .busiest td:nth-last-child(2)::after { content: " ticks"; }
  .busiest td:last-child::after { content: " h with ticks"; }
}
`;
