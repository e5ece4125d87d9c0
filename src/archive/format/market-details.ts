/**
 * `reported`: the record states the outcome. `derived`: the record says that its outcome was computed from something
 * else, for example from final prices.
 */
export type OutcomeSource = 'reported' | 'derived';

/** What a market record says of its outcome, event and trading rules. Null: unknown. Times are epoch milliseconds. */
export interface MarketDetails {
  /** Null if and only if the outcome is null. */
  readonly outcomeSource: OutcomeSource | null;
  /** The identifier of the event that the market belongs to. */
  readonly event: string | null;
  /** Whether at most one market of the event can resolve to yes. */
  readonly exclusive: boolean | null;
  readonly strikeLow: number | null;
  readonly strikeHigh: number | null;
  /** When the outcome is expected to be known. */
  readonly expectedEnd: number | null;
  readonly rules: string | null;
  /** SHA-256 of the UTF-8 text of the rules, in hexadecimal. Null if and only if the rules are null. */
  readonly rulesSha256: string | null;
  /** As the record names it. */
  readonly feeSchedule: string | null;
  /** Smallest step of the price, above 0 and below 1. */
  readonly tickSize: number | null;
}

/** The details of a symbol have the hash of the rules, but not their text. */
export type SymbolDetails = Omit<MarketDetails, 'rules'>;

/** The column of each field, in column order. */
export const detailColumns = [
  ['outcomeSource', 'outcome_source'],
  ['event', 'event'],
  ['exclusive', 'exclusive'],
  ['strikeLow', 'strike_low'],
  ['strikeHigh', 'strike_high'],
  ['expectedEnd', 'expected_end'],
  ['rules', 'rules'],
  ['rulesSha256', 'rules_sha256'],
  ['feeSchedule', 'fee_schedule'],
  ['tickSize', 'tick_size'],
] as const satisfies readonly (readonly [keyof MarketDetails, string])[];

/** The same for the columns of symbols. */
export const symbolDetailColumns = detailColumns.filter(
  (pair): pair is Exclude<(typeof detailColumns)[number], readonly ['rules', string]> => pair[0] !== 'rules',
);

export const unknownDetails: MarketDetails = Object.fromEntries(
  detailColumns.map(([field]) => [field, null]),
) as Record<(typeof detailColumns)[number][0], null>;
