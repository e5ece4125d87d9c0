/** `12,345`. The locale's own way takes 20 ms at its first number, and most commands print few. */
export const formatThousands = (value: number): string =>
  Number.isSafeInteger(value) ? String(value).replaceAll(/\B(?=(?:\d{3})+$)/g, ',') : value.toLocaleString('en-US');
