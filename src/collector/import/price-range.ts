/** What is known about the prices of a file. */
export function createPriceRange() {
  let count = 0;
  let above = 0;
  let whole = 0;
  let outside = 0;
  return {
    /** Adds a finite price. */
    add(price: number) {
      count++;
      if (price > 1) above++;
      if (price < 0 || price > 100) outside++;
      if (Number.isInteger(price)) whole++;
    },
    /** The number of prices, and of those above 1. */
    get count() {
      return count;
    },
    get aboveOne() {
      return above;
    },
    /**
     * Whether the prices may be in cents or percent: all lie between 0 and 100, at least one above 1, and they are whole numbers
     * or mostly above 1.
     */
    looksLikeCents: (): boolean => above > 0 && outside === 0 && (whole === count || above >= count / 2),
  };
}

/** Whether prices may be in cents or percent, as `PriceRange` says. */
export function looksLikeCents(prices: readonly number[]): boolean {
  const range = createPriceRange();
  for (const price of prices) if (Number.isFinite(price)) range.add(price);
  return range.looksLikeCents();
}
