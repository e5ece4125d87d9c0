import type { Archive } from '../../archive/archive.ts';
import { computeCompleteness, type Gap } from '../../archive/completeness/completeness.ts';
import { hasTooManySuspended, isActive } from '../../archive/completeness/symbol-lifetime.ts';
import type { AcceptedWindow } from '../../archive/format/coverage.ts';
import type { SymbolFacts } from '../../archive/format/market.ts';
import { isUnselected } from '../../archive/format/selection.ts';
import { listUnprovenClaims, readUnfinished } from '../../archive/journal/collected-ends.ts';
import { findUnprovenOf, readResponses } from '../../archive/journal/coverage-store.ts';
import type { Database } from '../../archive/journal/database.ts';
import {
  acceptWindows,
  markAcceptedReported,
  markLostReported,
  type RecordedLoss,
  readAcceptedWindows,
  revokeGaps,
} from '../../archive/journal/gap-records.ts';
import { listUnfinishedRuns } from '../../archive/journal/runs.ts';
import { requireKnownSymbol } from '../../archive/journal/symbol-names.ts';
import { readAllSymbols, readSuspendedSymbols } from '../../archive/journal/symbol-store.ts';
import { readPossiblyActiveSymbols } from '../../archive/journal/symbol-subsets.ts';
import { readCurrentState } from '../../archive/known-state.ts';
import { countPublishedTicks } from '../../archive/publish/count-ticks.ts';
import { listGaps } from '../../archive/read/gaps.ts';
import { UsageError } from '../../base/errors.ts';
import { formatCount } from '../../base/format-quantity.ts';
import { isSymbolOf } from '../../base/source-name.ts';
import { formatIsoUtc } from '../../base/time.ts';
import { intersect, overlaps, subtract, union, type Window } from '../../base/window.ts';
import type { Context } from '../../context/context.ts';
import { getConfiguredSymbols, getSettleMs, toCompletenessRules } from '../../context/open-configured.ts';
import { computeCut } from '../paging/prove-coverage.ts';
import { createJobFailure } from '../run/judge-run.ts';
import type { Run } from '../run/run.ts';
import { formatSymbolList } from './owed-windows-step.ts';
import { isKnownSincePlanning, readNamedSymbolFacts } from './polled-symbols.ts';
import { publishCompleteness } from './publish-step.ts';
import { listLostTickWindows, toLossKey } from './track-lost-windows.ts';

/** The range that a run was requested to cover. */
interface GapsRange {
  /** Empty: all active symbols for a poll, all known symbols for a backfill. */
  readonly symbols: readonly string[];
  readonly window: Window;
  /** Whether the start was given: then symbols without a known opening are included from that start. */
  readonly isFromNamed: boolean;
}

/**
 * Reports, at the end of a run, the gaps in the requested range. A gap from an earlier run is a failure of this run too.
 * Accepted and expired gaps are a failure once and a warning in all later runs. Other steps report suspended symbols, lost
 * windows and damaged files.
 */
export function reportGaps(run: Run, { symbols, window, isFromNamed }: GapsRange): void {
  const { context, archive } = run;
  const { db } = archive.state;
  const nowMs = context.clock.nowMs();
  const rules = toCompletenessRules(context.settings);
  const all = (): SymbolFacts[] =>
    isFromNamed
      ? readAllSymbols(db, run.source)
      : readPossiblyActiveSymbols(db, rules.namedSymbols, run.source).filter(
          (facts) => isActive(facts, rules.namedSymbols) && !isKnownSincePlanning(run, facts),
        );
  const facts = symbols.length === 0 ? all() : readNamedSymbolFacts(db, symbols, nowMs);
  const reported = Map.groupBy([...run.failures, ...run.nightCounters.missingWindows], ({ symbol }) => symbol ?? '');
  const isReported = ({ symbol, from, to }: Gap): boolean =>
    (reported.get(symbol) ?? []).some((w) => w.from !== null && w.to !== null && w.from < to && from < w.to);
  const range = { window, isStartExplicit: isFromNamed, isEndOpen: true, isRequestedByName: symbols.length > 0 };
  const { gaps } = computeCompleteness(
    readCurrentState(archive, rules, nowMs, facts, run.source === null ? [] : [run.source]),
    range,
  );
  const settled: Gap[] = [];
  const withdrawn = new Set<string>();
  const isOtherAtWork = listUnfinishedRuns(db, run.id).length > 0;
  for (const gap of gaps) {
    const { symbol, from, to, reason, detail } = gap;
    if (reason === 'damaged' || reason === 'lost' || reason === 'suspended' || isReported(gap)) continue;
    if (reason === 'accepted' || reason === 'expired') settled.push(gap);
    else {
      // Another run that collects at the same time found that a response was incomplete, and fetches the window again. If no
      // other run is at work, nobody does.
      const isWithdrawal = isOtherAtWork && reason === 'never asked';
      const rest = isWithdrawal ? subtract([gap], run.polled.covered.get(symbol) ?? []) : [gap];
      for (const w of rest)
        run.failures.push({ symbol, from: w.from, to: w.to, reason: `still a gap: ${detail ?? reason}` });
      if (rest.length !== 1 || rest[0]!.from !== from || rest[0]!.to !== to) withdrawn.add(symbol);
    }
  }
  if (withdrawn.size > 0)
    run.warnings.push(
      `Another run has withdrawn coverage of ${formatSymbolList([...withdrawn])} that this run had fetched, and fetches it again. To list what is missing: oddslake gaps`,
    );
  reportSettledGaps(run, settled, nowMs);
}

