import type { QualifyName } from '../../archive/format/qualify-market.ts';
import { seriesDatasets } from '../../archive/format/series-datasets.ts';
import { acquireScratchFolder } from '../../archive/read/pin-generation.ts';
import { UsageError } from '../../base/errors.ts';
import { formatNumber } from '../../base/format-quantity.ts';
import { createQualifier } from '../../base/source-name.ts';
import { formatIsoUtc, timeEnd, timeMin } from '../../base/time.ts';
import { intersectTwo, isEmpty, type Window } from '../../base/window.ts';
import type { Context } from '../../context/context.ts';
import { getFutureSkewMs, requireKnownSources } from '../../context/open-configured.ts';
import { createJobFailure, type RunFailure } from '../run/judge-run.ts';
import type { Run } from '../run/run.ts';
import type { MergeThreads } from '../steps/merge-workers.ts';
import { type ImportFile, UnreadableFileError } from './files.ts';
import { RawReplay } from './import-raw.ts';
import type { ImportDataset } from './import-rows.ts';
import { countRejected, formatImportWarnings, formatOverShare, type RejectedGroup } from './import-warnings.ts';
import { ImportWriter } from './import-writer.ts';
import { openImportThreads, openPageReader, type PageRead, readAhead } from './page-workers.ts';
import { centsFault, type RowPlan, suggestFlags } from './preflight.ts';
import {
  type CheckedFile,
  type ImportInput,
  isCompressedParquet,
  isResponseFile,
  toCheckRules,
} from './prepare-import.ts';
import {
  checkCompressedParquet,
  createLazyReader,
  type ImportContext,
  importFile,
  importSavedPage,
  type RejectedRecord,
} from './read-rows.ts';
import { type FileCounts, isOverShare, listReasonFlags } from './rejected-rows.ts';
import { unsortedReason } from './trade-ids.ts';

