import { join } from 'node:path';
import { afterAll, beforeAll } from 'vitest';
import { credentials, type ObjectServer, region, startServer } from '../bucket/server.ts';
import { expectDone, folder, hashes, type Variables } from './lake.ts';
import { run } from './run-program.ts';

/** An S3 server for the processes of a describe block. */
export function useBucketServer() {
  let server: ObjectServer;
  beforeAll(async () => {
    server = await startServer();
  });
  afterAll(() => server.stop());

  /** The environment of a process: the server, or what is in front of it, and the credential. */
  const bucketAccess = (
    endpoint = server.endpoint,
    secret: string = credentials.secretAccessKey,
    more: Variables = {},
  ): Variables => ({
    AWS_ENDPOINT_URL: endpoint,
    AWS_REGION: region,
    AWS_ACCESS_KEY_ID: credentials.accessKeyId,
    AWS_SECRET_ACCESS_KEY: secret,
    ...more,
  });
  return {
    bucketAccess,
    get endpoint() {
      return server.endpoint;
    },
    /** The folder of a prefix on the server's disk. */
    folderOf: (prefix: string): string => join(server.folder, prefix),
    /** Pulls an archive. Returns the hashes of its files. */
    async pull(url: string): Promise<Record<string, string>> {
      const target = join(folder(), 'pulled');
      await expectDone(run(['pull', url, target], bucketAccess()));
      return hashes(target, '*');
    },
  };
}
