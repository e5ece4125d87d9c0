/** Successive merges as a publish makes them, with precedence stored as in the state; and the plain model. */
import { type CoveredWindow, overlayCoverage } from '../../../src/archive/format/coverage.ts';
import { mergePart } from '../../../src/archive/format/merge.ts';
import {
  overlayPrecedence,
  type Precedence,
  type PrecedenceWindow,
  precedenceRanks,
} from '../../../src/archive/format/precedence.ts';
import {
  type Conflict,
  emptyPart,
  type PartColumns,
  type RunTally,
  type TickChunk,
} from '../../../src/archive/format/tick-columns.ts';
import { isWithin } from '../../../src/base/window.ts';

/** One response or file; null if it covers nothing, since rows of a file cover only what is declared. */
export interface Observation extends TickChunk {
  readonly covers: CoveredWindow | null;
}

interface Published {
  readonly columns: PartColumns;
  readonly conflicts: readonly Conflict[];
  readonly tallies: ReadonlyMap<string, RunTally>;
  /** Rows added by all merges. */
  readonly added: number;
  /** Precedence windows that the state would hold. */
  readonly stretches: number;
}

/** Publishes batch after batch, as src/archive/publish/publish-day.ts and src/archive/journal/precedence-store.ts do. */
export function publish(batches: readonly (readonly Observation[])[]): Published {
  let columns = emptyPart;
  const windows = new Map<string, readonly PrecedenceWindow[]>();
  const coverage = new Map<string, CoveredWindow[]>();
  const conflicts: Conflict[] = [];
  const tallies = new Map<string, RunTally>();
  let added = 0;
  for (const batch of batches) {
    const merged = mergePart(columns, batch, {
      getWindows: (symbol) => windows.get(symbol) ?? [],
      inferPrecedence: (symbol, t) => {
        const response = coverage.get(symbol)?.find((w) => isWithin(t, w));
        return { rank: precedenceRanks.poll, observedAt: response?.fetchedAt ?? Number.NEGATIVE_INFINITY };
      },
    });
    columns = merged.columns;
    for (const [symbol, fresh] of Map.groupBy(merged.precedence, (window) => window.symbol))
      windows.set(symbol, overlayPrecedence(windows.get(symbol) ?? [], fresh));
    for (const { symbol, covers } of batch) {
      if (covers !== null) coverage.set(symbol, overlayCoverage([...(coverage.get(symbol) ?? []), covers]));
    }
    conflicts.push(...merged.conflicts);
    for (const [runId, tally] of merged.tallies) {
      const sum = tallies.get(runId) ?? { accepted: 0, duplicates: 0, conflicts: 0 };
      sum.accepted += tally.accepted;
      sum.duplicates += tally.duplicates;
      sum.conflicts += tally.conflicts;
      tallies.set(runId, sum);
    }
    for (const n of merged.added.values()) added += n;
  }
  const count = [...windows.values()].reduce((sum, list) => sum + list.length, 0);
  return { columns, conflicts, tallies, added, stretches: count };
}

interface Price extends Precedence {
  readonly p: number;
}

/** The ticks of an observation of which one counts for each time: the last one. */
function listLast({ t, p }: Observation): Map<number, number> {
  const last = new Map<number, number>();
  t.forEach((time, i) => {
    last.set(time, p[i]! + 0);
  });
  return last;
}

/** The model: of all observations of a key, the greatest (rank, observation time, price). */
export function winners(observations: readonly Observation[]): Map<string, Map<number, Price>> {
  const out = new Map<string, Map<number, Price>>();
  for (const observation of observations) {
    const { symbol, rank, observedAt } = observation;
    const mine = out.get(symbol) ?? new Map<number, Price>();
    out.set(symbol, mine);
    for (const [time, p] of listLast(observation)) {
      const fresh = { p, rank, observedAt };
      const held = mine.get(time);
      if (held === undefined || isGreater(fresh, held)) mine.set(time, fresh);
    }
    if (mine.size === 0) out.delete(symbol);
  }
  return out;
}

function isGreater(a: Price, b: Price): boolean {
  for (const [x, y] of [
    [a.rank, b.rank],
    [a.observedAt, b.observedAt],
    [a.p, b.p],
  ] as const) {
    if (x !== y) return x > y;
  }
  return false;
}

/** The rule key by key with every precedence stored: the counts and reports of a publish, batch after batch. */
export function publishPlainly(batches: readonly (readonly Observation[])[]) {
  const held = new Map<string, Price>();
  const conflicts = new Set<string>();
  const tallies = new Map<string, RunTally>();
  for (const batch of batches) {
    const seen = new Map<string, (Price & { run: string; counts: boolean })[]>();
    for (const { symbol, t, p, rank, observedAt, runId } of batch) {
      t.forEach((time, i) => {
        const list = seen.get(`${symbol} ${time}`) ?? [];
        seen.set(`${symbol} ${time}`, [
          ...list,
          { p: p[i]! + 0, rank, observedAt, run: runId, counts: t.lastIndexOf(time) === i },
        ]);
      });
    }
    for (const [key, list] of seen) {
      const before = held.get(key);
      const candidates = list.filter(({ counts }) => counts);
      const all: Price[] = before === undefined ? candidates : [before, ...candidates];
      const winner = all.reduce((best, next) => (isGreater(next, best) ? next : best));
      let accepted = before !== undefined;
      for (const { run, p, observedAt } of list) {
        const tally = tallies.get(run) ?? { accepted: 0, duplicates: 0, conflicts: 0 };
        tallies.set(run, tally);
        if (p !== (before ?? list[0]!).p) tally.conflicts++;
        else if (accepted) tally.duplicates++;
        else {
          accepted = true;
          tally.accepted++;
        }
        const seenAt = before === undefined ? Math.max(observedAt, winner.observedAt) : observedAt;
        if (p !== winner.p) conflicts.add(`${key} ${winner.p} ${p} ${seenAt}`);
      }
      if (before !== undefined && before.p !== winner.p)
        conflicts.add(`${key} ${winner.p} ${before.p} ${winner.observedAt}`);
      held.set(key, { p: winner.p, rank: winner.rank, observedAt: winner.observedAt });
    }
  }
  return { conflicts: [...conflicts].sort(), tallies };
}

/** Columns as plain rows. */
export const rowsOf = ({ symbols, offsets, t, p }: PartColumns): { symbol: string; t: number; p: number }[] =>
  symbols.flatMap((symbol, s) =>
    Array.from({ length: offsets[s + 1]! - offsets[s]! }, (_, i) => {
      const row = offsets[s]! + i;
      return { symbol, t: t[row]!, p: p[row]! };
    }),
  );
