import type { Context } from '../app/context.ts';
import { lingerRules, openConfiguredArchive } from '../app/run.ts';
import { allFiles, totalsOf } from '../archive/manifest.ts';
import { cursorOf, isLive } from '../core/life.ts';
import { isoUtc } from '../core/time.ts';
import { coverageOf } from '../state/coverage.ts';
import { journaledTicks } from '../state/journal.ts';
import { lastRun } from '../state/runs.ts';
import { allSymbols } from '../state/symbols.ts';
import { duration, many, number, size } from './amounts.ts';
import { countGaps } from './read-gaps.ts';

const cursorsMax = 20;

/** How far the archive is, as `status --json` prints it. */
export function readStatus(context: Context) {
  const archive = openConfiguredArchive(context, false);
  try {
    const { db } = archive.state;
    const nowMs = context.clock.nowMs();
    const manifest = archive.manifest();
    const symbols = allSymbols(db);
    const named = new Set(context.settings.symbols);
    const cursors = symbols
      .map((facts) => ({ facts, cursor: cursorOf(facts, coverageOf(db, facts.symbol)) }))
      .filter(({ facts, cursor }) =>
        named.size > 0
          ? named.has(facts.symbol) && facts.retiredAt === null
          : isLive(facts, cursor, nowMs, lingerRules(context)),
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
  } finally {
    archive.close();
  }
}

/** The same for a person. */
export function statusText(status: ReturnType<typeof readStatus>): string {
  const { published, symbols, last_run: run } = status;
  const lines = [
    ['archive', `${status.archive} (upstream ${status.upstream}, generation ${status.generation})`],
    [
      'published',
      `${many(published.ticks, 'tick')}, ${size(published.bytes)}, ${many(published.days, 'day')} (${published.days_complete} complete)`,
    ],
    ['journaled', `${many(status.journaled_ticks, 'tick')} not yet published`],
    ['symbols', `${number(symbols.live)} live of ${number(symbols.known)} known, ${number(symbols.retired)} given up`],
    [
      'covered',
      status.watermark === null
        ? 'no live symbol'
        : `every live symbol up to ${isoUtc(status.watermark)}, ${duration(status.lag_ms!)} ago`,
    ],
    ['gaps', `${many(status.gaps.windows, 'window')} of ${many(status.gaps.symbols, 'symbol')}`],
    [
      'last run',
      run === null
        ? 'none'
        : `${run.job}, started ${isoUtc(run.started_at)}, ${run.finished_at === null ? 'not finished' : `exit code ${run.exit_code}`}`,
    ],
  ];
  const behind = status.cursors.slice(0, 5).map(({ symbol, cursor }) => `    ${isoUtc(cursor)}  ${symbol}`);
  const tail = behind.length === 0 ? '' : `  furthest behind\n${behind.join('\n')}\n`;
  return `${lines.map(([name, value]) => `  ${name!.padEnd(9)}  ${value}`).join('\n')}\n${tail}`;
}
