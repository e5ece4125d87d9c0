import { canBeLive, isRequestDue } from '../../archive/completeness/symbol-lifetime.ts';
import { createUnknownSymbol, type SymbolFacts } from '../../archive/format/market.ts';
import { isUnselected } from '../../archive/format/selection.ts';
import { readResponses } from '../../archive/journal/coverage-store.ts';
import type { Database } from '../../archive/journal/database.ts';
import { isFeedFrozen, recordFeedTimes } from '../../archive/journal/feed-silence.ts';
import { readAllLostTicks, readCoverageWithoutLost } from '../../archive/journal/gap-records.ts';
import type { TickRecord } from '../../archive/journal/journal.ts';
import { readWatchedNames } from '../../archive/journal/selection-store.ts';
import {
  listFirstSeenAfter,
  readSymbol,
  readUnsettledSymbols,
  recordPolledFrom,
} from '../../archive/journal/symbol-store.ts';
import { hasListedSymbols } from '../../archive/journal/symbol-subsets.ts';
import { formatMoment } from '../../archive/read/judge.ts';
import { formatDuration } from '../../base/format-quantity.ts';
import { isSymbolOf } from '../../base/source-name.ts';
import type { TickColumns } from '../../base/ticks.ts';
import { hourMs, subtract, union, type Window } from '../../base/window.ts';
import { getFutureSkewMs, getLingerRules } from '../../context/open-configured.ts';
import { staleReason, statedGapReason } from '../paging/fetch-steps.ts';
import { needsPolling, type SymbolPlan } from '../paging/plan.ts';
import type { Run } from '../run/run.ts';

interface PolledSymbol {
  readonly facts: SymbolFacts;
  /** Covered windows of its ticks. */
  readonly coverage: readonly Window[];
}

/**
 * The symbols of a poll at `nowMs`: the `chosen` ones, or else those of the settings, or else the active symbols of the
 * market lists; the latter two with watched symbols, and without those of which it was decided that they are not collected. A
 * suspended symbol is requested once per UTC day, and whenever it is chosen.
 * @param foresee what will be decided about a symbol before the poll, for a dry run; default: nothing
 */
export function listPolledSymbols(
  { context, archive, source }: Pick<Run, 'context' | 'archive' | 'source'>,
  chosen: readonly string[],
  nowMs: number,
  foresee: (facts: SymbolFacts) => SymbolFacts = (facts) => facts,
): PolledSymbol[] {
  const { db } = archive.state;
  const rules = getLingerRules(context);
  const configured = context.settings.symbols.filter((symbol) => isSymbolOf(source, symbol));
  const named =
    chosen.length > 0 ? chosen : configured.length === 0 ? [] : [...configured, ...readWatchedNames(db, source)];
  const listed = named.length === 0 ? readUnsettledSymbols(db, nowMs - rules.lingerMs, source) : [];
  const watched = named.length === 0 ? readNamedSymbolFacts(db, readWatchedNames(db, source), nowMs) : [];
  const candidates =
    named.length === 0
      ? [...listed, ...watched.filter((facts) => !facts.listed)]
      : readNamedSymbolFacts(db, named, nowMs);
  const symbols = chosen.length > 0 ? candidates : candidates.map(foresee).filter((facts) => !isUnselected(facts));
  const lost = readAllLostTicks(db);
  const out: PolledSymbol[] = [];
  for (const facts of symbols) {
    if (chosen.length === 0 && !isRequestDue(facts, nowMs)) continue;
    const asDue = { ...facts, suspendedAt: null };
    if (named.length === 0 && !canBeLive(asDue, nowMs, rules)) continue;
    const coverage = readCoverageWithoutLost(
      db,
      facts.symbol,
      nowMs + getFutureSkewMs(context),
      lost.get(facts.symbol) ?? [],
    );
    const settled = facts.unselected === undefined ? coverage : union([...coverage, ...facts.unselected]);
    if (named.length === 0 && !needsPolling(asDue, settled, () => readResponses(db, facts.symbol), nowMs, rules))
      continue;
    out.push({ facts, coverage });
  }
  return out;
}

/** Whether no symbol is from a market list. Imported symbols alone are not polled. */
export const hasNoListedSymbols = ({ archive, source }: Run): boolean => !hasListedSymbols(archive.state.db, source);

/** Facts of symbols by name, including unknown symbols. */
export const readNamedSymbolFacts = (db: Database, symbols: readonly string[], nowMs: number): SymbolFacts[] =>
  [...new Set(symbols)].map((symbol) => readSymbol(db, symbol) ?? createUnknownSymbol(symbol, nowMs));

/** Records when polling of each symbol of a poll began, even if its requests fail. The planned windows are now owed. */
export function notePolledPlans(db: Database, plans: readonly SymbolPlan[]): void {
  db.transaction(() => {
    for (const { symbol, windows } of plans) if (windows.length > 0) recordPolledFrom(db, symbol, windows[0]!.from);
  });
}

/** Notes which symbols are known to a poll that is planned now, epoch ms. Another run may list further ones meanwhile. */
export function notePlanningTime({ archive, polled, nightCounters }: Run, nowMs: number): void {
  polled.plannedAt = Math.max(nowMs, nightCounters.listedAt ?? nowMs);
  polled.firstSeenLater = new Set(listFirstSeenAfter(archive.state.db, polled.plannedAt));
}

/** Whether a symbol became known after the polls of a run were planned, so that they are not expected to cover it. */
export const isKnownSincePlanning = ({ polled }: Run, { symbol, firstSeen }: SymbolFacts): boolean =>
  firstSeen > polled.plannedAt && !polled.firstSeenLater.has(symbol);

/** Notes what a response of this run covered or withdrew. */
export function noteRecordCoverage(
  { polled: { covered } }: Run,
  { symbol, covered: added, withdrawn = [] }: Pick<TickRecord, 'symbol' | 'covered' | 'withdrawn'>,
): void {
  if (added.length === 0 && withdrawn.length === 0) return;
  const kept = subtract(covered.get(symbol) ?? [], withdrawn);
  covered.set(symbol, union([...kept, ...added]));
}

/** Notes the times of polled ticks. */
export function noteTickTimes({ nightCounters: { tickHours }, nightCounters }: Run, { t }: TickColumns): void {
  for (const time of t) {
    tickHours.add(Math.floor(time / hourMs));
    if (time > nightCounters.newestTick) nightCounters.newestTick = time;
  }
}

/** Warns if no symbol has had a tick for far longer than ever. @param end of the poll, epoch ms */
export function warnOfFrozenFeed({ archive, nightCounters, source, warnings }: Run, end: number): void {
  const { tickHours, newestTick, missingWindows } = nightCounters;
  const times = recordFeedTimes(archive.state.db, tickHours, newestTick, source);
  // If the service states that it is behind, another warning says so. An older gap is no reason to expect no ticks.
  const behind = missingWindows.filter(
    ({ reason, to }) => to >= end && (reason === staleReason || reason === statedGapReason),
  );
  const servedTo = behind.length === 0 ? end : behind.reduce((max, { from }) => Math.max(max, from), 0);
  if (times === null || !isFeedFrozen(times, servedTo)) return;
  const silence = formatDuration(servedTo - times.newestTick);
  warnings.push({
    kind: 'frozen feed',
    text: `the feed seems frozen since ${formatMoment(times.newestTick)}: no symbol has had a tick for ${silence}, and never before for more than ${formatDuration(times.longestSilenceMs)}`,
  });
}
