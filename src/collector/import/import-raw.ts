import type { LostWindow } from '../../archive/format/coverage.ts';
import { readSymbol, recordPolledFrom } from '../../archive/journal/symbol-store.ts';
import { listRawFiles, readRawFile } from '../../archive/raw/raw-file.ts';
import { UpstreamError } from '../../base/errors.ts';
import { qualifySymbol } from '../../base/source-name.ts';
import { intersectTwo, isEmpty, type Window } from '../../base/window.ts';
import { UnreadableResponseError } from '../../client/response-body.ts';
import { getFutureSkewMs, getSettleMs } from '../../context/open-configured.ts';
import type { RawPage } from '../../contract/raw-page.ts';
import type { Run } from '../run/run.ts';
import { publishJournal } from '../steps/publish-step.ts';
import { listLostTickWindows } from '../steps/track-lost-windows.ts';
import { formatErrorLine, type ImportFile, readWholeFile, UnreadableFileError } from './files.ts';
import type { ImportDataset, TickRowRules } from './import-rows.ts';
import { ImportWriter } from './import-writer.ts';
import type { CheckRules } from './preflight.ts';
import {
  createPageReplayer,
  decodeRawTickResponse,
  type PageReplayer,
  replayBook,
  replayMarkets,
} from './replay-pages.ts';

interface RawReplayContext {
  readonly run: Run;
  readonly rules: Pick<CheckRules, 'datasets' | 'paths'> & { readonly rows?: Pick<TickRowRules, 'priceScale'> };
  readonly writer: ImportWriter;
  /** The source of responses that do not name theirs, in an archive of several; null: none. */
  readonly source: string | null;
  /** Selects the responses to import. All of them if absent. */
  readonly isWanted?: (page: RawPage) => boolean;
  onRejected(what: 'response' | 'market record', reason: string, path: string): void;
  /** Called for a file that ends within a response. */
  onTorn(path: string, bytes: number): void;
  onProgress(): void;
}

/** Maximum size of a file. Files of the raw-response store are about 10 MB in size. */
const fileBytesMax = 1024 * 1024 * 1024;
/** A chunk holds one response of the maximum size, and this many bytes of others. */
const extraChunkBytes = 4 * 1024 * 1024;
const responseBytesMin = 64 * 1024 * 1024;

/** Imports raw responses with the same coverage, precedence and times as the collector would give them. */
export class RawReplay {
  readonly #context: RawReplayContext;
  readonly #futureSkewMs;
  readonly #chunkBytesMax;
  readonly #replayers = new Map<string, PageReplayer>();
  /** Start of the polled range of each symbol. */
  readonly #polledFrom = new Map<string, number>();
  /** The responses of one poll of the market lists. */
  #lists: RawPage[] = [];
  #listsPath = '';
  readonly #readChunksOf = (file: ImportFile): ReturnType<typeof readRawFile> => {
    try {
      // A copy, because the next call overwrites the bytes while the responses are replayed.
      return readRawFile(Buffer.from(readWholeFile(file, fileBytesMax, true)), this.#chunkBytesMax);
    } catch (error) {
      throw new UnreadableFileError(`cannot be read: ${formatErrorLine(error)}`, { cause: error });
    }
  };
  readonly #isIncluded = (dataset: ImportDataset): boolean => this.#context.rules.datasets?.includes(dataset) ?? true;
  readonly #sourceNames;

  constructor(context: RawReplayContext) {
    this.#context = context;
    const { run } = context;
    this.#futureSkewMs = getFutureSkewMs(run.context);
    this.#chunkBytesMax = Math.max(run.context.settings.upstream.responseBytesMax, responseBytesMin) + extraChunkBytes;
    this.#sourceNames = run.archive.state.identity.sources.map(({ name }) => name);
  }