/**
 * Warns of what a backfill that was cut off fetched in a window and no response proves: only those of one run are witnesses for each
 * other, and what its responses showed beside ticks and claims is not kept.
 */
export function reportUnjudgedBackfill({ archive, context, source, warnings }: Run, window: Window): void {
  const { db } = archive.state;
  const since = readUnfinished(db, 'backfill', source);
  if (since === null) return;
  const cut = computeCut(context.clock.nowMs(), getSettleMs(context));
  const symbols = listUnprovenClaims(db, 'backfill', source, since).filter((symbol) => {
    const own = readResponses(db, symbol).filter((w) => w.origin === 'backfill' && w.fetchedAt >= since);
    return intersect(intersect(findUnprovenOf(db, symbol, cut), union(own)), [window]).length > 0;
  });
  if (symbols.length === 0) return;
  const text = `Coverage of ${formatSymbolList(symbols)} is not proven: an interrupted backfill fetched it, and only responses of one run prove each other. --force requests all of it again`;
  warnings.push({ kind: 'provisional', text, flags: ['--force'] });
}

function reportSettledGaps(run: Run, gaps: readonly Gap[], nowMs: number): void {
  if (gaps.length === 0) return;
  const { db } = run.archive.state;
  const bySymbol = Map.groupBy(gaps, ({ symbol }) => symbol);
  const unreported = readAcceptedWindows(db).filter(
    (window) => window.reportedAt === null && intersect(bySymbol.get(window.symbol) ?? [], [window]).length > 0,
  );
  for (const { symbol, from, to, reason } of unreported)
    run.failures.push({ symbol, from, to, kind: 'accepted', reason: `accepted as a gap: ${reason}` });
  markAcceptedReported(db, unreported, nowMs);
  const isUnreported = (gap: Gap): boolean =>
    gap.reason === 'accepted' && unreported.some((w) => w.symbol === gap.symbol && overlaps(w, gap));
  for (const kind of ['accepted', 'expired'] as const) {
    const known = gaps.filter((gap) => gap.reason === kind && !isUnreported(gap));
    if (known.length === 0) continue;
    const names = [...new Set(known.map(({ symbol }) => symbol))];
    const what = kind === 'accepted' ? 'are accepted as gaps' : 'expired: the service no longer has their ticks';
    const text = `${formatCount(known.length, 'window')} of ${formatSymbolList(names)} ${what}. To list them: oddslake gaps`;
    run.warnings.push({ kind: 'known gaps', text });
  }
}

/** Suspended symbols of a source that are active: listed, or in `named`. Null: of all sources. */
export const listActiveSuspended = (
  db: Database,
  named: ReadonlySet<string> | null,
  source: string | null,
): SymbolFacts[] => readSuspendedSymbols(db, source).filter((facts) => isActive(facts, named));

/** All suspended symbols that are to be collected, active or not. */
export const listSuspendedNames = ({ archive, source }: Run): string[] =>
  readSuspendedSymbols(archive.state.db, source)
    .filter((facts) => !isUnselected(facts))
    .map(({ symbol }) => symbol);

/**
 * Warns about suspended symbols at the end of a poll. It is a failure if such a symbol has had ticks, which a nonexistent
 * symbol cannot, or if unusually many symbols are suspended.
 */
export function reportSuspendedSymbols(run: Run): void {
  const { context, archive } = run;
  const named = getConfiguredSymbols(context);
  const suspended = listActiveSuspended(archive.state.db, named, run.source).filter(
    ({ symbol }) => run.requestedSymbols.size === 0 || run.requestedSymbols.has(symbol),
  );
  if (suspended.length === 0) return;
  const names = suspended.map(({ symbol }) => symbol);
  const text = `The service reports that it does not know ${formatSymbolList(names, 20)}. They are suspended and requested once a day. To request them now: oddslake symbols retry`;
  run.warnings.push({ kind: 'suspended', text });
  for (const [i, one] of run.failures.entries())
    if (names.includes(one.symbol!)) run.failures[i] = { kind: 'suspended', ...one };
  const failed = new Set(run.failures.map(({ symbol }) => symbol));
  for (const { symbol, suspendedAt, unknownSince, lastTick, ticks } of suspended) {
    if (ticks === 0 || failed.has(symbol)) continue;
    const [from, to] = [unknownSince ?? suspendedAt!, context.clock.nowMs()];
    const reason = `suspended: unknown to the service since ${formatIsoUtc(from)}, although it had ticks up to ${formatIsoUtc(lastTick!)}`;
    run.failures.push({ symbol, from, to, kind: 'suspended', reason });
  }
  const active =
    named === null
      ? readPossiblyActiveSymbols(archive.state.db, null, run.source).filter((facts) => isActive(facts, null)).length
      : [...named].filter((symbol) => isSymbolOf(run.source, symbol)).length;
  if (run.requestedSymbols.size === 0 && hasTooManySuspended(suspended.length, active)) {
    const reason = `${formatSymbolList(names)} of ${active} active symbols suspended: more than 1 %`;
    run.failures.push(createJobFailure('suspended', reason));
  }
}

