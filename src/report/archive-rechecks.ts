import { many } from '../core/format-quantity.ts';
import { grouped } from '../core/format-thousands.ts';
import { html } from '../core/html.ts';
import type { Gathered } from '../reading/report/report-data.ts';
import type { Part } from './archive-parts.ts';
import { facts, section } from './page-parts.ts';
import { lengthOf } from './time-spans.ts';

/** What rechecks say of how late ticks come, and of what is expected to be missing. */
export function rechecksSection({ rechecks, status }: Gathered): Part[] {
  const { windows, nights, contradicted, seen, found, latenessMs, overlapMs, isCaught } = rechecks;
  const lateness =
    latenessMs === 0
      ? `No tick was seen to come late; polls read ${lengthOf(overlapMs)} before their cursor again.`
      : `Ticks came up to ${lengthOf(latenessMs)} late in the last 30 days at least; polls read ${lengthOf(overlapMs)} before their cursor again.`;
  if (windows === 0) return [{ name: 'Rechecks', text: `No settled window has been read again. ${lateness}` }];
  const sample = `${many(windows, 'settled window')} in ${many(nights, 'night')}, with other bounds than before: ${
    contradicted === 0 ? 'none' : grouped(contradicted)
  } brought ticks that the archive had not (${grouped(found)} of ${many(seen, 'tick')}).`;
  const missing = missingText(rechecks, status.published.ticks);
  if (contradicted === 0 && !isCaught) return [{ name: 'Rechecks', text: `${sample} ${missing} ${lateness}` }];
  const caught =
    'The service leaves ticks out of wide windows. What was fetched before that was seen counts as inferred until it is read again, in narrower windows.';
  return [
    section('Rechecks', [
      facts([
        ['Read again', sample],
        ['Expected to be missing', missing],
        ['Lateness', lateness],
        ...(isCaught ? ([['Service', caught]] as const) : []),
      ]),
      html`<p class="note">What a recheck contradicts is withdrawn and fetched again.</p>\n`,
    ]),
  ];
}

const percent = (share: number): string => `${(100 * share).toPrecision(2)} %`;

/** An estimate from a sample, with what the sample leaves open. */
function missingText({ windows, missingShare, contradictedShareMax }: Gathered['rechecks'], ticks: number): string {
  const open = `Of windows like these, up to ${percent(contradictedShareMax)} may lack something (95 % sure, from ${many(windows, 'window')}).`;
  if (missingShare === null) return `Too few windows to say how much is missing elsewhere. ${open}`;
  if (missingShare === 0) return `Nothing is expected to be missing elsewhere. ${open}`;
  return `About ${many(Math.round(missingShare * ticks), 'tick')} of ${grouped(ticks)}, if the rest is like the sample. ${open}`;
}
