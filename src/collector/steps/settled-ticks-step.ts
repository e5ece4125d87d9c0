import { readCurrentCoverageOf } from '../../archive/journal/coverage-store.ts';
import { watchManifest } from '../../archive/read/manifest-watcher.ts';
import { openTickReader, type ReadTicks } from '../../archive/read/read-ticks.ts';
import { openVerifiedFiles } from '../../archive/read/verified-files.ts';
import { DamageError } from '../../base/errors.ts';
import { computePartNumber } from '../../base/symbol-name.ts';
import { dayMs, floorToDay } from '../../base/window.ts';
import { getLingerRules } from '../../context/open-configured.ts';
import { beginAtTick, findUnsettledStart, type SymbolPlan } from '../paging/plan.ts';
import type { Run } from '../run/run.ts';

/** Size of the cache of published ticks among which earlier ones are looked up, in bytes. */
const cacheBytesMax = 64 * 1024 * 1024;

/** Reads the last tick of a symbol at or before a time, epoch ms; null if none is found. */
export type FindLastTick = (symbol: string, at: number) => Promise<number | null>;

/**
 * Reads ticks of the archive and the journal, back to `reachMs` before the given time. Ticks of damaged files are not found: the
 * publish reports the damage.
 */
export function openLastTickFinder({ archive }: Pick<Run, 'archive'>, reachMs: number): FindLastTick {
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
 * Lets each poll begin early enough to prove again what the last job proved less than `settle_minutes` after it: at the last
 * tick before that stretch. One page usually holds this tick as well, so it costs no request.
 */
export async function coverUnsettledTails(
  run: Pick<Run, 'context' | 'archive'>,
  plans: readonly SymbolPlan[],
): Promise<SymbolPlan[]> {
  const { state } = run.archive;
  const { settleMs, lookbackMs } = getLingerRules(run.context);
  const findTick = openLastTickFinder(run, lookbackMs);
  const starts = plans.flatMap((plan, i) => {
    const responses = readCurrentCoverageOf(state.db, [plan.symbol]).get(plan.symbol) ?? [];
    const start = findUnsettledStart(plan, responses, settleMs);
    return start === null
      ? []
      : [{ i, plan, responses, start, part: computePartNumber(plan.symbol, state.identity.parts) }];
  });
  const out = [...plans];
  // The symbols of a part file one after the other, so that it is read once.
  for (const { i, plan, responses, start } of starts.sort((a, b) => a.part - b.part)) {
    const tick = await findTick(plan.symbol, start);
    if (tick !== null) out[i] = beginAtTick(plan, tick, responses);
  }
  return out;
}
