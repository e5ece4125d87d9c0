import type { Archive } from '../../archive/archive.ts';
import { findProvenEnd } from '../../archive/completeness/symbol-lifetime.ts';
import { createUnknownSymbol } from '../../archive/format/market.ts';
import {
  readCurrentCoverageOf,
  readKnownPageCaps,
  readPublishedCoverage,
  readResponses,
} from '../../archive/journal/coverage-store.ts';
import { readEmptyWindows, readNight, recordEmptyWindows, recordNight } from '../../archive/journal/empty-responses.ts';
import { includeJournaledTicks } from '../../archive/journal/journal.ts';
import { readRecheckHistory } from '../../archive/journal/nightly-memory.ts';
import { readPolledWindows } from '../../archive/journal/precedence-store.ts';
import { readSymbol } from '../../archive/journal/symbol-store.ts';
import { watchManifest } from '../../archive/read/manifest-watcher.ts';
import { concatTimes, openTickReader, type ReadTicks } from '../../archive/read/read-ticks.ts';
import { openVerifiedFiles } from '../../archive/read/verified-files.ts';
import { DamageError } from '../../base/errors.ts';
import { compareUtf8 } from '../../base/symbol-name.ts';
import { dayMs, findFirstEndingAfter, floorToDay, intersectTwo, isEmpty, type Window } from '../../base/window.ts';
import { getLingerRules, getSettleMs } from '../../context/open-configured.ts';
import type { Origin } from '../../contract/raw-page.ts';
import type { TickCollectOutcome } from '../paging/collect-ticks.ts';
import { createEmptyRecord } from '../paging/fetch-symbol.ts';
import type { JournalWriter } from '../paging/journal-writer.ts';
import { beginAtAnchor, computeProofStart, findUnprovenStart, type SymbolPlan } from '../paging/plan.ts';
import { computeCut, cutClaim, type KnownSymbol } from '../paging/prove-coverage.ts';
import { createServerBehavior, type KnownPages, type ServerBehavior } from '../paging/server-behavior.ts';
import { findRepeated } from '../proof/proven.ts';
import { noSilences, type Silences } from '../proof/shown.ts';
import type { Run } from '../run/run.ts';

/** Size of the cache of published ticks among which earlier ones are looked up, in bytes. */
const cacheBytesMax = 64 * 1024 * 1024;

/** Opens a reader of ticks of the archive and the journal. */
export const openTicks = (archive: Archive): ReadTicks =>
  openTickReader(archive, watchManifest(archive), openVerifiedFiles(archive, cacheBytesMax), cacheBytesMax);

/** The same, but ticks of damaged files are not found: the publish reports the damage. */
function openKnownTicks({ archive }: Pick<Run, 'archive'>): ReadTicks {
  const readTicks = openTicks(archive);
  return (query) =>
    readTicks(query).catch((error: unknown) => {
      if (error instanceof DamageError) return null;
      throw error;
    });
}

/** Finds the last tick of a symbol from `since` up to a time. Reads one UTC day after the other, because it is usually close. */
async function findLastTick(readTicks: ReadTicks, symbol: string, at: number, since: number): Promise<number | null> {
  for (let day = floorToDay(at); day + dayMs > since; day -= dayMs) {
    const window = { from: Math.max(day, since), to: Math.min(day + dayMs, at + 1) };
    const last = (await readTicks({ symbol, ...window, limit: Number.MAX_SAFE_INTEGER }))?.slices.at(-1);
    if (last !== undefined) return last.t[last.to - 1]!;
  }
  return null;
}

/**
 * Lets each poll begin early enough to prove what is not proven yet: what the last jobs fetched after the cut of their
 * responses, and where nothing showed that they reached it.
 */
export async function coverUnprovenTails(
  run: Pick<Run, 'context' | 'archive' | 'source'>,
  plans: readonly SymbolPlan[],
): Promise<SymbolPlan[]> {
  const { state } = run.archive;
  const { lookbackMs } = getLingerRules(run.context);
  const nowMs = run.context.clock.nowMs();
  const rules = { lookbackMs, settleMs: getSettleMs(run.context) };
  const behavior = createServerBehavior(readKnownPageCaps<KnownPages>(state.db, run.source));
  const readTicks = openKnownTicks(run);
  const { bridge } = readSilences(run);
  const bridgeMs = bridge === null ? 0 : bridge.to - bridge.from;
  const findAnchor = async ({ symbol, tail }: SymbolPlan, start: number): Promise<number | null> => {
    const { lastTick } = tail!;
    return lastTick !== null && lastTick <= start
      ? lastTick
      : await findLastTick(readTicks, symbol, start, start - lookbackMs);
  };
  const out: SymbolPlan[] = [];
  // The symbols of a part file one after the other, so that it is read once: here, and to compare their responses with it.
  for (const plan of plans.toSorted((a, b) => compareUtf8(a.symbol, b.symbol))) {
    const responses = readCurrentCoverageOf(state.db, [plan.symbol]).get(plan.symbol) ?? [];
    const firstSeen = readSymbol(state.db, plan.symbol)?.firstSeen ?? nowMs;
    const since = computeProofStart(nowMs, rules, behavior, firstSeen);
    const end = findUnprovenStart(plan, responses, since, firstSeen);
    out.push(end === null ? plan : beginAtAnchor(plan, end, await findAnchor(plan, end.start), bridgeMs));
  }
  return out;
}

