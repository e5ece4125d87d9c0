import { type CoveredWindow, isProven } from '../../../src/archive/format/coverage.ts';
import type { Manifest } from '../../../src/archive/format/manifest.ts';
import type { Database } from '../../../src/archive/journal/database.ts';
import type { CellValue } from '../../../src/archive/parquet/rows.ts';
import { dayMs, floorToDay, union } from '../../../src/base/window.ts';
import type { Oracle } from './oracle.ts';
import { computeContiguousEnd, subtractWindows } from './spans.ts';

interface KnownSymbol {
  readonly symbol: string;
  readonly served_from: number | null;
  readonly first_seen: number;
  readonly opens_at: number | null;
  readonly first_tick: number | null;
  readonly live: number;
}

interface Expired {
  readonly symbol: string;
  readonly t_from: number;
  readonly t_to: number;
}

/** Errors in the watermark and days of a manifest. `rows`: those of its symbols. */
export function* findCompletenessErrors(
  manifest: Manifest,
  covered: ReadonlyMap<string, readonly CoveredWindow[]>,
  rows: readonly (readonly CellValue[])[],
  oracle: Oracle,
  db: Database,
  { lookbackMs }: { lookbackMs: number },
): Generator<string> {
  const { watermark, reached, days } = manifest;
  // Lists fetched before the publish may have been recorded after it: the manifest's symbols show what it knew.
  const listed = new Set(rows.filter((row) => row[1] !== null && row[5] !== false).map((row) => row[0]));
  const known = db.all<KnownSymbol & Record<string, number>>(
    `select symbol, served_from, first_seen, opens_at, first_tick, listed = 1 and inactive_since is null
       and resolved_at is null and suspended_at is null and last_seen < ? as live from symbols`,
    manifest.created_at,
  );
  const live = known.filter((symbol) => symbol.live === 1 && listed.has(symbol.symbol));
  const lostWindows = (manifest.lost ?? []).filter(({ dataset }) => dataset === 'ticks');
  const expired = db
    .all<Expired & Record<string, never>>("select symbol, t_from, t_to from owed where kind = 'expired'")
    .map(({ symbol, t_from, t_to }) => ({ symbol, from: t_from, to: t_to }));
  const excepted = [...lostWindows, ...expired, ...(manifest.accepted ?? [])];
  // A withdrawal that is not published yet was covered when the manifest was written.
  const takenBack = db
    .all<Expired & Record<string, never>>('select symbol, t_from, t_to from journal_withdrawn')
    .map(({ symbol, t_from, t_to }) => ({ symbol, from: t_from, to: t_to }));
  /** Beginning of its lifetime, and where it may have begun by what was known at this publish. */
  const startsOf = ({ symbol, served_from, first_seen, opens_at, first_tick }: KnownSymbol): [number, ...number[]] => {
    const had = [...(covered.get(symbol) ?? []), ...lostWindows.filter((w) => w.symbol === symbol)].map(
      ({ from }) => from,
    );
    const seen = Math.min(first_tick ?? Number.POSITIVE_INFINITY, ...had);
    const starts = [opens_at, first_seen - lookbackMs, seen].filter((from) => from !== null);
    const opened = opens_at ?? Math.min(...starts);
    // Ticks of the day on which the history of the service begins do not make that day whole.
    const start = served_from === null ? opened : Math.max(opened, Math.min(served_from, ...had));
    return [start, ...starts, first_seen, ...(served_from === null ? [] : [served_from])];
  };
  for (const [name, moment, isCounted] of [
    ['watermark', watermark, isProven],
    ['reached', reached, () => true],
  ] as const) {
    // Lost, expired and accepted windows do not hold back either.
    const windowsOf = (symbol: string) =>
      union([...(covered.get(symbol) ?? []).filter(isCounted), ...excepted.filter((w) => w.symbol === symbol)]);
    for (const known of live) {
      const { symbol } = known;
      const end = computeContiguousEnd(windowsOf(symbol), startsOf(known)[0]);
      // Nothing is covered before the first coverage.
      if (moment === null && !live.some((one) => (covered.get(one.symbol) ?? []).some(isCounted))) continue;
      if (moment === null || moment > end) yield `${name}: ${moment}, and ${symbol} is covered up to ${end}`;
    }
    // The watermark equals the end of coverage of the symbol that holds it back.
    const ends = known.flatMap((one) => startsOf(one).map((from) => computeContiguousEnd(windowsOf(one.symbol), from)));
    if (moment !== null && moment !== manifest.created_at && !ends.includes(moment))
      yield `${name}: ${moment}, and no symbol is covered up to there`;
  }
  for (const [date, { state, expected, covered: had, missing, exceptions }] of Object.entries(days)) {
    if (missing.length !== Math.min(20, expected - had))
      yield `${state}: ${date} expects ${expected} and has ${had} symbols, and lists ${missing} as missing`;
    if (state === 'incomplete' || state === 'empty') continue;
    // Inferred windows make it provisional, even with exceptions.
    if ((state === 'complete_with_exceptions') !== exceptions > 0 && state !== 'provisional')
      yield `${state}: ${date} has ${exceptions} exceptions`;
    if (had !== expected && exceptions === 0) yield `${state}: ${date}, and it has ${had} of ${expected} symbols`;
    const from = Date.parse(date);
    for (const window of manifest.lost ?? [])
      if (floorToDay(window.from) === from && exceptions === 0)
        yield `${state}: ${date}, and ${JSON.stringify(window)} is lost`;
    for (const { symbol, opens_at, served_from } of live) {
      if (opens_at === null) continue;
      const claims = (oracle.covers.get(symbol) ?? []).filter((w) => state === 'provisional' || isProven(w));
      const excepted = [...lostWindows, ...takenBack].filter((w) => w.symbol === symbol);
      const holes = subtractWindows(
        [{ from: Math.max(from, opens_at, served_from ?? from), to: from + dayMs }],
        [...claims, ...excepted],
      );
      if (holes.length > 0) yield `${state}: ${date}, and ${symbol} lacks a response for ${JSON.stringify(holes)}`;
    }
  }
}
