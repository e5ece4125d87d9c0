import { formatCount, formatNumber } from '../../../base/format-quantity.ts';
import type { DayState } from '../../../contract/day-reasons.ts';

/** The cases of a day in the calendar, in the order of the legend, with their labels. */
export const dayKinds = {
  complete: 'complete',
  exceptions: 'complete with exceptions',
  provisional: 'provisional: covered, not proven yet',
  incomplete: 'incomplete, with the share that is covered',
  damaged: 'damaged: run oddslake verify',
  empty: 'empty: no symbol expected',
  before: 'before the first tick, or not collected',
} as const;
export type DayKind = keyof typeof dayKinds;

/** The case of a day. @param state null if the archive has no data for the day */
export function toDayKind(state: DayState | null, isDamaged: boolean): DayKind {
  if (isDamaged) return 'damaged';
  if (state === null) return 'before';
  if (state.state === 'complete_with_exceptions') return 'exceptions';
  if (state.state === 'complete' || state.state === 'provisional' || state.state === 'empty') return state.state;
  return 'incomplete';
}

/** Short description of the coverage of a day. */
export function formatCoverageShare({ expected, covered, state, exceptions }: DayState): string {
  if (expected === 0) return 'no symbols expected';
  const more = exceptions === 0 ? '' : `, ${formatCount(exceptions, 'exception')}`;
  return `${formatNumber(covered)} of ${formatCount(expected, 'symbol')} covered, ${state.replaceAll('_', ' ')}${more}`;
}
