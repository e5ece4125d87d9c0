/** Fetches one window from scripted responses, and records all requests and appended records. */

import type { TickRecord } from '../../../src/archive/journal/journal.ts';
import { UpstreamError } from '../../../src/base/errors.ts';
import { isWithin, type Window } from '../../../src/base/window.ts';
import type { TickPage, TicksQuery } from '../../../src/client/upstream.ts';
import { defaultFetchOptions } from '../../../src/collector/paging/fetch-steps.ts';
import type { FetchContext, FetchPlan } from '../../../src/collector/paging/fetch-symbol.ts';
import { createServerBehavior, type ServerBehavior } from '../../../src/collector/paging/server-behavior.ts';
import { Night } from '../../../src/collector/proof/shown.ts';

export const minute = 60_000;
export const start = Date.UTC(2026, 6, 1);
export const window: Window = { from: start, to: start + 60 * minute };
export const later = window.to + 60 * minute;

type Answers = (query: TicksQuery, nth: number) => Partial<TickPage> & { readonly times?: readonly number[] };

/** A scripted upstream and its clock, which advances by a second per response, with all requests and appended records. */
export function createScriptedContext(
  respond: Answers,
  known: Partial<ServerBehavior> = {},
  rest: Partial<FetchContext> = {},
) {
  const queries: TicksQuery[] = [];
  const records: TickRecord[] = [];
  const pages: number[] = [];
  const behavior: ServerBehavior = { ...createServerBehavior(), ...known };
  let nowMs = later;
  const context: FetchContext = {
    upstream: {
      async ticks(query) {
        const nth = queries.push(query);
        if (nth > 500) throw new Error('too many requests');
        await Promise.resolve();
        const { times = [], ...fields } = respond(query, nth);
        nowMs += 1000;
        const t = Float64Array.from(times);
        const page = { t, p: t.map(() => 0.5), received: times.length, rejected: [], gaps: [] };
        return { ...page, from: null, to: null, generatedAt: null, ...fields };
      },
    },
    clock: { nowMs: () => nowMs, monotonicMs: () => nowMs, sleep: async () => {} },
    runId: 'run',
    origin: 'backfill',
    behavior,
    pageLimit: 5000,
    futureSkewMs: minute,
    signal: new AbortController().signal,
    append: async (record) => void records.push(record),
    onPage: (ticks) => void pages.push(ticks),
    night: new Night(),
    ...rest,
  };
  return { context, queries, records, pages, behavior };
}

export const every = (stepMs: number, count: number): number[] =>
  Array.from({ length: count }, (_, i) => start + i * stepMs);
/** The first `cap` ticks in the requested window, as from a server that keeps the earliest. */
export const selectTicks = (times: readonly number[], { from, to }: Window, cap = 5000) =>
  times.filter((t) => isWithin(t, { from, to })).slice(0, cap);
export const refusal = (status = 400): UpstreamError =>
  new UpstreamError('tick page', { failure: 'refused', reason: `HTTP ${status}`, status });
/** Plans that fetch each window separately, as a backfill does. */
export const toPlainPlans = (...windows: readonly Window[]): FetchPlan[] =>
  windows.map(({ from, to }) => ({ from, to, options: defaultFetchOptions }));
