import { existsSync, readFileSync, realpathSync } from 'node:fs';
import type { Archive } from '../../archive/archive.ts';
import { datasetNames } from '../../archive/format/datasets.ts';
import { createLayout } from '../../archive/format/layout.ts';
import {
  type ArchiveOwner,
  formatOwner,
  listFilesWithRows,
  listManifestFiles,
  parseManifest,
  readOwner,
} from '../../archive/format/manifest.ts';
import { isLocked } from '../../archive/inspect.ts';
import { archiveExists, openArchive, requireSameOwner } from '../../archive/open-archive.ts';
import { type OtherArchive, OtherDamageError, readOtherFile } from '../../archive/publish/union-files.ts';
import { unite } from '../../archive/publish/unite-archives.ts';
import { exitCodes, OddslakeError, UsageError } from '../../base/errors.ts';
import { isBucketUrl } from '../../bucket/address.ts';
import type { Context } from '../../context/context.ts';
import { toCompletenessRules } from '../../context/open-configured.ts';
import type { Run } from '../run/run.ts';
import { withBucketArchive } from '../steps/bucket-access.ts';
import { openMergeWorkers, publishJournal } from '../steps/publish-step.ts';

/** What an import would take from another archive. */
export interface ArchivePlan {
  readonly archive: string;
  readonly generation: number;
  readonly rows: Readonly<Record<string, number>>;
  readonly from: string | null;
  readonly to: string | null;
}

/**
 * Opens another archive for reading, and the archive of the settings for its rows: a new one belongs to the same sources.
 * @throws UsageError if it has another format or other sources, or is the archive of the settings; nothing has changed then
 */
export async function withOtherArchive<T>(
  context: Context,
  place: string,
  work: (other: OtherArchive) => Promise<T>,
): Promise<T> {
  const check = (other: OtherArchive): Promise<T> => {
    openTarget(context, other);
    return work(other);
  };
  if (isBucketUrl(place))
    return await withBucketArchive(context, place, async ({ layout, disk, fetchFiles, readManifest }) => {
      const manifest = readManifest();
      await fetchFiles?.(listTakenFiles(manifest));
      return await check({ name: place, manifest, layout, disk });
    });
  const { disk } = context;
  const layout = createLayout(realpathSync(place));
  const text = readFileSync(layout.manifestPath, 'utf8');
  return await check({ name: place, manifest: parseManifest(text, layout.manifestPath), layout, disk });
}

/** The files that are read: candles are computed. */
const listTakenFiles = (manifest: OtherArchive['manifest']) =>
  listManifestFiles(manifest).filter(({ path, rows }) => rows > 0 && !path.startsWith('candles_'));

/** Creates the archive of the settings if there is none, for the sources of the other one. */
function openTarget(context: Context, other: OtherArchive): void {
  const { disk, settings } = context;
  const { output, outputNamed } = settings.archive;
  const owner = readOwner(other.manifest);
  if (existsSync(output) && realpathSync(output) === other.layout.root)
    throw new UsageError(`${other.name} is the archive that would take it in. Name another one with --output.`);
  if (archiveExists(output, disk) || !(outputNamed || context.canCreateArchive)) return;
  const upstream = owner.sources.length === 0 ? owner.upstream : null;
  const writer = `oddslake ${context.version}`;
  openArchive(
    { root: output, create: true, upstream, sources: owner.sources, writer },
    disk,
    context.openDatabase,
  ).close();
}

/** @throws UsageError if the other archive has a source that this one does not have */
function requireUnitable({ layout: { root }, state: { identity } }: Archive, other: OtherArchive): void {
  const owner: ArchiveOwner = readOwner(other.manifest);
  requireSameOwner(root, identity, owner);
  const isKnown = ({ name }: { readonly name: string }): boolean => identity.sources.some((one) => one.name === name);
  if (owner.sources.every(isKnown)) return;
  throw new UsageError(
    `${other.name} has the ${formatOwner(owner)}, and the archive at ${root} has the ${formatOwner(identity)}. Add the missing ones to the sources of the config, or use another output folder.`,
  );
}

/** Takes another archive into that of the run. @param showPlan shows what would be taken, and nothing is; null to take it */
export async function importArchive(
  run: Run,
  other: OtherArchive,
  showPlan: ((plan: ArchivePlan) => void) | null,
): Promise<void> {
  const { archive, context } = run;
  requireUnitable(archive, other);
  try {
    if (showPlan === null) await uniteWith(run, other);
    else {
      for (const file of listTakenFiles(other.manifest)) readOtherFile(other, file);
      showPlan(planArchive(other));
    }
  } catch (error) {
    if (!(error instanceof OtherDamageError) || !isReplaced(other)) throw error;
    throw new OddslakeError(
      exitCodes.busy,
      `${other.name} was published to meanwhile, and nothing was imported. Run the import again, or import a snapshot: oddslake snapshot.`,
      { cause: error },
    );
  }
  context.log.info({ archive: other.name, generation: other.manifest.generation }, 'imported an archive');
}

/** Whether another generation was published there since, or is at this moment: its files come before its manifest. */
const isReplaced = ({ manifest, disk, layout: { manifestPath, lockPath } }: OtherArchive): boolean =>
  isLocked(lockPath, disk) ||
  (existsSync(manifestPath) &&
    parseManifest(readFileSync(manifestPath, 'utf8'), manifestPath).commit_id !== manifest.commit_id);

async function uniteWith(run: Run, other: OtherArchive): Promise<void> {
  const { archive, context } = run;
  const { clock, waitMs, signal, settings } = context;
  // What is journaled may withdraw coverage, of what is published by then.
  await publishJournal(run);
  using display = await context.startDisplay('import', 1, 'parts');
  await using workers = openMergeWorkers(context);
  const united = await unite(archive, other, {
    runId: run.id,
    clock,
    waitMs,
    signal,
    ...toCompletenessRules(settings),
    candles: settings.archive.candles,
    workers: workers.open,
    onProgress: (done, total) => display.update({ done, total }),
  });
  for (const file of united.files) run.files.set(file.path, file);
  run.bookCounts.snapshots += united.snapshots;
  run.symbols.planned += united.symbols;
  run.symbols.done += united.symbols;
}

function planArchive({ name, manifest }: OtherArchive): ArchivePlan {
  const rows = datasetNames.flatMap((dataset) => {
    const sum = listFilesWithRows(manifest, dataset).reduce((total, file) => total + file.rows, 0);
    return sum === 0 || dataset.startsWith('candles_') ? [] : [[dataset, sum] as const];
  });
  const dates = Object.keys(manifest.days).sort();
  const { generation } = manifest;
  return {
    archive: name,
    generation,
    rows: Object.fromEntries(rows),
    from: dates[0] ?? null,
    to: dates.at(-1) ?? null,
  };
}
