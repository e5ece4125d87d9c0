import { recordPolledFrom } from '../../archive/journal/symbols.ts';
import { readRawFile } from '../../archive/raw/raw-file.ts';
import { UpstreamError } from '../../base/errors.ts';
import { UnreadableResponseError } from '../../client/response-body.ts';
import type { RawPage } from '../../contract/raw-page.ts';
import type { Run } from '../run/run.ts';
import { type ImportFile, readWholeFile, UnreadableFileError } from './files.ts';
import type { ImportWriter } from './import-writer.ts';
import { type CheckRules, formatErrorLine } from './preflight.ts';
import {
  createPageReplayer,
  decodeRawTickResponse,
  type PageReplayer,
  replayBook,
  replayMarkets,
} from './replay-pages.ts';

export interface RawReplay {
  /** Imports a file. @throws UnreadableFileError if a part of it is damaged; the rest is imported */
  take(file: ImportFile): Promise<void>;
  /** Imports what had to wait for the end of the input. */
  finish(): Promise<void>;
}

interface RawReplayContext {
  readonly run: Run;
  readonly rules: Pick<CheckRules, 'dataset' | 'paths'>;
  readonly writer: ImportWriter;
  /** Selects the responses to import. All of them if absent. */
  readonly isWanted?: (page: RawPage) => boolean;
  onSetAside(what: 'response' | 'market record', reason: string, path: string): void;
  /** Called for a file that ends within a response. */
  onTorn(path: string, bytes: number): void;
  onProgress(): void;
}

/** Maximum size of a file. Files of the raw-response store have about 10 MB. */
const fileBytesMax = 1024 * 1024 * 1024;
/** A chunk holds one response of the maximum size, and this much of others. */
const extraChunkBytes = 4 * 1024 * 1024;
const responseBytesMin = 64 * 1024 * 1024;

/** Imports raw responses with the same coverage, precedence and times as the collector would give them. */
export function openRawReplay(context: RawReplayContext): RawReplay {
  const { run, rules, writer, isWanted, onSetAside } = context;
  const { settings, clock, signal } = run.context;
  const futureSkewMs = settings.poll.futureSkewSeconds * 1000;
  const pieceBytesMax = Math.max(settings.upstream.responseBytesMax, responseBytesMin) + extraChunkBytes;
  const replayers = new Map<string, PageReplayer>();
  /** Start of the polled range of each symbol. */
  const polledFrom = new Map<string, number>();
  /** The responses of one poll of the market lists. */
  let lists: RawPage[] = [];
  let listsPath = '';

  const readChunksOf = async (file: ImportFile) => {
    const bytes = await readWholeFile(file, fileBytesMax).catch((error: unknown) => {
      throw new UnreadableFileError(`cannot be read: ${formatErrorLine(error)}`, { cause: error });
    });
    return readRawFile(bytes, pieceBytesMax);
  };

  async function replayPoll(): Promise<void> {
    const pages = lists;
    lists = [];
    if (pages.length === 0 || rules.dataset === 'ticks') return;
    try {
      const poll = await replayMarkets(pages, {
        clock,
        views: settings.source.views,
        limit: settings.source.marketsLimit,
        paths: rules.paths,
        futureSkewMs,
        signal,
        onUnreadable: (reason) => onSetAside('response', formatUndecodable(reason), listsPath),
      });
      for (const { reason } of poll.rejected) onSetAside('market record', reason, listsPath);
      await writer.addMarketsPoll(poll);
    } catch (error) {
      if (!(error instanceof UpstreamError)) throw error;
    }
  }

  async function takePage(page: RawPage, path: string): Promise<void> {
    if (isWanted?.(page) === false) return;
    const { asked: rawRequest } = page;
    if (lists.length > 0 && (rawRequest.route !== 'markets' || page.run !== lists[0]!.run)) await replayPoll();
    if (rawRequest.route === 'markets') {
      lists.push(page);
      listsPath = path;
      return;
    }
    if (rules.dataset !== null && (rules.dataset === 'markets' || rawRequest.route === 'orderbook')) return;
    try {
      if (rawRequest.route === 'orderbook')
        return await writer.addBook(replayBook(page, rawRequest.symbol, futureSkewMs));
      const raw = decodeRawTickResponse(page);
      const record = raw === undefined ? undefined : getReplayer(page.run).replay(raw);
      if (record === undefined) return;
      const { symbol, requestedWindow: window, origin } = record;
      if (origin === 'poll') polledFrom.set(symbol, Math.min(window.from, polledFrom.get(symbol) ?? window.from));
      run.pages++;
      await writer.addResponse(record);
    } catch (error) {
      if (!(error instanceof UnreadableResponseError)) throw error;
      onSetAside('response', formatUndecodable(error.message), path);
    }
  }

  /**
   * Records from when on each symbol was polled. A window that no response covers becomes a gap, and the next poll fetches
   * it.
   */
  function notePolled(): void {
    const { db } = run.archive.state;
    db.transaction(() => {
      for (const [symbol, from] of polledFrom) recordPolledFrom(db, symbol, from);
    });
  }

  function getReplayer(runId: string): PageReplayer {
    const replayer = replayers.get(runId) ?? createPageReplayer(futureSkewMs);
    replayers.set(runId, replayer);
    return replayer;
  }

  return {
    async take(file) {
      let [damaged, responses] = [0, 0];
      for await (const chunk of await readChunksOf(file)) {
        signal.throwIfAborted();
        if (chunk.kind === 'damaged') damaged += chunk.bytes;
        if (chunk.kind === 'torn') context.onTorn(file.path, chunk.bytes);
        for (const page of chunk.kind === 'pages' ? chunk.pages : []) {
          await takePage(page, file.path);
          responses++;
        }
        context.onProgress();
      }
      if (damaged > 0 && responses === 0) throw new UnreadableFileError('contains no responses of the service');
      if (damaged > 0) throw new UnreadableFileError(`${damaged} bytes are damaged; the rest was imported`);
    },
    async finish() {
      await replayPoll();
      for (const replayer of replayers.values())
        for (const record of replayer.finish()) await writer.addResponse(record);
      notePolled();
    },
  };
}

const formatUndecodable = (reason: string): string => `cannot be decoded: ${reason}`;
