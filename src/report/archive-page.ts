import type { Judgement } from '../archive/read/judge.ts';
import { formatBytes, formatCount, formatDuration, formatNumber } from '../base/format-quantity.ts';
import { type Html, html } from '../base/html.ts';
import { formatMinute } from '../base/time.ts';
import { countCompleteDays } from '../contract/completeness-counts.ts';
import { listOtherFindings } from '../contract/finding.ts';
import { renderCoverageSection, renderGapsSection, renderQuarantineSection } from './archive-coverage.ts';
import { renderConflictsSection, renderGrowthSection, renderTicksSection } from './archive-days.ts';
import { renderLatenessSection, renderRechecksSection } from './archive-rechecks.ts';
import { renderLagSection, renderRequestsSection, renderRunsSection } from './archive-runs.ts';
import { renderProblemSymbolsSection, renderSymbolsSection, symbolsStyle } from './archive-symbols.ts';
import type { ReportData } from './data/report-data.ts';
import { type ArchiveGrowth, computeGrowth, toRunMark } from './growth-and-runs.ts';
import {
  arrangeParts,
  type HtmlColumn,
  type ReportPart,
  renderCards,
  renderHtmlTable,
  renderKeyFigures,
  renderReportPage,
  renderSection,
  renderWords,
} from './page-parts.ts';
import { heatColours } from './time-plots.ts';

/**
 * Renders the report on an archive as one self-contained HTML page. The same data gives the same text.
 * @param complete completes a command for a reader who is elsewhere
 */
export function renderArchiveReport(data: ReportData, version: string, complete: (command: string) => string): string {
  const { nowMs, shown, status, days, space } = data;
  const growth = computeGrowth(days, space, { nowMs, shownFrom: shown.from, shownTo: shown.to });
  const isEmpty = data.judgement.findings.some(({ kind }) => kind === 'empty');
  const name = getArchiveName(status.archive);
  const body = [
    html`<header><h1>${name}</h1>
</header>
`,
    renderVerdictPanel(data.judgement, complete),
    html`<p class="note origin">${describeOrigin(data)}${linkCatalogue(data.rules.catalogueUrl)}</p>\n`,
    // An empty archive has no figures.
    ...(isEmpty ? [] : [renderOverview(data, growth), ...renderSections(data, growth)]),
  ];
  return renderReportPage(`${name}: oddslake report`, body, version, archiveStyle + symbolsStyle);
}

/** The last part of an archive's path or address: `archive` of `/data/archive`. */
export const getArchiveName = (path: string): string => /[^/\\]+(?=[/\\]*$)/.exec(path)?.[0] ?? path;

/** Where the archive is, what it was collected from, and when the report was written. */
function describeOrigin({ status, nowMs }: ReportData): string {
  const sources = status.sources?.map((source) => source.name).join(', ');
  const from = sources || status.upstream;
  const verb = status.generation === 0 ? 'Collects' : 'Collected';
  return `${from ? `${verb} from ${from}. ` : ''}Archive ${status.archive}, generation ${formatNumber(status.generation)}. Written ${formatMinute(nowMs)} UTC.`;
}

/** All sections, those that need attention first. */
const renderSections = (data: ReportData, growth: ArchiveGrowth): Html[] =>
  arrangeParts([
    ...renderDamageSection(data),
    ...renderProblemSymbolsSection(data),
    ...renderGapsSection(data),
    ...renderCoverageSection(data),
    ...renderTicksSection(data),
    ...renderSymbolsSection(data),
    ...renderLagSection(data),
    ...renderLatenessSection(data),
    ...renderRechecksSection(data),
    ...renderConflictsSection(data),
    ...renderQuarantineSection(data),
    ...renderRunsSection(data),
    ...renderRequestsSection(data),
    ...renderGrowthSection(data, growth),
  ]);

const linkCatalogue = (url: string | null): readonly Html[] =>
  url === null ? [] : [html` <a class="nowrap" href="${url}" rel="noreferrer">Open the catalogue</a>`];

const signs = { ok: '✓', warning: '!', action_required: '✕', info: '·' } as const;

