import type { ColumnRename } from '../../archive/query/read-rows.ts';
import { acquireScratchFolder } from '../../archive/read/pin-generation.ts';
import { UsageError } from '../../base/errors.ts';
import { formatThousands } from '../../base/format-quantity.ts';
import { formatIsoUtc, timeEnd, timeMin } from '../../base/time.ts';
import { intersectTwo, isEmpty, type Window } from '../../base/window.ts';
import type { Context } from '../../context/context.ts';
import type { Run } from '../run/run.ts';
import type { FailureLine } from '../run/summary.ts';
import { type JobWorkers, openJobWorkers } from '../run/worker-pool.ts';
import { type ImportFile, type ImportFormat, listImportFiles, UnreadableFileError } from './files.ts';
import { openRawReplay } from './import-raw.ts';
import type { ImportDataset, TickRowRules } from './import-rows.ts';
import { type ImportWriter, openImportWriter } from './import-writer.ts';
import type { TickPageRead } from './pages.ts';
import { type CheckRules, checkRows, type FileFault, type RowPlan } from './preflight.ts';
import { checkCompressedParquet, createLazyReader, type ImportContext, importFile } from './read-rows.ts';
import { type FileCounts, isOverShare, suggestFlag } from './rejected-rows.ts';

export interface ImportFlags {
  readonly paths: readonly string[];
  readonly dataset: ImportDataset | null;
  readonly format: ImportFormat | null;
  /** How times and prices of rows are to be read. */
  readonly rows: TickRowRules;
  /** Columns of rows that are read under another name. */
  readonly renames: readonly ColumnRename[];
  /** What rows cover of every symbol in them; null: nothing. */
  readonly covers: Window | null;
  /** Whether imported prices win over polled ones. */
  readonly preferred: boolean;
  /** Share, 0 to 1, of a file's rows that may be rejected; null: `import.rejected_share_max`. */
  readonly rejectedShareMax: number | null;
  /** Called with what the files hold in place of taking them in; null to take them in. */
  readonly showCheck: ((files: readonly CheckedFile[]) => void) | null;
}

/** A file that was read to its end, or as far as it can be. */
export interface CheckedFile extends FileCounts {
  readonly path: string;
  /** Why it cannot be read (to its end): a clause; null where it can. */
  readonly fault: string | null;
  /** Whether so many of its rows are rejected that nothing is published. */
  readonly isOverShare: boolean;
  /** Flags by which more of it would be taken. */
  readonly flags: readonly string[];
}

/** Files that were looked at and found fit to be imported, as far as their beginnings tell. */
export interface ImportInput {
  readonly flags: ImportFlags;
  readonly files: readonly ImportFile[];
  readonly ignored: readonly string[];
  /** Of files of rows; packed Parquet can only be looked at when it is unpacked. */
  readonly plans: ReadonlyMap<ImportFile, RowPlan | FileFault>;
}

const toCheckRules = ({ settings }: Context, { dataset, rows, renames }: ImportFlags): CheckRules => {
  const { symbolPaths, fieldPaths } = settings.source;
  return { dataset, rows, renames, paths: { symbolPaths, fieldPaths } };
};

/** What the service said, not rows that somebody made of it. */
const isResponseFile = ({ format }: ImportFile): boolean => format === 'pages' || format === 'raw';

const isCompressedParquet = (file: ImportFile): boolean => file.format === 'parquet' && file.compression !== 'none';

/** Finds the files and looks at each, before anything is opened or written. Throws UsageError for what cannot be meant. */
export async function prepareImport(context: Context, flags: ImportFlags): Promise<ImportInput> {
  const { files, ignored } = listImportFiles(flags.paths, flags.format, context.clock.nowMs());
  if (flags.covers !== null && files.every(isResponseFile))
    throw new UsageError('--covers is for files of rows: saved pages say themselves what they cover.');
  if (flags.preferred && files.every((file) => file.format === 'raw'))
    throw new UsageError('--prefer is for other recordings: answers as they came count as when they were polled.');
  const plans = new Map<ImportFile, RowPlan | FileFault>();
  const lazy = createLazyReader('');
  try {
    for (const file of files) {
      context.signal.throwIfAborted();
      if (isResponseFile(file) || isCompressedParquet(file)) continue;
      plans.set(file, await checkRows(file, await lazy.reader(), toCheckRules(context, flags)));
    }
  } finally {
    await lazy.close();
  }
  return { flags, files, ignored, plans };
}

