import { join } from 'node:path';
import { formatDay } from '../../base/time.ts';
import type { RawPage, RawPageHead } from '../../contract/raw-page.ts';
import type { Archive } from '../open-archive.ts';
import { encodeRawPiece, pruneRawFiles, type RawRetention, toRawFolder } from './raw-file.ts';

/** Keeps the answers of a run as they came. Nothing waits for it, and whatever goes wrong with it hurts nothing else. */
export interface RawWriter {
  /** Takes an answer, to be written when there is time. */
  write(page: Omit<RawPage, 'run' | 'redacted'>): void;
  /** Writes what is still to be written. Resolves to what could not be kept, a sentence; null where all was. */
  close(): Promise<string | null>;
}

export interface RawWriterOptions extends RawRetention {
  readonly runId: string;
  /** What must not be in a file: it is taken out of a body that repeats it. */
  readonly secret: string;
  /**
   * Resolves when enough was waited for more small answers, which are packed together: one by one each takes longer than
   * its request. Rejects when the signal says that there will be none. Without it nothing is waited for.
   */
  readonly gather?: (signal: AbortSignal) => Promise<void>;
}

/** Answers that may wait to be written, in bytes; beyond it they are let go, and that is told. */
const queuedBytesMax = 64 * 1024 * 1024;
/** Answers that share a piece of the file: what is small compresses better together. */
const pieceBytesMax = 1024 * 1024;
/** A file is closed when it is this long, so that a long run can give up its oldest. */
const fileBytesMax = 32 * 1024 * 1024;

type QueuedPage = { readonly page: RawPage; readonly day: string };

/** Opens the keeper of one run; its files are .oddslake/raw/DAY/RUN-000.raw and so on, by the UTC day of receiving. */
export function openRawWriter(
  { disk, layout }: Pick<Archive, 'disk' | 'layout'>,
  options: RawWriterOptions,
): RawWriter {
  const secret = Buffer.from(options.secret, 'utf8');
  let waiting: QueuedPage[] = [];
  let waitingBytes = 0;
  let writing: Promise<void> | undefined;
  let files = 0;
  let lost = 0;
  let broken: Error | undefined;

  /** The next answers that go into one piece of the file of a day; none where the next one is of another day. */
  function takeBatch(day: string): RawPage[] {
    let bytes = 0;
    const count = waiting.findIndex(({ page, day: its }, i) => {
      bytes += page.body.length;
      return its !== day || (i > 0 && bytes > pieceBytesMax);
    });
    const batch = count < 0 ? waiting : waiting.slice(0, count);
    waiting = count < 0 ? [] : waiting.slice(count);
    return batch.map(({ page }) => page);
  }

  async function* piecesOf(day: string): AsyncGenerator<Uint8Array, void, undefined> {
    let length = 0;
    while (length < fileBytesMax) {
      if (options.gather !== undefined && isFewYet()) await options.gather(closing.signal).catch(() => {});
      const batch = takeBatch(day);
      if (batch.length === 0) {
        if (waiting.length > 0 || closing.signal.aborted) return;
        await woken();
        continue;
      }
      for (const piece of await encodeRawPiece(batch)) {
        length += piece.length;
        yield piece;
      }
      waitingBytes -= sumBodyBytes(batch);
    }
  }

  const closing = new AbortController();
  const isFewYet = (): boolean => waiting.length > 0 && waitingBytes < pieceBytesMax && !closing.signal.aborted;
  let wake: (() => void) | undefined;
  const woken = (): Promise<void> =>
    new Promise((resolve) => {
      wake = resolve;
    });

  async function writeAll(): Promise<void> {
    try {
      while (waiting.length > 0) {
        const { day } = waiting[0]!;
        const folder = toRawFolder(layout, day);
        disk.makeVolatileFolder(folder);
        const path = join(folder, `${options.runId}-${String(files++).padStart(3, '0')}.raw`);
        await disk.writeStream(path, piecesOf(day)).catch((error: unknown) => {
          // The journal needs the room more.
          if (isDiskFullError(error)) disk.remove(path);
          throw error;
        });
        pruneRawFiles({ disk, layout }, options, null);
      }
    } catch (error) {
      broken = error as Error;
      waiting = [];
    } finally {
      writing = undefined;
    }
  }

  return {
    write(answer) {
      // The run is over: what still arrives is nobody's.
      if (closing.signal.aborted || broken !== undefined) return;
      const bytes = answer.body.length;
      if (waitingBytes > 0 && waitingBytes + bytes > queuedBytesMax) {
        lost++;
        return;
      }
      waiting.push({ page: redactSecret(answer, options.runId, secret), day: formatDay(answer.receivedAt) });
      waitingBytes += bytes;
      writing ??= writeAll();
      wake?.();
    },
    async close() {
      closing.abort();
      wake?.();
      await writing;
      if (broken !== undefined)
        return `Answers could not be kept as they came (raw.keep_days); the run goes on without: ${broken.message}`;
      const answers = `${lost} answer${lost === 1 ? ' was' : 's were'}`;
      return lost === 0 ? null : `${answers} not kept as they came (raw.keep_days): the disk is too slow for them.`;
    },
  };
}

const isDiskFullError = (error: unknown): boolean =>
  ['ENOSPC', 'EDQUOT'].includes(((error as Error).cause as NodeJS.ErrnoException | undefined)?.code ?? '');

const sumBodyBytes = (pages: readonly RawPage[]): number => pages.reduce((sum, { body }) => sum + body.length, 0);

function redactSecret(answer: RawPageHead | object, run: string, secret: Buffer): RawPage {
  const page = answer as Omit<RawPage, 'run' | 'redacted'>;
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
