import type { Archive } from '../archive/archive.ts';
import { allFiles, totalsOf } from '../archive/manifest.ts';
import { cursorOf, isLive, type LingerRules } from '../core/life.ts';
import { journaledTicks } from '../state/journal.ts';
import { sureCoverageOf } from '../state/lost.ts';
import { lastRun } from '../state/runs.ts';
import { allSymbols } from '../state/symbols.ts';
import { countGaps } from './gaps.ts';

const cursorsMax = 20;

export interface StatusRules extends LingerRules {
  /** Symbols that are polled whatever the market lists say; none: those of the lists. */
  readonly named: readonly string[];
}

/** How far the archive is, as `status --json` prints it. */
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
    .map(({ facts, cursor }) => ({ symbol: facts.symbol, cursor }))
    .sort((a, b) => a.cursor - b.cursor);
  const watermark = cursors[0]?.cursor ?? null;
  const run = lastRun(db);
  return {
    archive: archive.layout.root,
    upstream: archive.state.identity.upstream,
    generation: manifest.generation,
    watermark,
    lag_ms: watermark === null ? null : Math.max(0, nowMs - watermark),
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
    cursors: cursors.slice(0, cursorsMax),
    cursors_count: cursors.length,
  };
}
