// What the end-to-end tests of the service share: a real `oddslake serve` over an archive, and a key for it.
import { onTestFinished } from 'vitest';
import { type Ended, jobArgs, run, start } from './lake.ts';

export interface Served {
  readonly url: string;
  readonly key: string;
  /** A job on another archive with this service as its upstream. */
  job(name: string, output: string, ...flags: string[]): Promise<Ended>;
}

/** Serves an archive until the test is over. */
export async function serve(output: string): Promise<Served> {
  const made = await run(['keys', 'create', '--output', output, '--name', 'test', '--requests-per-minute', '1000000']);
  const key = made.stdout.trim();
  const { child, ended } = start(['serve', '--output', output, '--json', '--set', 'service.port=0']);
  onTestFinished(async () => {
    child.kill('SIGTERM');
    await ended;
  });
  const line = await new Promise<string>((resolve, reject) => {
    child.stdout!.once('data', (text: string) => resolve(text));
    void ended.then(({ stderr }) => reject(new Error(stderr)));
  });
  const { url } = JSON.parse(line) as { url: string };
  const env = { ODDSLAKE_BASE_URL: url, ODDSLAKE_API_KEY: key };
  return { url, key, job: (name, archive, ...flags) => run(jobArgs(name, archive, ...flags), env) };
}
