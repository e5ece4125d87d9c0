import { repairArchive } from '../../archive/repair/repair.ts';
import type { RepairReport, UnrecoverableRows } from '../../archive/repair/repair-report.ts';
import { recordVerification } from '../../archive/verify/hash-share.ts';
import { DamageError } from '../../core/errors.ts';
import { toCompletenessRules } from '../../settings/judged-by.ts';
import type { SortKey } from '../../state/file-metadata.ts';
import { addPublishedTicks } from '../../state/runs.ts';
import type { Run } from '../run.ts';

/**
 * Mends the archive; what no request can bring back is a failure of the run.
 * @throws DamageError where the state is damaged: nothing is asked for by what it says, and what was mended is told all the same
 */
export async function repairDamage(run: Run, show?: (repaired: RepairReport) => void): Promise<void> {
  const { context, archive } = run;
  const { clock, waitMs, signal } = context;
  const display = await context.startDisplay('verify', 1, 'files');
  let repaired: RepairReport;
  const begunAt = clock.nowMs();
  try {
    const onProgress = (done: number, total: number): void => display.update({ done, total });
    repaired = await repairArchive(archive, {
      clock,
      waitMs,
      signal,
      ...toCompletenessRules(context.settings),
      onProgress,
    });
  } finally {
    display.stop();
  }
  // All that is published was looked at, and what was wrong of it was mended.
  recordVerification(archive, { ...repaired, findings: [] }, run.id, begunAt);
  for (const file of repaired.written) run.files.set(file.path, file);
  const lost = repaired.mended.reduce(
    (sum, { path, rowsLost }) => sum + (path.startsWith('ticks/') ? (rowsLost ?? 0) : 0),
    0,
  );
  if (lost > 0) addPublishedTicks(archive.state.db, run.id, { added: 0, lost });
  for (const gone of repaired.gone) {
    run.failures.push({ symbol: null, from: null, to: null, reason: `lost for good: ${formatGoneRows(gone)}` });
  }
  if (repaired.mended.length > 0)
    context.log.info({ files: repaired.mended.length, generation: repaired.generation }, 'mended');
  show?.(repaired);
  // Last: what the state knows of the files was needed to mend them.
  if (repaired.state !== null) throw new DamageError(repaired.state);
}

/** `3 rows of markets in markets/…, from A to B`. */
export function formatGoneRows({ dataset, path, rows, first, last }: UnrecoverableRows): string {
  const between = first === null || last === null ? '' : `, from ${formatKey(first)} to ${formatKey(last)}`;
  const uncovered = dataset === 'ticks' ? ' that no answer covers' : '';
  return `${rows} row${rows === 1 ? '' : 's'} of ${dataset}${uncovered} in ${path}${between}`;
}

const formatKey = (key: SortKey): string => `(${key.map((value) => value ?? 'null').join(', ')})`;
