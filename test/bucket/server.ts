import { execFile, spawn } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { type AddressInfo, createServer } from 'node:net';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { systemClock, systemRandom } from '../../src/base/system.ts';
import { parseBucketAddress } from '../../src/bucket/address.ts';
import type { ObjectStore } from '../../src/bucket/object-store.ts';
import { openS3Store, type StoreLimits } from '../../src/bucket/s3-store.ts';
import { silent } from '../harness/job-context.ts';
import { waitFor } from '../harness/limits.ts';
import { scratchRoot } from '../harness/scratch-root.ts';

// A real S3 server: versitygw over a folder, with one bucket. Its answers are checked by server.long.test.ts.

export const bucket = 'lakes';
export const credentials = { accessKeyId: 'admin', secretAccessKey: 'a-secret-of-the-tests' } as const;
export const region = 'us-east-1';

export interface ObjectServer {
  readonly endpoint: string;
  /** Folder whose files are the objects of the bucket. */
  readonly folder: string;
  stop(): Promise<void>;
}

/**
 * Starts the server, which is built the first time.
 * @param keepsConnections whether a connection may have several requests, as with Amazon's; its own default is no
 */
export async function startServer(keepsConnections = false): Promise<ObjectServer> {
  const script = new URL('../versitygw.sh', import.meta.url).pathname;
  const { stdout } = await promisify(execFile)(script);
  const root = mkdtempSync(join(scratchRoot, 'oddslake-s3-'));
  const folder = join(root, 'data', bucket);
  mkdirSync(folder, { recursive: true });
  const port = await findFreePort();
  const env = { PATH: process.env.PATH!, HOME: root, ROOT_ACCESS_KEY: '', ROOT_SECRET_KEY: '' };
  const { accessKeyId, secretAccessKey } = credentials;
  const keys = ['--access', accessKeyId, '--secret', secretAccessKey];
  const connections = keepsConnections ? ['--keep-alive'] : [];
  const args = ['--port', `127.0.0.1:${port}`, ...keys, ...connections, '--quiet', 'posix', join(root, 'data')];
  const child = spawn(stdout.trim(), args, { env: { ...env, TEST_RUN: process.env.TEST_RUN ?? '' }, stdio: 'ignore' });
  const ended = new Promise<void>((resolve) => child.on('exit', () => resolve()));
  const endpoint = `http://127.0.0.1:${port}`;
  await waitFor(async () => {
    if (child.exitCode !== null) throw new Error(`versitygw ended with ${child.exitCode}`);
    return fetch(endpoint).then(
      () => true,
      () => false,
    );
  }, 'versitygw');
  return {
    endpoint,
    folder,
    async stop() {
      child.kill('SIGKILL');
      await ended;
      rmSync(root, { recursive: true, force: true });
    },
  };
}

async function findFreePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await new Promise((resolve) => server.once('listening', resolve));
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  return port;
}

export interface Access {
  readonly endpoint: string;
  readonly prefix: string;
  readonly signal?: AbortSignal;
  readonly limits?: Partial<StoreLimits>;
  readonly secret?: string;
  readonly bucket?: string;
}

/** Waits little between attempts, so that faults are over soon. */
const quickLimits: Partial<StoreLimits> = { attemptsMax: 4, delayMsMin: 1, delayMsMax: 4, idleMsMax: 20_000 };

export const openStore = (access: Access): Promise<ObjectStore> =>
  openS3Store(parseBucketAddress(`s3://${access.bucket ?? bucket}/${access.prefix}`, 'test'), {
    clock: systemClock,
    random: systemRandom,
    log: silent,
    signal: access.signal ?? new AbortController().signal,
    sse: null,
    kmsKey: null,
    pathStyle: true,
    limits: { ...quickLimits, ...access.limits },
    client: {
      endpoint: access.endpoint,
      region,
      credentials: { ...credentials, ...(access.secret !== undefined && { secretAccessKey: access.secret }) },
    },
  });
