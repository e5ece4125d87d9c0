import {
  closeSync,
  fsyncSync,
  linkSync,
  mkdirSync,
  openSync,
  renameSync,
  rmdirSync,
  unlinkSync,
  writeSync,
} from 'node:fs';

/**
 * The system calls that change an archive on disk. A file's contents are durable only after `sync` on the file; its name is durable only after `sync` on its folder. Errors have the system's `code`.
 */
export interface FileSystemCalls {
  /** Creates or truncates a file. */
  create(path: string): number;
  /** Appends and returns the number of bytes written, at least one. */
  write(file: number, bytes: Uint8Array): number;
  openFolder(path: string): number;
  sync(file: number): void;
  close(file: number): void;
  rename(from: string, to: string): void;
  link(from: string, to: string): void;
  unlink(path: string): void;
  makeFolder(path: string): void;
  /** Removes an empty folder. */
  removeFolder(path: string): void;
}

export const systemCalls: FileSystemCalls = {
  create: (path) => openSync(path, 'w'),
  write: (file, bytes) => writeSync(file, bytes),
  openFolder: (path) => openSync(path, 'r'),
  sync: (file) => fsyncSync(file),
  close: (file) => closeSync(file),
  rename: (from, to) => renameSync(from, to),
  link: (from, to) => linkSync(from, to),
  unlink: (path) => unlinkSync(path),
  makeFolder: (path) => mkdirSync(path),
  removeFolder: (path) => rmdirSync(path),
};