/**
 * Reports the windows that are still lost at the end of a run. The first run that tried to restore a window and did not get
 * all of its ticks has a failure; all other runs have a warning. Must be the last report: it marks the losses as reported.
 * @throws DamageError if a part file whose ticks are counted is damaged
 */
export function reportDataLoss(run: Run): void {
  const { archive, context } = run;
  const lost = listLostTickWindows(run);
  const tried = lost.filter((loss) => loss.reportedAt === null && isTried(run, loss));
  const held = new Map(countPublishedTicks(archive, tried).map((n, i) => [tried[i]!, n]));
  // If all ticks are back but were published in separate parts, the next response can restore the window.
  const unreported = new Set(tried.filter((loss) => held.get(loss)! < loss.ticks));
  for (const loss of unreported) {
    const { symbol, from, to, ticks } = loss;
    run.failures.push({
      symbol,
      from,
      to,
      kind: 'lost',
      reason: `lost: ${held.get(loss)} of ${ticks} tick${ticks === 1 ? '' : 's'} came back`,
    });
  }
  markLostReported(archive.state.db, [...unreported], context.clock.nowMs());
  const known = lost.filter((loss) => !unreported.has(loss));
  if (known.length === 0) return;
  const symbols = [...new Set(known.map(({ symbol }) => symbol))];
  const text = `${formatCount(known.length, 'window')} of ${formatSymbolList(symbols)} lost ticks that had been published. To list them: oddslake gaps. To restore them from .oddslake/raw and the upstream: oddslake verify --repair`;
  run.warnings.push({ kind: 'lost', text });
}

const isTried = ({ lostWindows: lost }: Run, loss: RecordedLoss): boolean =>
  lost.tried.has(toLossKey(loss)) || lost.confirmedLost.has(toLossKey(loss));

/**
 * Accepts the gaps that a symbol has in a window now, and publishes the change; a later one is not accepted. A gap that a run has
 * already reported as a failure is a warning from now on. Any other gap is reported as a failure once. Returns what it accepted.
 * @throws UsageError for an unknown symbol, and a window that ends in the future or has no gap
 */
export async function acceptGaps(
  context: Context,
  archive: Archive,
  { symbol, from, to, reason }: Window & { readonly symbol: string; readonly reason: string },
): Promise<AcceptedWindow[]> {
  const { db } = archive.state;
  const facts = requireKnownSymbol(db, symbol);
  const nowMs = context.clock.nowMs();
  const window = `from ${formatIsoUtc(from)} to ${formatIsoUtc(to)}`;
  if (to > nowMs)
    throw new UsageError(`the window ${window} reaches into the future: only gaps that exist now can be accepted.`);
  const { gaps } = listGaps(archive, { from, to, symbols: [facts] }, toCompletenessRules(context.settings), nowMs);
  const accepted = gaps
    .filter((gap) => gap.reason !== 'accepted')
    .map((gap) => {
      const reportedAt = gap.reason === 'never asked' ? null : nowMs;
      return { symbol, from: gap.from, to: gap.to, reason, acceptedAt: nowMs, reportedAt };
    });
  if (accepted.length === 0) {
    const what = gaps.length > 0 ? 'no gap that is not accepted yet' : 'no gap';
    throw new UsageError(`nothing to accept: ${symbol} has ${what} ${window}.`);
  }
  acceptWindows(db, accepted);
  await publishCompleteness(context, archive, 'gaps');
  return accepted;
}

/**
 * Revokes the accepted gaps of a symbol in a window, and publishes the change. Returns the revoked windows.
 * @throws UsageError for an unknown symbol, or if there are none
 */
export async function revokeAcceptedGaps(
  context: Context,
  archive: Archive,
  { symbol, ...window }: Window & { readonly symbol: string },
): Promise<AcceptedWindow[]> {
  const { db } = archive.state;
  requireKnownSymbol(db, symbol);
  const revoked = revokeGaps(db, symbol, window, context.clock.nowMs());
  if (revoked.length === 0)
    throw new UsageError(
      `nothing to revoke: ${symbol} has no accepted gap in this window. To list the accepted gaps: oddslake gaps`,
    );
  await publishCompleteness(context, archive, 'gaps');
  return revoked;
}
