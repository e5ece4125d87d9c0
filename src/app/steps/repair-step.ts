import { repair } from '../../archive/repair/repair.ts';
import type { GoneRows, Repaired } from '../../archive/repair/repair-report.ts';
import { DamageError } from '../../core/errors.ts';
import type { Key } from '../../state/row-groups.ts';
import { lingerRules, namedSymbols } from '../configured.ts';
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
  try {
    const onProgress = (done: number, total: number): void => display.update({ done, total });
    const rules = lingerRules(context);
    repaired = await repair(archive, { clock, waitMs, signal, named: namedSymbols(context), rules, onProgress });
  } finally {
    display.stop();
  }
  for (const file of repaired.written) run.files.set(file.path, file);
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
