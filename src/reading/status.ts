import type { Archive } from '../archive/archive.ts';
import { allFiles, totalsOf } from '../archive/manifest.ts';
import { cursorOf, isLive, type LingerRules } from '../core/life.ts';
import { union } from '../core/window.ts';
import { journaledTicks } from '../state/journal.ts';
import { lostTicksOf, sureCoverageOf } from '../state/lost.ts';
import { lastRun } from '../state/runs.ts';
import { allSymbols } from '../state/symbols.ts';
import { countGaps } from './gaps.ts';

const cursorsMax = 20;

export interface StatusRules extends LingerRules {
  /** Symbols that are polled whatever the market lists say; none: those of the lists. */
  readonly named: readonly string[];
}

/** How far the archive is, as `status --json` prints it; `reached` is the watermark but for what is lost. */
export function readStatus(archive: Archive, rules: StatusRules, nowMs: number) {
  const { db } = archive.state;
  const manifest = archive.manifest();
  const symbols = allSymbols(db);
  const named = new Set(rules.named);
  const cursors = symbols
    .map((facts) => ({ facts, cursor: cursorOf(facts, sureCoverageOf(db, facts.symbol)) }))
    .filter(({ facts, cursor }) =>
      named.size > 0 ? named.has(facts.symbol) && facts.retiredAt === null : isLive(facts, cursor, nowMs, rules),
    )
    .map(({ facts, cursor }) => ({ symbol: facts.symbol, cursor, facts }))
    .sort((a, b) => a.cursor - b.cursor);
  const watermark = cursors.at(0)?.cursor ?? null;
  // What is lost may be so for good: it is told as a gap, and says nothing of how far behind collecting is.
  const reach = cursors.map(({ facts, cursor }) => {
    const lost = lostTicksOf(db, facts.symbol);
    return lost.length === 0 ? cursor : cursorOf(facts, union([...sureCoverageOf(db, facts.symbol), ...lost]));
  });
  const reached = reach.length === 0 ? null : reach.reduce((least, end) => Math.min(least, end));
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
      retired: symbols.filter((s) => s.retiredAt !== null).length,
    },
    published: {
      ticks: totalsOf(manifest.datasets.ticks.files).rows,
      bytes: totalsOf(allFiles(manifest)).bytes,
      days: Object.keys(manifest.days).length,
      days_complete: Object.values(manifest.days).filter((day) => day.complete).length,
    },
    journaled_ticks: journaledTicks(db),
    gaps: countGaps(archive, symbols),
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
