import type { ServiceContext } from './context.ts';
import { ProblemError } from './problem-details.ts';

/**
 * Throws 503 where the archive's state was removed or replaced since it was opened: other processes write to another one
 * by now, and what is remembered here would be told as current for good.
 */
export function requireLocalState({ archive }: Pick<ServiceContext, 'archive'>): void {
  if (archive.state.isFileCurrent()) return;
  throw new ProblemError(
    503,
    'The state of the archive was removed or replaced under the service. Its operator has to start it again.',
  );
}
