import { hashNumber } from '../core/random.ts';

export interface BookLevel {
  readonly price: number;
  readonly quantity: number;
}

const levelsPerSide = 5;

/** A book around a price, best first: steps of a thousandth, nothing outside (0, 1); empty where the price is 0 or 1. */
export function createOrderBook(price: number | undefined, key: number, nowMs: number) {
  const middle = price === undefined || price <= 0 || price >= 1 ? undefined : Math.round(price * 1000);
  const side = (direction: 1 | -1): BookLevel[] =>
    Array.from({ length: levelsPerSide }, (_, i) => ({ thousandths: (middle ?? 0) + direction * (i + 1), i }))
      .filter(({ thousandths }) => middle !== undefined && thousandths > 0 && thousandths < 1000)
      .map(({ thousandths, i }) => ({
        price: thousandths / 1000,
        quantity: 1 + (hashNumber(key + direction * (i + 1), Math.floor(nowMs / 60_000)) % 5_000),
      }));
  return { bids: side(-1), asks: side(1) };
}
