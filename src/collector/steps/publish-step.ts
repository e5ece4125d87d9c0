import type { Archive } from '../../archive/archive.ts';
import { describeLaw, toPriceFormula, toPriceScale } from '../../archive/format/price-law.ts';
import {
  checkFileSizes,
  findFilesAt,
  hashDueShare,
  hashFiles,
  recordVerification,
} from '../../archive/integrity/daily-hash-share.ts';
import { type VerifyResult, verifyArchive } from '../../archive/integrity/verify.ts';
import { readNewestPoll, readRecheckHistory, updateRecheckHistory } from '../../archive/journal/nightly-memory.ts';
import { type FileDamage, readRecordedDamage, recordDamage } from '../../archive/journal/published-files.ts';
import { recordLateness } from '../../archive/journal/recheck-results.ts';
import type { ImportBuffer } from '../../archive/publish/import-buffer.ts';
import type { LateTickRules } from '../../archive/publish/late-ticks.ts';
import { inlineWorker, type MergeWorkers } from '../../archive/publish/merge-partition.ts';
import type { PriceBreak } from '../../archive/publish/price-check.ts';
import { publish } from '../../archive/publish/publish.ts';
import type { JournalQuarantine } from '../../archive/publish/quarantine.ts';
import { DamageError, exitCodes, OddslakeError } from '../../base/errors.ts';
import { formatCount } from '../../base/format-quantity.ts';
import { quoteShellWord } from '../../base/shell-quote.ts';
import { dayMs, floorToDay, minuteMs } from '../../base/window.ts';
import type { Context } from '../../context/context.ts';
import { getOverlapMs, toCompletenessRules } from '../../context/open-configured.ts';
import type { Settings } from '../../settings/settings.ts';
import { createJobFailure } from '../run/judge-run.ts';
import type { Run } from '../run/run.ts';
import { type MergeThreads, openMergeThreads } from './merge-workers.ts';
import { noteConfirmedLosses } from './track-lost-windows.ts';

/** Maximum number of windows that jobs leave in the journal. More would slow down every job. */
const quietWindowsMax = 100_000;

/** Minimum number of rows for which worker threads pay off. */
const threadedRowsMin = 1_000_000;

/**
 * Publishes the journal and the buffer of an import. A damaged part file is not merged: its ticks stay in the journal and the
 * run ends with exit code 6. If another process holds the lock for too long, everything stays in the journal. With
 * `keepsQuiet`, coverage of today stays there too if nothing else is new; see quiet-publish.ts.
 */
export async function publishJournal(
  run: Run,
  from: { intake?: ImportBuffer; threads?: MergeThreads | undefined; keepsQuiet?: boolean } = {},
): Promise<void> {
  const { context, archive } = run;
  using display = await context.startDisplay('publish', 1, 'parts');
  await using workers = openMergeWorkers(context, from.threads);
  const published = await publish(archive, {
    runId: run.id,
    clock: context.clock,
    waitMs: context.waitMs,
    signal: context.signal,
    ...toCompletenessRules(context.settings),
    candles: context.settings.archive.candles,
    // What follows refused rows of an import cannot be told apart from them.
    intake: run.priceBreaks.some(({ isImport }) => isImport) ? undefined : from.intake,
    trustedSources: listTrustedSources(context.settings),
    priceBreaks: run.priceBreaks,
    ...(from.keepsQuiet === true && { quietWindowsMax }),
    workers: workers.open,
    late: listLateTickRules(run),
    onProgress: (done, total) => display.update({ done, total }),
  });
  for (const file of published.files) run.files.set(file.path, file);
  noteConfirmedLosses(run, published.lacking);
  const { db } = archive.state;
  const nowMs = context.clock.nowMs();
  // If the service is known to leave ticks out, late ticks do not measure lateness: any new request may return more.
  for (const { source, latenessMs } of published.late)
    updateRecheckHistory(
      db,
      (known) => (known.caughtAt !== null ? known : recordLateness(known, floorToDay(nowMs), latenessMs, nowMs)),
      source,
    );
  if (published.quarantined !== null) {
    run.warnings.push(formatQuarantinedRows(published.quarantined));
    // Coverage may be missing because of the damage: no gap is put down to another run.
    run.polled.covered.clear();
  }
  for (const found of published.priceBreaks) notePriceBreak(run, found);
  if (published.refused.length > 0) {
    throw new DamageError(
      `${published.refused.join(' ')} It was not merged; the ticks for it stay in the journal. Run oddslake verify.`,
    );
  }
  if (published.files.length > 0) {
    const { generation } = published.manifest;
    context.log.info({ generation, files: published.files.length }, 'published');
  }
}

