import type { SymbolFacts } from '../../../src/archive/format/market.ts';

/** A symbol of which nothing is known but that it was seen at moment 0, or when it was resolved; tests say what else. */
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
