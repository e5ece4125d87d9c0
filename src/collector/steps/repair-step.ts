import { recordVerification } from '../../archive/integrity/daily-hash-share.ts';
import { type RepairReport, repairArchive } from '../../archive/integrity/repair.ts';
import type { UnrecoverableRows } from '../../archive/integrity/salvage-row-groups.ts';
import type { RecordedLoss } from '../../archive/journal/gap-records.ts';
import { addPublishedTicks } from '../../archive/journal/runs.ts';
import type { SortKey } from '../../archive/parquet/row-group-index.ts';
import { countPublishedTicks } from '../../archive/publish/count-ticks.ts';
import { DamageError } from '../../base/errors.ts';
import { union } from '../../base/window.ts';
import { toCompletenessRules } from '../../context/open-configured.ts';
import type { SymbolPlan } from '../paging/plan.ts';
import { createJobFailure } from '../run/judge-run.ts';
import type { Run } from '../run/run.ts';
import { withFilesDisplay } from './bucket-access.ts';
import { collectPlans } from './poll-steps.ts';
import { publishJournal } from './publish-step.ts';
import { listLostTickWindows, toLossKey } from './track-lost-windows.ts';

/**
 * Repairs the archive. Rows that no request can restore are failures of the run.
 * @throws DamageError if the state is damaged, so that it cannot tell what to request; `show` is called first
 */
export async function repairDamage(run: Run, show?: (repaired: RepairReport) => void): Promise<void> {
  const { context, archive } = run;
  const { clock, waitMs, signal } = context;
  const startedAt = clock.nowMs();
  const rules = toCompletenessRules(context.settings);
  const repaired = await withFilesDisplay(context, 'verify', (onProgress) =>
    repairArchive(archive, { clock, waitMs, signal, ...rules, onProgress }),
  );
  // The repair has verified all published files, and none of them is damaged any more.
  recordVerification(archive, { ...repaired, findings: [] }, run.id, startedAt);
  for (const file of repaired.written) run.files.set(file.path, file);
  const lost = repaired.repaired.reduce(
    (sum, { path, rows_lost }) => sum + (path.startsWith('ticks/') ? (rows_lost ?? 0) : 0),
    0,
  );
  if (lost > 0) addPublishedTicks(archive.state.db, run.id, { added: 0, lost });
  for (const rows of repaired.unrecoverable) {
    run.failures.push(createJobFailure('unrecoverable', `lost permanently: ${formatUnrecoverableRows(rows)}`));
  }
  if (repaired.repaired.length > 0)
    context.log.info({ files: repaired.repaired.length, generation: repaired.generation }, 'repaired');
  show?.(repaired);
  // Last, because the repair needed the state.
  if (repaired.state !== null) throw new DamageError(repaired.state);
}

/** `3 rows of markets in markets/…, from A to B`. */
function formatUnrecoverableRows({ dataset, path, rows, first, last }: UnrecoverableRows): string {
  const range = first === null || last === null ? '' : `, from ${formatKey(first)} to ${formatKey(last)}`;
  const uncovered = dataset === 'ticks' ? ' without coverage' : '';
  return `${rows} row${rows === 1 ? '' : 's'} of ${dataset}${uncovered} in ${path}${range}`;
}

const formatKey = (key: SortKey): string => `(${key.map((value) => value ?? 'null').join(', ')})`;

/** Plans that fetch the lost windows completely, for symbols in any state. */
const planRefetch = (lost: readonly RecordedLoss[]): SymbolPlan[] =>
  [...Map.groupBy(lost, ({ symbol }) => symbol)].map(([symbol, windows]) => ({
    symbol,
    windows: union(windows),
    isFirst: false,
    hasMargin: true,
  }));

/**
 * Fetches all lost windows and publishes. A window counts as restored only if its responses are published together. If
 * the journal grew so large that it was published in between, the windows that this split are fetched again one by one,
 * without a limit on the journal; a window is at most a day of one symbol.
 */
export async function refetchLostWindows(run: Run): Promise<void> {
  const plans = planRefetch(listLostTickWindows(run));
  if (plans.length === 0) return;
  const generation = run.archive.state.generation();
  await collectPlans(run, plans, 'backfill');
  const wasPublished = run.archive.state.generation() !== generation;
  await publishJournal(run);
  if (!wasPublished) return;
  const { tried, confirmedLost } = run.lostWindows;
  const split = listLostTickWindows(run).filter(
    (loss) => tried.has(toLossKey(loss)) && !confirmedLost.has(toLossKey(loss)),
  );
  for (const loss of split) {
    await collectPlans(run, planRefetch([loss]), 'backfill', { journalTicksMax: Number.POSITIVE_INFINITY });
    await publishJournal(run);
  }
}

/**
 * Reports lost windows if the upstream has no address or no key: as failures, but without marking them as reported, because none was
 * tried.
 */
export function reportLossesWithoutUpstream(run: Run): void {
  const lost = listLostTickWindows(run).filter(({ reportedAt }) => reportedAt === null);
  const held = countPublishedTicks(run.archive, lost);
  const { baseUrl } = run.context.settings.upstream;
  const missing = baseUrl === null ? 'no upstream is set' : `no key for ${baseUrl} is set`;
  for (const [i, { symbol, from, to, ticks }] of lost.entries()) {
    const reason = `lost: ${held[i]} of ${ticks} tick${ticks === 1 ? '' : 's'} are left; ${missing}, so none were requested`;
    run.failures.push({ symbol, from, to, kind: 'lost', reason });
  }
}
