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
import { readSymbol } from '../../archive/journal/symbol-store.ts';
import { watchManifest } from '../../archive/read/manifest-watcher.ts';
import { openTickReader, type ReadTicks } from '../../archive/read/read-ticks.ts';
import { openVerifiedFiles } from '../../archive/read/verified-files.ts';
import { DamageError } from '../../base/errors.ts';
import { computePartNumber } from '../../base/symbol-name.ts';
import { dayMs, floorToDay } from '../../base/window.ts';
import { getLingerRules, getSettleMs } from '../../context/open-configured.ts';
import type { Origin } from '../../contract/raw-page.ts';
import type { TickCollectOutcome } from '../paging/collect-ticks.ts';
import { createEmptyRecord } from '../paging/fetch-symbol.ts';
import type { JournalWriter } from '../paging/journal-writer.ts';
import { beginAtAnchor, computeProofStart, findUnprovenStart, type SymbolPlan } from '../paging/plan.ts';
import { cutClaim, type ProofContext } from '../paging/prove-coverage.ts';
import { createServerBehavior, type KnownPages, type ServerBehavior } from '../paging/server-behavior.ts';
import { findRepeated } from '../proof/proven.ts';
import { noSilences, type Silences } from '../proof/shown.ts';
import type { Run } from '../run/run.ts';

/** Size of the cache of published ticks among which earlier ones are looked up, in bytes. */
const cacheBytesMax = 64 * 1024 * 1024;

/** Reads the last tick of a symbol at or before a time, epoch ms; null if none is found. */
type FindLastTick = (symbol: string, at: number) => Promise<number | null>;

/**
 * Reads ticks of the archive and the journal, back to `reachMs` before the given time. Ticks of damaged files are not found: the
 * publish reports the damage.
 */
function openLastTickFinder({ archive }: Pick<Run, 'archive'>, reachMs: number): FindLastTick {
  const readTicks = openTickReader(
    archive,
    watchManifest(archive),
    openVerifiedFiles(archive, cacheBytesMax),
    cacheBytesMax,
  );
  return async (symbol, at) => {
    try {
      return await findLastTick(readTicks, symbol, at, at - reachMs);
    } catch (error) {
      if (error instanceof DamageError) return null;
      throw error;
    }
  };
}

/** Reads one UTC day after the other, because the tick is usually close. */
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
  const findTick = openLastTickFinder(run, lookbackMs);
  const starts = plans.flatMap((plan, i) => {
    const responses = readCurrentCoverageOf(state.db, [plan.symbol]).get(plan.symbol) ?? [];
    const firstSeen = readSymbol(state.db, plan.symbol)?.firstSeen ?? nowMs;
    const since = computeProofStart(nowMs, rules, behavior, firstSeen);
    const end = findUnprovenStart(plan, responses, since, firstSeen);
    return end === null ? [] : [{ i, plan, end, part: computePartNumber(plan.symbol, state.identity.parts) }];
  });
  const out = [...plans];
  const { bridge } = readSilences(run);
  const bridgeMs = bridge === null ? 0 : bridge.to - bridge.from;
  const findAnchor = async ({ symbol, tail }: SymbolPlan, start: number): Promise<number | null> => {
    const { lastTick } = tail!;
    return lastTick !== null && lastTick <= start ? lastTick : await findTick(symbol, start);
  };
  // The symbols of a part file one after the other, so that it is read once.
  for (const { i, plan, end } of starts.sort((a, b) => a.part - b.part))
    out[i] = beginAtAnchor(plan, end, await findAnchor(plan, end.start), bridgeMs);
  return out;
}

/** The longest silences that nights of the source showed. */
function readSilences({ archive, source }: Pick<Run, 'archive' | 'source'>): Silences {
  return readNight<Silences>(archive.state.db, source)?.silences ?? noSilences;
}

/** What proofs read of the archive. @param unfinishedSince see `readUnfinished` */
export function createProofAccess(
  run: Pick<Run, 'context' | 'archive' | 'night' | 'source'>,
  origin: Origin,
  unfinishedSince: number | null,
): Pick<ProofContext, 'night' | 'settleMs' | 'knownSilences' | 'getSymbol' | 'findTick' | 'getUnjudged'> {
  const { db } = run.archive.state;
  const { lookbackMs } = getLingerRules(run.context);
  let findTick: FindLastTick | undefined;
  return {
    night: run.night,
    settleMs: getSettleMs(run.context),
    knownSilences: readSilences(run),
    getSymbol(symbol) {
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
    getUnjudged(symbol) {
      if (unfinishedSince === null) return [];
      return readResponses(db, symbol).filter((w) => w.fetchedAt >= unfinishedSince && w.origin === origin);
    },
    findTick(symbol, at) {
      findTick ??= openLastTickFinder(run, lookbackMs);
      return findTick(symbol, at);
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
