/** What a run proves of the ends of its responses, and where the archive or the night forbids it. */
import { expect, test } from 'vitest';
import { dayMs, hourMs, isWithin, minuteMs, type Window } from '../../../src/base/window.ts';
import {
  cutClaim,
  findSupports,
  type KnownSymbol,
  type ProofContext,
  proveEdges,
} from '../../../src/collector/paging/prove-coverage.ts';
import type { Edge } from '../../../src/collector/proof/proven.ts';
import { Night, noSilences, summarizeShown } from '../../../src/collector/proof/shown.ts';
import { createScriptedContext } from './served.ts';

const start = Date.UTC(2026, 5, 1);
const window = { from: start, to: start + 32 * dayMs };
const observedAt = start + 34 * dayMs;
const each = (fromMs: number, count: number, stepMs: number): number[] =>
  Array.from({ length: count }, (_, i) => start + fromMs + i * stepMs);
/** A witness of 144 ticks with a silence of 26 days. */
const witness = [...each(0, 72, hourMs), ...each(29 * dayMs, 72, hourMs)];

/** A night in which the witness and a symbol S were shown, and what proves the ends of S. @param unitMs to which the server rounds */
function startNight(times: readonly number[], known: Partial<KnownSymbol>, unitMs = 1) {
  const night = new Night();
  const note = (symbol: string, ticks: readonly number[]) => {
    const t = Float64Array.from(ticks);
    const shown = summarizeShown(window, t, t.length);
    night.note(symbol, shown, t, []);
    return shown;
  };
  note('W', witness);
  const shown = note('S', times);
  const round = (t: number): number => t - (t % unitMs);
  const scripted = createScriptedContext(
    ({ from, to }) => ({ times: times.filter((t) => isWithin(t, { from: round(from), to: round(to) })) }),
    {},
    { origin: 'poll', night, clock: { nowMs: () => observedAt, monotonicMs: () => 0, sleep: async () => {} } },
  );
  const { last = null } = known;
  const context: ProofContext = {
    ...scripted.context,
    concurrency: 1,
    settleMs: dayMs,
    knownSilences: noSilences,
    getCoverage: () => [{ from: start, to: observedAt }],
    getUnjudged: () => [],
    getSymbol: () => ({
      ...{ first: null, last, count: 0, observedAt: null },
      ...{ firstSeen: observedAt - dayMs, opensAt: null, provenTo: start },
      ...known,
    }),
    findTick: async (_, at) => (last !== null && last <= at ? last : null),
  };
  const edge = (side: Edge['side'], w: Window): Edge => ({
    symbol: 'S',
    side,
    window: w,
    shown,
    isUncapped: true,
    observedAt,
  });
  /** What is proven of an edge. */
  const prove = async (side: Edge['side'], w: Window) => {
    await proveEdges(context, [edge(side, w)], []);
    const claims = scripted.records.flatMap(({ covered }) => covered);
    return claims.filter(({ evidence, from, to }) => evidence === 'confirmed' && from < w.to && w.from < to);
  };
  return { ...scripted, night, context, prove };
}

test('what follows a last tick is not proven if the archive has a tick there that the response lacks', async () => {
  const tick = start + 10 * dayMs;
  const rest = { from: tick + 1, to: start + 20 * dayMs };
  const claimed = await startNight([tick], { first: tick, last: tick, count: 1 }).prove('after', rest);
  expect(claimed).toMatchObject([rest]);
  const later = startNight([tick], { first: tick, last: start + 15 * dayMs, count: 2 });
  expect(await later.prove('after', rest)).toEqual([]);
  // After the cut, nothing is proven in any case: a server may show ticks for some hours, and later again.
  const live = startNight([tick], { first: tick, last: start + 15 * dayMs, count: 2 });
  Object.assign(live.context, { settleMs: 20 * dayMs });
  expect(await live.prove('after', rest)).toMatchObject([rest]);
});

