import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { systemDisk } from '../src/archive/disk/file-system.ts';
import { openArchive } from '../src/archive/open-archive.ts';
import { publish } from '../src/archive/publish/publish.ts';
import { readArchiveStatus } from '../src/archive/read/archive-status.ts';
import { listGaps } from '../src/archive/read/gaps.ts';
import { readStatus } from '../src/archive/read/status.ts';
import { systemClock } from '../src/base/system.ts';
import { dayMs } from '../src/base/window.ts';

// Measures the duration of a completeness check: node bench/status.ts [SYMBOLS] [DAYS]. Half of the symbols live for
// all days, the others for a week; every tenth has a gap, and the last night of each is inferred.

const symbols = Number(process.argv[2] ?? 20_000);
const days = Number(process.argv[3] ?? 200);
const nowMs = Date.UTC(2026, 5, 1, 3, 17);
const end = nowMs - 1000;
const start = Date.UTC(2026, 5, 1) - days * dayMs;

const root = mkdtempSync(join(tmpdir(), 'oddslake-status-'));
try {
  const archive = openArchive(
    { root, create: true, upstream: 'http://box', parts: 4, writer: 'bench', settleMs: 3_600_000 },
    systemDisk,
  );
  const { db } = archive.state;
  db.transaction(() => {
    for (let i = 0; i < symbols; i++) {
      const symbol = `SYMBOL-${String(i).padStart(6, '0')}`;
      const isLong = i % 2 === 0;
      const opensAt = isLong ? start : start + (i % (days - 8)) * dayMs;
      const isOver = !isLong && opensAt + 7 * dayMs < end - dayMs;
      const to = isOver ? opensAt + 7 * dayMs : end;
      db.run(
        `insert into symbols (symbol, is_active, opens_at, first_seen, last_seen, last_active, inactive_since, resolved_at, outcome,
           listed, polled_from, first_tick, last_tick, ticks) values (?1, ?2, ?3, ?3, ?4, ?5, ?6, ?7, ?8, 1, ?3, ?3, ?5, 100)`,
        symbol,
        isOver ? 0 : 1,
        opensAt,
        end,
        to,
        isOver ? to : null,
        isOver ? to : null,
        isOver ? 1 : null,
      );
      const gapStart = i % 10 === 3 ? opensAt + 2 * dayMs : null;
      const insert = (from: number, till: number, fetchedAt: number, evidence: string): void => {
        if (from < till)
          db.run(
            "insert into coverage (symbol, t_from, t_to, fetched_at, origin, evidence) values (?, ?, ?, ?, 'poll', ?)",
            symbol,
            from,
            till,
            fetchedAt,
            evidence,
          );
      };
      const night = isOver ? to : end - dayMs;
      const later = Math.max(opensAt, night - dayMs);
      insert(opensAt, gapStart ?? later, later + dayMs, 'confirmed');
      if (gapStart !== null) insert(gapStart + 3_600_000, later, later + dayMs, 'confirmed');
      insert(later, night, night + dayMs, 'confirmed');
      if (!isOver) insert(night, end, end, 'inferred');
    }
  });
  const rules = { lookbackMs: 7 * dayMs, lingerMs: 3 * dayMs, settleMs: 3_600_000 };
  const judged = { namedSymbols: null, views: [], lifetimeRules: rules };
  const clock = { ...systemClock, nowMs: () => nowMs };
  const timed = async (name: string, work: () => unknown): Promise<void> => {
    let best = Number.POSITIVE_INFINITY;
    let result: unknown;
    for (let n = 0; n < 3; n++) {
      const begun = performance.now();
      result = await work();
      best = Math.min(best, performance.now() - begun);
    }
    console.log(`${name.padEnd(28)} ${best.toFixed(0).padStart(6)} ms  ${JSON.stringify(result).slice(0, 160)}`);
  };
  const options = { clock, waitMs: 0, ...judged, candles: [], judges: true, runId: 'bench' };
  // One window a day is owed, so that every day has to be evaluated.
  db.transaction(() => {
    for (let day = start; day < end; day += dayMs)
      db.run("insert into owed values ('SYMBOL-000000', ?, ?, 'failed', 'bench', ?)", day, day + 1, nowMs);
  });
  await timed('publish without new ticks', async () => (await publish(archive, options)).manifest.watermark);
  await timed('status', () => {
    const { watermark, reached, gaps } = readStatus(archive, judged, nowMs);
    return { watermark, reached, gaps };
  });
  await timed('gaps', () => listGaps(archive, { from: null, to: null, symbols: [] }, judged, nowMs).count);
  await timed('metrics and health', () => readArchiveStatus(archive, nowMs));
  archive.close();
} finally {
  rmSync(root, { recursive: true, force: true });
}
