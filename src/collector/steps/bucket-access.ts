import type { Archive } from '../../archive/archive.ts';
import { exitCodes, OddslakeError, UsageError } from '../../base/errors.ts';
import { formatCount } from '../../base/format-quantity.ts';
import { minuteMs } from '../../base/window.ts';
import type { ObjectStore } from '../../bucket/object-store.ts';
import type { PullResult } from '../../bucket/pull.ts';
import type { PushResult } from '../../bucket/push.ts';
import type { Context } from '../../context/context.ts';

/**
 * Pushes the published generation of an archive to an address, by default that of the settings. One push of an archive runs
 * at a time: another one is waited for as long as a push may take. See `pushArchive`.
 * @throws OddslakeError if the push reaches the time limit of the settings (unreachable), or another one still runs (busy)
 */
export async function pushByUrl(
  context: Context,
  archive: Archive,
  url: string | undefined,
  restores: boolean,
): Promise<PushResult> {
  const { clock, signal } = context;
  const { pushMinutesMax } = context.settings.bucket;
  const msMax = pushMinutesMax * minuteMs;
  const limit = new AbortController();
  const limited = { ...context, signal: AbortSignal.any([signal, limit.signal]) };
  return await withObjectStore(limited, url, async (store) => {
    const { takePushLock } = await import('../../bucket/push.ts');
    const lock = await takePushLock(archive, msMax, clock, signal);
    const ended = new AbortController();
    void clock.sleep(msMax, ended.signal).then(
      () => limit.abort(createPushLimitError(store.url, pushMinutesMax)),
      () => {},
    );
    try {
      return await pushToStore(limited, archive, store, restores);
    } finally {
      ended.abort();
      lock.release();
    }
  });
}

const createPushLimitError = (url: string, minutes: number): OddslakeError =>
  new OddslakeError(
    exitCodes.unreachable,
    `The push to ${url} was ended after ${formatCount(minutes, 'minute')} (bucket.push_minutes_max). The next push continues where it ended.`,
  );

/** Pushes with a progress display. */
async function pushToStore(
  context: Context,
  archive: Archive,
  store: ObjectStore,
  restores: boolean,
): Promise<PushResult> {
  const [{ pushArchive }, { toRetentionRules }] = await Promise.all([
    import('../../bucket/push.ts'),
    import('../../bucket/plan-retention.ts'),
  ]);
  const { keepGenerations, keepDays, singleWriter } = context.settings.bucket;
  return await withFilesDisplay(context, 'push', (onProgress) =>
    pushArchive(archive, store, {
      retention: toRetentionRules({ keepGenerations, keepDays }),
      isSingleWriter: singleWriter,
      restores,
      id: createPushId(context),
      log: context.log,
      onProgress,
      signal: context.signal,
    }),
  );
}

/** Makes a folder a local archive of the generation in a bucket, with a progress display. See `pullArchive`. */
export async function pullToFolder(context: Context, store: ObjectStore, folder: string): Promise<PullResult> {
  const { pullArchive } = await import('../../bucket/pull.ts');
  const { disk, version, clock, waitMs, signal } = context;
  return await withFilesDisplay(context, 'pull', (onProgress) =>
    pullArchive(store, folder, {
      disk,
      writer: `oddslake ${version}`,
      clock,
      waitMs,
      signal,
      onProgress,
    }),
  );
}

/** Opens the store of an address, by default that of the settings. The AWS SDK is loaded here and nowhere before. */
export async function withObjectStore<T>(
  context: Context,
  url: string | undefined,
  work: (store: ObjectStore) => Promise<T>,
): Promise<T> {
  const { bucket } = context.settings;
  const text = url ?? bucket.url;
  if (text === null) throw new UsageError('Missing bucket: pass s3://BUCKET/PREFIX, or set bucket.url in the config.');
  const [{ parseBucketAddress }, { openS3Store }] = await Promise.all([
    import('../../bucket/address.ts'),
    import('../../bucket/s3-store.ts'),
  ]);
  const address = parseBucketAddress(text, url === undefined ? 'bucket.url' : 'the address');
  const { clock, random, log, signal } = context;
  const { sse, kmsKey, pathStyle } = bucket;
  const store = await openS3Store(address, { clock, random, log, signal, sse, kmsKey, pathStyle });
  try {
    return await work(store);
  } finally {
    store.close();
  }
}

/** Shows the progress of work on files. */
export async function withFilesDisplay<T>(
  context: Context,
  label: string,
  work: (onProgress: (done: number, total: number) => void) => Promise<T>,
): Promise<T> {
  using display = await context.startDisplay(label, 1, 'files');
  return await work((done, total) => display.update({ done, total }));
}

/** Random enough that two machines that push at once differ. */
const createPushId = ({ random }: Context): string =>
  [1, 2].map(() => Math.floor(random() * 36 ** 8).toString(36)).join('');

/** Opens one generation of the archive at an address in object storage, for work that only reads. */
export const withBucketArchive = <T>(
  context: Context,
  url: string,
  work: (archive: Archive) => T | Promise<T>,
): Promise<T> =>
  withObjectStore(context, url, async (store) => {
    const { openRemoteArchive } = await import('../../bucket/remote-archive.ts');
    const { disk, clock, signal, settings, version, random } = context;
    const { close, archive } = await openRemoteArchive(store, {
      disk,
      clock,
      signal,
      writer: `oddslake ${version}`,
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
