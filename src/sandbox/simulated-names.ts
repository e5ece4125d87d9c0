import { drawAt } from '../core/random.ts';

/** What a market is about, and how each venue would name it. */
interface Topic {
  readonly category: string;
  readonly code: string;
  readonly slug: string;
  readonly question: string;
}

const topics: readonly Topic[] = [
  { category: 'crypto', code: 'KXBTC', slug: 'bitcoin-be-above', question: 'Will Bitcoin be above' },
  { category: 'crypto', code: 'KXETH', slug: 'ethereum-be-above', question: 'Will Ethereum be above' },
  { category: 'politics', code: 'KXAPPROVE', slug: 'approval-rating-be-above', question: 'Will approval be above' },
  {
    category: 'economics',
    code: 'KXCPIYOY',
    slug: 'inflation-come-in-above',
    question: 'Will inflation come in above',
  },
  { category: 'weather', code: 'KXHIGHNY', slug: 'highest-temperature-in-nyc-be', question: 'Will New York reach' },
  { category: 'sports', code: 'KXNBAPTS', slug: 'total-points-be-over', question: 'Will the total be over' },
];

const months = ['jan', 'feb', 'mar', 'apr', 'may', 'jun', 'jul', 'aug', 'sep', 'oct', 'nov', 'dec'];

export interface MarketNames {
  readonly canonicalId: string;
  readonly category: string;
  readonly question: string;
  /** As one venue writes it, e.g. KXBTC-26NOV1917-T62.5 */
  readonly kalshi: string;
  /** As the other does, e.g. will-bitcoin-be-above-62pt5-on-nov-19-2026-17h */
  readonly polymarket: string;
}

/** Names of the market of a slot that closes in that hour: unique, as a slot closes once in half a day at most. */
export function createMarketNames(seed: number, slot: number, closesAt: number): MarketNames {
  const topic = topics[Math.floor(drawAt(seed ^ 0x70b1c, slot) * topics.length)]!;
  const level = 20 + slot * 0.5;
  const at = new Date(closesAt);
  const month = months[at.getUTCMonth()]!;
  const day = String(at.getUTCDate()).padStart(2, '0');
  const hour = String(at.getUTCHours()).padStart(2, '0');
  const year = at.getUTCFullYear();
  const stamp = `${year % 100}${month}${day}${hour}`;
  return {
    canonicalId: `${topic.code.slice(2).toLowerCase()}-${stamp}-${level}`,
    category: topic.category,
    question: `${topic.question} ${level} on ${day} ${month} ${year}, ${hour}:00 UTC?`,
    kalshi: `${topic.code}-${stamp.toUpperCase()}-T${level}`,
    polymarket: `will-${topic.slug}-${String(level).replace('.', 'pt')}-on-${month}-${day}-${year}-${hour}h`,
  };
}
