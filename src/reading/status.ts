import type { Archive } from '../archive/archive.ts';
import { allFiles, type Manifest, totalsOf } from '../archive/manifest.ts';
import { type DayState, dayStates } from '../core/completeness.ts';
import { cursorOf, isActive, isLive, type LingerRules } from '../core/life.ts';
import { subtract, union, type Window } from '../core/window.ts';
import { provenCoverageOf } from '../state/coverage.ts';
import { exceptedWindows } from '../state/excepted.ts';
import { journaledTicks } from '../state/journal.ts';
import { allLostTicks, sureCoverageOf } from '../state/lost.ts';
import { lastRun } from '../state/runs.ts';
import { allSymbols } from '../state/symbols.ts';
import { readDamage } from './damage.ts';
import { countGaps } from './gaps.ts';

const cursorsMax = 20;

export interface StatusRules extends LingerRules {
  /** Symbols that are polled whatever the market lists say; none: those of the lists. */
  readonly named: readonly string[];
}

/**
 * How far the archive is, as `status --json` prints it; `reached` is the watermark with inferred windows. Neither is held
 * up by what is lost, expired or accepted.
 */
export function readStatus(archive: Archive, rules: StatusRules, nowMs: number) {
  const { db } = archive.state;
  const manifest = archive.manifest();
  const symbols = allSymbols(db);
  const named = new Set(rules.named);
  const losses = allLostTicks(db);
  const cursors = symbols
    .map((facts) => {
      const lost = losses.get(facts.symbol) ?? [];
      const covered = sureCoverageOf(db, facts.symbol, undefined, lost);
      const known = union([...covered, ...lost]);
      return { facts, covered, known, cursor: cursorOf(facts, covered, rules, known) };
    })
    .filter(({ facts, cursor }) =>
      named.size > 0 ? named.has(facts.symbol) && facts.suspendedAt === null : isLive(facts, cursor, nowMs, rules),
    )
    .map(({ facts, covered, known, cursor }) => ({ symbol: facts.symbol, cursor, covered, known, facts }))
    .sort((a, b) => a.cursor - b.cursor);
  // Nothing is covered before something is, however long the lifetimes are.
  const hasCoverage = cursors.some(({ covered }) => covered.length > 0);
  // What is lost, expired or accepted may be so for good: it is told as a gap, and says nothing of how far behind collecting is.
  const excepted = exceptedWindows(db);
  const leastOf = (coverageOfSymbol: (cursor: (typeof cursors)[number]) => readonly Window[]): number | null =>
    cursors.reduce<number | null>((least, of) => {
      const windows = excepted.get(of.symbol) ?? [];
      const end = cursorOf(of.facts, union([...coverageOfSymbol(of), ...windows]), rules, of.known);
      return Math.min(least ?? end, end);
    }, null);
  const watermark = hasCoverage
    ? leastOf(({ symbol }) => subtract(provenCoverageOf(db, symbol), losses.get(symbol) ?? []))
    : null;
  const reached = hasCoverage ? leastOf(({ covered }) => covered) : null;
  const run = lastRun(db);
  return {
    archive: archive.layout.root,
    upstream: archive.state.identity.upstream,
    generation: manifest.generation,
    watermark,
    reached,
    lag_ms: reached === null ? null : Math.max(0, nowMs - reached),
    symbols: {
      known: symbols.length,
      live: cursors.length,
      suspended: symbols.filter((s) => s.suspendedAt !== null && isActive(s, named.size > 0 ? named : null)).length,
    },
    published: {
      ticks: totalsOf(manifest.datasets.ticks.files).rows,
      bytes: totalsOf(allFiles(manifest)).bytes,
      days: Object.keys(manifest.days).length,
      days_by_state: countStates(manifest),
    },
    ...readDamage(archive, manifest),
    journaled_ticks: journaledTicks(db),
    gaps: countGaps(archive, symbols, rules, nowMs),
    last_run:
      run === undefined
        ? null
        : {
            run_id: run.runId,
            job: run.job,
            started_at: run.startedAt,
            finished_at: run.finishedAt,
            exit_code: run.exitCode,
          },
    cursors: cursors.slice(0, cursorsMax).map(({ symbol, cursor }) => ({ symbol, cursor })),
    cursors_count: cursors.length,
  };
}

/** How many days of a manifest have each state. */
export function countStates({ days }: Pick<Manifest, 'days'>): Record<DayState['state'], number> {
  const counts = Object.fromEntries(dayStates.map((state) => [state, 0])) as Record<DayState['state'], number>;
  for (const { state } of Object.values(days)) counts[state]++;
  return counts;
}
