import type { Archive } from '../archive/archive.ts';
import { minuteMs } from '../base/window.ts';
import { withFilesDisplay, withObjectStore } from '../collector/steps/bucket-access.ts';
import type { Context } from '../context/context.ts';

/** Opens one generation of the archive at an address in object storage, for work that only reads. */
export const withBucketArchive = <T>(
  context: Context,
  url: string,
  work: (archive: Archive) => T | Promise<T>,
): Promise<T> =>
  withObjectStore(context, url, async (store) => {
    const { openRemoteArchive } = await import('../bucket/remote-archive.ts');
    const { disk, clock, signal, settings, version, random } = context;
    const { close, archive } = await openRemoteArchive(store, {
      disk,
      clock,
      signal,
      writer: `oddslake ${version}`,
      settleMs: settings.archive.settleMinutes * minuteMs,
      cacheFolder: settings.bucket.cacheDir,
      cacheBytesMax: settings.bucket.cacheBytesMax,
      id: Math.floor(random() * 36 ** 8).toString(36),
      showProgress: (download) => withFilesDisplay(context, 'download', download),
    });
    // A closed pipe ends the process at once.
    process.once('exit', close);
    try {
      return await work(archive);
    } finally {
      process.off('exit', close);
      close();
    }
  });
