import { createUnknownSymbol, type SymbolFacts } from '../../../src/archive/format/market.ts';
import type { MarketDetails } from '../../../src/archive/format/market-details.ts';
import type { RecordPaths } from '../../../src/archive/format/parse-market.ts';
import { settingsSchema } from '../../../src/settings/setting-table.ts';

const { symbol_paths, field_paths } = settingsSchema.properties.source.properties;
const fields = field_paths.properties;

/** The default paths of a market record, as in config/default.yaml. */
export const defaultPaths: RecordPaths = {
  symbolPaths: symbol_paths.default,
  fieldPaths: {
    question: fields.question.default,
    source: fields.source.default,
    opensAt: fields.opens_at.default,
    closesAt: fields.closes_at.default,
    resolvedAt: fields.resolved_at.default,
    outcome: fields.outcome.default,
    outcomeSource: fields.outcome_source.default,
    event: fields.event.default,
    exclusive: fields.exclusive.default,
    strikeLow: fields.strike_low.default,
    strikeHigh: fields.strike_high.default,
    expectedEnd: fields.expected_end.default,
    rules: fields.rules.default,
    feeSchedule: fields.fee_schedule.default,
    tickSize: fields.tick_size.default,
  },
};

/** Paths that find no details. */
export const noDetailPaths = {
  outcomeSource: [],
  event: [],
  exclusive: [],
  strikeLow: [],
  strikeHigh: [],
  expectedEnd: [],
  rules: [],
  feeSchedule: [],
  tickSize: [],
} as const;

/** A value for every detail. */
export const fullDetails: MarketDetails = {
  outcomeSource: 'derived',
  event: 'KXBTC-26NOV20',
  exclusive: true,
  strikeLow: 90_000,
  strikeHigh: 90_249.99,
  expectedEnd: Date.UTC(2026, 10, 20, 22),
  rules: 'Resolves to yes if … 🌧',
  // sha256sum of the text.
  rulesSha256: 'd66f854df712b593de6c3201442ce218c0bfa47021f00722cbf8985df04d8fba',
  feeSchedule: 'quadratic',
  tickSize: 0.001,
};

/** A symbol that was seen at time 0, or resolved, and is otherwise unknown. Tests override the rest. */
export const factsOf = (known: Partial<SymbolFacts> = {}): SymbolFacts => ({
  ...createUnknownSymbol('S', 0),
  lastSeen: known.resolvedAt ?? 0,
  listed: true,
  ...known,
});
