import { formatCount } from '../core/format-quantity.ts';
import { formatThousands } from '../core/format-thousands.ts';
import { type Html, html } from '../core/html.ts';
import { formatIsoUtc } from '../core/time.ts';
import type { ReportData } from '../reading/report/report-data.ts';
import {
  renderCoverageSection,
  renderGapsSection,
  renderQuarantineSection,
  renderSymbolsSection,
} from './archive-coverage.ts';
import { renderConflictsSection, renderGrowthSection, renderTicksSection } from './archive-days.ts';
import { type ArchiveGrowth, computeGrowth } from './archive-growth.ts';
import { arrangeParts } from './archive-parts.ts';
import { renderRechecksSection } from './archive-rechecks.ts';
import { renderDriftSection, renderLagSection, renderRequestsSection, renderRunsSection } from './archive-runs.ts';
import { archiveStyle } from './archive-style.ts';
import { type ArchiveHealth, assessHealth } from './health-status.ts';
import { renderKeyFigures, renderReportPage } from './page-parts.ts';
import { toRunMark } from './run-marks.ts';
import { formatBytes, formatLength, formatMinute } from './time-spans.ts';

export interface ArchiveReport {
  readonly text: string;
  readonly health: ArchiveHealth;
}

/** The report on an archive, as one page of HTML that stands by itself. The same facts give the same text. */
export function renderArchiveReport(gathered: ReportData, version: string): ArchiveReport {
  const { nowMs, shown, status, days, space } = gathered;
  const growth = computeGrowth(days, space, { nowMs, shownFrom: shown.from, shownTo: shown.to });
  const verdict = assessHealth(gathered, growth);
  const name = status.upstream || 'no upstream yet';
  const body = [
    html`<header><h1>${name}</h1>
<p class="note">Archive ${status.archive}, generation ${formatThousands(status.generation)}. Written ${formatIsoUtc(nowMs).slice(0, 16).replace('T', ' ')} UTC.</p></header>
`,
    renderHealthPanel(verdict),
    renderOverview(gathered, growth),
    ...arrangeParts([
      ...renderRunsSection(gathered),
      ...renderTicksSection(gathered),
      ...renderCoverageSection(gathered),
      ...renderGapsSection(gathered),
      ...renderRechecksSection(gathered),
      ...renderLagSection(gathered),
      ...renderConflictsSection(gathered),
      ...renderQuarantineSection(gathered),
      ...renderDriftSection(gathered),
      ...renderSymbolsSection(gathered),
      ...renderRequestsSection(gathered),
      ...renderGrowthSection(gathered, growth),
    ]),
  ];
  return { text: renderReportPage(`${name}: oddslake report`, body, version, archiveStyle), health: verdict };
}

const stateSigns = { well: '✓', look: '!', act: '✕', empty: '○' } as const;
const findingSigns = { act: '✕', look: '!', note: '·' } as const;
const findingWords = { act: 'has to be done', look: 'worth a look', note: 'good to know' } as const;

/** Whether all is well, why not, and what to do. */
function renderHealthPanel({ state, headline, nextAction, findings }: ArchiveHealth): Html {
  const told = findings.map(
    ({ severity, text }) =>
      html`<li class="${severity}"><span class="sign" role="img" aria-label="${findingWords[severity]}">${findingSigns[severity]}</span>${text}</li>
`,
  );
  const next = nextAction ?? (state === 'well' ? 'Nothing has to be done.' : null);
  return html`<div class="verdict ${state}">
<p class="headline"><span class="sign" aria-hidden="true">${stateSigns[state]}</span>${headline}</p>
${next === null ? [] : [html`<p class="next">${nextAction === null ? '' : 'Next: '}${next}</p>\n`]}${
  told.length === 0 ? [] : [html`<ul>\n${told}</ul>\n`]
}</div>
`;
}

function renderOverview({ nowMs, status, runs, gaps, space }: ReportData, growth: ArchiveGrowth): Html {
  const last = runs.at(-1);
  const { symbols, published, reached, lag_ms } = status;
  const { days: judged } = status;
  const { fullAt, bytesPerDay } = growth;
  return renderKeyFigures([
    last === undefined
      ? { label: 'Last run', value: 'none' }
      : {
          label: 'Last run',
          value: `${toRunMark(last).sign} ${toRunMark(last).word}`,
          note: `${last.job}, ${formatLength(nowMs - last.startedAt)} ago`,
        },
    {
      label: 'Behind',
      value: lag_ms === null ? '–' : formatLength(lag_ms),
      note: reached === null ? 'no live symbol' : `all is covered up to ${formatMinute(reached)}`,
    },
    {
      label: 'Ticks',
      value: formatThousands(published.ticks),
      note:
        status.journaled_ticks === 0
          ? 'published'
          : `published; ${formatThousands(status.journaled_ticks)} wait for a publish`,
    },
    {
      label: 'Live symbols',
      value: formatThousands(symbols.live),
      note: `of ${formatThousands(symbols.known)} known${symbols.suspended === 0 ? '' : `, ${formatThousands(symbols.suspended)} suspended`}`,
    },
    {
      label: 'Complete days',
      value: `${formatThousands(status.verdict.days.complete)} of ${formatThousands(Object.values(status.verdict.days).reduce((sum, count) => sum + count, 0))}`,
      note: judged.first === null ? 'no day is over yet' : `${judged.first} to ${judged.last}`,
    },
    {
      label: 'Gaps',
      value: formatThousands(gaps.windows),
      note:
        gaps.windows === 0
          ? status.verdict.provisional === 0
            ? 'no window is missing'
            : `${formatCount(status.verdict.provisional, 'window')} provisional`
          : `of ${formatCount(gaps.symbols, 'symbol')}, ${formatLength(gaps.missingMs)} in all`,
    },
    {
      label: 'On disk',
      value: formatBytes(published.bytes),
      note:
        bytesPerDay === null ? 'too early to tell the growth' : `${formatBytes(Math.max(0, bytesPerDay))} more a day`,
    },
    {
      label: 'Disk is full',
      value: formatDiskFull(fullAt, nowMs, space !== null && bytesPerDay !== null),
      note:
        space === null
          ? 'free space is not known'
          : `${formatBytes(space.freeBytes)} of ${formatBytes(space.totalBytes)} free`,
    },
  ]);
}

function formatDiskFull(fullAt: number | null, nowMs: number, isKnown: boolean): string {
  if (fullAt !== null) return `in ${formatLength(fullAt - nowMs)}`;
  return isKnown ? 'not in 10 years' : '–';
}
