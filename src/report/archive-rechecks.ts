import { formatCount } from '../core/format-quantity.ts';
import { formatThousands } from '../core/format-thousands.ts';
import { html } from '../core/html.ts';
import type { ReportData } from '../reading/report/report-data.ts';
import type { ReportPart } from './archive-parts.ts';
import { renderFacts, renderSection } from './page-parts.ts';
import { formatLength } from './time-spans.ts';

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
