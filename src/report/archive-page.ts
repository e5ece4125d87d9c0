import { many } from '../core/format-quantity.ts';
import { grouped } from '../core/format-thousands.ts';
import { type Html, html } from '../core/html.ts';
import { isoUtc } from '../core/time.ts';
import type { Gathered } from '../reading/report/report-data.ts';
import { coverageSection, gapsSection, quarantineSection, symbolsSection } from './archive-coverage.ts';
import { conflictsSection, growthSection, ticksSection } from './archive-days.ts';
import { type Growth, growthOf } from './archive-growth.ts';
import { arranged } from './archive-parts.ts';
import { rechecksSection } from './archive-rechecks.ts';
import { driftSection, lagSection, requestsSection, runsSection } from './archive-runs.ts';
import { archiveStyle } from './archive-style.ts';
import { type Verdict, verdictOf } from './health-status.ts';
import { figures, reportPage } from './page-parts.ts';
import { markOf } from './run-marks.ts';
import { lengthOf, momentOf, sizeOf } from './time-spans.ts';

export interface ArchiveReport {
  readonly text: string;
  readonly verdict: Verdict;
}

/** The report on an archive, as one page of HTML that stands by itself. The same facts give the same text. */
export function archiveReport(gathered: Gathered, version: string): ArchiveReport {
  const { nowMs, shown, status, days, space } = gathered;
  const growth = growthOf(days, space, { nowMs, shownFrom: shown.from, shownTo: shown.to });
  const verdict = verdictOf(gathered, growth);
  const name = status.upstream || 'no upstream yet';
  const body = [
    html`<header><h1>${name}</h1>
<p class="note">Archive ${status.archive}, generation ${grouped(status.generation)}. Written ${isoUtc(nowMs).slice(0, 16).replace('T', ' ')} UTC.</p></header>
`,
    panel(verdict),
    overview(gathered, growth),
    ...arranged([
      ...runsSection(gathered),
      ...ticksSection(gathered),
      ...coverageSection(gathered),
      ...gapsSection(gathered),
      ...rechecksSection(gathered),
      ...lagSection(gathered),
      ...conflictsSection(gathered),
      ...quarantineSection(gathered),
      ...driftSection(gathered),
      ...symbolsSection(gathered),
      ...requestsSection(gathered),
      ...growthSection(gathered, growth),
    ]),
  ];
  return { text: reportPage(`${name}: oddslake report`, body, version, archiveStyle), verdict };
}

const signs = { well: '✓', look: '!', act: '✕', empty: '○' } as const;
const findingSigns = { act: '✕', look: '!', note: '·' } as const;
const findingWords = { act: 'has to be done', look: 'worth a look', note: 'good to know' } as const;

/** Whether all is well, why not, and what to do. */
function panel({ state, headline, nextAction, findings }: Verdict): Html {
  const told = findings.map(
    ({ severity, text }) =>
      html`<li class="${severity}"><span class="sign" role="img" aria-label="${findingWords[severity]}">${findingSigns[severity]}</span>${text}</li>
`,
  );
  const next = nextAction ?? (state === 'well' ? 'Nothing has to be done.' : null);
  return html`<div class="verdict ${state}">
<p class="headline"><span class="sign" aria-hidden="true">${signs[state]}</span>${headline}</p>
${next === null ? [] : [html`<p class="next">${nextAction === null ? '' : 'Next: '}${next}</p>\n`]}${
  told.length === 0 ? [] : [html`<ul>\n${told}</ul>\n`]
}</div>
`;
}

function overview({ nowMs, status, runs, gaps, space }: Gathered, growth: Growth): Html {
  const last = runs.at(-1);
  const { symbols, published, reached, lag_ms } = status;
  const { days: judged } = status;
  const { fullAt, bytesPerDay } = growth;
  return figures([
    last === undefined
      ? { label: 'Last run', value: 'none' }
      : {
          label: 'Last run',
          value: `${markOf(last).sign} ${markOf(last).word}`,
          note: `${last.job}, ${lengthOf(nowMs - last.startedAt)} ago`,
        },
    {
      label: 'Behind',
      value: lag_ms === null ? '–' : lengthOf(lag_ms),
      note: reached === null ? 'no live symbol' : `all is covered up to ${momentOf(reached)}`,
    },
    {
      label: 'Ticks',
      value: grouped(published.ticks),
      note:
        status.journaled_ticks === 0 ? 'published' : `published; ${grouped(status.journaled_ticks)} wait for a publish`,
    },
    {
      label: 'Live symbols',
      value: grouped(symbols.live),
      note: `of ${grouped(symbols.known)} known${symbols.suspended === 0 ? '' : `, ${grouped(symbols.suspended)} suspended`}`,
    },
    {
      label: 'Complete days',
      value: `${grouped(status.verdict.days.complete)} of ${grouped(Object.values(status.verdict.days).reduce((sum, count) => sum + count, 0))}`,
      note: judged.first === null ? 'no day is over yet' : `${judged.first} to ${judged.last}`,
    },
    {
      label: 'Gaps',
      value: grouped(gaps.windows),
      note:
        gaps.windows === 0
          ? status.verdict.provisional === 0
            ? 'no window is missing'
            : `${many(status.verdict.provisional, 'window')} provisional`
          : `of ${many(gaps.symbols, 'symbol')}, ${lengthOf(gaps.missingMs)} in all`,
    },
    {
      label: 'On disk',
      value: sizeOf(published.bytes),
      note: bytesPerDay === null ? 'too early to tell the growth' : `${sizeOf(Math.max(0, bytesPerDay))} more a day`,
    },
    {
      label: 'Disk is full',
      value: fullText(fullAt, nowMs, space !== null && bytesPerDay !== null),
      note:
        space === null ? 'free space is not known' : `${sizeOf(space.freeBytes)} of ${sizeOf(space.totalBytes)} free`,
    },
  ]);
}

function fullText(fullAt: number | null, nowMs: number, isKnown: boolean): string {
  if (fullAt !== null) return `in ${lengthOf(fullAt - nowMs)}`;
  return isKnown ? 'not in 10 years' : '–';
}
