import type { Archive } from '../../archive/open-archive.ts';
import { UsageError } from '../../base/errors.ts';
import type { ObjectStore } from '../../bucket/object-store.ts';
import type { PushResult } from '../../bucket/push.ts';
import { type Context, InterruptedError } from '../../context/context.ts';
import type { Run } from '../run/run.ts';
import { createJobFailure } from '../run/summary.ts';

/**
 * Pushes the published generation to the bucket in the settings, if there is one. The run has already published, so a push that
 * fails is a failure of the run and loses nothing: the next push continues it.
 * @throws InterruptedError
 */
export async function pushPublished(run: Run): Promise<void> {
  const { context, archive } = run;
  const { url } = context.settings.bucket;
  if (url === null || archive.state.generation() === 0) return;
  try {
    const { warnings, ...result } = await withObjectStore(context, undefined, (store) =>
      pushToStore(context, archive, store, false),
    );
    run.pushed = result;
    run.warnings.push(...warnings);
    context.log.info({ url: result.url, outcome: result.outcome, generation: result.generation }, 'pushed');
  } catch (error) {
    if (error instanceof InterruptedError) throw error;
    context.signal.throwIfAborted();
    context.log.debug({ err: error }, 'the push failed');
    const why = error instanceof Error ? error.message : String(error);
    run.failures.push(createJobFailure('push', `The published generation was not pushed to ${url}: ${why}`));
  }
}

/** Pushes the published generation of an archive by the settings, with a progress display. See `pushArchive`. */
export async function pushToStore(
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

/** Opens the store of an address, by default that of the settings. The AWS SDK is loaded here and nowhere before. */
export async function withObjectStore<T>(
  context: Context,
  url: string | undefined,
  work: (store: ObjectStore) => Promise<T>,
): Promise<T> {
  const { bucket } = context.settings;
  const text = url ?? bucket.url;
  if (text === null)
    throw new UsageError('Which bucket? Name s3://BUCKET/PREFIX in the command, or set bucket.url in the config.');
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
  const display = await context.startDisplay(label, 1, 'files');
  try {
    return await work((done, total) => display.update({ done, total }));
  } finally {
    display.stop();
  }
}

/** Random enough that two machines that push at once differ. */
const createPushId = ({ random }: Context): string =>
  [1, 2].map(() => Math.floor(random() * 36 ** 8).toString(36)).join('');
