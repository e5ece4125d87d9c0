import { computeCompleteness, type Gap } from '../../archive/completeness/completeness.ts';
import { hasTooManySuspended, isActive } from '../../archive/completeness/symbol-lifetime.ts';
import { countPublishedTicks } from '../../archive/count-lost-ticks.ts';
import type { SymbolFacts } from '../../archive/format/market.ts';
import type { Database } from '../../archive/journal/database.ts';
import {
  markAcceptedReported,
  markLostReported,
  type RecordedLoss,
  readAcceptedWindows,
  readLostWindows,
} from '../../archive/journal/gap-records.ts';
import { countActiveSymbols, readAllSymbols, readSuspendedSymbols } from '../../archive/journal/symbols.ts';
import { readCurrentState } from '../../archive/known-state.ts';
import { formatIsoUtc } from '../../base/time.ts';
import { intersect, type Window } from '../../base/window.ts';
import { getConfiguredSymbols, toCompletenessRules } from '../../context/open-configured.ts';
import type { Run } from '../run/run.ts';
import { formatNameList } from './poll-steps.ts';
import { readNamedSymbolFacts } from './polled-symbols.ts';
import { toLossKey } from './track-lost-windows.ts';

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

/** The suspended symbols that polls are for: those of the lists, or those `named` by hand. */
export const listActiveSuspended = (db: Database, named: ReadonlySet<string> | null): SymbolFacts[] =>
  readSuspendedSymbols(db).filter((facts) => isActive(facts, named));

/** Every suspended symbol, whether polls are for it or not. */
export const listSuspendedNames = ({ archive }: Run): string[] =>
  readSuspendedSymbols(archive.state.db).map(({ symbol }) => symbol);

/**
 * Tells of suspended symbols at the end of a run that polls: a warning. It is a failure where one of them had shown ticks,
 * which a symbol that does not exist has not, or where more of them are suspended than single ones ever are.
 */
export function reportSuspendedSymbols(run: Run): void {
  const { context, archive } = run;
  const named = getConfiguredSymbols(context);
  const suspended = listActiveSuspended(archive.state.db, named).filter(
    ({ symbol }) => run.requestedSymbols.size === 0 || run.requestedSymbols.has(symbol),
  );
  if (suspended.length === 0) return;
  const names = suspended.map(({ symbol }) => symbol);
  run.warnings.push(
    `The service says that it does not know ${formatNameList(names, 'symbol', 20)}: suspended, and asked for once a day; oddslake symbols retry asks at once.`,
  );
  const failed = new Set(run.failures.map(({ symbol }) => symbol));
  for (const { symbol, suspendedAt, unknownSince, lastTick, ticks } of suspended) {
    if (ticks === 0 || failed.has(symbol)) continue;
    const [from, to] = [unknownSince ?? suspendedAt!, context.clock.nowMs()];
    const reason = `suspended: unknown to the service since ${formatIsoUtc(from)}, though it had shown ticks up to ${formatIsoUtc(lastTick!)}`;
    run.failures.push({ symbol, from, to, reason });
  }
  const active = named === null ? countActiveSymbols(archive.state.db) : named.size;
  if (run.requestedSymbols.size === 0 && hasTooManySuspended(suspended.length, active)) {
    const reason = `${formatNameList(names, 'symbol')} of ${active} active ones suspended: more than 1 %`;
    run.failures.push({ symbol: null, from: null, to: null, reason });
  }
}

/**
 * Tells, at the end of a run, which windows are still lost: a failure, once, of the run that tried to have one again and
 * did not bring back what was there; a warning in all others. Comes last: what is told to have failed is not told again.
 * @throws DamageError where a part that is to be counted is damaged
 */
export function reportDataLoss(run: Run): void {
  const { archive, context } = run;
  const lost = readLostWindows(archive.state.db).filter(({ dataset }) => dataset === 'ticks');
  const tried = lost.filter((loss) => loss.reportedAt === null && isTried(run, loss));
  const held = new Map(countPublishedTicks(archive, tried).map((n, i) => [tried[i]!, n]));
  // Where all are back, in answers that were published apart, only the next one can claim them.
  const news = new Set(tried.filter((loss) => held.get(loss)! < loss.ticks));
  for (const loss of news) {
    const { symbol, from, to, ticks } = loss;
    run.failures.push({ symbol, from, to, reason: `lost: ${held.get(loss)} of ${ticks} ticks came back` });
  }
  markLostReported(archive.state.db, [...news], context.clock.nowMs());
  const known = lost.filter((loss) => !news.has(loss));
  if (known.length === 0) return;
  const symbols = [...new Set(known.map(({ symbol }) => symbol))];
  run.warnings.push(
    `${known.length} ${known.length === 1 ? 'window' : 'windows'} of ${formatNameList(symbols, 'symbol')} lost ticks that were published once: oddslake gaps lists them; verify --repair takes what .oddslake/raw still has of them and asks for the rest, and backfill asks too.`,
  );
}

const isTried = ({ lostWindows: lost }: Run, loss: RecordedLoss): boolean =>
  lost.tried.has(toLossKey(loss)) || lost.confirmedLost.has(toLossKey(loss));
