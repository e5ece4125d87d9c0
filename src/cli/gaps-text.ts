import { isoUtc } from '../core/time.ts';
import type { GapList } from '../reading/gaps.ts';
import { duration, many } from './amounts.ts';
import { visible } from './visible.ts';

/** A list of gaps for a person. */
export function gapsText({ from, to, gaps }: GapList): string {
  const span = to > from ? `from ${isoUtc(from)} to ${isoUtc(to)}` : 'nothing is covered yet';
  if (gaps.length === 0) return `no gaps ${span}\n`;
  const lines = gaps.map(
    (gap) =>
      `${isoUtc(gap.from)} … ${isoUtc(gap.to)}  ${duration(gap.to - gap.from).padStart(12)}  ${visible(gap.symbol)}${gap.reason === 'lost' ? `  lost: ${many(gap.ticks ?? 0, 'tick')} once` : ''}\n`,
  );
  return `${lines.join('')}${many(gaps.length, 'gap')} of ${many(new Set(gaps.map((gap) => gap.symbol)).size, 'symbol')} ${span}\n`;
}