/** The verdict with its command, and the other findings. */
function renderVerdictPanel({ verdict, findings }: Judgement, complete: (command: string) => string): Html {
  const renderCommand = (command: string | null): Html | string =>
    command === null ? '' : html`<code>${complete(command)}</code>`;
  const items = listOtherFindings(findings).map(
    ({ severity, message, advice, command }) =>
      html`<li class="${severity}"><span class="sign" role="img" aria-label="${severity.replace('_', ' ')}">${signs[severity]}</span>${renderWords(advice === undefined ? message : `${message}; ${advice}`)} ${renderCommand(command)}</li>
`,
  );
  return html`<div class="health ${verdict.state}">
<p class="headline"><span class="sign" aria-hidden="true">${signs[verdict.state]}</span>${renderWords(verdict.text)}</p>
${
  verdict.command === null
    ? []
    : [
        html`<p class="next">Next: ${renderCommand(verdict.command)}</p>
`,
      ]
}${
  items.length === 0
    ? []
    : [
        html`<ul>
${items}</ul>
`,
      ]
}</div>
`;
}

function renderOverview({ nowMs, status, runs, gaps, space }: ReportData, growth: ArchiveGrowth): Html {
  const last = runs.at(-1);
  const { symbols, published, reached, lag_ms } = status;
  const { days: finishedDays } = status;
  const { provisional } = status.completeness.days;
  const { complete, total } = countCompleteDays(status.completeness);
  const { fullAt, bytesPerDay } = growth;
  return renderKeyFigures([
    last === undefined
      ? { label: 'Last run', value: 'none' }
      : {
          label: 'Last run',
          value: `${toRunMark(last).sign} ${toRunMark(last).word}`,
          note: `${last.job}, ${formatDuration(nowMs - last.startedAt)} ago`,
        },
    {
      label: 'Lag',
      value: lag_ms === null ? '–' : formatDuration(lag_ms),
      note: reached === null ? 'no live symbols' : `covered up to ${formatMinute(reached)}`,
    },
    {
      label: 'Ticks',
      value: formatNumber(published.ticks),
      note: status.journaled_ticks === 0 ? 'published' : `published; ${formatNumber(status.journaled_ticks)} journaled`,
    },
    {
      label: 'Live symbols',
      value: formatNumber(symbols.live),
      note: [
        `of ${formatNumber(symbols.known)} known`,
        ...(
          [
            [symbols.suspended, 'suspended'],
            [symbols.excluded ?? 0, 'excluded'],
            [symbols.forgotten ?? 0, 'forgotten'],
          ] as const
        ).flatMap(([count, state]) => (count === 0 ? [] : [`${formatNumber(count)} ${state}`])),
      ].join(', '),
    },
    {
      label: 'Complete days',
      value: `${formatNumber(complete)} of ${formatNumber(total)}`,
      note:
        finishedDays.first === null
          ? 'no finished day yet'
          : `${provisional === 0 ? '' : `${formatNumber(provisional)} provisional; `}${finishedDays.first} to ${finishedDays.last}`,
    },
    {
      label: 'Gaps',
      value: formatNumber(gaps.windows),
      note:
        gaps.windows === 0
          ? status.completeness.inferred_windows === 0
            ? 'every window is covered'
            : `${formatCount(status.completeness.inferred_windows, 'window')} provisional`
          : `of ${formatCount(gaps.symbols, 'symbol')}, ${formatDuration(gaps.missingMs)} in total`,
    },
    {
      label: 'Published',
      value: formatBytes(published.bytes),
      note: bytesPerDay === null ? 'growth not known yet' : `grows by ${formatBytes(bytesPerDay)} per day`,
    },
    {
      label: 'Disk full',
      value: formatDiskFull(fullAt, nowMs, space !== null && bytesPerDay !== null),
      note:
        space === null
          ? 'free space unknown'
          : `${formatBytes(space.freeBytes)} of ${formatBytes(space.totalBytes)} free`,
    },
  ]);
}

function formatDiskFull(fullAt: number | null, nowMs: number, isKnown: boolean): string {
  if (fullAt !== null) return `in ${formatDuration(fullAt - nowMs)}`;
  return isKnown ? 'not in 10 years' : '–';
}

