import { recordPolledFrom } from '../../archive/journal/symbols.ts';
import { readRawFile } from '../../archive/raw/raw-file.ts';
import { UpstreamError } from '../../base/errors.ts';
import { UnreadableResponseError } from '../../client/json-response.ts';
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
  /** Takes a file in. @throws UnreadableFileError where a part of it is damaged, after the rest was taken in */
  take(file: ImportFile): Promise<void>;
  /** Takes in what had to wait for the end. */
  finish(): Promise<void>;
}

export interface RawReplayContext {
  readonly run: Run;
  readonly rules: Pick<CheckRules, 'dataset' | 'paths'>;
  readonly writer: ImportWriter;
  /** Which answers are to be taken in; all of them where it is not given. */
  readonly isWanted?: (page: RawPage) => boolean;
  onSetAside(what: 'answer' | 'market record', reason: string, path: string): void;
  /** Told of a file that was cut off amid an answer. */
  onTorn(path: string, bytes: number): void;
  onProgress(): void;
}

/** Longest file that is read: the keeper's are some ten megabytes long. */
const fileBytesMax = 1024 * 1024 * 1024;
/** Beside one answer as long as may be, others share its piece. */
const extraChunkBytes = 4 * 1024 * 1024;
const responseBytesMin = 64 * 1024 * 1024;

/** Takes in answers as they were kept: what they cover, rank and date is what the collector would make of them. */
export function openRawReplay(context: RawReplayContext): RawReplay {
  const { run, rules, writer, isWanted, onSetAside } = context;
  const { settings, clock, signal } = run.context;
  const futureSkewMs = settings.poll.futureSkewSeconds * 1000;
  const pieceBytesMax = Math.max(settings.upstream.responseBytesMax, responseBytesMin) + extraChunkBytes;
  const rereaders = new Map<string, PageReplayer>();
  /** From when on polls asked for each symbol. */
  const polledFrom = new Map<string, number>();
  /** Answers of one poll of the market lists. */
  let lists: RawPage[] = [];
  let listsPath = '';

  const piecesOf = async (file: ImportFile) => {
    const bytes = await readWholeFile(file, fileBytesMax).catch((error: unknown) => {
      throw new UnreadableFileError(`it cannot be read: ${formatErrorLine(error)}`, { cause: error });
    });
    return readRawFile(bytes, pieceBytesMax);
  };

  async function pollAgain(): Promise<void> {
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
        onUnreadable: (reason) => onSetAside('answer', formatUndecodable(reason), listsPath),
      });
      for (const { reason } of poll.rejected) onSetAside('market record', reason, listsPath);
      await writer.addMarketsPoll(poll);
    } catch (error) {
      if (!(error instanceof UpstreamError)) throw error;
    }
  }

  async function takePage(page: RawPage, path: string): Promise<void> {
    if (isWanted?.(page) === false) return;
    const { asked } = page;
    if (lists.length > 0 && (asked.route !== 'markets' || page.run !== lists[0]!.run)) await pollAgain();
    if (asked.route === 'markets') {
      lists.push(page);
      listsPath = path;
      return;
    }
    if (rules.dataset !== null && (rules.dataset === 'markets' || asked.route === 'orderbook')) return;
    try {
      if (asked.route === 'orderbook') return await writer.addBook(replayBook(page, asked.symbol, futureSkewMs));
      const raw = decodeRawTickResponse(page);
      const record = raw === undefined ? undefined : rereaderOf(page.run).replay(raw);
      if (record === undefined) return;
      const { symbol, requestedWindow: window, origin } = record;
      if (origin === 'poll') polledFrom.set(symbol, Math.min(window.from, polledFrom.get(symbol) ?? window.from));
      run.pages++;
      await writer.addResponse(record);
    } catch (error) {
      if (!(error instanceof UnreadableResponseError)) throw error;
      onSetAside('answer', formatUndecodable(error.message), path);
    }
  }

  /** From where the run meant to have it: what of that no answer claims is a hole, and the next poll asks for it. */
  function notePolled(): void {
    const { db } = run.archive.state;
    db.transaction(() => {
      for (const [symbol, from] of polledFrom) recordPolledFrom(db, symbol, from);
    });
  }

  function rereaderOf(runId: string): PageReplayer {
    const known = rereaders.get(runId) ?? createPageReplayer(futureSkewMs);
    rereaders.set(runId, known);
    return known;
  }

  return {
    async take(file) {
      let [damaged, answers] = [0, 0];
      for await (const piece of await piecesOf(file)) {
        signal.throwIfAborted();
        if (piece.kind === 'damaged') damaged += piece.bytes;
        if (piece.kind === 'torn') context.onTorn(file.path, piece.bytes);
        for (const page of piece.kind === 'pages' ? piece.pages : []) {
          await takePage(page, file.path);
          answers++;
        }
        context.onProgress();
      }
      if (damaged > 0 && answers === 0) throw new UnreadableFileError('it holds no answers of the service');
      if (damaged > 0)
        throw new UnreadableFileError(`${damaged} of its bytes are damaged; the rest of it was taken in`);
    },
    async finish() {
      await pollAgain();
      for (const reader of rereaders.values()) for (const record of reader.finish()) await writer.addResponse(record);
      notePolled();
    },
  };
}

const formatUndecodable = (reason: string): string => `it cannot be decoded, being ${reason}`;
