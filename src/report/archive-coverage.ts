import { formatCount, formatThousands } from '../base/format-quantity.ts';
import { type Html, html } from '../base/html.ts';
import { formatDay } from '../base/time.ts';
import type { CoverageFacts, GapGroup, HeatmapRow } from './data/coverage-facts.ts';
import type { QuarantineReason } from './data/quarantine.ts';
import type { NamedCadence, ReportData, SilentSymbol } from './data/report-data.ts';
import {
  type HtmlColumn,
  type ReportPart,
  renderFacts,
  renderFigure,
  renderHtmlTable,
  renderSection,
} from './page-parts.ts';
import { type HeatLine, heatColours, heatLevels, renderCoveragePlot } from './time-plots.ts';
import { formatLength, formatMinute, shortenText } from './time-spans.ts';

const groupWords = { category: 'category', source: 'venue', prefix: 'the beginning of the ticker' } as const;
/** Steps that are one on a narrow page. */
const hoursPerNarrowStep = 6;
/** Of a text that somebody else wrote. */
const lettersMax = 300;

/** Which share of the lives of symbols is covered, by group and hour. */
export function renderCoverageSection({ coverage }: ReportData): ReportPart[] {
  const { rows, groupedBy, stepMs, from, to } = coverage;
  if (rows.length === 0)
    return [{ name: 'Coverage', text: `No symbol lived from ${formatDay(from)} to ${formatDay(to - 1)}.` }];
  const said = `Share of the lives of symbols that is covered, hour by hour, by ${groupWords[groupedBy]}`;
  const lived = rows.reduce((sum, { lifetimeMs }) => sum + sumValues(lifetimeMs), 0);
  const covered = rows.reduce((sum, { coveredMs }) => sum + sumValues(coveredMs), 0);
  return [
    renderSection('Coverage', [
      renderFigure(
        `${said}. A quiet market is covered: somebody asked, and there was nothing.`,
        renderCoveragePlot(
          `${said}: ${formatCoveragePercent(covered / lived)} from ${formatMinute(from)} to ${formatMinute(to)}`,
          coverage,
          {
            wide: { lines: toHeatLines(coverage, 1), stepMs },
            narrow: { lines: toHeatLines(coverage, hoursPerNarrowStep), stepMs: hoursPerNarrowStep * stepMs },
          },
        ),
      ),
      html`<p class="keys">${renderLevelKeys()}<span class="key only-narrow">six hours a step</span></p>\n`,
      html`<details><summary>The groups in numbers</summary>${renderGroupsTable(rows)}</details>\n`,
    ]),
  ];
}

const sumValues = (values: readonly number[]): number => values.reduce((sum, value) => sum + value, 0);

/** Never 100 % where anything is missing. */
const formatCoveragePercent = (share: number): string => `${Math.floor(share * 1000) / 10} %`;

const toHeatLines = ({ rows }: CoverageFacts, steps: number): HeatLine[] =>
  rows.map(({ group, lifetimeMs, coveredMs }) => {
    const [lived, covered] = [sumSteps(lifetimeMs, steps), sumSteps(coveredMs, steps)];
    return { name: group, shares: lived.map((ms, i) => (ms === 0 ? null : covered[i]! / ms)) };
  });

const sumSteps = (values: readonly number[], steps: number): number[] =>
  Array.from({ length: Math.ceil(values.length / steps) }, (_, i) =>
    sumValues(values.slice(i * steps, (i + 1) * steps)),
  );

const levelWords = ['nothing', 'less than half', 'half or more', '90 % or more', 'all'] as const;

const renderLevelKeys = (): Html[] =>
  heatLevels.map(
    (_, level) =>
      html`<span class="key"><span class="swatch level-${heatColours[level]!}" aria-hidden="true"></span>${levelWords[level]!}</span>\n`,
  );