/**
 * Takes all files in, one after the other, and publishes them; one that cannot be read is a failure of the run, and the
 * others go on.
 */
export async function importFiles(run: Run, input: ImportInput): Promise<void> {
  const { context, archive } = run;
  const { folder: scratch, release } = acquireScratchFolder(archive, `import-${run.id}`);
  let threads: JobWorkers | undefined;
  try {
    threads = await openWorkersFor(context, input.files);
    await importToArchive(run, input, scratch, threads);
  } finally {
    await threads?.close();
    release();
  }
}

async function importToArchive(
  run: Run,
  input: ImportInput,
  scratch: string,
  threads: JobWorkers | undefined,
): Promise<void> {
  const { context } = run;
  const { flags, files, plans } = input;
  const futureMs = context.clock.nowMs() + context.settings.poll.futureSkewSeconds * 1000;
  const { journalTicksMax } = context.settings.publish;
  const writer = openImportWriter(run, { preferred: flags.preferred, futureMs, scratch, journalTicksMax, threads });
  const lazy = createLazyReader(scratch);
  const aside = new Map<string, RejectedGroup>();
  const total = files.reduce((sum, file) => sum + file.bytes, 0);
  const display = await context.startDisplay('import', total, 'bytes');
  let done = 0;
  let bytes = 0;
  const shared = {
    run,
    rules: toCheckRules(context, flags),
    writer,
    onSetAside: (what: string, reason: string, path: string) => countRejected(aside, `${what}\n${reason}`, path),
    onTorn: (path: string, bytes: number) =>
      run.warnings.push(
        `${path} ends amid an answer, as one that was cut off does: its last ${bytes} bytes were left out.`,
      ),
    onProgress: () =>
      display.update({
        done: bytes,
        ticks: writer.ticks,
        note: `${formatThousands(done)}/${formatThousands(files.length)} files`,
      }),
  };
  const shareMax = flags.rejectedShareMax ?? context.settings.import.rejectedShareMax;
  const checked: CheckedFile[] = [];
  const faults = new Map<ImportFile, string>();
  /** Tells of the files that could not be read, in the order of files. */
  const tellFaults = (): void => {
    for (const file of faults.size === 0 ? [] : files)
      if (faults.has(file)) run.failures.push(createFailure(`${file.path}: ${faults.get(file)}`));
    faults.clear();
  };
  const end = (file: ImportFile, fault: string | null): void => {
    const counts = writer.rowCounter.endFile();
    const isOver = !isResponseFile(file) && isOverShare(counts, shareMax);
    const helpful = new Set(counts.reasons.map(suggestFlag).filter((flag) => flag !== null));
    checked.push({ path: file.path, ...counts, fault, isOverShare: isOver, flags: [...helpful] });
    if (fault !== null) faults.set(file, fault);
    done++;
    bytes += file.bytes;
    reading.onProgress();
  };
  /** Takes a file in, `page` being what a thread has read of it. */
  const take = async (file: ImportFile, page: TickPageRead = null): Promise<void> => {
    context.signal.throwIfAborted();
    const plan = plans.get(file);
    try {
      if (plan !== undefined && 'fault' in plan) throw new UnreadableFileError(plan.fault);
      if (page === null) await importFile(reading, file, plan);
      else await importPage(reading, page);
      end(file, null);
    } catch (error) {
      if (!(error instanceof UnreadableFileError)) throw error;
      end(file, error.message);
    }
  };
  const reading: ImportContext = { ...shared, scratch, futureMs, reader: lazy.reader, replay: openRawReplay(shared) };
  try {
    // Before anything is written, as with those that need no unpacking.
    for (const file of files)
      if (file.isNamed && isCompressedParquet(file))
        await checkCompressedParquet(reading, file).catch(createUsageThrower(file));
    const rowFiles = files.filter((file) => !isResponseFile(file));
    const answers = files.filter(isResponseFile);
    writer.hold();
    for (const file of rowFiles) await take(file);
    if (flags.showCheck !== null) {
      for (const file of answers) if (file.format !== 'raw') await take(file);
      return flags.showCheck(checked);
    }
    const over = checked.filter((file) => file.isOverShare);
    if (over.length > 0) {
      run.failures.push(...over.map((file) => createFailure(formatOverShare(file, shareMax))));
      return;
    }
    await writer.release();
    // What cannot be read is told of below, where it is taken in.
    for await (const { file, page } of readInThreads(reading, answers, threads)) await take(file, page);
    await reading.replay.finish();
    tellFaults();
    await coverRows(run, input, writer);
    await writer.flushJournal();
    display.stop();
    await writer.publish();
  } finally {
    tellFaults();
    display.stop();
    await lazy.close();
    writer.close();
  }
  run.symbols.planned += writer.symbols.size;
  run.symbols.done += writer.symbols.size;
  run.warnings.push(...formatWarnings(input, aside));
}

