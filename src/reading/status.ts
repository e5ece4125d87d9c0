import { daysToJudge, readKnownState, spanOf } from '../archive/known-state.ts';
import { allFiles, totalsOf } from '../archive/manifest.ts';
import type { Archive } from '../archive/open-archive.ts';
import { type JudgeRules, judge, type Verdict } from '../core/completeness.ts';
import { dayOf } from '../core/time.ts';
import { dayFloor, dayMs } from '../core/window.ts';
import { journaledTicks } from '../state/journal.ts';
import { lastRun } from '../state/runs.ts';
import { readDamage } from './damage.ts';
import { countGaps } from './gaps.ts';

const cursorsMax = 20;

/**
 * Judges an archive as it is now: what is published, and what is journaled besides. Days are those of the manifest, those
 * that something is owed of, and all that have ended since.
 */
export function judgeNow(archive: Archive, by: JudgeRules, nowMs: number): Verdict {
  const state = readKnownState(archive, by, nowMs);
  const days = daysToJudge(Object.keys(archive.manifest().days), state);
  const today = dayFloor(nowMs);
  for (let day = (days.at(-1) ?? today) + dayMs; day < today; day += dayMs) days.push(day);
  return judge(state, { days, window: spanOf(archive.state.db, nowMs), isEndOpen: true });
}

/**
 * How far the archive is, as `status --json` prints it; `reached` is the watermark with inferred windows. Neither is held
 * up by what is lost, expired or accepted.
 */
export function readStatus(archive: Archive, by: JudgeRules, nowMs: number) {
  return statusOf(archive, judgeNow(archive, by, nowMs), nowMs);
}

/** The same of a verdict on this moment. */
export function statusOf(archive: Archive, verdict: Verdict, nowMs: number) {
  const { db } = archive.state;
  const manifest = archive.manifest();
  const { watermark, reached, counts } = verdict;
  const cursors = verdict.live.toSorted((a, b) => a.cursor - b.cursor);
  const run = lastRun(db);
  const ticks = manifest.datasets.ticks.files;
  const days = [...verdict.days.keys()].filter((day) => day + dayMs <= nowMs).sort((a, b) => a - b);
  return {
    archive: archive.layout.root,
    upstream: archive.state.identity.upstream,
    generation: manifest.generation,
    verdict: counts,
    watermark,
    reached,
    lag_ms: reached === null ? null : Math.max(0, nowMs - reached),
    symbols: { known: verdict.known, live: counts.live, suspended: counts.suspended },
    published: {
      ticks: totalsOf(ticks).rows,
      bytes: totalsOf(allFiles(manifest)).bytes,
      days: new Set(ticks.map(({ date }) => date)).size,
    },
    days: {
      first: days.length === 0 ? null : dayOf(days[0]!),
      last: days.length === 0 ? null : dayOf(days.at(-1)!),
    },
    ...readDamage(archive, manifest),
    journaled_ticks: journaledTicks(db),
    gaps: countGaps(verdict.gaps),
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
