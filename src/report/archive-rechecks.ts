import { formatCount, formatDuration, formatNumber } from '../base/format-quantity.ts';
import { html } from '../base/html.ts';
import { formatDay } from '../base/time.ts';
import { dayMs } from '../base/window.ts';
import { chartPointsMin } from './archive-days.ts';
import type { ReportData } from './data/report-data.ts';
import { type ReportPart, renderFacts, renderFigure, renderSection } from './page-parts.ts';
import { chooseTimeUnit, renderDayBars } from './time-plots.ts';

/** The measured lateness of ticks, by day. */
export function renderLatenessSection({ rechecks }: ReportData): ReportPart[] {
  const { lateness, latenessMs, overlapMs } = rechecks;
  const overlapText = `Polls request the last ${formatDuration(overlapMs)} again.`;
  if (latenessMs === 0)
    return [{ name: 'Lateness', text: `No late ticks were measured in the last 30 days. ${overlapText}` }];
  const maximumText = `Late ticks became visible up to ${formatDuration(latenessMs)} after their time, or later`;
  if (lateness.length < chartPointsMin) {
    const days = lateness.map(({ day, ms }) => `${formatDuration(ms)} on ${formatDay(day)}`).join(', ');
    return [{ name: 'Lateness', text: `${maximumText}${days === '' ? '' : `: ${days}`}. ${overlapText}` }];
  }
  const [unit, unitMs] = chooseTimeUnit(latenessMs);
  const caption = `Greatest measured lateness per day, in ${unit}`;
  return [
    renderSection('Lateness', [
      renderFigure(
        `${caption}. ${maximumText}. ${overlapText}`,
        renderDayBars({
          label: `${caption}: maximum ${formatDuration(latenessMs)}`,
          yLabel: unit,
          span: { from: lateness[0]!.day, to: lateness.at(-1)!.day + dayMs },
          colour: 'var(--gap)',
          bars: lateness.map(({ day, ms }) => ({ day, value: ms / unitMs })),
        }),
      ),
    ]),
  ];
}

/** Results of rechecks: the estimated share of missing ticks. */
export function renderRechecksSection({ rechecks, status }: ReportData): ReportPart[] {
  const { windows, nights, contradicted, seen, found, isCaught } = rechecks;
  if (windows === 0) return [{ name: 'Rechecks', text: 'No proven window has been rechecked.' }];
  const sample = `${formatCount(windows, 'proven window')} in ${formatCount(nights, 'night')}, with different bounds: ${
    contradicted === 0 ? 'none' : formatNumber(contradicted)
  } returned ticks that were not in the archive (${formatNumber(found)} of ${formatCount(seen, 'tick')}).`;
  const missing = formatMissedTicks(rechecks, status.published.ticks);
  if (contradicted === 0 && !isCaught) return [{ name: 'Rechecks', text: `${sample} ${missing}` }];
  const serverText =
    'The service omits ticks from wide windows. Windows fetched before this was detected count as inferred until they are fetched again in narrower windows.';
  return [
    renderSection('Rechecks', [
      renderFacts([
        ['Rechecked', sample],
        ['Estimated missing', missing],
        ...(isCaught ? ([['Service', serverText]] as const) : []),
      ]),
      html`<p class="note">Contradicted windows are withdrawn and fetched again.</p>\n`,
    ]),
  ];
}

const formatMissedPercent = (share: number): string => `${(100 * share).toPrecision(2)} %`;

/** Estimate of missing ticks from a sample, with its upper bound. */
function formatMissedTicks(
  { windows, missingShare, contradictedShareMax }: ReportData['rechecks'],
  ticks: number,
): string {
  const boundText = `Up to ${formatMissedPercent(contradictedShareMax)} of such windows may be incomplete (95 % confidence, from ${formatCount(windows, 'window')}).`;
  if (missingShare === null) return `Too few windows for an estimate of missing ticks. ${boundText}`;
  if (missingShare === 0) return `No missing ticks are expected elsewhere. ${boundText}`;
  return `About ${formatCount(Math.round(missingShare * ticks), 'tick')} of ${formatNumber(ticks)}, extrapolated from the sample. ${boundText}`;
}
