import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { createDisk, type FileSystemCalls, systemCalls, systemDisk } from '../../src/archive/disk/file-system.ts';
import { scratchFolder } from './scratch.ts';

const bytes = Buffer.from('ticks of a day');
const failure = (code: string) => Object.assign(new Error(`${code}: as the system says it`), { code });
const failing = (code: string) => (): never => {
  throw failure(code);
};
const diskWith = (calls: Partial<FileSystemCalls>) => createDisk({ ...systemCalls, ...calls });

/** The system calls, with a record of those that were made. */
function recordingCalls(): { calls: FileSystemCalls; made: string[] } {
  const made: string[] = [];
  const calls = Object.fromEntries(
    Object.entries(systemCalls).map(([name, call]) => [
      name,
      (...args: never[]) => {
        made.push(name);
        return (call as (...written: never[]) => unknown)(...args);
      },
    ]),
  ) as unknown as FileSystemCalls;
  return { calls, made };
}

async function* later(...pieces: Uint8Array[]) {
  yield* pieces;
}

describe('a file', () => {
  test('is written completely if the system accepts few bytes at a time', async () => {
    const root = scratchFolder();
    const disk = diskWith({ write: (file, piece) => systemCalls.write(file, piece.subarray(0, 3)) });
    disk.write(join(root, 'a'), bytes);
    disk.write(join(root, 'b'), [bytes, new Uint8Array(), bytes]);
    await disk.writeStream(join(root, 'c'), later(bytes, bytes));
    const twice = Buffer.concat([bytes, bytes]);
    expect(['a', 'b', 'c'].map((name) => readFileSync(join(root, name)))).toEqual([bytes, twice, twice]);
  });

  test('is synced after its last chunk and closed, also after a failure', async () => {
    const root = scratchFolder();
    const { calls, made } = recordingCalls();
    const order = ['create', 'write', 'write', 'sync', 'close'];
    createDisk(calls).write(join(root, 'a'), [bytes, bytes]);
    expect(made.splice(0)).toEqual(order);
    await createDisk(calls).writeStream(join(root, 'a'), later(bytes, bytes));
    expect(made.splice(0)).toEqual(order);
    const broken = createDisk({ ...calls, sync: failing('EIO') });
    expect(() => broken.write(join(root, 'a'), bytes)).toThrow('The disk failed: could not write');
    await expect(broken.writeStream(join(root, 'a'), later(bytes))).rejects.toThrow('The disk failed: could not write');
    expect(made.splice(0)).toEqual(['create', 'write', 'close', 'create', 'write', 'close']);
    expect(() => broken.syncFolder(root)).toThrow('The disk failed: could not sync');
    expect(made).toEqual(['openFolder', 'close']);
  });

  test('reads completely and in chunks', async () => {
    const path = join(scratchFolder(), 'a');
    const text = Buffer.alloc(1_200_000, 'x');
    systemDisk.write(path, text);
    const sizes: number[] = [];
    for await (const piece of systemDisk.readStream(path)) sizes.push(piece.length);
    expect(sizes).toEqual([524_288, 524_288, 151_424]);
    expect(Buffer.compare(systemDisk.read(path), text)).toBe(0);
  });

  test('has a stamp that changes only with its bytes, time or place', () => {
    const root = scratchFolder();
    const path = join(root, 'a');
    const stamps = new Set<string | null>();
    writeFileSync(path, bytes);
    utimesSync(path, 1_000, 1_000);
    stamps.add(systemDisk.stamp(path));
    expect(systemDisk.stamp(path)).toBe([...stamps][0]);
    writeFileSync(path, `${bytes}.`);
    utimesSync(path, 1_000, 1_000);
    stamps.add(systemDisk.stamp(path));
    utimesSync(path, 1_000, 1_000.5);
    stamps.add(systemDisk.stamp(path));
    writeFileSync(join(root, 'b'), `${bytes}.`);
    utimesSync(join(root, 'b'), 1_000, 1_000.5);
    systemDisk.rename(join(root, 'b'), path);
    stamps.add(systemDisk.stamp(path));
    expect(stamps.size).toBe(4);
    expect(systemDisk.stamp(join(root, 'b'))).toBeNull();
  });
});

