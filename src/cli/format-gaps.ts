import { duration, many } from '../core/format-quantity.ts';
import { isoUtc } from '../core/time.ts';
import type { Gap, GapList } from '../reading/gaps.ts';
import { visible } from './escape-control.ts';

/** A list of gaps for a person. */
export function gapsText({ from, to, gaps, provisional }: GapList): string {
  const span = to > from ? `from ${isoUtc(from)} to ${isoUtc(to)}` : 'nothing is covered yet';
  const { windows, symbols } = provisional;
  const unproven =
    windows === 0
      ? ''
      : `${many(windows, 'window')} of ${many(symbols, 'symbol')} ${windows === 1 ? 'is' : 'are'} provisional: covered by inference, and owed a confirmation\n`;
  if (gaps.length === 0) return `no gaps ${span}\n${unproven}`;
  const lines = gaps.map(
    (gap) =>
      `${isoUtc(gap.from)} … ${isoUtc(gap.to)}  ${duration(gap.to - gap.from).padStart(12)}  ${visible(gap.symbol)}  ${whyText(gap)}\n`,
  );
  return `${lines.join('')}${many(gaps.length, 'gap')} of ${many(new Set(gaps.map((gap) => gap.symbol)).size, 'symbol')} ${span}\n${unproven}`;
}

/** `failed since 2026-11-19T03:17:00Z: answered 500`. */
function whyText({ reason, detail, since, ticks }: Gap): string {
  if (reason === 'lost') return `lost: ${many(ticks ?? 0, 'tick')} once`;
  const when = since === undefined ? '' : ` since ${isoUtc(since)}`;
  return `${reason}${when}${detail === undefined ? '' : `: ${visible(detail)}`}`;
}