/** The sources whose settings say how prices are taken as they arrive: `source.price` is `p`. */
const listTrustedSources = (settings: Settings): Set<string | null> =>
  new Set(
    (settings.sources.length === 0 ? [{ name: null, source: settings.source }] : settings.sources).flatMap(
      ({ name, source }) => (source.price === 'p' ? [name] : []),
    ),
  );

/** Records prices of another unit, which a publish has refused, as a failure of the run. */
function notePriceBreak(run: Run, found: PriceBreak): void {
  const { symbols, law, source, isImport, ticks } = found;
  const isFirst = !run.priceBreaks.some((other) => other.source === source);
  run.priceBreaks.push(found);
  // Its gaps are not put down to another run.
  run.polled.covered.clear();
  const text = `prices of ${formatCount(symbols.length, 'symbol')} are ${describeLaw(law)}`;
  run.context.log.warn({ symbols: symbols.length, ticks, law }, text);
  if (!isFirst) return;
  const names = `${symbols.slice(0, 3).join(', ')}${symbols.length > 3 ? ', …' : ''}`;
  const setting = `${source === null ? 'source' : `sources.${source}`}.price=${toPriceFormula(law)}`;
  run.failures.unshift({
    ...createJobFailure(
      'prices',
      `${text}: ${formatCount(ticks, 'tick')} ${isImport ? 'not imported' : 'quarantined'} (${names})`,
    ),
    flags: [
      isImport && law.kind === 'ratio' ? `--price-scale ${toPriceScale(law)}` : `--set ${quoteShellWord(setting)}`,
    ],
  });
}

/** Opens workers for a merge of many rows, and closes them afterwards. @param threads those that the caller has already */
export function openMergeWorkers(
  context: Context,
  threads?: MergeThreads,
): AsyncDisposable & { readonly open: (rows: number) => Promise<MergeWorkers> } {
  let own: MergeThreads | undefined;
  return {
    async open(rows) {
      if (threads === undefined && context.threads > 1 && rows >= threadedRowsMin)
        own = await openMergeThreads(context.threads);
      return (threads ?? own)?.parts ?? inlineWorker;
    },
    [Symbol.asyncDispose]: async () => await own?.close(),
  };
}

/**
 * The rules for the source of a run that polls ticks, and for the other sources: their ticks count for the runs that
 * poll them. None for a run that does not poll.
 */
function listLateTickRules({ archive, context, source, nightCounters: { lateRules } }: Run): LateTickRules[] {
  if (lateRules === undefined) return [];
  const { db } = archive.state;
  const others = context.settings.sources.flatMap(({ name }) => {
    const poll = name === source ? undefined : readNewestPoll(db, name);
    if (poll === undefined) return [];
    const latenessMsMax = getOverlapMs(context, readRecheckHistory(db, name));
    return [{ source: name, fetchedBeforeMs: poll.startedAt, latenessMsMax }];
  });
  return [lateRules, ...others];
}

function formatQuarantinedRows({ rows, windows, path }: JournalQuarantine): string {
  const location = path === null ? 'they are lost' : `they are in ${path}`;
  return `The journal was damaged: ${rows} of its rows do not match their checksums (${location}). The next run fetches ${formatCount(windows, 'window')} again. Check the disk.`;
}

