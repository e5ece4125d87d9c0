import type { SymbolFacts } from '../../../src/archive/format/market.ts';

/** A symbol that was seen at time 0, or resolved, and is otherwise unknown. Tests override the rest. */
export const factsOf = (known: Partial<SymbolFacts> = {}): SymbolFacts => ({
  symbol: 'S',
  canonicalId: null,
  source: null,
  question: null,
  category: null,
  isActive: null,
  opensAt: null,
  closesAt: null,
  resolvedAt: null,
  outcome: null,
  firstSeen: 0,
  lastSeen: known.resolvedAt ?? 0,
  lastActive: null,
  inactiveSince: null,
  listed: true,
  polledFrom: null,
  servedFrom: null,
  firstTick: null,
  lastTick: null,
  ticks: 0,
  unknownSince: null,
  suspendedAt: null,
  triedAt: null,
  ...known,
});
