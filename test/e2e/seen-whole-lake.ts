import { mkdtempSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { onTestFinished } from 'vitest';
import { job as backfill } from '../../jobs/backfill.ts';
import { job as nightly } from '../../jobs/nightly.ts';
import { type Evidence, isProven } from '../../src/archive/format/coverage.ts';
import type { Summary } from '../../src/archive/journal/run-summary.ts';
import { systemClock } from '../../src/base/system.ts';
import { dayMs, isWithin, type Window } from '../../src/base/window.ts';
import { type Sandbox, startSandbox } from '../../src/sandbox/sandbox.ts';
import type { SandboxOptions } from '../../src/sandbox/sandbox-options.ts';
import { isUsable } from '../../src/sandbox/tick-behavior.ts';
import { fewFiles } from '../collector/run/nights.ts';
import { contextOf } from '../collector/run/one-process.ts';
import { scratchRoot } from '../harness/scratch-root.ts';
import { coverageOf, manifestOf, ticksOf } from './lake.ts';

// Archives of servers with different paging: the real jobs, over HTTP, and the published ticks compared with the
// server's.

/** Midnight before the first run, the end of two complete days. */
export const midnight = Date.UTC(2025, 5, 1);
export const past: Window = { from: midnight - 2 * dayMs, to: midnight };

/** The archive after a run, and the server's data of the symbols that the run was for. */
export interface Seen {
  readonly summary: Summary;
  /** Usable ticks that the server has up to the run, and those of them that are not published. */
  readonly there: number;
  readonly missing: number;
  /** Of the missing: those in a covered window, and in a proven one. */
  readonly missingCovered: number;
  readonly missingProven: number;
  /** State of each day by its date. */
  readonly days: Readonly<Record<string, string>>;
}

interface SeenLake {
  readonly box: Sandbox;
  readonly output: string;
  backfill(how?: {
    readonly recheckInferred?: boolean;
    readonly force?: boolean;
    readonly window?: Window;
  }): Promise<Seen>;
  /** The night after so many days. */
  night(days: number): Promise<Seen>;
}

/** Server and collector share one clock that advances: responses at one time would be one observation. */
export async function seenLake(options: Partial<SandboxOptions>, set: readonly string[] = []): Promise<SeenLake> {
  const output = mkdtempSync(join(scratchRoot, 'oddslake-seen-'));
  onTestFinished(() => rmSync(output, { recursive: true, force: true }));
  let base = midnight + 3 * 3_600_000;
  let since = performance.now();
  const nowMs = (): number => Math.floor(base + performance.now() - since);
  const box = await startSandbox(
    {
      seed: 11,
      markets: 5,
      ticksPerDay: 700,
      lifetimeDaysMax: 30,
      epochMs: past.from,
      cap: 200,
      echoWindow: 'echo',
      ...options,
    },
    { clock: { ...systemClock, nowMs } },
  );
  onTestFinished(() => box.stop());
  const always = [...fewFiles, 'source.first_lookback_days=2', 'archive.settle_minutes=0', ...set];

  function look(summary: Summary, window: Window): Seen {
    const [published, coverage] = [ticksOf(output), coverageOf(output)];
    const failed = summary.failures.map(({ symbol }) => symbol);
    const sums = { there: 0, missing: 0, missingCovered: 0, missingProven: 0 };
    for (const symbol of new Set([...coverage.map((row) => row.symbol), ...failed])) {
      if (symbol === null) continue;
      const mine = coverage.filter((row) => row.symbol === symbol);
      const publishedTimes = new Set(published.get(symbol)?.map(({ t }) => t));
      const { t, p } = box.readTruth(symbol, { from: window.from, to: Math.min(window.to, summary.started_at) });
      for (const [i, time] of t.entries()) {
        if (!isUsable({ t: time, p: p[i]! }, { unusableShare: options.unusableShare ?? 0 })) continue;
        sums.there++;
        if (publishedTimes.has(time)) continue;
        sums.missing++;
        const around = mine.filter((row) => isWithin(time, row));
        if (around.length > 0) sums.missingCovered++;
        if (around.some((row) => isProven({ evidence: row.evidence as Evidence }))) sums.missingProven++;
      }
    }
    const { days } = manifestOf(output);
    return { summary, ...sums, days: Object.fromEntries(Object.entries(days).map(([day, { state }]) => [day, state])) };
  }

  return {
    box,
    output,
    async backfill({ window = past, recheckInferred = false, force = false } = {}) {
      const how = { symbols: [], force, recheckInferred, allKnown: false, showPlan: null };
      return look(await backfill.run(await contextOf(output, box.url, nowMs, always), { window, ...how }), window);
    },
    async night(days) {
      base = midnight + days * dayMs + 3 * 3_600_000;
      since = performance.now();
      return look(await nightly.run(await contextOf(output, box.url, nowMs, always), { day: null }), {
        from: past.from,
        to: nowMs(),
      });
    },
  };
}
