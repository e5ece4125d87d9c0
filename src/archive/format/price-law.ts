import { formatNumber } from '../../base/format-quantity.ts';

/**
 * What another unit or another outcome makes of prices: each price offered is `value` times the one held at the same time,
 * the two add up to `value`, or the offered ones lie outside of 0 to 1, where all that are held lie inside.
 */
export interface PriceLaw {
  readonly kind: 'ratio' | 'sum' | 'outside';
  /** 0 for `outside`. */
  readonly value: number;
}

/** Two different prices of one symbol and time. */
export type PricePair = readonly [held: number, offered: number];

/** Fewer prices show no law. */
export const lawPricesMin = 5;
/** The share of the pairs that a law must explain: a service also revises some prices. */
const lawShareMin = 0.9;
/** Different pairs that a law needs, unless it is a power of ten: a price that stood still may be revised many times. */
const differentPairsMin = 3;
const tolerance = 1e-6;

const isNear = (a: number, b: number): boolean => Math.abs(a - b) <= tolerance * Math.abs(b);

export const isOutside = (p: number): boolean => p < 0 || p > 1;

export const fitsLaw = ({ kind, value }: PriceLaw, [held, offered]: PricePair): boolean => {
  if (kind === 'ratio') return held !== 0 && isNear(offered / held, value);
  return kind === 'sum' ? isNear(held + offered, value) : isOutside(offered);
};

/** Finds the constant ratio or sum in which prices stand; null if there is none. */
export function findPriceLaw(pairs: readonly PricePair[]): PriceLaw | null {
  const needed = Math.max(lawPricesMin, lawShareMin * pairs.length);
  if (pairs.length < lawPricesMin) return null;
  const ratios = pairs
    .map(([held, offered]) => offered / held)
    .filter((ratio) => ratio > 0 && Number.isFinite(ratio))
    .sort((a, b) => a - b);
  // The median is the ratio of nine in ten pairs, if they have one.
  const ratio = Number((ratios[ratios.length >> 1] ?? 1).toPrecision(7));
  const laws: PriceLaw[] = [
    ...(isNear(ratio, 1) ? [] : [{ kind: 'ratio', value: ratio } as const]),
    { kind: 'sum', value: 1 },
    { kind: 'sum', value: 100 },
  ];
  const isLaw = (law: PriceLaw): boolean => {
    const fitting = pairs.filter((pair) => fitsLaw(law, pair));
    const isPowerOfTen = law.kind === 'ratio' && Number.isInteger(Math.log10(law.value));
    const different = new Set(fitting.map(([a, b]) => `${Math.min(a, b)} ${Math.max(a, b)}`)).size;
    return fitting.length >= needed && (isPowerOfTen || different >= differentPairsMin);
  };
  return laws.find(isLaw) ?? null;
}

/** Finds the law of one response, or else of all together. @param bySymbol the pairs of each symbol of a source */
export function findPriceLawOf(bySymbol: Iterable<readonly PricePair[]>): PriceLaw | null {
  const groups = [...bySymbol];
  const all = findPriceLaw(groups.flat());
  if (all !== null) return all;
  for (const pairs of groups) {
    const law = findPriceLaw(pairs);
    if (law !== null) return law;
  }
  return null;
}

const round = (value: number): number => Number(value.toPrecision(6));

/** The factor that turns an offered price into the one that is held, by a law that is a ratio. */
export const toPriceScale = ({ value }: PriceLaw): number => round(1 / value);

/** The formula (base/price-formula.ts) that turns an offered price into the one that is held; `p` if it is not known. */
export function toPriceFormula(law: PriceLaw): string {
  const { kind, value } = law;
  if (kind === 'outside') return 'p';
  if (kind === 'sum') return `${value}-p`;
  return value > 1 ? `p/${round(value)}` : `p*${toPriceScale(law)}`;
}

/** What the offered prices are: `100 × those already held`. */
export function describeLaw(law: PriceLaw): string {
  const { kind, value } = law;
  if (kind === 'sum') return `${value} less those already held, as those of another outcome`;
  if (kind === 'outside') return 'outside of 0 to 1, where all already held are inside';
  const isFraction = value < 1 && Number.isInteger(toPriceScale(law));
  return `${isFraction ? `1/${formatNumber(toPriceScale(law))} of` : `${formatNumber(round(value))} ×`} those already held`;
}
