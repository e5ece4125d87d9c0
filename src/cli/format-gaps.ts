import { formatCount, formatDuration } from '../core/format-quantity.ts';
import { formatIsoUtc } from '../core/time.ts';
import type { Gap, GapList } from '../reading/gaps.ts';
import { escapeControls } from './escape-control.ts';

/** A list of gaps for a person. */
export function formatGaps({ from, to, gaps, provisional }: GapList): string {
  const span = to > from ? `from ${formatIsoUtc(from)} to ${formatIsoUtc(to)}` : 'nothing is covered yet';
  const { windows, symbols } = provisional;
  const unproven =
    windows === 0
      ? ''
      : `${formatCount(windows, 'window')} of ${formatCount(symbols, 'symbol')} ${windows === 1 ? 'is' : 'are'} provisional: covered by inference, and owed a confirmation\n`;
  if (gaps.length === 0) return `no gaps ${span}\n${unproven}`;
  const lines = gaps.map(
    (gap) =>
      `${formatIsoUtc(gap.from)} … ${formatIsoUtc(gap.to)}  ${formatDuration(gap.to - gap.from).padStart(12)}  ${escapeControls(gap.symbol)}  ${formatGapReason(gap)}\n`,
  );
  return `${lines.join('')}${formatCount(gaps.length, 'gap')} of ${formatCount(new Set(gaps.map((gap) => gap.symbol)).size, 'symbol')} ${span}\n${unproven}`;
}

/** `failed since 2026-11-19T03:17:00Z: answered 500`. */
function formatGapReason({ reason, detail, since, ticks }: Gap): string {
  if (reason === 'lost') return `lost: ${formatCount(ticks ?? 0, 'tick')} once`;
  const when = since === undefined ? '' : ` since ${formatIsoUtc(since)}`;
  return `${reason}${when}${detail === undefined ? '' : `: ${escapeControls(detail)}`}`;
}
