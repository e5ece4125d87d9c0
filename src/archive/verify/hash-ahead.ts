import { availableParallelism } from 'node:os';
import { extname } from 'node:path';
import { Worker } from 'node:worker_threads';
import type { PublishedFile } from '../manifest.ts';

/** Hashes published files in threads, some of them before they are asked for. */
export interface HashAhead {
  /**
   * Whether the bytes at its place have the hash of the next of the files; false too where they cannot be read. To be
   * asked once for each file, in their order, one after the other.
   */
  isNextIntact(): Promise<boolean>;
  /** Ends the threads. */
  close(): Promise<void>;
}

/** More gain little: no disk gives as much as they take. */
const threadsMax = 4;
/** Files that a thread is told of at a time: it must not wait for this one, which has other work. */
const toldPerThread = 3;
/** Files in work or done before their turn, a thread. */
const aheadPerThread = 8;

/** @param place where a file is at the moment; null where nothing there can be read */
export function hashAhead(files: readonly PublishedFile[], place: (file: PublishedFile) => string | null): HashAhead {
  const count = Math.min(files.length, threadsMax, availableParallelism());
  const threads = Array.from({ length: count }, startThread);
  /** Each as often as it may be told of one more. */
  const idle = Array.from({ length: toldPerThread }, () => threads).flat();
  const waiting: ((thread: HashThread) => void)[] = [];
  const ahead: Promise<boolean>[] = [];
  let begun = 0;

  async function isIntact(file: PublishedFile): Promise<boolean> {
    const thread = idle.pop() ?? (await new Promise<HashThread>((resolve) => waiting.push(resolve)));
    try {
      const path = place(file);
      return path !== null && (await thread.hash(path)) === file.sha256;
    } catch {
      return false;
    } finally {
      const next = waiting.shift();
      if (next === undefined) idle.push(thread);
      else next(thread);
    }
  }

  return {
    async isNextIntact() {
      while (begun < files.length && ahead.length < count * aheadPerThread) ahead.push(isIntact(files[begun++]!));
      return (await ahead.shift()) ?? false;
    },
    close: async () => void (await Promise.all(threads.map((thread) => thread.end()))),
  };
}

interface HashThread {
  /** One after the other. Null where the file cannot be read, or the thread is gone. */
  hash(path: string): Promise<string | null>;
  end(): Promise<unknown>;
}

function startThread(): HashThread {
  // Not a literal: the build renames the endings of imports only.
  const entry = new URL(`./hash-thread${extname(import.meta.url)}`, import.meta.url);
  const thread = new Worker(entry, { execArgv: ['--disable-warning=ExperimentalWarning'] });
  const asked: ((hash: string | null) => void)[] = [];
  let gone = false;
  const isGone = (): void => {
    gone = true;
    for (const answer of asked.splice(0)) answer(null);
  };
  thread.on('message', (hash: string | null) => asked.shift()?.(hash));
  thread.on('error', isGone);
  thread.on('exit', isGone);
  return {
    hash: (path) =>
      new Promise((resolve) => {
        if (gone) {
          resolve(null);
          return;
        }
        asked.push(resolve);
        thread.postMessage(path);
      }),
    end: () => thread.terminate(),
  };
}
