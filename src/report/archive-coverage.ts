import { formatCount, formatDuration, formatNumber, shortenText } from '../base/format-quantity.ts';
import { type Html, html } from '../base/html.ts';
import { formatDay, formatMinute } from '../base/time.ts';
import { dayMs, hourMs } from '../base/window.ts';
import { computeCommonAxis } from './archive-days.ts';
import type { CoverageFacts, GapGroup, HeatmapRow } from './data/coverage-facts.ts';
import type { QuarantineReason } from './data/quarantine-figures.ts';
import type { ReportData } from './data/report-data.ts';
import {
  type HtmlColumn,
  type ReportPart,
  renderCards,
  renderFigure,
  renderHtmlTable,
  renderSection,
  renderSymbol,
  renderSymbols,
} from './page-parts.ts';
import { type HeatLine, heatColours, heatLevels, renderCoveragePlot } from './time-plots.ts';

const groupWords = { category: 'category', source: 'venue', prefix: 'ticker prefix' } as const;
/** The words for a step of the plot, and how many steps are one on a narrow page. */
const stepWords = {
  [hourMs]: { step: 'hour', narrow: 'six hours per step', narrowSteps: 6 },
  [6 * hourMs]: { step: 'six hours', narrow: 'a day per step', narrowSteps: 4 },
  [dayMs]: { step: 'day', narrow: 'four days per step', narrowSteps: 4 },
} as const;
const getStepWords = (stepMs: number) => stepWords[stepMs as keyof typeof stepWords] ?? stepWords[hourMs];
/** Maximum length of texts from outside, in characters. */
const lettersMax = 300;

/** Covered share of the lifetimes of symbols, by group and hour. */
export function renderCoverageSection(data: ReportData): ReportPart[] {
  const { coverage } = data;
  const { rows, groupedBy, stepMs, from, to } = coverage;
  if (rows.length === 0)
    return [{ name: 'Coverage', text: `No symbol was live from ${formatDay(from)} to ${formatDay(to - 1)}.` }];
  const { step, narrow, narrowSteps } = getStepWords(stepMs);
  const caption = `Covered share of symbol lifetimes per ${step}, by ${groupWords[groupedBy]}`;
  const lived = rows.reduce((sum, { lifetimeMs }) => sum + sumValues(lifetimeMs), 0);
  const covered = rows.reduce((sum, { coveredMs }) => sum + sumValues(coveredMs), 0);
  const damagedMs = rows.reduce((sum, row) => sum + sumValues(row.damagedMs), 0);
  const damageText = damagedMs === 0 ? '' : ' What is in damaged files does not.';
  return [
    renderSection('Coverage', [
      renderFigure(
        `${caption}. A fetched window without ticks counts as covered.${damageText}`,
        renderCoveragePlot({
          label: `${caption}: ${formatCoveragePercent(covered / lived)} from ${formatMinute(from)} to ${formatMinute(to)}`,
          span: coverage,
          axis: computeCommonAxis(data),
          sizes: {
            wide: { lines: toHeatLines(coverage, 1), stepMs },
            narrow: { lines: toHeatLines(coverage, narrowSteps), stepMs: narrowSteps * stepMs },
          },
        }),
      ),
      html`<p class="keys">${renderLevelKeys(damagedMs > 0)}<span class="key only-narrow">${narrow}</span></p>\n`,
      html`<details><summary>Groups as a table</summary>${renderGroupsTable(rows, step)}</details>\n`,
    ]),
  ];
}

const sumValues = (values: readonly number[]): number => values.reduce((sum, value) => sum + value, 0);

/** Rounded down, so that 100 % means that nothing is missing. */
const formatCoveragePercent = (share: number): string => `${Math.floor(share * 1000) / 10} %`;

const toHeatLines = ({ rows }: CoverageFacts, steps: number): HeatLine[] =>
  rows.map(({ group, lifetimeMs, coveredMs, damagedMs }) => {
    const [lived, covered, damaged] = [lifetimeMs, coveredMs, damagedMs].map((values) => sumSteps(values, steps));
    return {
      name: group,
      shares: lived!.map((ms, i) => (ms === 0 ? null : covered![i]! / ms)),
      damagedSteps: new Set(damaged!.flatMap((ms, i) => (ms === 0 ? [] : [i]))),
    };
  });

const sumSteps = (values: readonly number[], steps: number): number[] =>
  Array.from({ length: Math.ceil(values.length / steps) }, (_, i) =>
    sumValues(values.slice(i * steps, (i + 1) * steps)),
  );

const levelWords = ['nothing', 'less than half', 'half or more', '90 % or more', 'all'] as const;

const renderLevelKeys = (hasDamage: boolean): Html[] => [
  ...heatLevels.map(
    (_, level) =>
      html`<span class="key"><span class="swatch level-${heatColours[level]!}" aria-hidden="true"></span>${levelWords[level]!}</span>\n`,
  ),
  html`<span class="key"><span class="swatch blank" aria-hidden="true"></span>no live symbol</span>\n`,
  ...(hasDamage
    ? [html`<span class="key"><span class="swatch damaged" aria-hidden="true"></span>in damaged files</span>\n`]
    : []),
];