const createFailure = (reason: string): FailureLine => ({ symbol: null, from: null, to: null, reason });

/** Reasons that are told of a file that is not taken. */
const reasonsShown = 3;

/** Why nothing was published, with the first reasons and the flags that would help. */
function formatOverShare({ path, rows, rejected, reasons, flags }: CheckedFile, shareMax: number): string {
  const shown = reasons
    .slice(0, reasonsShown)
    .map(({ reason, count, first }) => `${formatThousands(count)} × ${reason}, first ${first.slice(0, rawCharsShown)}`);
  const help = flags.length > 0 ? ` Say ${flags.join(' ')}.` : '';
  return `${path}: ${formatThousands(rejected)} of its ${formatThousands(rows)} rows are rejected, more than the share of ${shareMax} that may be: nothing was imported. ${shown.join('; ')}.${help} --allow-rejected SHARE takes the others all the same.`;
}

const rawCharsShown = 120;

const createUsageThrower = (file: ImportFile) => (error: unknown) => {
  throw error instanceof UnreadableFileError
    ? new UsageError(`${file.path}: ${error.message}.`, { cause: error })
    : error;
};

/** Enters what the rows are said to cover: of every symbol in them, up to when the last of the files was written. */
async function coverRows(run: Run, { flags, files, plans }: ImportInput, writer: ImportWriter): Promise<void> {
  if (flags.covers === null || writer.rowSymbols.size === 0) return;
  if (run.failures.length > 0) {
    run.warnings.push('Nothing was entered as covered, since not every file could be read: see the failures.');
    return;
  }
  const told = files.filter((file) => !isResponseFile(file) && (plans.get(file) as RowPlan)?.dataset !== 'markets');
  const writtenAt = told.reduce((latest, file) => Math.max(latest, file.writtenAt), Number.NEGATIVE_INFINITY);
  const window = intersectTwo(flags.covers, { from: timeMin, to: Math.min(writtenAt, timeEnd) });
  if (window.to < flags.covers.to) {
    run.warnings.push(
      `--covers ends after the files were last written, at ${formatIsoUtc(writtenAt)}: nothing later was entered as covered.`,
    );
  }
  if (!isEmpty(window)) await writer.addDeclaredCoverage(writer.rowSymbols, window, writtenAt);
}

interface RejectedGroup {
  count: number;
  readonly paths: Set<string>;
}

/** Paths that are named of what was set aside for one reason. */
const pathsMax = 3;
/** Reasons that are told apart. */
const reasonsMax = 20;

function countRejected(aside: Map<string, RejectedGroup>, key: string, path: string): void {
  const known = aside.get(key) ?? { count: 0, paths: new Set<string>() };
  known.count++;
  if (known.paths.size <= pathsMax) known.paths.add(path);
  if (aside.has(key) || aside.size < reasonsMax) aside.set(key, known);
}

