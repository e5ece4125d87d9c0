/**
 * Sends the requests of a nightly run and discards the bodies, with the same concurrency. Run: node
 * bench/bare-client.ts URL KEY FILE CONCURRENCY (FILE: one path per line)
 */
import { readFileSync } from 'node:fs';
import { Pool } from 'undici';

const [url, key, file, concurrency] = process.argv.slice(2);
const paths = readFileSync(file!, 'utf8').split('\n').filter(Boolean);
const pool = new Pool(url!, { connections: Number(concurrency), allowH2: false });
const headers = { authorization: `Bearer ${key}`, accept: 'application/json', 'accept-encoding': 'gzip' };
let next = 0;
const ask = async (): Promise<void> => {
  while (next < paths.length) {
    const { statusCode, body } = await pool.request({ method: 'GET', path: paths[next++]!, headers });
    await body.arrayBuffer();
    if (statusCode !== 200) throw new Error(`HTTP status ${statusCode}`);
  }
};
await Promise.all(Array.from({ length: Number(concurrency) }, ask));
await pool.close();
