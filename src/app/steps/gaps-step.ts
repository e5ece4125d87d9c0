import { readCurrentState } from '../../archive/known-state.ts';
import { computeCompleteness, type Gap } from '../../core/completeness.ts';
import type { SymbolFacts } from '../../core/market.ts';
import { isActive } from '../../core/symbol-lifetime.ts';
import { intersect, type Window } from '../../core/window.ts';
import { toCompletenessRules } from '../../settings/judged-by.ts';
import { markAcceptedReported, readAcceptedWindows } from '../../state/accepted.ts';
import { readAllSymbols } from '../../state/symbols.ts';
import type { Run } from '../run.ts';
import { formatNameList } from './poll-steps.ts';
import { readNamedSymbolFacts } from './polled-symbols.ts';

/** What a run was asked to have whole. */
export interface GapsRange {
  /** None: for a poll every symbol that polls are for, for a backfill every one known. */
  readonly symbols: readonly string[];
  readonly window: Window;
  /** Whether its start was named: an unknown opening bounds nothing then. */
  readonly isFromNamed: boolean;
}

/**
 * Tells, at the end of a run, what the judge calls a gap in the range that it was asked for: one from before is a failure
 * of this run as much as one that it left. Accepted and expired ones are so once, and a warning in all later runs.
 * Suspended symbols, lost windows and damaged files have steps of their own.
 */
export function reportGaps(run: Run, { symbols, window, isFromNamed }: GapsRange): void {
  const { context, archive } = run;
  const { db } = archive.state;
  const nowMs = context.clock.nowMs();
  const by = toCompletenessRules(context.settings);
  const all = (): SymbolFacts[] =>
    isFromNamed ? readAllSymbols(db) : readAllSymbols(db).filter((facts) => isActive(facts, by.namedSymbols));
  const facts = symbols.length === 0 ? all() : readNamedSymbolFacts(db, symbols, nowMs);
  const told = Map.groupBy([...run.failures, ...run.nightCounters.missingWindows], ({ symbol }) => symbol ?? '');
  const isTold = ({ symbol, from, to }: Gap): boolean =>
    (told.get(symbol) ?? []).some((w) => w.from !== null && w.to !== null && w.from < to && from < w.to);
  const asked = { window, isStartExplicit: isFromNamed, isEndOpen: true, isRequestedByName: symbols.length > 0 };
  const { gaps } = computeCompleteness(readCurrentState(archive, by, nowMs, facts), asked);
  const settled: Gap[] = [];
  for (const gap of gaps) {
    const { symbol, from, to, reason, detail } = gap;
    if (reason === 'damaged' || reason === 'lost' || reason === 'suspended' || isTold(gap)) continue;
    if (reason === 'accepted' || reason === 'expired') settled.push(gap);
    else run.failures.push({ symbol, from, to, reason: `still a gap: ${detail ?? reason}` });
  }
  reportSettledGaps(run, settled, nowMs);
}

function reportSettledGaps(run: Run, gaps: readonly Gap[], nowMs: number): void {
  if (gaps.length === 0) return;
  const { db } = run.archive.state;
  const bySymbol = Map.groupBy(gaps, ({ symbol }) => symbol);
  const news = readAcceptedWindows(db).filter(
    (window) => window.reportedAt === null && intersect(bySymbol.get(window.symbol) ?? [], [window]).length > 0,
  );
  for (const { symbol, from, to, reason } of news)
    run.failures.push({ symbol, from, to, reason: `accepted as a gap: ${reason}` });
  markAcceptedReported(db, news, nowMs);
  const isNews = (gap: Gap): boolean =>
    gap.reason === 'accepted' && news.some((w) => w.symbol === gap.symbol && w.from < gap.to && gap.from < w.to);
  for (const kind of ['accepted', 'expired'] as const) {
    const known = gaps.filter((gap) => gap.reason === kind && !isNews(gap));
    if (known.length === 0) continue;
    const names = [...new Set(known.map(({ symbol }) => symbol))];
    const what = kind === 'accepted' ? 'stay gaps, as was accepted' : 'expired: the service goes back no further';
    run.warnings.push(
      `${known.length} ${known.length === 1 ? 'window' : 'windows'} of ${formatNameList(names, 'symbol')} ${what}; oddslake gaps lists them.`,
    );
  }
}