  async #replayPoll(): Promise<void> {
    const pages = this.#lists;
    this.#lists = [];
    if (pages.length === 0 || !this.#isIncluded('markets')) return;
    const { run, rules, writer, onRejected } = this.#context;
    const { settings, clock, signal } = run.context;
    const source = pages[0]!.source ?? null;
    const configured = settings.sources.find(({ name }) => name === source)?.source;
    const { views } = configured ?? settings.source;
    try {
      const poll = await replayMarkets(pages, {
        clock,
        views,
        paths: configured ?? rules.paths,
        futureSkewMs: this.#futureSkewMs,
        signal,
        onUnreadable: (reason) => onRejected('response', formatUndecodable(reason), this.#listsPath),
      });
      for (const { reason } of poll.rejected) onRejected('market record', reason, this.#listsPath);
      await writer.addMarketsPoll(poll, source);
    } catch (error) {
      if (!(error instanceof UpstreamError)) throw error;
    }
  }

  async #takePage(received: RawPage, path: string): Promise<void> {
    const source = received.source ?? (this.#sourceNames.length === 0 ? null : this.#context.source);
    const page = source === null ? received : { ...received, source };
    if (this.#context.isWanted?.(page) === false) return;
    if (source === null ? this.#sourceNames.length > 0 : !this.#sourceNames.includes(source))
      return this.#context.onRejected(
        'response',
        source === null
          ? 'names no source, and the archive has several: name it with --source'
          : `is of the source ${source}, which the archive does not have`,
        path,
      );
    const { asked: request } = page;
    if (this.#lists.length > 0 && (request.route !== 'markets' || page.run !== this.#lists[0]!.run))
      await this.#replayPoll();
    if (request.route === 'markets') {
      this.#lists.push(page);
      this.#listsPath = path;
      return;
    }
    if (!this.#isIncluded(request.route === 'orderbook' ? 'orderbooks' : 'ticks')) return;
    try {
      if (request.route === 'orderbook')
        return await this.#context.writer.addBook(replayBook(page, request.symbol, this.#futureSkewMs));
      const replayer = this.#getReplayer(`${page.source ?? ''} ${page.run}`, source);
      const raw = decodeRawTickResponse(page, replayer.checkFields, this.#context.rules.rows?.priceScale);
      if (raw === undefined) return;
      const record = replayer.replay(raw);
      const { symbol, requestedWindow: window, origin } = record;
      if (origin === 'poll')
        this.#polledFrom.set(symbol, Math.min(window.from, this.#polledFrom.get(symbol) ?? window.from));
      this.#context.run.pages++;
      await this.#context.writer.addResponse(record);
    } catch (error) {
      if (!(error instanceof UnreadableResponseError)) throw error;
      this.#context.onRejected('response', formatUndecodable(error.message), path);
    }
  }

  /**
   * Records when polling of each symbol began. A window that no response covers becomes a gap, and the next poll
   * fetches it.
   */
  #notePolled(): void {
    const { db } = this.#context.run.archive.state;
    db.transaction(() => {
      for (const [symbol, from] of this.#polledFrom) recordPolledFrom(db, symbol, from);
    });
  }

  #getReplayer(run: string, source: string | null): PageReplayer {
    const { context, archive } = this.#context.run;
    const { settings } = context;
    const replayer =
      this.#replayers.get(run) ??
      createPageReplayer({
        futureSkewMs: this.#futureSkewMs,
        settleMs: getSettleMs(context),
        countKnown: (symbol) => readSymbol(archive.state.db, symbol)?.ticks ?? 0,
      });
    const configured = settings.sources.find(({ name }) => name === source) ?? settings;
    // What an oddslake that is mirrored sent claims nothing.
    if (!configured.source.mirror) this.#replayers.set(run, replayer);
    return replayer;
  }

  /** Imports a file. @throws UnreadableFileError if a part of it is damaged; the rest is imported */
  async take(file: ImportFile): Promise<void> {
    let [damaged, responses] = [0, 0];
    for await (const chunk of this.#readChunksOf(file)) {
      this.#context.run.context.signal.throwIfAborted();
      if (chunk.kind === 'damaged') damaged += chunk.bytes;
      if (chunk.kind === 'torn') this.#context.onTorn(file.path, chunk.bytes);
      for (const page of chunk.kind === 'pages' ? chunk.pages : []) {
        await this.#takePage(page, file.path);
        responses++;
      }
      this.#context.onProgress();
    }
    if (damaged > 0 && responses === 0) throw new UnreadableFileError('contains no responses from the service');
    if (damaged > 0) throw new UnreadableFileError(`${damaged} bytes are damaged; the rest was imported`);
  }

  /** Imports what had to wait for the end of the input. */
  async finish(): Promise<void> {
    await this.#replayPoll();
    for (const replayer of this.#replayers.values())
      for (const record of replayer.finish()) await this.#context.writer.addResponse(record);
    this.#notePolled();
  }
}

const formatUndecodable = (reason: string): string => `cannot be decoded: ${reason}`;

/**
 * Restores lost ticks from raw responses, without requests, and publishes them. Ignores unreadable files, because the
 * upstream may still have their ticks.
 *
 * A window counts as restored only if its responses are published together. Windows are therefore processed in batches
 * whose lost ticks fit in the journal, with one publish for each batch.
 */
export async function replayRawResponses(run: Run): Promise<void> {
  const files = listRawFiles(run.archive).map(toImportFile);
  if (files.length === 0) return;
  const { journalTicksMax } = run.context.settings.publish;
  for (const batch of splitLossesIntoBatches(listLostTickWindows(run), journalTicksMax)) {
    await replayBatch(
      run,
      files,
      Map.groupBy(batch, ({ symbol }) => symbol),
    );
    await publishJournal(run);
  }
  // An old response is not evidence of what the upstream has now.
  run.lostWindows.confirmedLost.clear();
}

/**
 * Splits windows, in order, into non-empty batches of at most `ticksMax` lost ticks; a larger window forms a batch of
 * its own.
 */
function splitLossesIntoBatches(lost: readonly LostWindow[], ticksMax: number): LostWindow[][] {
  const out: LostWindow[][] = [];
  let ticksLeft = 0;
  for (const window of lost) {
    if (out.length === 0 || window.ticks > ticksLeft) {
      out.push([]);
      ticksLeft = ticksMax;
    }
    out.at(-1)!.push(window);
    ticksLeft -= window.ticks;
  }
  return out;
}

/** Journals the responses that overlap lost windows. `lost` is keyed by symbol. */
async function replayBatch(
  run: Run,
  files: readonly ImportFile[],
  lost: ReadonlyMap<string, readonly LostWindow[]>,
): Promise<void> {
  const { context } = run;
  const futureMs = context.clock.nowMs() + getFutureSkewMs(context);
  // Responses are journaled unchanged, so no scratch files are needed.
  const options = { preferred: false, futureMs, scratch: '', journalTicksMax: Number.POSITIVE_INFINITY };
  const writer = new ImportWriter(run, options);
  using display = await context.startDisplay('raw responses', files.length, 'files');
  let done = 0;
  const replay = new RawReplay({
    run,
    writer,
    source: run.source,
    rules: { datasets: ['ticks'], paths: context.settings.source },
    isWanted: (page) => hasLostOverlap(page, (symbol) => lost.get(symbol) ?? []),
    onRejected: () => {},
    onTorn: () => {},
    onProgress: () => display.update({ done, ticks: writer.ticks }),
  });
  for (const file of files) {
    await replay.take(file).catch(ignoreUnreadableFile);
    done++;
  }
  await replay.finish();
  await writer.flushJournal();
}

/** Whether the window of a response overlaps a lost window. */
function hasLostOverlap({ asked, source }: RawPage, getLostWindows: (symbol: string) => readonly Window[]): boolean {
  if (asked.route !== 'ticks' || asked.meaning === null) return false;
  const requested = [{ from: asked.from, to: asked.to }, asked.meaning.asked];
  return getLostWindows(qualifySymbol(source ?? null, asked.symbol)).some((window) =>
    requested.some((part) => !isEmpty(intersectTwo(part, window))),
  );
}

const toImportFile = (path: string): ImportFile => ({
  path,
  isNamed: false,
  format: 'raw',
  compression: 'none',
  writtenAt: 0,
  bytes: 0,
});

const ignoreUnreadableFile = (error: unknown): void => {
  if (!(error instanceof UnreadableFileError)) throw error;
};
