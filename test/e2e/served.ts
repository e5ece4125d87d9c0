// A real `oddslake serve` over an archive, as the upstream of another.

import { type Ended, jobArgs } from './lake.ts';
import { run } from './run-program.ts';
import { keyOf, serve as serveArchive } from './served-archive.ts';

interface Served {
  readonly url: string;
  readonly key: string;
  /** A job on another archive with this service as its upstream. */
  job(name: string, output: string, ...flags: string[]): Promise<Ended>;
}

/** Serves an archive until the end of the test. */
export async function serve(output: string): Promise<Served> {
  const key = await keyOf(output);
  const { url } = await serveArchive(output, key);
  const env = { ODDSLAKE_BASE_URL: url, ODDSLAKE_API_KEY: key };
  return { url, key, job: (name, archive, ...flags) => run(jobArgs(name, archive, ...flags), env) };
}