test('has its kind reported, for links that of the target', () => {
  const root = scratchFolder();
  mkdirSync(join(root, 'folder/b'), { recursive: true });
  writeFileSync(join(root, 'folder/a'), bytes);
  symlinkSync(join(root, 'folder'), join(root, 'to folder'));
  symlinkSync(join(root, 'folder/a'), join(root, 'to file'));
  symlinkSync(join(root, 'nowhere'), join(root, 'to nowhere'));
  symlinkSync(join(root, 'round'), join(root, 'round'));
  const reported = (name: string) => {
    const path = join(root, name);
    return [systemDisk.isFolder(path), systemDisk.isFile(path), systemDisk.isLink(path), systemDisk.list(path)];
  };
  expect(reported('folder')).toEqual([true, false, false, ['a', 'b']]);
  expect(reported('folder/a')).toEqual([false, true, false, []]);
  expect(reported('to folder')).toEqual([true, false, true, ['a', 'b']]);
  expect(reported('to file')).toEqual([false, true, true, []]);
  for (const name of ['to nowhere', 'round']) {
    expect(reported(name)).toEqual([false, false, true, []]);
    expect([systemDisk.size(join(root, name)), systemDisk.stamp(join(root, name))]).toEqual([null, null]);
  }
  expect(reported('none')).toEqual([false, false, false, []]);
  expect(systemDisk.size(join(root, 'to file'))).toBe(bytes.length);
});

test('has its path resolved as far as it exists', () => {
  const root = realpathSync(scratchFolder());
  mkdirSync(join(root, 'real/deep'), { recursive: true });
  symlinkSync(join(root, 'real'), join(root, 'link'));
  expect(systemDisk.realPath(join(root, 'link/deep'))).toBe(join(root, 'real/deep'));
  expect(systemDisk.realPath(join(root, 'link/none/x'))).toBe(join(root, 'real/none/x'));
});

describe('a folder', () => {
  test('is made with its parents, each synced into its parent, unless it is volatile', () => {
    const root = scratchFolder();
    const { calls, made } = recordingCalls();
    createDisk(calls).makeFolder(join(root, 'a/b'));
    // The volatile folder itself was found empty, so its own name is synced first.
    const synced = ['openFolder', 'sync', 'close'];
    expect(made.splice(0)).toEqual([...synced, 'makeFolder', ...synced, 'makeFolder', ...synced]);
    createDisk(calls).makeVolatileFolder(join(root, 'c/d'));
    expect(made.splice(0)).toEqual(['makeFolder', 'makeFolder']);
    createDisk(calls).makeVolatileFolder(join(root, 'c/d'));
    expect(made).toEqual([]);
    expect(statSync(join(root, 'c/d')).isDirectory()).toBe(true);
  });

  test('and its missing parents are created together with others, and each parent is synced once', () => {
    const root = scratchFolder();
    const made: string[] = [];
    const files = new Map<number, string>();
    const name = (path: string): string => path.slice(root.length);
    const disk = diskWith({
      makeFolder(path) {
        systemCalls.makeFolder(path);
        made.push(`make ${name(path)}`);
      },
      openFolder(path) {
        const file = systemCalls.openFolder(path);
        files.set(file, path);
        return file;
      },
      sync: (file) => void made.push(`sync ${name(files.get(file)!)}`),
    });
    writeFileSync(join(root, 'file'), '');
    disk.makeFolders(['a/1', 'a/2', 'b', 'c/1'].map((path) => join(root, path)));
    expect(made.splice(0)).toEqual([
      'make /a',
      'make /b',
      'make /c',
      'sync ',
      'make /a/1',
      'make /a/2',
      'make /c/1',
      'sync /a',
      'sync /c',
    ]);
    // The name of an empty folder may not have been synced before a crash.
    disk.makeFolders(['a/1/x', 'b', 'c'].map((path) => join(root, path)));
    expect(made).toEqual(['sync /a', 'sync ', 'make /a/1/x', 'sync /a/1']);
  });

  test.each(['makeFolder', 'makeVolatileFolder'] as const)(
    'that another process made first is accepted by %s',
    (make) => {
      const root = scratchFolder();
      const createFirst = (path: string): void => {
        mkdirSync(path);
        throw failure('EEXIST');
      };
      diskWith({ makeFolder: createFirst })[make](join(root, 'a/b'));
      expect(existsSync(join(root, 'a/b'))).toBe(true);
      expect(() => diskWith({ makeFolder: failing('ENOSPC') })[make](join(root, 'c'))).toThrow('The disk is full');
    },
  );

  test('that is empty below an unreadable folder is accepted, but no other failure', () => {
    const root = scratchFolder();
    diskWith({ openFolder: failing('EACCES') }).makeFolder(root);
    expect(() => diskWith({ openFolder: failing('EIO') }).makeFolder(root)).toThrow('The disk failed: could not sync');
  });
});

