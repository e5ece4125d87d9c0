import { ServerResponse } from 'node:http';
import { Readable } from 'node:stream';
import type { OpenedFile } from '../reading/verified-files.ts';
import type { ByteRange } from './byte-ranges.ts';

/** Bytes that are read at once, and how many such buffers one reader may have in use. */
const pieceBytes = 256 * 1024;
const piecesMax = 4;

/** Texts and ranges of an open file one after the other, as a stream that can be piped only. */
export class FileStream extends Readable {
  private readonly opened: OpenedFile;
  private readonly segments: readonly (Uint8Array | ByteRange)[];
  private readonly buffers = new Buffers();

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
    let at = first;
    const read = async (): Promise<{ buffer: Buffer; count: number }> => {
      const buffer = await this.buffers.take();
      const count = await this.opened.read(buffer.subarray(0, Math.min(pieceBytes, last + 1 - at)), at);
      at += count;
      return { buffer, count };
    };
    let next: Promise<{ buffer: Buffer; count: number }> | null = read();
    while (next !== null) {
      const { buffer, count }: { buffer: Buffer; count: number } = await next;
      // One is read while the one before is sent.
      next = at <= last ? read() : null;
      next?.catch(() => {});
      if (this.destroyed) return;
      const piece = buffer.subarray(0, count);
      // Any other stream may hold on to what it was given.
      if (to instanceof ServerResponse) to.write(piece, () => this.buffers.give(buffer));
      else to.write(Buffer.from(piece), () => this.buffers.give(buffer));
    }
  }
}

/** Buffers that go round. */
class Buffers {
  private readonly free: Buffer[] = [];
  private made = 0;
  private waiting: PromiseWithResolvers<Buffer> | null = null;
  private isOver = false;

  take(): Promise<Buffer> {
    if (this.isOver) return Promise.reject(new Error('The reader is gone.'));
    const held = this.free.pop();
    if (held !== undefined) return Promise.resolve(held);
    if (this.made < piecesMax) {
      this.made++;
      return Promise.resolve(Buffer.allocUnsafeSlow(pieceBytes));
    }
    this.waiting = Promise.withResolvers<Buffer>();
    return this.waiting.promise;
  }

  give(buffer: Buffer): void {
    const { waiting } = this;
    this.waiting = null;
    if (waiting === null) this.free.push(buffer);
    else waiting.resolve(buffer);
  }

  end(): void {
    this.isOver = true;
    this.waiting?.reject(new Error('The reader is gone.'));
  }
}