function renderGroupsTable(rows: readonly HeatmapRow[]): Html {
  const worst = ({ lifetimeMs, coveredMs }: HeatmapRow): number =>
    lifetimeMs.reduce((least, ms, i) => (ms === 0 ? least : Math.min(least, coveredMs[i]! / ms)), 1);
  const columns: HtmlColumn<HeatmapRow>[] = [
    { name: 'Group', kind: 'text', format: ({ group }) => group },
    { name: 'Symbols', format: ({ symbols }) => formatThousands(symbols) },
    {
      name: 'Covered',
      format: ({ lifetimeMs, coveredMs }) => formatCoveragePercent(sumValues(coveredMs) / sumValues(lifetimeMs)),
    },
    { name: 'In the worst hour', format: (row) => formatCoveragePercent(worst(row)), isLoss: (row) => worst(row) < 1 },
    {
      name: 'Missing',
      format: ({ lifetimeMs, coveredMs }) => formatLength(sumValues(lifetimeMs) - sumValues(coveredMs)),
    },
  ];
  return renderHtmlTable('Coverage by group', columns, rows);
}

/** What of the lives of symbols nobody has answered for. */
export function renderGapsSection({ gaps }: ReportData): ReportPart[] {
  const { windows, symbols, missingMs, greatest, groups, oldest } = gaps;
  if (windows === 0 || oldest === null)
    return [
      { name: 'Gaps', text: 'Nothing is missing between the first and the last moment that the archive knows of.' },
    ];
  const columns: HtmlColumn<GapGroup>[] = [
    { name: 'From', kind: 'left', format: ({ from }) => formatMinute(from) },
    { name: 'To', kind: 'left', format: ({ to }) => formatMinute(to) },
    { name: 'Length', format: ({ from, to }) => formatLength(to - from) },
    { name: 'Symbols', format: ({ count }) => formatThousands(count) },
    { name: 'Such as', kind: 'text', format: (group) => group.symbols.join(', ') },
    { name: 'Why', kind: 'left', format: ({ reason }) => (reason === 'lost' ? 'ticks were lost' : reason) },
  ];
  const cut =
    groups > greatest.length ? ` The greatest ${greatest.length} of ${formatThousands(groups)} are listed.` : '';
  const together = groups < windows ? ' Gaps of several symbols at one time stand together.' : '';
  return [
    renderSection(
      'Gaps',
      [
        html`<p class="note">${formatThousands(windows)} in the lives of ${formatCount(symbols, 'symbol')}, ${formatLength(missingMs)} in all. The oldest begins ${formatMinute(oldest.from)}.${together}${cut} All of them: oddslake gaps</p>\n`,
        renderHtmlTable('Gaps', columns, greatest),
      ],
      true,
    ),
  ];
}

/** Input that could not be used, by why. */
export function renderQuarantineSection({ quarantine, shown }: ReportData): ReportPart[] {
  const { count, reasons, reasonsCount, isTruncated } = quarantine;
  const since = `since ${formatDay(shown.from)}`;
  if (count === 0) return [{ name: 'Quarantine', text: `Nothing was set aside ${since}.` }];
  const columns: HtmlColumn<QuarantineReason>[] = [
    { name: 'Reason', kind: 'text', format: ({ reason }) => shortenText(reason, lettersMax) },
    { name: 'Count', format: (reason) => formatThousands(reason.count) },
    {
      name: 'Last',
      kind: 'left',
      format: ({ lastAt }) => (lastAt === null ? 'not yet published' : formatMinute(lastAt)),
    },
    { name: 'Such as', kind: 'text', format: ({ symbol }) => symbol ?? '' },
  ];
  const cut = `${isTruncated ? ' Only the newest of them are counted.' : ''}${reasonsCount > reasons.length ? ` The ${reasons.length} most frequent of ${formatThousands(reasonsCount)} reasons are listed.` : ''}`;
  return [
    renderSection('Quarantine', [
      html`<p class="note">${formatThousands(count)} ${count === 1 ? 'was' : 'were'} set aside as received ${since}, under .oddslake/quarantine.${cut}</p>\n`,
      renderHtmlTable('Quarantine by reason', columns, reasons),
    ]),
  ];
}