/** Imports all files in order and publishes them. A file that cannot be read is a failure of the run; the others are imported. */
export async function importFiles(run: Run, input: ImportInput): Promise<void> {
  const { context, archive } = run;
  const { folder: scratch, release } = acquireScratchFolder(archive, `import-${run.id}`);
  let threads: MergeThreads | undefined;
  try {
    threads = await openThreadsFor(context, input.files);
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
  threads: MergeThreads | undefined,
): Promise<void> {
  const { flags, files } = input;
  const { settings, clock } = run.context;
  const { source, qualify } = chooseImportSource(run, files);
  const futureMs = clock.nowMs() + getFutureSkewMs(run.context);
  const { preferred, datasets } = flags;
  const { journalTicksMax } = settings.publish;
  const writer = new ImportWriter(run, { preferred, futureMs, scratch, journalTicksMax, threads, qualify });
  const lazy = createLazyReader(scratch);
  const bytesMax = settings.upstream.responseBytesMax;
  const dataset = (['ticks', 'markets'] as const).find((one) => datasets?.includes(one)) ?? null;
  const pages = openPageReader({ dataset, futureMs, scratch, bytesMax }, threads);
  const total = files.reduce((sum, file) => sum + file.bytes, 0);
  const display = await run.context.startDisplay('import', total, 'bytes');
  const sink = { writer, source, qualify, scratch, futureMs };
  const importer = new FileImporter(run, input, sink, lazy, pages, display);
  try {
    if (!(await importer.importAll(threads))) return;
    display.stop();
    await writer.publish();
  } finally {
    importer.reportFaults();
    display.stop();
    await lazy.close();
    pages.close();
    writer.close();
  }
  const { size } = new Set([...writer.symbols, ...seriesDatasets.flatMap((one) => [...writer.series[one].symbols])]);
  run.symbols.planned += size;
  run.symbols.done += size;
  run.warnings.push(...formatImportWarnings(input, importer.checked, importer.rejectedGroups));
}

/** Where an import writes, and how it reads symbols. */
interface ImportSink extends Pick<ImportContext, 'writer' | 'qualify' | 'scratch' | 'futureMs'> {
  readonly source: string | null;
}

/** Imports files one by one, and keeps what was found in each. */
class FileImporter {
  readonly checked: CheckedFile[] = [];
  readonly rejectedGroups = new Map<string, RejectedGroup>();
  readonly #run: Run;
  readonly #input: ImportInput;
  readonly #lazy: ReturnType<typeof createLazyReader>;
  readonly #pages: ReturnType<typeof openPageReader>;
  readonly #context: ImportContext;
  readonly #shareMax: number;
  readonly #faults = new Map<ImportFile, string>();
  readonly #usedPlans = new Map<ImportFile, RowPlan>();
  /** Files and bytes that are done, and the bytes of the current file. */
  #done = 0;
  #bytes = 0;
  #currentBytes = 0;

  constructor(
    run: Run,
    input: ImportInput,
    { source, ...sink }: ImportSink,
    lazy: ReturnType<typeof createLazyReader>,
    pages: ReturnType<typeof openPageReader>,
    display: Awaited<ReturnType<Run['context']['startDisplay']>>,
  ) {
    this.#run = run;
    this.#input = input;
    this.#lazy = lazy;
    this.#pages = pages;
    this.#shareMax = input.flags.rejectedShareMax ?? run.context.settings.import.rejectedShareMax;
    const shared = {
      ...sink,
      run,
      source,
      rules: toCheckRules(run.context, input.flags),
      onRejected: (what: RejectedRecord, reason: string, path: string) =>
        countRejected(this.rejectedGroups, `${what}\n${reason}`, path),
      onTorn: (path: string, bytes: number) =>
        run.warnings.push(`${path} ends within a response: its last ${bytes} bytes were ignored.`),
      onProgress: (share = 0) =>
        display.update({
          done: this.#bytes + Math.floor(share * this.#currentBytes),
          ticks: sink.writer.ticks,
          note: `${formatNumber(this.#done)}/${formatNumber(input.files.length)} files`,
        }),
    };
    this.#context = { ...shared, reader: lazy.reader, replay: new RawReplay(shared) };
  }

  /** Returns whether everything was written to the journal: false for a dry run, and if a file has too many rejected rows. */
  async importAll(threads: MergeThreads | undefined): Promise<boolean> {
    const { flags, files } = this.#input;
    const { writer, replay } = this.#context;
    // Check compressed Parquet before anything is written, like the other formats.
    for (const file of files)
      if (file.isNamed && isCompressedParquet(file))
        await checkCompressedParquet(this.#context, file).catch(createUsageThrower(file));
    const rowFiles = files.filter((file) => !isResponseFile(file));
    const responseFiles = files.filter(isResponseFile);
    writer.hold();
    for (const file of rowFiles) await this.#importOne(file);
    if (flags.showCheck !== null) {
      for (const file of responseFiles) if (file.format !== 'raw') await this.#importOne(file);
      flags.showCheck(this.checked);
    }
    const refused = listRefused(this.checked, this.#shareMax);
    this.#run.failures.push(...refused);
    // A dry run ends as the import would.
    if (refused.length > 0 || flags.showCheck !== null) return false;
    await writer.release();
    for await (const { file, page } of readAhead(responseFiles, this.#pages, threads))
      await this.#importOne(file, page);
    await replay.finish();
    this.reportFaults();
    await declareRowCoverage(this.#run, flags.covers, this.#usedPlans, writer);
    await writer.flushJournal();
    return true;
  }

  /** Adds the files that could not be read to the failures, in input order. */
  reportFaults(): void {
    for (const file of this.#faults.size === 0 ? [] : this.#input.files)
      if (this.#faults.has(file)) this.#run.failures.push(createFailure(`${file.path}: ${this.#faults.get(file)}`));
    this.#faults.clear();
  }

  /** Imports a file. `page`: the content of a saved page if it was read ahead. */
  async #importOne(file: ImportFile, page: PageRead | null = null): Promise<void> {
    this.#run.context.signal.throwIfAborted();
    this.#currentBytes = file.bytes;
    const checkedPlan = this.#input.plans.get(file);
    let plan = checkedPlan !== undefined && 'fault' in checkedPlan ? undefined : checkedPlan;
    let fault: string | null = null;
    try {
      if (checkedPlan !== undefined && 'fault' in checkedPlan) throw new UnreadableFileError(checkedPlan.fault);
      if (file.format === 'pages') await importSavedPage(this.#context, file, page ?? this.#pages.readPage(file));
      else if (file.format === 'raw') await this.#context.replay.take(file);
      else {
        plan ??= await checkCompressedParquet(this.#context, file);
        await importFile(this.#context, file, plan);
      }
    } catch (error) {
      if (!(error instanceof UnreadableFileError)) throw error;
      fault = error.message;
    }
    await this.#endFile(file, plan, fault);
  }

  async #endFile(file: ImportFile, plan: RowPlan | undefined, fault: string | null): Promise<void> {
    const { writer } = this.#context;
    const datasets = (plan?.datasets.length ?? 0) > 1 ? plan!.datasets : [null];
    for (const [i, dataset] of datasets.entries()) {
      const series = seriesDatasets.find((one) => one === (dataset ?? plan?.datasets[0]));
      const counts = (series === undefined ? writer : writer.series[series]).rowCounter.endFile();
      const result = await this.#checkDataset(file, plan, dataset, counts);
      // The columns are those of the file: its first result names them.
      const { unused = [], moreFlags = [], trades = null } = (i === 0 ? plan : undefined) ?? {};
      this.checked.push({ ...result, fault, unused, moreFlags, trades });
    }
    if (plan !== undefined) this.#usedPlans.set(file, plan);
    if (fault !== null) this.#faults.set(file, fault);
    this.#done++;
    this.#bytes += file.bytes;
    this.#currentBytes = 0;
    this.#context.onProgress();
  }

  async #checkDataset(
    file: ImportFile,
    plan: RowPlan | undefined,
    dataset: ImportDataset | null,
    counts: FileCounts,
  ): Promise<Omit<CheckedFile, 'fault' | 'unused' | 'moreFlags' | 'trades'>> {
    // Nothing is wrong with trades of an unsorted file: to leave some of them out needs a flag.
    const isUnsorted =
      this.#input.flags.rejectedShareMax === null && counts.reasons.some(({ reason }) => reason === unsortedReason);
    // Any share of the rows of responses may be rejected.
    const isOver = !isResponseFile(file) && (isUnsorted || isOverShare(counts, this.#shareMax));
    // A look at the first rows finds all flags at once. The reasons are those of all rows, but of a wrong unit, for example,
    // they suggest flags that its right one does not need.
    const guessed =
      isOver && plan !== undefined
        ? await suggestFlags(file, await this.#lazy.reader(), this.#context.rules, plan)
        : [];
    return {
      path: file.path,
      dataset,
      ...counts,
      isOverShare: isOver,
      hasCents: this.#hasCents(counts),
      flags: guessed.length > 0 ? guessed : listReasonFlags(counts),
    };
  }

  /** The first rows may not show it: they may all cost one cent. */
  #hasCents({ looksLikeCents }: FileCounts): boolean {
    return looksLikeCents && this.#context.rules.rows.priceScale === null;
  }
}

/** The files because of which nothing is imported. */
function listRefused(checked: readonly CheckedFile[], shareMax: number): RunFailure[] {
  const over = checked.filter((file) => file.isOverShare);
  if (over.length > 0) return over.map((file) => createFailure(formatOverShare(file, shareMax), file.flags));
  return checked
    .filter((file) => file.hasCents)
    .map(({ path }) => createFailure(`${path}: nothing was imported: ${centsFault}.`));
}

const createFailure = (reason: string, flags: readonly string[] = []): RunFailure => ({
  ...createJobFailure('input file', reason),
  flags,
});

const createUsageThrower = (file: ImportFile) => (error: unknown) => {
  // A summary shows an error on one line.
  if (error instanceof UsageError) throw new UsageError(error.message.replace(/\n +/g, ' '), { cause: error });
  throw error instanceof UnreadableFileError
    ? new UsageError(`${file.path}: ${error.message}.`, { cause: error })
    : error;
};

/** Declares the coverage of each symbol in the rows of each dataset, up to the last modification of its files. */
async function declareRowCoverage(
  run: Run,
  covers: Window | null,
  plans: ReadonlyMap<ImportFile, RowPlan>,
  writer: ImportWriter,
): Promise<void> {
  const targets = [
    { dataset: 'ticks', symbols: writer.rowSymbols },
    ...seriesDatasets.map((dataset) => ({ dataset, symbols: writer.series[dataset].symbols })),
  ] as const;
  if (covers === null || targets.every(({ symbols }) => symbols.size === 0)) return;
  if (run.failures.length > 0) {
    run.warnings.push('No coverage was declared because some files could not be read: see the failures.');
    return;
  }
  const warnings = new Set<string>();
  for (const { dataset, symbols } of targets) {
    if (symbols.size === 0) continue;
    const times = [...plans].filter(([, plan]) => plan.datasets.includes(dataset)).map(([{ writtenAt }]) => writtenAt);
    const writtenAt = times.reduce((latest, time) => Math.max(latest, time), Number.NEGATIVE_INFINITY);
    const window = intersectTwo(covers, { from: timeMin, to: Math.min(writtenAt, timeEnd) });
    if (window.to < covers.to)
      warnings.add(
        `--covers ends after the last modification of the files, ${formatIsoUtc(writtenAt)}: coverage was declared up to that time only.`,
      );
    if (!isEmpty(window)) await writer.addDeclaredCoverage(dataset, symbols, window, writtenAt);
  }
  run.warnings.push(...warnings);
}

/** Minimum total size of saved pages for which worker threads are started. */
const threadedBytesMin = 16 << 20;
/** Opens worker threads if there is enough input for them. */
async function openThreadsFor({ threads }: Context, files: readonly ImportFile[]): Promise<MergeThreads | undefined> {
  const bytes = files.reduce((sum, file) => sum + (file.format === 'pages' ? file.bytes : 0), 0);
  return threads > 1 && bytes >= threadedBytesMin ? await openImportThreads(threads) : undefined;
}

interface ImportSource {
  /** Null: the only service of the archive, or raw responses, which name their own. */
  readonly source: string | null;
  /** Qualifies a symbol with it, unless it is qualified already; undefined: symbols stay as they are. */
  readonly qualify: QualifyName | undefined;
}

/**
 * Chooses the source of the files of an import into an archive of several sources.
 * @throws UsageError if it is not clear
 */
function chooseImportSource({ archive, context }: Run, files: readonly ImportFile[]): ImportSource {
  requireKnownSources(archive, context);
  const { sources = [] } = context;
  const names = archive.state.identity.sources.map(({ name }) => name);
  if (sources.length > 1)
    throw new UsageError(
      `--source: an import has one source, and ${sources.join(', ')} are given. Import the files of each by itself.`,
    );
  if (names.length > 0 && sources.length === 0 && files.some(({ format }) => format !== 'raw'))
    throw new UsageError(
      `The archive at ${archive.layout.root} has the sources ${names.join(', ')}: name that of the files with --source. It qualifies their symbols, unless they are qualified already.`,
    );
  const source = sources[0] ?? null;
  return { source, qualify: source === null ? undefined : createQualifier(source, names) };
}