test('what precedes the first known tick is proven only by a response with a tick from after the run before it', async () => {
  const times = each(10 * dayMs, 150, minuteMs);
  const before = { from: start + 5 * dayMs, to: times[0]! };
  const [first, last] = [times[0]!, times.at(-1)!];
  const grown = startNight(times, { first, last, count: 149, observedAt: last - 1 });
  expect(await grown.prove('before', before)).toMatchObject([before]);
  // The last row may only have been hidden then, and a store of each symbol's last rows have dropped one for each that it took.
  const shown = startNight(times, { first, last, count: 149, observedAt: last });
  expect(await shown.prove('before', before)).toEqual([]);
});

test('the grid of a server is searched once, and remembered', async () => {
  const times = each(10 * dayMs + 500, 150, minuteMs);
  const known = { first: times[0]!, last: times.at(-1)!, count: 150 };
  const { prove, behavior, queries } = startNight(times, known, 1000);
  const before = { from: start + 5 * dayMs, to: times[0]! };
  await prove('before', before);
  expect(behavior.gridMs).toBe(1000);
  const onGrid = times[0]! + 500;
  // Found, and confirmed by a request that rounds to nothing.
  expect(queries.splice(0).map(({ to }) => to)).toEqual([times[0]! + 1, onGrid, times[0]! + 1]);
  await prove('before', before);
  expect(queries.map(({ to }) => to)).toEqual([times[0]! + 1, onGrid]);
  expect(behavior.gridMs).toBe(1000);
});

test('a grid is given up if a request inside of it brings its tick', async () => {
  const times = each(10 * dayMs + 500, 150, minuteMs);
  const known = { first: times[0]!, last: times.at(-1)!, count: 150 };
  const { prove, behavior, queries, context } = startNight(times, known);
  const before = { from: start + 5 * dayMs, to: times[0]! };
  // Of an earlier run.
  behavior.gridMs = dayMs;
  await prove('before', before);
  expect(behavior.gridMs).toBe(1);
  expect(queries.splice(0)[0]).toMatchObject({ from: times[0]! - 1, to: times[0]! + 1 });
  // A response lacks a tick that comes late: the next one has it, on whatever grid.
  const { ticks } = context.upstream;
  let isFirst = true;
  context.upstream.ticks = async (query, signal) => {
    const page = await ticks(query, signal);
    const { t, p } = page;
    const lacks = isFirst && t.includes(times[0]!);
    if (lacks) isFirst = false;
    return lacks ? { ...page, t: t.slice(1), p: p.slice(1), received: t.length - 1 } : page;
  };
  await prove('before', before);
  expect([isFirst, behavior.gridMs]).toEqual([false, 1]);
});

test('an empty response of a night in which known ticks came back empty supports nothing', () => {
  const { night, context } = startNight(each(10 * dayMs, 1, 1), {});
  const trail = Float64Array.of(start);
  night.note('T', summarizeShown(window, trail, 1), trail, []);
  const sent = { from: start + dayMs, to: start + 4 * dayMs };
  const empties = [{ symbol: 'E', ...sent, observedAt, lacksKnownTick: false, hasOthers: false, sent }];
  expect(findSupports(context, empties)).toHaveLength(1);
  // Nor does any empty response to a symbol if another one lacks its known tick.
  const later = [{ ...empties[0]!, from: start + 5 * dayMs, to: start + 9 * dayMs, lacksKnownTick: true }];
  expect(findSupports(context, [...later, ...empties])).toEqual([]);
  for (let i = 0; i < 2; i++) night.noteKnown(true);
  expect(findSupports(context, empties)).toEqual([]);
});

test('no response proves what is later than the last midnight before it, less the time in which ticks settle', () => {
  const claim = {
    from: start,
    to: start + 3 * dayMs,
    fetchedAt: start + 3 * dayMs + hourMs,
    evidence: 'confirmed',
  } as const;
  const cut = start + 2 * dayMs;
  expect(cutClaim(claim, dayMs)).toEqual([
    { ...claim, to: cut },
    { ...claim, from: cut, evidence: 'inferred' },
  ]);
  expect(cutClaim({ ...claim, from: cut + 1 }, dayMs)).toEqual([{ ...claim, from: cut + 1, evidence: 'inferred' }]);
  expect(cutClaim({ ...claim, to: cut }, dayMs)).toEqual([{ ...claim, to: cut }]);
  expect(cutClaim({ ...claim, evidence: 'inferred' as const }, dayMs)).toEqual([{ ...claim, evidence: 'inferred' }]);
});
