import { join } from 'node:path';
import { formatDay } from '../../base/time.ts';
import type { RawPage, RawPageHead } from '../../contract/raw-page.ts';
import type { Archive } from '../archive.ts';
import { encodeRawPiece, pruneRawFiles, type RawRetention, toRawFolder } from './raw-file.ts';

interface RawWriterOptions extends RawRetention {
  readonly runId: string;
  /** The API key. It is removed from response bodies that contain it. */
  readonly secret: string;
  /**
   * Waits for more small responses, to pack them into one piece: writing one response takes longer than its
   * request. Rejects when the signal is aborted, because no more responses will come. Without this option the writer
   * does not wait.
   */
  readonly gather?: (signal: AbortSignal) => Promise<void>;
}

/** Maximum size of the queue, in bytes. Responses beyond it are dropped, and `close` reports how many. */
const queuedBytesMax = 64 * 1024 * 1024;
/** Target size of a piece, in bytes. Small responses compress better together. */
const pieceBytesMax = 1024 * 1024;
/** Files are closed at this size, so that a long run can prune its oldest. */
const fileBytesMax = 32 * 1024 * 1024;

type QueuedPage = { readonly page: RawPage; readonly day: string };

/** Saves the raw responses of a run. Nothing waits for it, and its failures do not affect the run. */
export type RawWriter = ReturnType<typeof openRawWriter>;

/**
 * Opens the writer of one run. Its files are .oddslake/raw/DAY/RUN-000.raw and so on; DAY is the UTC day of receipt.
 */
export function openRawWriter({ disk, layout }: Pick<Archive, 'disk' | 'layout'>, options: RawWriterOptions) {
  const secret = Buffer.from(options.secret, 'utf8');
  let queue: QueuedPage[] = [];
  let queueBytes = 0;
  let writing: Promise<void> | undefined;
  let files = 0;
  let lost = 0;
  let failure: Error | undefined;

  /** The next responses for one piece of a day's file; none if the next response is of another day. */
  function takeBatch(day: string): RawPage[] {
    let bytes = 0;
    const count = queue.findIndex(({ page, day: pageDay }, i) => {
      bytes += page.body.length;
      return pageDay !== day || (i > 0 && bytes > pieceBytesMax);
    });
    const batch = count < 0 ? queue : queue.slice(0, count);
    queue = count < 0 ? [] : queue.slice(count);
    return batch.map(({ page }) => page);
  }

  async function* streamPieces(day: string): AsyncGenerator<Uint8Array, void, undefined> {
    let length = 0;
    while (length < fileBytesMax) {
      if (options.gather !== undefined && isFewYet()) await options.gather(closing.signal).catch(() => {});
      const batch = takeBatch(day);
      if (batch.length === 0) {
        if (queue.length > 0 || closing.signal.aborted) return;
        await waitForWake();
        continue;
      }
      for (const piece of await encodeRawPiece(batch)) {
        length += piece.length;
        yield piece;
      }
      queueBytes -= sumBodyBytes(batch);
    }
  }

  const closing = new AbortController();
  const isFewYet = (): boolean => queue.length > 0 && queueBytes < pieceBytesMax && !closing.signal.aborted;
  let wake: (() => void) | undefined;
  const waitForWake = (): Promise<void> =>
    new Promise((resolve) => {
      wake = resolve;
    });

  async function writeAll(): Promise<void> {
    try {
      while (queue.length > 0) {
        const { day } = queue[0]!;
        const folder = toRawFolder(layout, day);
        disk.makeVolatileFolder(folder);
        const path = join(folder, `${options.runId}-${String(files++).padStart(3, '0')}.raw`);
        await disk.writeStream(path, streamPieces(day)).catch((error: unknown) => {
          // The journal needs the space more.
          if (isDiskFullError(error)) disk.remove(path);
          throw error;
        });
        pruneRawFiles({ disk, layout }, options, null);
      }
    } catch (error) {
      failure = error as Error;
      queue = [];
    } finally {
      writing = undefined;
    }
  }

  return {
    /** Queues a response for writing. */
    write(response: Omit<RawPage, 'run' | 'redacted'>) {
      // The run is over, or writing has failed: ignore the response.
      if (closing.signal.aborted || failure !== undefined) return;
      const bytes = response.body.length;
      if (queueBytes > 0 && queueBytes + bytes > queuedBytesMax) {
        lost++;
        return;
      }
      queue.push({ page: redactSecret(response, options.runId, secret), day: formatDay(response.receivedAt) });
      queueBytes += bytes;
      writing ??= writeAll();
      wake?.();
    },
    /** Writes the queued responses. Resolves to a warning if some could not be saved, else null. */
    async close(): Promise<string | null> {
      closing.abort();
      wake?.();
      await writing;
      if (failure !== undefined)
        return `Raw responses could not be saved (raw.keep_days); the run continues without them: ${failure.message}`;
      const responses = `${lost} raw response${lost === 1 ? ' was' : 's were'}`;
      return lost === 0 ? null : `${responses} not saved (raw.keep_days): the disk is too slow.`;
    },
  };
}

const isDiskFullError = (error: unknown): boolean =>
  ['ENOSPC', 'EDQUOT'].includes(((error as Error).cause as NodeJS.ErrnoException | undefined)?.code ?? '');

const sumBodyBytes = (pages: readonly RawPage[]): number => pages.reduce((sum, { body }) => sum + body.length, 0);

function redactSecret(response: RawPageHead | object, run: string, secret: Buffer): RawPage {
  const page = response as Omit<RawPage, 'run' | 'redacted'>;
  const body = Buffer.from(page.body.buffer, page.body.byteOffset, page.body.length);
  if (!body.includes(secret)) return { run, ...page, redacted: false };
  const pieces: Uint8Array[] = [];
  let from = 0;
  for (let at = body.indexOf(secret); at >= 0; at = body.indexOf(secret, from)) {
    pieces.push(body.subarray(from, at), redaction);
    from = at + secret.length;
  }
  return { run, ...page, redacted: true, body: Buffer.concat([...pieces, body.subarray(from)]) };
}

const redaction = Buffer.from('[key]', 'utf8');
