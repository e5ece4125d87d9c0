import { formatCount } from './format-quantity.ts';
import { gapReasons, isExceptedReason } from './gap-reasons.ts';
import type { ArchiveState, CompletenessCounts } from './verdict.ts';

/** The state of an archive in words: `complete with exceptions`. */
export const formatArchiveState = (state: ArchiveState): string => state.replaceAll('_', ' ');

/** A verdict as one clause: `incomplete: 2 days, 3 gaps; 4 windows are provisional`. */
export function formatCompleteness(verdict: CompletenessCounts): string {
  const { state, days, gaps, provisional, suspended, listed, damaged } = verdict;
  const open = gaps.failed + gaps['never asked'] + gaps.damaged;
  const excepted = gapReasons.reduce((sum, reason) => sum + (isExceptedReason(reason) ? gaps[reason] : 0), 0);
  const some = (count: number, text: string): string[] => (count === 0 ? [] : [text]);
  const missing = [
    ...some(damaged.files, `${formatCount(damaged.files, 'file')} not as published`),
    ...some(days.incomplete, `${formatCount(days.incomplete, 'day')} incomplete`),
    ...some(open, formatCount(open, 'gap')),
    ...(listed ? [] : ['the last market lists were not had whole']),
  ].join(', ');
  const inferred = days.provisional + provisional;
  const unproven = [
    ...some(provisional, formatCount(provisional, 'window')),
    ...some(days.provisional, formatCount(days.provisional, 'day')),
  ].join(' and ');
  const told = [
    ...some(missing.length, missing),
    ...some(inferred, `${unproven} ${provisional + days.provisional === 1 ? 'is' : 'are'} provisional`),
    ...some(suspended, `${formatCount(suspended, 'symbol')} suspended`),
    ...some(excepted, `${formatCount(excepted, 'window')} lost, expired or accepted`),
  ];
  return [formatArchiveState(state), ...some(told.length, told.join('; '))].join(': ');
}
