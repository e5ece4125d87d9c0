import { join } from 'node:path';
import type { Archive } from '../archive/open-archive.ts';
import { requireWritableTarget, writeFileAtomically } from '../archive/read/export-file.ts';
import { exitCodes, OddslakeError, UsageError } from '../base/errors.ts';
import type { Context } from '../context/context.ts';
import { openConfiguredArchive, toCompletenessRules } from '../context/open-configured.ts';
import type { ArchiveHealth } from './health-status.ts';

export interface WrittenReport {
  /** Absolute. */
  readonly path: string;
  readonly bytes: number;
  readonly sha256: string;
  /** The generation that it tells of. */
  readonly generation: number;
  readonly verdict: ArchiveHealth;
}

/** Beside the archive's own texts, where no reader of its data looks. */
export const reportFileName = 'report.html';

/**
 * Writes the report, whole or not at all; the one that was there is replaced.
 * @param out another place than report.html in the archive's root
 * @throws UsageError where nothing may be written there
 */
export async function writeReport(archive: Archive, context: Context, out: string | null): Promise<WrittenReport> {
  const target = resolveTarget(archive, out);
  // What gathers and draws takes its time to load.
  const [{ readReportData }, { renderArchiveReport }] = await Promise.all([
    import('./data/report-data.ts'),
    import('./archive-page.ts'),
  ]);
  const { settings, clock, random, version } = context;
  const rules = {
    judged: toCompletenessRules(settings),
    days: settings.report.days,
    lagMsMax: settings.service.lagSecondsMax * 1000,
    overlapMs: settings.poll.overlapMinutes * 60_000,
    overlapMsMax: settings.poll.overlapMinutesMax * 60_000,
    requestsPerSecond: settings.upstream.requestsPerSecond,
  };
  const gathered = await readReportData(archive, rules, { nowMs: clock.nowMs(), random });
  const { text, health } = renderArchiveReport(gathered, version);
  const bytes = Buffer.from(text, 'utf8');
  async function* pieces() {
    yield bytes;
  }
  const id = Math.floor(random() * 36 ** 8).toString(36);
  try {
    const written = await writeFileAtomically(archive.disk, target, id, pieces());
    return { path: target, ...written, generation: gathered.status.generation, verdict: health };
  } catch (error) {
    if (out === null && isPermissionError(error)) throw createNotWritableError(archive, target, error);
    throw error;
  }
}

function resolveTarget({ disk, layout }: Archive, out: string | null): string {
  const own = disk.realPath(join(layout.root, reportFileName));
  if (out !== null && disk.realPath(out) !== own) return requireWritableTarget(disk, layout.root, out);
  if (disk.size(own) !== null && !disk.isFile(own))
    throw new UsageError(`${own} is there and is no file that could be replaced: name another place with --out FILE.`);
  return own;
}

const permissionCodes = new Set(['EACCES', 'EPERM', 'EROFS']);

const isPermissionError = (error: unknown): boolean =>
  error instanceof OddslakeError &&
  permissionCodes.has(String((error.cause as NodeJS.ErrnoException | undefined)?.code));

const createNotWritableError = ({ layout }: Archive, target: string, cause: unknown): OddslakeError =>
  new OddslakeError(
    exitCodes.unexpected,
    `Not allowed to write ${target}: the archive ${layout.root} is only readable. Name another place with --out FILE.`,
    { cause },
  );

/** The report that follows a run whose archive is closed by now. */
export async function writeReportAfterRun(context: Context): Promise<void> {
  const archive = openConfiguredArchive(context, false);
  try {
    const { path, bytes, verdict } = await writeReport(archive, context, null);
    context.log.info({ path, bytes, state: verdict.state }, 'wrote the report');
  } finally {
    archive.close();
  }
}