/** Reads and hashes the files that this run published. */
export async function verifyPublishedFiles(run: Run): Promise<void> {
  const changed = [...run.files.values()];
  if (changed.length === 0) return;
  const { clock, signal } = run.context;
  const findings = await hashFiles(run.archive, changed, { runId: run.id, clock, signal });
  if (findings.length > 0) {
    throw new DamageError(
      `Damaged immediately after being published: ${findings.map((f) => `${f.path} (${f.kind})`).join(', ')}. Check the disk.`,
    );
  }
}

/** Maximum time for hashing files of earlier runs, in ms. */
const hashMsMax = 10 * minuteMs;

/** Checks the presence and size of every published file. Records damage; the run continues. */
export function checkPublishedSizes(run: Run): void {
  const found = checkFileSizes(run.archive);
  recordDamage(run.archive.state.db, found, run.id, run.context.clock.nowMs());
  warnDamage(run.context, found);
}

/** Hashes the files that failed a read check, and records those that are damaged as found by this run. */
export async function hashRefusedFiles(context: Context, archive: Archive, runId: string): Promise<void> {
  const { clock, signal } = context;
  // A publish may have replaced the file during the read, so check the current one.
  const found = await hashFiles(archive, findFilesAt(archive, archive.refusedPaths), { runId, clock, signal });
  warnDamage(context, found);
}

/** Hashes the files that failed a read check, and the share of all files that is due; see `archive.verify_days`. */
export async function hashDueFiles(run: Run): Promise<void> {
  const { archive, context, id: runId } = run;
  const { clock, signal } = context;
  const options = { runId, clock, signal };
  await hashRefusedFiles(context, archive, runId);
  const everyMs = context.settings.archive.verifyDays * dayMs;
  warnDamage(context, await hashDueShare(archive, { ...options, intervalMs: everyMs, durationMsMax: hashMsMax }));
}

/** Verifies the whole archive, and replaces the recorded damage with the findings. */
export async function verifyAllFiles(
  run: Run,
  onProgress: (done: number, total: number) => void,
): Promise<VerifyResult> {
  const startedAt = run.context.clock.nowMs();
  const found = await verifyArchive(run.archive, null, onProgress, run.context.signal);
  recordVerification(run.archive, found, run.id, startedAt);
  return found;
}

function warnDamage({ log }: Context, found: readonly FileDamage[]): void {
  const [first] = found;
  if (first !== undefined)
    log.warn({ files: found.length, path: first.path, kind: first.kind }, 'published files are damaged');
}

/** Publishes the journal and the current completeness. */
export async function publishCompleteness(context: Context, archive: Archive, runId: string): Promise<void> {
  await publish(archive, {
    runId,
    clock: context.clock,
    waitMs: context.waitMs,
    signal: context.signal,
    ...toCompletenessRules(context.settings),
    judges: true,
    candles: context.settings.archive.candles,
    trustedSources: listTrustedSources(context.settings),
  });
}

/**
 * Publishes the completeness again if the run has found damage since its last publish. Otherwise the manifest would report a day
 * with a damaged file as complete. If another run is publishing or the manifest is damaged, the next run does this.
 */
export async function publishFoundDamage(context: Context, archive: Archive, runId: string): Promise<void> {
  const files = readRecordedDamage(archive.state.db).length;
  if (files === 0) return;
  try {
    const { generation, completeness } = archive.readManifest();
    if (generation > 0 && completeness?.damaged.files !== files) await publishCompleteness(context, archive, runId);
  } catch (error) {
    const isLeft =
      error instanceof DamageError || (error instanceof OddslakeError && error.exitCode === exitCodes.busy);
    if (!isLeft) throw error;
    context.log.warn({ err: error }, 'the manifest does not contain the new damage yet');
  }
}
