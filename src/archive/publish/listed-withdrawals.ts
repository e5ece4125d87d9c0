import { computePartNumber } from '../../base/symbol-name.ts';
import { formatDay } from '../../base/time.ts';
import { floorToDay } from '../../base/window.ts';
import { findDayPart, getPartCount } from '../format/day-parts.ts';
import { overlayWithdrawals, type PublishedWithdrawal } from '../format/withdrawals.ts';
import type { JournalBin } from '../journal/journal.ts';
import { getStagePartCounts } from './day-part-choice.ts';
import type { Stage } from './staging.ts';

/** The listed withdrawals of the symbols of a part of a day. @param withdrawn default: those of the base manifest */
export function listPartWithdrawals(
  stage: Stage,
  { day, part }: JournalBin,
  withdrawn = stage.base.datasets.coverage.withdrawn ?? [],
): PublishedWithdrawal[] {
  const parts = getPartCount(getStagePartCounts(stage), formatDay(day));
  return withdrawn.filter(
    ({ symbol, from }) => floorToDay(from) === day && symbol !== null && computePartNumber(symbol, parts) === part,
  );
}

/** The withdrawals that the next manifest lists. @param before those listed before, of both archives of a union */
export function computeWithdrawnAfter(
  stage: Stage,
  results: readonly { readonly bin: JournalBin; readonly listedWithdrawals: readonly PublishedWithdrawal[] }[],
  before = stage.base.datasets.coverage.withdrawn ?? [],
): PublishedWithdrawal[] {
  const counts = getStagePartCounts(stage);
  const merged = new Set(results.map(({ bin }) => `${bin.day} ${bin.part}`));
  const isKept = ({ symbol, from }: PublishedWithdrawal): boolean =>
    symbol === null || !merged.has(`${floorToDay(from)} ${findDayPart(counts, symbol, floorToDay(from))}`);
  const kept = before.filter(isKept);
  const listed = results.flatMap(({ listedWithdrawals }) => listedWithdrawals);
  return kept.length + listed.length === 0 ? [] : overlayWithdrawals([...kept, ...listed]);
}
