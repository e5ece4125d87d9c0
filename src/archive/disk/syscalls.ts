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
 * The calls by which anything of an archive changes on a disk, one for one those of the operating system. Nothing is
 * durable before `sync` of its file, and no name before `sync` of its folder. What they throw has the system's `code`.
 */
export interface FileSystemCalls {
  /** Creates or empties a file. */
  create(path: string): number;
  /** Appends, and tells how many bytes were taken: at least one. */
  write(file: number, bytes: Uint8Array): number;
  openFolder(path: string): number;
  sync(file: number): void;
  close(file: number): void;
  rename(from: string, to: string): void;
  link(from: string, to: string): void;
  unlink(path: string): void;
  makeFolder(path: string): void;
  /** Of an empty one. */
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