function renderGroupsTable(rows: readonly HeatmapRow[], step: string): Html {
  const worst = ({ lifetimeMs, coveredMs }: HeatmapRow): number =>
    lifetimeMs.reduce((min, ms, i) => (ms === 0 ? min : Math.min(min, coveredMs[i]! / ms)), 1);
  const columns: HtmlColumn<HeatmapRow>[] = [
    { name: 'Group', kind: 'text', format: ({ group }) => renderSymbol(group) },
    { name: 'Symbols', format: ({ symbols }) => formatNumber(symbols) },
    {
      name: 'Covered',
      format: ({ lifetimeMs, coveredMs }) => formatCoveragePercent(sumValues(coveredMs) / sumValues(lifetimeMs)),
    },
    {
      name: `In the worst ${step}`,
      format: (row) => formatCoveragePercent(worst(row)),
      isLoss: (row) => worst(row) < 1,
    },
    {
      name: 'Missing',
      format: ({ lifetimeMs, coveredMs }) => formatDuration(sumValues(lifetimeMs) - sumValues(coveredMs)),
    },
    ...(rows.some(({ damagedMs }) => sumValues(damagedMs) > 0)
      ? [
          {
            name: 'In damaged files',
            format: ({ damagedMs }: HeatmapRow) => formatDuration(sumValues(damagedMs)),
            isLoss: ({ damagedMs }: HeatmapRow) => sumValues(damagedMs) > 0,
          },
        ]
      : []),
  ];
  return renderHtmlTable('Coverage by group', columns, rows);
}

/** Gaps, grouped by time. */
export function renderGapsSection({ gaps }: ReportData): ReportPart[] {
  const { windows, symbols, missingMs, greatest, groups, oldest } = gaps;
  if (windows === 0 || oldest === null)
    return [{ name: 'Gaps', text: 'No gaps between the first and the last known time.' }];
  const columns: HtmlColumn<GapGroup>[] = [
    { name: 'From', kind: 'left', format: ({ from }) => formatMinute(from) },
    { name: 'To', kind: 'left', format: ({ to }) => formatMinute(to) },
    { name: 'Length', format: ({ from, to }) => formatDuration(to - from) },
    { name: 'Symbols', format: ({ count }) => formatNumber(count) },
    { name: 'Examples', kind: 'text', format: (group) => renderSymbols(group.symbols) },
    { name: 'Reason', kind: 'left', format: ({ reason }) => (reason === 'lost' ? 'data loss' : reason) },
  ];
  const cutText =
    groups > greatest.length ? ` The largest ${greatest.length} of ${formatNumber(groups)} groups are listed.` : '';
  const groupedText = groups < windows ? ' Gaps of several symbols at the same time are grouped.' : '';
  return [
    renderSection(
      'Gaps',
      [
        html`<p class="note">${formatCount(windows, 'gap')} of ${formatCount(symbols, 'symbol')}, ${formatDuration(missingMs)} in total. The oldest starts at ${formatMinute(oldest.from)}.${groupedText}${cutText} To list all: oddslake gaps</p>\n`,
        renderCards(renderHtmlTable('Gaps', columns, greatest)),
      ],
      true,
    ),
  ];
}

export function renderQuarantineSection({ quarantine, shown }: ReportData): ReportPart[] {
  const { count, reasons, reasonsCount, isTruncated } = quarantine;
  const since = `since ${formatDay(shown.from)}`;
  if (count === 0) return [{ name: 'Quarantine', text: `Nothing was quarantined ${since}.` }];
  const columns: HtmlColumn<QuarantineReason>[] = [
    { name: 'Reason', kind: 'text', format: ({ reason }) => shortenText(reason, lettersMax) },
    { name: 'Count', format: (reason) => formatNumber(reason.count) },
    {
      name: 'Last',
      kind: 'left',
      format: ({ lastAt }) => (lastAt === null ? 'not yet published' : formatMinute(lastAt)),
    },
    { name: 'Examples', kind: 'text', format: ({ symbol }) => (symbol === null ? '' : renderSymbol(symbol)) },
  ];
  const cutText = `${isTruncated ? ' Only the newest are counted.' : ''}${reasonsCount > reasons.length ? ` The ${reasons.length} most frequent of ${formatNumber(reasonsCount)} reasons are listed.` : ''}`;
  return [
    renderSection('Quarantine', [
      html`<p class="note">${formatNumber(count)} ${count === 1 ? 'was' : 'were'} quarantined ${since}, unchanged, under .oddslake/quarantine.${cutText}</p>\n`,
      renderCards(renderHtmlTable('Quarantine by reason', columns, reasons)),
    ]),
  ];
}
