import { ServerResponse } from 'node:http';
import { Readable } from 'node:stream';
import type { OpenedFile } from '../reading/files/verified-files.ts';
import type { ByteRange } from './byte-ranges.ts';

/** Bytes that are read at once, and how many such buffers one reader may have in use. */
const chunkBytes = 256 * 1024;
const chunksMax = 4;

/** Reads under way for one reader: with one, the socket waits for it now and then. */
const readsConcurrentMax = 2;

/** Texts and ranges of an open file one after the other, as a stream that can be piped only. */
export class FileStream extends Readable {
  private readonly opened: OpenedFile;
  private readonly segments: readonly (Uint8Array | ByteRange)[];
  private readonly buffers = new BufferPool();

  constructor(opened: OpenedFile, segments: readonly (Uint8Array | ByteRange)[]) {
    super();
    this.opened = opened;
    this.segments = segments;
    this.once('close', () => this.buffers.end());
  }

  override _read(): void {}

  /**
   * A buffer is filled again once the socket has let go of it: new ones for every piece would cost more than half of the
   * time.
   */
  override pipe<T extends NodeJS.WritableStream>(to: T, options?: { end?: boolean }): T {
    void this.pump(to).then(
      () => {
        if (options?.end !== false && !this.destroyed) to.end();
        this.push(null);
        this.resume();
      },
      (error: Error) => this.destroy(error),
    );
    return to;
  }

  private async pump(to: NodeJS.WritableStream): Promise<void> {
    const { bytes } = this.opened;
    for (const segment of this.segments) {
      if (this.destroyed) return;
      if (segment instanceof Uint8Array) to.write(segment);
      else if (bytes !== null) to.write(bytes.subarray(segment.first, segment.last + 1));
      else await this.pumpRange(to, segment);
    }
  }

  private async pumpRange(to: NodeJS.WritableStream, { first, last }: ByteRange): Promise<void> {
    const reads: Promise<Buffer>[] = [];
    let at = first;
    const readOn = (): void => {
      for (; at <= last && reads.length < readsConcurrentMax; at += chunkBytes) {
        const read = this.fill(at, Math.min(chunkBytes, last + 1 - at));
        // Whoever fails first is told of; the ones behind it are not waited for.
        read.catch(() => {});
        reads.push(read);
      }
    };
    for (readOn(); reads.length > 0; ) {
      const piece = await reads.shift()!;
      readOn();
      if (this.destroyed) return;
      const give = (): void => this.buffers.release(piece);
      // Any other stream may hold on to what it was given.
      to.write(to instanceof ServerResponse ? piece : Buffer.from(piece), give);
    }
  }

  /** A buffer with the `length` bytes from `at` on. */
  private async fill(at: number, length: number): Promise<Buffer> {
    const piece = (await this.buffers.acquire()).subarray(0, length);
    for (let filled = 0; filled < length; ) filled += await this.opened.read(piece.subarray(filled), at + filled);
    return piece;
  }
}

/** Buffers that go round. */
class BufferPool {
  private readonly free: Buffer[] = [];
  private allocatedCount = 0;
  private readonly waiting: PromiseWithResolvers<Buffer>[] = [];
  private isEnded = false;

  /** Those who wait are served in their order: the piece that is sent next must not wait for one behind it. */
  acquire(): Promise<Buffer> {
    if (this.isEnded) return Promise.reject(new Error('The reader is gone.'));
    const held = this.free.pop();
    if (held !== undefined) return Promise.resolve(held);
    if (this.allocatedCount < chunksMax) {
      this.allocatedCount++;
      return Promise.resolve(Buffer.allocUnsafeSlow(chunkBytes));
    }
    const one = Promise.withResolvers<Buffer>();
    this.waiting.push(one);
    return one.promise;
  }

  /** @param piece a taken buffer, or its beginning */
  release(piece: Buffer): void {
    const buffer = Buffer.from(piece.buffer);
    const one = this.waiting.shift();
    if (one === undefined) this.free.push(buffer);
    else one.resolve(buffer);
  }

  end(): void {
    this.isEnded = true;
    for (const one of this.waiting.splice(0)) one.reject(new Error('The reader is gone.'));
  }
}