/** The longest silences that nights of the source showed. */
function readSilences({ archive, source }: Pick<Run, 'archive' | 'source'>): Silences {
  return readNight<Silences>(archive.state.db, source)?.silences ?? noSilences;
}

/** What proofs read of the archive. @param unfinishedSince see `readUnfinished` */
export function createProofAccess(
  run: Pick<Run, 'context' | 'archive' | 'night' | 'source' | 'usesOtherUpstream'>,
  origin: Origin,
  unfinishedSince: number | null,
) {
  const { db } = run.archive.state;
  const { lookbackMs } = getLingerRules(run.context);
  const settleMs = getSettleMs(run.context);
  const { downsampledAfterDays } = run.context.settings.source;
  const { omittedAt } = readRecheckHistory(db, run.source);
  const readTicks = openKnownTicks(run);
  return {
    night: run.night,
    settleMs,
    knownSilences: readSilences(run),
    getSymbol(symbol: string): KnownSymbol {
      const facts = readSymbol(db, symbol) ?? createUnknownSymbol(symbol, run.context.clock.nowMs());
      const published = readPublishedCoverage(db, symbol);
      return {
        first: facts.firstTick,
        last: includeJournaledTicks(db, facts).lastTick,
        count: facts.ticks,
        observedAt: published.reduce<number | null>((max, w) => Math.max(max ?? w.fetchedAt, w.fetchedAt), null),
        firstSeen: facts.firstSeen,
        opensAt: facts.opensAt,
        provenTo: findProvenEnd(facts, readCurrentCoverageOf(db, [symbol]).get(symbol) ?? []),
      };
    },
    getUnjudged(symbol: string) {
      if (unfinishedSince === null) return [];
      return readResponses(db, symbol).filter((w) => w.fetchedAt >= unfinishedSince && w.origin === origin);
    },
    findTick: (symbol: string, at: number) => findLastTick(readTicks, symbol, at, at - lookbackMs),
    async loadKnownTimes(symbol: string, window: Window, observedAt: number): Promise<Float64Array> {
      const thinnedTo = downsampledAfterDays === null ? 0 : observedAt - downsampledAfterDays * dayMs;
      // What was left out before may be gone.
      const goneTo = omittedAt === null ? 0 : computeCut(omittedAt, settleMs);
      const cut = run.usesOtherUpstream ? 0 : computeCut(observedAt, settleMs);
      const compared = intersectTwo(window, { from: Math.max(thinnedTo, goneTo), to: cut });
      const polled = isEmpty(compared) ? [] : readPolledWindows(db, symbol, compared);
      if (polled.length === 0) return new Float64Array();
      const page = await readTicks({ symbol, ...compared, limit: Number.MAX_SAFE_INTEGER });
      const isPolled = (t: number): boolean => (polled[findFirstEndingAfter(polled, t)]?.from ?? t + 1) <= t;
      return page === null ? new Float64Array() : concatTimes(page.slices).filter(isPolled);
    },
  };
}

const mirrorCause = 'the oddslake that is mirrored has not proven them';

/** Records what empty responses support, and claims what three nights support. */
export async function claimRepeated(
  run: Run,
  { supports, silences, stopError }: TickCollectOutcome,
  sink: JournalWriter,
  behavior: ServerBehavior,
): Promise<void> {
  const { archive, context } = run;
  const { db } = archive.state;
  db.transaction(() => {
    recordEmptyWindows(db, supports, context.clock.nowMs());
    // A night that was cut short shows less than there is.
    if (stopError !== null || context.signal.aborted) return;
    const since = readNight(db, run.source)?.since ?? context.clock.nowMs();
    const cause = context.settings.source.mirror ? mirrorCause : run.night.describeLimit(behavior);
    recordNight(db, { since, cause, silences }, run.source);
  });
  for (const [symbol, own] of Map.groupBy(supports, (support) => support.symbol)) {
    const repeated = findRepeated(readEmptyWindows(db, symbol));
    if (repeated.length === 0) continue;
    const fetchedAt = own.reduce((min, { observedAt }) => Math.min(min, observedAt), Number.POSITIVE_INFINITY);
    const covered = repeated.flatMap((window) =>
      cutClaim({ ...window, fetchedAt, evidence: 'repeated' as const }, getSettleMs(context)),
    );
    const span = { from: repeated[0]!.from, to: repeated.at(-1)!.to };
    await sink.append({ ...createEmptyRecord({ runId: run.id, origin: 'poll' }, symbol, span, fetchedAt), covered });
  }
  await sink.drain();
}
