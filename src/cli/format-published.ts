import type { Summary } from '../archive/journal/run-summary.ts';
import { formatBytes, formatCount, formatNumber } from '../base/format-quantity.ts';
import { formatIsoMinute } from '../base/time.ts';
import { formatCoveredSymbols } from '../contract/completeness-counts.ts';

// The rows of a summary that are about what is published and covered.

/** A count with its name; null if it is 0. */
export const formatNonzero = (count: number, what: string): string | null =>
  count > 0 ? `${formatNumber(count)} ${what}` : null;

/**
 * Whether another run kept this one from publishing before the first generation. The published state then says nothing of what
 * both have collected.
 */
export const isUnpublished = ({ outcome, generation }: Summary): boolean => outcome === 'busy' && generation === 0;

/** What a run has published, and the generation of the archive. */
export function formatPublished({ published, generation, outcome }: Summary): string[] {
  const generationText = `(generation ${formatNumber(generation)})`;
  if (published.files === 0)
    return [
      outcome === 'busy'
        ? `nothing by this run; what it collected is in the journal ${generationText}`
        : `nothing new, no file changed ${generationText}`,
    ];
  const { dates } = published;
  // The list is cut, so that the last day may be missing.
  const days =
    published.dates_count > dates.length
      ? `${formatCount(published.dates_count, 'day')} from ${dates[0]}`
      : [...new Set([dates[0], dates.at(-1)])].filter((date) => date !== undefined).join(' … ');
  const ticks = [
    ...(published.added > 0 ? [`${formatCount(published.added, 'tick')} added`] : []),
    ...(published.lost > 0 ? [`${formatCount(published.lost, 'tick')} lost`] : []),
  ];
  const files = `${formatCount(published.files, 'file')}, ${formatBytes(published.bytes)}${days === '' ? '' : `, ${days}`}`;
  return [`${[files, ...ticks].join(', ')} ${generationText}`];
}

/** How far the archive is covered, and what is missing in a night. */
export function formatCovered(summary: Summary): string[] {
  const { watermark, reached = watermark, night, symbols: symbolCounts, damaged_count: damaged } = summary;
  const exceptText = symbolCounts.suspended === 0 ? '' : `, except ${formatNumber(symbolCounts.suspended)} suspended`;
  const hasPolled = symbolCounts.planned > 0 || night !== undefined;
  const nothingText = hasPolled && !isUnpublished(summary) ? ['nothing yet'] : [];
  if (reached === null && nothingText.length > 0) return nothingText;
  const coveredText =
    reached === null ? [] : [`${formatCoveredSymbols(damaged)} up to ${formatIsoMinute(reached)}${exceptText}`];
  if (night === undefined) return coveredText;
  const { symbols, gap_minutes: minutes } = night.covered;
  // Not all polled symbols needed a request, so that their number is not that of the line "symbols".
  return [
    ...coveredText,
    minutes === 0
      ? 'no gap in this night'
      : `in this night ${formatCount(symbols, 'symbol')} without a gap, ${formatCount(minutes, 'minute')} missing in others`,
  ];
}
