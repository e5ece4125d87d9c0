import type { SymbolFacts } from '../format/market.ts';
import type { OutcomeSource } from '../format/market-details.ts';

/** A row of `symbolColumns`. As arrays, because objects with so many properties are slow to create and to read. */
export type SymbolRow = readonly [
  symbol: string,
  canonical_id: string | null,
  source: string | null,
  question: string | null,
  category: string | null,
  is_active: number | null,
  opens_at: number | null,
  closes_at: number | null,
  resolved_at: number | null,
  outcome: number | null,
  first_seen: number,
  last_seen: number,
  last_active: number | null,
  inactive_since: number | null,
  listed: number,
  polled_from: number | null,
  served_from: number | null,
  first_tick: number | null,
  last_tick: number | null,
  ticks: number,
  unknown_since: number | null,
  suspended_at: number | null,
  tried_at: number | null,
  outcome_source: OutcomeSource | null,
  event: string | null,
  exclusive: number | null,
  strike_low: number | null,
  strike_high: number | null,
  expected_end: number | null,
  rules_sha256: string | null,
  fee_schedule: string | null,
  tick_size: number | null,
];

export const symbolColumns =
  'symbol, canonical_id, source, question, category, is_active, opens_at, closes_at, resolved_at, outcome, ' +
  'first_seen, last_seen, last_active, inactive_since, listed, polled_from, served_from, first_tick, last_tick, ' +
  'ticks, unknown_since, suspended_at, tried_at, outcome_source, event, exclusive, strike_low, strike_high, ' +
  'expected_end, rules_sha256, fee_schedule, tick_size';

/** In the order of `SymbolRow`. */
export const toSymbolFacts = (row: SymbolRow): SymbolFacts => ({
  symbol: row[0],
  canonicalId: row[1],
  source: row[2],
  question: row[3],
  category: row[4],
  isActive: row[5] === null ? null : row[5] !== 0,
  opensAt: row[6],
  closesAt: row[7],
  resolvedAt: row[8],
  outcome: row[9],
  firstSeen: row[10],
  lastSeen: row[11],
  lastActive: row[12],
  inactiveSince: row[13],
  listed: row[14] !== 0,
  polledFrom: row[15],
  servedFrom: row[16],
  firstTick: row[17],
  lastTick: row[18],
  ticks: row[19],
  unknownSince: row[20],
  suspendedAt: row[21],
  triedAt: row[22],
  outcomeSource: row[23],
  event: row[24],
  exclusive: row[25] === null ? null : row[25] !== 0,
  strikeLow: row[26],
  strikeHigh: row[27],
  expectedEnd: row[28],
  rulesSha256: row[29],
  feeSchedule: row[30],
  tickSize: row[31],
});