describe('removing', () => {
  test('removes a folder with its contents, a link but not its target, and ignores a missing path', () => {
    const root = scratchFolder();
    mkdirSync(join(root, 'a/b'), { recursive: true });
    writeFileSync(join(root, 'a/b/file'), bytes);
    mkdirSync(join(root, 'kept'));
    writeFileSync(join(root, 'kept/file'), bytes);
    symlinkSync(join(root, 'kept'), join(root, 'a/link'));
    systemDisk.remove(join(root, 'a'));
    systemDisk.remove(join(root, 'none'));
    expect([readdirSync(root), readdirSync(join(root, 'kept'))]).toEqual([['kept'], ['file']]);
  });

  test('continues if another process removed the same, and otherwise fails', () => {
    const root = scratchFolder();
    const fill = () => {
      mkdirSync(join(root, 'a'));
      for (const name of ['x', 'y']) writeFileSync(join(root, 'a', name), bytes);
    };
    fill();
    const createFirst = (path: string): void => {
      rmSync(path);
      throw failure('ENOENT');
    };
    diskWith({ unlink: createFirst }).remove(join(root, 'a'));
    expect(readdirSync(root)).toEqual([]);
    fill();
    expect(() => diskWith({ unlink: failing('EBUSY') }).remove(join(root, 'a'))).toThrow('EBUSY');
    expect(readdirSync(join(root, 'a'))).toEqual(['x', 'y']);
  });
});

describe('a system error', () => {
  const sentences: [string, RegExp][] = [
    ...['ENOSPC', 'EDQUOT'].map((code): [string, RegExp] => [code, /^The disk is full: could not /]),
    ['EIO', /^The disk failed: could not /],
    ...['EACCES', 'EPERM', 'EROFS'].map((code): [string, RegExp] => [code, /^Not allowed to /]),
  ];

  test.each(sentences)('%s is reported in one sentence with the operation and the path', (code, sentence) => {
    const root = scratchFolder();
    const [from, to] = [join(root, 'from'), join(root, 'to')];
    const refused = failing(code);
    const disk = diskWith({
      rename: refused,
      link: refused,
      create: refused,
      openFolder: refused,
      makeFolder: refused,
    });
    const reported = (operation: string, path: string) =>
      expect.objectContaining({
        exitCode: 1,
        message: expect.stringMatching(new RegExp(`${sentence.source}${operation} ${path}\\.`)),
        cause: expect.objectContaining({ code }),
      });
    expect(() => disk.rename(from, to)).toThrow(reported('rename', `${from} to ${to}`));
    expect(() => disk.link(from, to)).toThrow(reported('link', `${from} to ${to}`));
    expect(() => disk.write(from, bytes)).toThrow(reported('write', from));
    expect(() => disk.syncFolder(root)).toThrow(reported('sync', root));
    expect(() => disk.makeVolatileFolder(from)).toThrow(reported('create', from));
  });

  test('of another kind is rethrown unchanged', () => {
    const root = scratchFolder();
    expect(() => systemDisk.rename(join(root, 'a'), join(root, 'b'))).toThrow(
      expect.objectContaining({ code: 'ENOENT' }),
    );
    expect(() => systemDisk.read(root)).toThrow(expect.objectContaining({ code: 'EISDIR' }));
    expect(() => systemDisk.list('\0')).toThrow();
  });
});
