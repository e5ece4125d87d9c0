/** How a price is made of one that a service sent: `p`, `p/100`, `p*0.01`, `1-p`, `1-p/100`. A regular expression. */
export const priceFormulaPattern = '^(?:(?:1|100)-)?p(?:[*/](?=[0-9.]*[1-9])[0-9]{1,9}(?:\\.[0-9]{1,9})?)?$';

/** Parses a formula that matches the pattern. */
export function parsePriceFormula(text: string): (p: number) => number {
  const [, whole, operator, operand] = /^(?:(\d+)-)?p(?:([*/])(.+))?$/.exec(text)!;
  const scale = (p: number): number => {
    if (operator === undefined) return p;
    return operator === '*' ? p * Number(operand) : p / Number(operand);
  };
  // 1 - 0.9 is 0.09999999999999998.
  return whole === undefined ? scale : (p) => Number((Number(whole) - scale(p)).toFixed(12));
}
