import { ProblemError } from './problem-details.ts';

// What several routes refuse, in the same words.

/** @throws ProblemError 400 where both ends are given and the window holds nothing */
export function requireWindow(from: number | null | undefined, to: number | null | undefined): void {
  if (from == null || to == null || from < to) return;
  throw new ProblemError(400, 'The window is empty: from must be before to.', {
    errors: [{ name: 'from', reason: 'must be before to' }],
  });
}

/** 404 for a symbol that the archive has never heard of. */
export const createUnknownSymbolError = (): ProblemError =>
  new ProblemError(404, 'No such symbol is known here. /api/v1/historical/markets?q= looks for ones by words.', {
    errors: [{ name: 'symbol', reason: 'is not known' }],
  });
