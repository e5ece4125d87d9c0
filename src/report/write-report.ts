import { join } from 'node:path';
import type { Archive } from '../archive/archive.ts';
import { requireWritableTarget, writeFileAtomically } from '../archive/read/export-file.ts';
import type { Judgement } from '../archive/read/judge.ts';
import { exitCodes, OddslakeError, UsageError } from '../base/errors.ts';
import { minuteMs } from '../base/window.ts';
import { completeForElsewhere } from '../context/command-name.ts';
import type { Context } from '../context/context.ts';
import { openConfiguredArchive, toCompletenessRules } from '../context/open-configured.ts';

interface WrittenReport extends Judgement {
  /** Absolute path. */
  readonly path: string;
  readonly bytes: number;
  readonly sha256: string;
  /** Generation of the archive in the report. */
  readonly generation: number;
}

/** In the root of the archive, outside of the datasets. */
export const reportFileName = 'report.html';

/**
 * Writes the report atomically, and replaces an existing one.
 * @param out path of the report; null: report.html in the archive's root
 * @throws UsageError if the path is not writable
 */
export async function writeReport(archive: Archive, context: Context, out: string | null): Promise<WrittenReport> {
  const target = resolveTarget(archive, out);
  // Loaded lazily: the plotting library is slow to load.
  const [{ readReportData }, { renderArchiveReport }] = await Promise.all([
    import('./data/report-data.ts'),
    import('./archive-page.ts'),
  ]);
  const { settings, clock, random, version } = context;
  const rules = {
    judged: toCompletenessRules(settings),
    days: settings.report.days,
    lagMsMax: settings.service.lagSecondsMax * 1000,
    overlapMs: settings.poll.overlapMinutes * minuteMs,
    overlapMsMax: settings.poll.overlapMinutesMax * minuteMs,
    requestsPerSecond: settings.upstream.requestsPerSecond,
    catalogueUrl: settings.report.catalogueUrl,
  };
  const data = await readReportData(archive, rules, { nowMs: clock.nowMs(), random });
  const text = renderArchiveReport(data, version, completeForElsewhere(settings));
  const bytes = Buffer.from(text, 'utf8');
  async function* pieces() {
    yield bytes;
  }
  const id = Math.floor(random() * 36 ** 8).toString(36);
  try {
    const written = await writeFileAtomically(archive.disk, target, id, pieces());
    return { path: target, ...written, generation: data.status.generation, ...data.judgement };
  } catch (error) {
    if (out === null && isPermissionError(error)) throw createNotWritableError(archive, target, error);
    throw error;
  }
}

function resolveTarget({ disk, layout }: Archive, out: string | null): string {
  const defaultPath = disk.realPath(join(layout.root, reportFileName));
  if (out !== null && disk.realPath(out) !== defaultPath) return requireWritableTarget(disk, layout.root, out);
  if (disk.size(defaultPath) !== null && !disk.isFile(defaultPath))
    throw new UsageError(`${defaultPath} exists but is not a regular file. Choose another path with --out FILE.`);
  return defaultPath;
}

const permissionCodes = new Set(['EACCES', 'EPERM', 'EROFS']);

const isPermissionError = (error: unknown): boolean =>
  error instanceof OddslakeError &&
  permissionCodes.has(String((error.cause as NodeJS.ErrnoException | undefined)?.code));

const createNotWritableError = ({ layout }: Archive, target: string, cause: unknown): OddslakeError =>
  new OddslakeError(
    exitCodes.unexpected,
    `No permission to write ${target}: the archive ${layout.root} is read-only. Choose another path with --out FILE.`,
    { cause },
  );

/** Writes the report after a run, whose archive is already closed. */
export async function writeReportAfterRun(context: Context): Promise<void> {
  using archive = openConfiguredArchive(context, false);
  const { path, bytes, verdict } = await writeReport(archive, context, null);
  context.log.info({ path, bytes, state: verdict.state }, 'wrote the report');
}
