import type { TickRowRules } from '../../../src/collector/import/import-rows.ts';

/** The rules without flags: `t` in milliseconds, `p` unscaled. */
export const defaultRowRules: TickRowRules = {
  zone: null,
  unit: 'ms',
  truncates: false,
  priceScale: null,
  hasDecimalComma: false,
};
