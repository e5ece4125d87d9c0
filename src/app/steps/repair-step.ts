import { repair } from '../../archive/repair/repair.ts';
import type { GoneRows, Repaired } from '../../archive/repair/repair-report.ts';
import { noteVerified } from '../../archive/verify/hash-share.ts';
import { DamageError } from '../../core/errors.ts';
import { judgedBy } from '../../settings/judged-by.ts';
import type { Key } from '../../state/file-metadata.ts';
import { addPublished } from '../../state/runs.ts';
import type { Run } from '../run.ts';

/**
 * Mends the archive; what no request can bring back is a failure of the run.
 * @throws DamageError where the state is damaged: nothing is asked for by what it says, and what was mended is told all the same
 */
export async function repairStep(run: Run, show?: (repaired: Repaired) => void): Promise<void> {
  const { context, archive } = run;
  const { clock, waitMs, signal } = context;
  const display = await context.startDisplay('verify', 1, 'files');
  let repaired: Repaired;
  const begunAt = clock.nowMs();
  try {
    const onProgress = (done: number, total: number): void => display.update({ done, total });
    repaired = await repair(archive, { clock, waitMs, signal, ...judgedBy(context.settings), onProgress });
  } finally {
    display.stop();
  }
  // All that is published was looked at, and what was wrong of it was mended.
  noteVerified(archive, { ...repaired, findings: [] }, run.id, begunAt);
  for (const file of repaired.written) run.files.set(file.path, file);
  const lost = repaired.mended.reduce(
    (sum, { path, rowsLost }) => sum + (path.startsWith('ticks/') ? (rowsLost ?? 0) : 0),
    0,
  );
  if (lost > 0) addPublished(archive.state.db, run.id, { added: 0, lost });
  for (const gone of repaired.gone) {
    run.failures.push({ symbol: null, from: null, to: null, reason: `lost for good: ${goneText(gone)}` });
  }
  if (repaired.mended.length > 0)
    context.log.info({ files: repaired.mended.length, generation: repaired.generation }, 'mended');
  show?.(repaired);
  // Last: what the state knows of the files was needed to mend them.
  if (repaired.state !== null) throw new DamageError(repaired.state);
}

/** `3 rows of markets in markets/…, from A to B`. */
export function goneText({ dataset, path, rows, first, last }: GoneRows): string {
  const between = first === null || last === null ? '' : `, from ${keyText(first)} to ${keyText(last)}`;
  const uncovered = dataset === 'ticks' ? ' that no answer covers' : '';
  return `${rows} row${rows === 1 ? '' : 's'} of ${dataset}${uncovered} in ${path}${between}`;
}

const keyText = (key: Key): string => `(${key.map((value) => value ?? 'null').join(', ')})`;
