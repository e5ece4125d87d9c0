import { many } from './format-quantity.ts';
import { gapReasons, isExcepted } from './gap-reasons.ts';
import type { ArchiveState, Counts } from './verdict.ts';

/** The state of an archive in words: `complete with exceptions`. */
export const stateText = (state: ArchiveState): string => state.replaceAll('_', ' ');

/** A verdict as one clause: `incomplete: 2 days, 3 gaps; 4 windows are provisional`. */
export function verdictText(verdict: Counts): string {
  const { state, days, gaps, provisional, suspended, listed, damaged } = verdict;
  const open = gaps.failed + gaps['never asked'] + gaps.damaged;
  const excepted = gapReasons.reduce((sum, reason) => sum + (isExcepted(reason) ? gaps[reason] : 0), 0);
  const some = (count: number, text: string): string[] => (count === 0 ? [] : [text]);
  const missing = [
    ...some(damaged.files, `${many(damaged.files, 'file')} not as published`),
    ...some(days.incomplete, `${many(days.incomplete, 'day')} incomplete`),
    ...some(open, many(open, 'gap')),
    ...(listed ? [] : ['the last market lists were not had whole']),
  ].join(', ');
  const inferred = days.provisional + provisional;
  const unproven = [
    ...some(provisional, many(provisional, 'window')),
    ...some(days.provisional, many(days.provisional, 'day')),
  ].join(' and ');
  const told = [
    ...some(missing.length, missing),
    ...some(inferred, `${unproven} ${provisional + days.provisional === 1 ? 'is' : 'are'} provisional`),
    ...some(suspended, `${many(suspended, 'symbol')} suspended`),
    ...some(excepted, `${many(excepted, 'window')} lost, expired or accepted`),
  ];
  return [stateText(state), ...some(told.length, told.join('; '))].join(': ');
}