/** Which symbols tick most, and which have stopped to. */
export function renderSymbolsSection({ cadence }: ReportData): ReportPart[] {
  const { busiest, silent, days, error } = cadence;
  if (error !== null)
    return [renderSection('Symbols', [html`<p class="warning">The ticks could not be read: ${error}</p>\n`])];
  const pause = ({ longestPauseMs }: NamedCadence): string => formatLength(Math.max(1, longestPauseMs) * 3_600_000);
  const named = <Row extends NamedCadence>(rows: readonly Row[]): HtmlColumn<Row>[] => [
    { name: 'Symbol', kind: 'text', format: ({ symbol }) => symbol },
    ...(rows.every(({ question }) => question === null)
      ? []
      : [
          {
            name: 'Question',
            kind: 'text' as const,
            format: ({ question }: Row) => shortenText(question ?? '', lettersMax),
          },
        ]),
  ];
  const silentColumns: HtmlColumn<SilentSymbol>[] = [
    ...named(silent),
    { name: 'Last tick', kind: 'left', format: ({ lastTick }) => formatMinute(lastTick) },
    { name: 'Quiet for', format: ({ quietMs }) => formatLength(quietMs) },
    { name: 'Never before for more than', format: pause },
  ];
  const busyColumns: HtmlColumn<NamedCadence>[] = [
    ...named(busiest),
    { name: 'Ticks', format: ({ ticks }) => formatThousands(ticks) },
    { name: 'Hours with ticks', format: ({ hours }) => formatThousands(hours) },
  ];
  const quiet: ReportPart =
    silent.length === 0
      ? { name: 'Newly silent symbols', text: 'No live symbol that ticked regularly has stopped to.' }
      : renderSection(
          'Newly silent symbols',
          [
            html`<p class="note">Live symbols that are covered, ticked in many hours of the last ${days} days, and have been quiet for more than twice their longest pause:</p>\n`,
            renderHtmlTable('Newly silent symbols', silentColumns, silent),
          ],
          true,
        );
  return [
    quiet,
    ...(busiest.length === 0
      ? []
      : [
          renderSection(
            'Busiest symbols',
            [
              html`<p class="note">By ticks in the last ${days} days.</p>\n`,
              renderHtmlTable('Busiest symbols', busyColumns, busiest),
            ],
            true,
          ),
        ]),
  ];
}

/** What rechecks say of how late ticks come, and of what is expected to be missing. */
export function renderRechecksSection({ rechecks, status }: ReportData): ReportPart[] {
  const { windows, nights, contradicted, seen, found, latenessMs, overlapMs, isCaught } = rechecks;
  const lateness =
    latenessMs === 0
      ? `No tick was seen to come late; polls read ${formatLength(overlapMs)} before their cursor again.`
      : `Ticks came up to ${formatLength(latenessMs)} late in the last 30 days at least; polls read ${formatLength(overlapMs)} before their cursor again.`;
  if (windows === 0) return [{ name: 'Rechecks', text: `No settled window has been read again. ${lateness}` }];
  const sample = `${formatCount(windows, 'settled window')} in ${formatCount(nights, 'night')}, with other bounds than before: ${
    contradicted === 0 ? 'none' : formatThousands(contradicted)
  } brought ticks that the archive had not (${formatThousands(found)} of ${formatCount(seen, 'tick')}).`;
  const missing = formatMissedTicks(rechecks, status.published.ticks);
  if (contradicted === 0 && !isCaught) return [{ name: 'Rechecks', text: `${sample} ${missing} ${lateness}` }];
  const caught =
    'The service leaves ticks out of wide windows. What was fetched before that was seen counts as inferred until it is read again, in narrower windows.';
  return [
    renderSection('Rechecks', [
      renderFacts([
        ['Read again', sample],
        ['Expected to be missing', missing],
        ['Lateness', lateness],
        ...(isCaught ? ([['Service', caught]] as const) : []),
      ]),
      html`<p class="note">What a recheck contradicts is withdrawn and fetched again.</p>\n`,
    ]),
  ];
}

const formatMissedPercent = (share: number): string => `${(100 * share).toPrecision(2)} %`;

/** An estimate from a sample, with what the sample leaves open. */
function formatMissedTicks(
  { windows, missingShare, contradictedShareMax }: ReportData['rechecks'],
  ticks: number,
): string {
  const open = `Of windows like these, up to ${formatMissedPercent(contradictedShareMax)} may lack something (95 % sure, from ${formatCount(windows, 'window')}).`;
  if (missingShare === null) return `Too few windows to say how much is missing elsewhere. ${open}`;
  if (missingShare === 0) return `Nothing is expected to be missing elsewhere. ${open}`;
  return `About ${formatCount(Math.round(missingShare * ticks), 'tick')} of ${formatThousands(ticks)}, if the rest is like the sample. ${open}`;
}