function formatWarnings({ ignored }: ImportInput, aside: ReadonlyMap<string, RejectedGroup>): string[] {
  const named = (paths: readonly string[]): string =>
    `${paths.slice(0, pathsMax).join(', ')}${paths.length > pathsMax ? ', …' : ''}`;
  const left =
    ignored.length === 0 ? [] : [`Files whose names do not say what they are were left out: ${named(ignored)}.`];
  const set = [...aside].map(([key, { count, paths }]) => {
    const [what, reason] = key.split('\n');
    return `${count} ${what}${count === 1 ? ' was' : 's were'} set aside: ${reason} (${named([...paths])}).`;
  });
  return [...left, ...set];
}

/** Bytes of saved pages that are worth the start of threads. */
const threadedBytesMin = 16 << 20;
/** What a thread is given to read at a time. */
const batchBytes = 4 << 20;
const batchFiles = 64;
const batchesPerThread = 4;

/** Threads where there is enough for them to do. */
export async function openWorkersFor(
  { threads }: Context,
  files: readonly ImportFile[],
): Promise<JobWorkers | undefined> {
  const bytes = files.reduce((sum, file) => sum + (file.format === 'pages' ? file.bytes : 0), 0);
  return threads > 1 && bytes >= threadedBytesMin ? await openJobWorkers(threads) : undefined;
}

/** The files in their order; pages of ticks as threads have read them, whatever else there is as null. */
export async function* readInThreads(
  reading: ImportContext,
  files: readonly ImportFile[],
  threads: JobWorkers | undefined,
): AsyncGenerator<{ readonly file: ImportFile; readonly page: TickPageRead }, void, undefined> {
  if (threads === undefined) {
    for (const file of files) yield { file, page: null };
    return;
  }
  const { rules, futureMs, scratch, run } = reading;
  const shared = {
    dataset: rules.dataset,
    futureMs,
    scratch,
    bytesMax: run.context.settings.upstream.responseBytesMax,
  };
  const under: { readonly files: readonly ImportFile[]; readonly pages: Promise<SettledBatch> }[] = [];
  const next = async function* (): AsyncGenerator<{ file: ImportFile; page: TickPageRead }> {
    const first = under.shift()!;
    const settled = await first.pages;
    if ('error' in settled) throw settled.error;
    for (const [i, file] of first.files.entries()) yield { file, page: settled.pages[i] ?? null };
  };
  for (const batch of splitFilesIntoBatches(files)) {
    // More than they are at, as they do not end in order.
    while (under.length >= batchesPerThread * threads.count) yield* next();
    const isOfPages = batch[0]!.format === 'pages';
    const pages = isOfPages ? threads.readPages({ ...shared, files: batch.map(toTaskFile) }) : Promise.resolve([]);
    under.push({
      files: batch,
      pages: pages.then(
        (read) => ({ pages: read }),
        (error: unknown) => ({ error }),
      ),
    });
  }
  while (under.length > 0) yield* next();
}

type SettledBatch = { readonly pages: readonly TickPageRead[] } | { readonly error: unknown };

const toTaskFile = ({ path, compression, writtenAt }: ImportFile) => ({ path, compression, writtenAt });

/** The files cut into batches, in order: of pages, or of none. */
function splitFilesIntoBatches(files: readonly ImportFile[]): ImportFile[][] {
  const out: ImportFile[][] = [];
  let bytes = 0;
  for (const file of files) {
    const last = out.at(-1);
    const fits = last !== undefined && last.length < batchFiles && bytes + file.bytes <= batchBytes;
    if (fits && (last[0]!.format === 'pages') === (file.format === 'pages')) last.push(file);
    else {
      out.push([file]);
      bytes = 0;
    }
    bytes += file.bytes;
  }
  return out;
}

/** Takes in what a thread has read of a page. */
export async function importPage({ run, writer }: ImportContext, page: NonNullable<TickPageRead>): Promise<void> {
  run.pages++;
  await writer.addReadPage(page.read, page.rejected);
}