/** Style of the archive report, added to the style of every page. */
const archiveStyle = `
.origin { margin-top: 10px; }
.origin a { color: var(--accent); }
.health { margin-top: 14px; padding: 16px 20px; border-radius: 10px; border: 1px solid var(--line); background: var(--panel); }
.health.ok { background: var(--good-soft); border-color: transparent; }
.health.warning { background: var(--warn); border-color: transparent; }
.health.action_required { background: var(--bad-soft); border-color: transparent; }
.headline { font-size: 20px; font-weight: 600; line-height: 1.3; }
.headline .sign { display: inline-block; width: 1.3em; }
.ok .headline .sign { color: var(--good); }
.warning .headline .sign { color: var(--gap); }
.action_required .headline .sign { color: var(--bad); }
.next { margin-top: 4px; font-weight: 600; }
.ok .next { font-weight: 400; }
.health ul { margin: 10px 0 0; padding: 0; list-style: none; }
.health li { position: relative; margin-top: 5px; padding-left: 22px; }
.health li .sign { position: absolute; left: 2px; font-weight: 600; }
.health li.action_required .sign { color: var(--bad); }
figure + figure, .figures + figure { margin-top: 22px; }
.strip { display: flex; flex-wrap: wrap; gap: 3px; margin: 8px 0 0; padding: 0; list-style: none; }
.strip li, .mark {
  display: inline-flex; align-items: center; justify-content: center; position: relative;
  width: 24px; height: 28px; border-radius: 4px; font-size: 13px; font-weight: 700; line-height: 1;
}
.mark { width: 18px; height: 18px; font-size: 11px; }
.strip .good, .mark.good { background: var(--good-soft); color: var(--good); }
.strip .fair, .mark.fair { background: var(--warn); color: var(--text); box-shadow: inset 0 0 0 1px var(--gap); }
.strip .poor, .mark.poor { background: var(--level-0); color: var(--text); box-shadow: inset 0 0 0 1px var(--gap); }
.strip .bad, .mark.bad { background: var(--bad); color: var(--paper); }
.strip .idle, .mark.idle { background: var(--panel); color: var(--muted); box-shadow: inset 0 0 0 1px var(--line); }
.unseen { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); white-space: nowrap; }
.keys { display: flex; flex-wrap: wrap; gap: 4px 18px; margin-top: 10px; color: var(--muted); font-size: 13px; }
.key { display: inline-flex; align-items: center; gap: 6px; }
.swatch { width: 14px; height: 14px; border-radius: 3px; }
.only-narrow { display: none; }
.runs { margin-top: 14px; }
.note + .scroll, .note + .cards, .note + .busiest { margin-top: 8px; }
.blank { border: 1px solid var(--line); }
.swatch.damaged { background: var(--bad); }
${heatColours.map((level) => `.level-${level} { background: var(--level-${level}); }`).join('\n')}
details table { margin-top: 8px; }
@media (max-width: 640px) {
  .health { padding: 12px 14px; }
  .figures dd { font-size: 17px; }
  .only-narrow { display: inline-flex; }
  /* A run is one line with time, job, outcome, duration and ticks, and its message below. */
  .runs thead { display: none; }
  .runs tbody, .runs table { display: block; }
  .runs tr { display: flex; flex-wrap: wrap; padding: 4px 0; border-bottom: 1px solid var(--line); }
  .runs td { padding: 1px 12px 1px 0; border: 0; }
  .runs td:nth-child(n + 6):not(:last-child), .runs td:empty { display: none; }
  .runs td:nth-child(5)::after { content: " new ticks"; }
  .runs td:last-child { flex-basis: 100%; }
  .strip li { width: 21px; height: 26px; }
}
@media print {
  .strip li, .mark, .swatch, .health { print-color-adjust: exact; -webkit-print-color-adjust: exact; }
}
`;

type DamagedFile = ReportData['status']['damaged'][number];

/** Damaged files and when the damage was found, and since when every other published byte has been verified. */
export function renderDamageSection({ status }: ReportData): ReportPart[] {
  const { damaged, damaged_count: count, verified_through: verifiedThrough } = status;
  const verifiedText =
    verifiedThrough === null
      ? 'Not all published bytes have been verified yet.'
      : `Every ${count === 0 ? '' : 'other '}published byte has been verified since ${formatMinute(verifiedThrough)}.`;
  if (count === 0) return [{ name: 'Damage', text: `No known damage. ${verifiedText}` }];
  const columns: HtmlColumn<DamagedFile>[] = [
    { name: 'File', kind: 'text', format: ({ path }) => path },
    { name: 'Damage', kind: 'left', format: ({ kind }) => kind, isLoss: () => true },
    { name: 'Found', kind: 'left', format: ({ found_at }) => formatMinute(found_at) },
  ];
  const cutText = count > damaged.length ? ` The first ${formatNumber(damaged.length)} are listed.` : '';
  return [
    renderSection(
      'Damage',
      [
        html`<p class="note">${formatCount(count, 'file')} missing or not as published.${cutText} ${verifiedText} To repair: oddslake verify --repair</p>\n`,
        renderCards(renderHtmlTable('Damaged files', columns, damaged)),
      ],
      true,
    ),
  ];
}
