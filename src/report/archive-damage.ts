import { formatCount, formatNumber } from '../base/format-quantity.ts';
import { html } from '../base/html.ts';
import { formatMinute } from '../base/time.ts';
import type { ReportData } from './data/report-data.ts';
import { type HtmlColumn, type ReportPart, renderCards, renderHtmlTable, renderSection } from './page-parts.ts';

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
