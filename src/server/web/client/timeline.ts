import type { Static } from 'typebox';
import { formatPlainNumber } from '../../../base/format-quantity.ts';
import type { HistoricalMarketsResponse } from '../../../contract/historical.ts';
import { formatDate, formatTime } from './format.ts';

export type Market = Static<typeof HistoricalMarketsResponse>['markets'][number];

/** A state of a market, from its first poll to its last one. */
type MarketState = Omit<Market['history'][number], 'views'>;

/** What the service knows of a market over time. `history` has the latest of its `states`. */
type MarketHistory = Pick<
  Market,
  'first_seen' | 'last_seen' | 'first_tick' | 'last_tick' | 'opens_at' | 'closes_at' | 'resolved_at' | 'outcome'
> &
  Pick<Market, 'outcome_source' | 'states'> & { readonly history: readonly MarketState[] };

/** Something that happened to a market. */
export interface MarketEvent {
  /** Epoch milliseconds. */
  readonly t: number;
  readonly what: string;
  /** `schedule`: the venue gives the time. `poll`: the time of the poll that showed it first. `tick`: of a tick. */
  readonly from: 'schedule' | 'poll' | 'tick';
}

/** A settlement value in words: yes, no, or the value between. */
const formatOutcome = (outcome: number): string =>
  outcome === 1 ? 'yes' : outcome === 0 ? 'no' : formatPlainNumber(outcome);

export const nameOpening = (t: number | null, nowMs: number): string => (t !== null && t <= nowMs ? 'Opened' : 'Opens');

/** A market that is no longer active closed before a close that is still to come. */
export const nameClose = (t: number | null, isActive: boolean | null, nowMs: number): string =>
  t !== null && t <= nowMs ? 'Closed' : isActive === false ? 'Planned close' : 'Closes';

/** When a market ends or ended; empty if that is not known. */
export function formatEnd(
  { state, ends_at, resolved_at }: { state: string; ends_at: number | null; resolved_at: number | null },
  nowMs: number,
): string {
  if (state === 'resolved') return resolved_at === null ? 'resolved' : `resolved ${formatDate(resolved_at)}`;
  if (ends_at === null) return '';
  if (ends_at <= nowMs) return `ended ${formatDate(ends_at)}`;
  // It closed earlier than planned.
  return state === 'closed' ? '' : `ends ${formatDate(ends_at)}`;
}

/** The history of a market in order of time: its lists, its ticks, and what changed between its states. */
export function listMarketEvents(market: MarketHistory, nowMs: number): MarketEvent[] {
  const { history, states, outcome, outcome_source } = market;
  const events: MarketEvent[] = [];
  const add = (t: number | null, what: string, from: MarketEvent['from']): void => {
    if (t !== null) events.push({ t, what, from });
  };
  add(market.first_seen, 'Listed for the first time', 'poll');
  add(market.opens_at, nameOpening(market.opens_at, nowMs), 'schedule');
  add(market.first_tick, 'First tick', 'tick');
  add(market.last_tick, 'Last published tick', 'tick');
  add(market.closes_at, nameClose(market.closes_at, history.at(-1)?.is_active ?? null, nowMs), 'schedule');
  // Of a market with very many states, only the latest are in the history: the first of them is not a change.
  for (const [i, state] of history.entries()) {
    const before = history[i - 1];
    if (before !== undefined) for (const what of listChanges(before, state)) add(state.first_seen, what, 'poll');
    else if (states > history.length) add(state.first_seen, `${states - history.length} earlier changes`, 'poll');
  }
  const how = outcome_source === null ? '' : `, ${outcome_source}`;
  add(market.resolved_at, outcome === null ? 'Resolved' : `Resolved ${formatOutcome(outcome)}${how}`, 'schedule');
  add(market.last_seen, 'Listed for the last time, so far', 'poll');
  return events.sort((a, b) => a.t - b.t);
}

function listChanges(before: MarketState, after: MarketState): string[] {
  const changes: string[] = [];
  if (before.is_active !== after.is_active && after.is_active !== null)
    changes.push(after.is_active ? 'Active' : 'No longer active');
  if (before.closes_at !== after.closes_at && after.closes_at !== null)
    changes.push(`Close moved to ${formatTime(after.closes_at)}`);
  if (before.category !== after.category) changes.push(`Category: ${after.category ?? 'none'}`);
  if (before.resolved_at !== after.resolved_at && after.resolved_at !== null)
    changes.push(`Resolution known: ${formatTime(after.resolved_at)}`);
  if (before.outcome !== after.outcome)
    changes.push(after.outcome === null ? 'Outcome withdrawn' : `Outcome known: ${formatOutcome(after.outcome)}`);
  return changes;
}
