import { Agent, request as httpRequest, type IncomingMessage } from 'node:http';
import { Writable } from 'node:stream';
import fc from 'fast-check';
import { expect, onTestFinished, test } from 'vitest';
import { createLog } from '../../src/cli/log.ts';
import { clockAt } from '../archive/scratch.ts';
import { collected } from '../e2e/books.ts';
import { fixedNow, manifestOf, ticksOf } from '../e2e/lake.ts';
import { createResponseCheck, isJson } from './documented.ts';
import { claims, crafted, hs256, secret } from './forged-tokens.ts';
import { type Document, type Request, requestsOf } from './generating.ts';
import { serving } from './serving.ts';
import { freshDatabase, postgresUrl } from './workspace/databases.ts';

const cases = Number(process.env.CASES ?? 1500);
const seed = Number(process.env.SEED || Math.floor(Math.random() * 1e6));
console.log(`generated requests: SEED=${seed} CASES=${cases}`);

/** Concurrent requests. */
const together = 8;
const meanTogether = (1 + together) / 2;

/** Placeholders for IDs of jobs and objects created during the test. */
const placeholders = Array.from({ length: 10 }, (_, n) => `someid${n}`);

/** Text that only internals of the service contain. */
const inside = [
  /\n\s+at /,
  /\.ts:\d/,
  // Only this text: others quote the request.
  /\bselect\b[^"]*\bfrom\b/i,
  /sqlite/i,
  /duckdb/i,
  /node:/,
  /FST_/,
  /kysely/i,
  /postgres/i,
  /\bajv\b/i,
];

/** A log at its most detailed level, without the redaction of secrets that hides a leak; checks each line. */
async function openCheckedLog(check: (line: string) => void) {
  let lines = 0;
  const stream = new Writable({
    write(chunk: Buffer, _, done) {
      for (const line of chunk.toString('utf8').split('\n').slice(0, -1)) {
        lines++;
        check(line);
      }
      done();
    },
  });
  return { log: createLog({ level: 'debug', stream }), countLines: () => lines };
}

test(`${cases} requests generated from the document get documented responses without internals or secrets`, async () => {
  const { archive, output } = await collected();
  const set = [
    `service.tokens.secret=${secret}`,
    'service.research.runs_concurrent_max=64',
    'service.requests_per_minute=1000000',
  ];
  const token = crafted(hs256, { ...claims, iat: fixedNow / 1000, exp: fixedNow / 1000 + 600, scope: 'research' });
  const password = postgresUrl === null ? [] : [new URL(postgresUrl).password];
  const secrets = [secret, token, token.slice(token.lastIndexOf('.') + 1), ...password];
  const leaks: string[] = [];
  const checkSecrets = (text: string, what: string): void => {
    const at = secrets.findIndex((one) => text.includes(one));
    if (at >= 0) leaks.push(`${what} has secret ${at}: ${text.slice(0, 500)}`);
  };
  // Of a leak of listeners, for example: a warning of Node is not a log line.
  const onWarning = ({ name, message }: Error): void => {
    if (name !== 'ExperimentalWarning') leaks.push(`${name}: ${message}`);
  };
  process.on('warning', onWarning);
  onTestFinished(() => void process.off('warning', onWarning));
  const { log, countLines } = await openCheckedLog((line) => {
    checkSecrets(line, 'a log line');
    // A line that a request has split or forged is not one object.
    if (!/^\{.*\}$/.test(line)) leaks.push(`not a log line: ${line.slice(0, 500)}`);
  });
  const database = await freshDatabase(postgresUrl === null ? 'sqlite' : 'postgres');
  const { url, key, app } = await serving(archive, {
    clock: clockAt(fixedNow),
    set,
    limits: { backtestsWaitingMax: 1000 },
    log,
    database,
  });
  secrets.push(key, key.slice('olk_0123456789ab_'.length));
  const document = JSON.parse(JSON.stringify(app.swagger())) as Document;
  const { files } = manifestOf(output).datasets.ticks;
  const symbols = [...ticksOf(output).keys()];
  const times = [0, 1, fixedNow - 86_400_000, fixedNow - 1, fixedNow, fixedNow + 1, 4e12].map(String);
  const known = {
    symbol: symbols,
    date: [...new Set(files.map(({ date }) => date!))],
    part: ['part-00.parquet', 'part-01.parquet', 'part-03.parquet'],
    from: times,
    to: times,
    limit: ['1', '2', '10', '1000000000'],
    since: ['0', '1', '2'],
    // Not predictable.
    cursor: [],
    id: placeholders,
  };
  // URLs of objects created during the test, by collection.
  const places = new Map<string, string[]>();
  let count = 0;
  const placed = (requested: Request): Request => ({
    ...requested,
    target: requested.target.replace(/^(.*)\/someid(\d)(?=[/?]|$)/, (text, of: string, n) => {
      const there = places.get(of) ?? [];
      return there.at((count * 7 + Number(n)) % there.length) ?? text;
    }),
  });
  const credentialOf = ({ named }: Request): string => {
    const [method = '', path = ''] = named.split(' ');
    const requested = JSON.stringify(document.paths[path]![method.toLowerCase()]!.security);
    return requested.includes('token') && !(requested.includes('key') && count % 2 === 0) ? token : key;
  };
  const check = createResponseCheck(document);
  const agent = new Agent({ keepAlive: true, maxSockets: together });
  const spent = new Map<string, { count: number; ms: number; statuses: Map<number, number> }>();
  const tried = async (made: Request): Promise<void> => {
    const started = performance.now();
    const requested = placed(made);
    count++;
    const { status, headers, body } = await answerTo(requested, url, credentialOf(requested), agent);
    const place = headers.get('location');
    if (place !== null) {
      const of = place.slice(0, place.lastIndexOf('/'));
      places.set(of, [...(places.get(of) ?? []), place]);
    }
    note(spent, requested, status, performance.now() - started);
    if (status >= 500) throw new Error(`answered with ${status}: ${body.slice(0, 500)}`);
    const reported = isJson(headers) ? body : undefined;
    check({ method: requested.method, path: requested.target, status, headers, body: reported });
    checkSecrets(`${JSON.stringify([...headers])} ${body}`, `the response to ${requested.method} ${requested.target}`);
    if (leaks.length > 0) throw new Error(leaks.join('\n'));
    if (body.includes(output)) throw new Error(`names the archive's folder: ${body.slice(0, 500)}`);
    // A response may quote the request.
    const printed =
      decodeURIComponent(requested.target.replace(/%(?![0-9a-f]{2})|%[89a-f][0-9a-f]/gi, '')) + requested.body;
    const leak = status < 400 ? undefined : inside.find((mark) => mark.test(body) && !mark.test(printed));
    if (leak !== undefined) throw new Error(`tells of the inside, ${leak}: ${body.slice(0, 500)}`);
  };
  try {
    await fc.assert(
      fc.asyncProperty(fc.array(requestsOf(document, known), { minLength: 1, maxLength: together }), (several) =>
        Promise.all(several.map(tried)).then(() => {}),
      ),
      { numRuns: Math.ceil(cases / meanTogether), seed },
    );
  } finally {
    agent.destroy();
    console.log(`${count} requests, ${countLines()} log lines, ${leaks.length} leaks`);
    console.log(summaryOf(spent));
  }
  expect(leaks).toEqual([]);
  expect(countLines()).toBeGreaterThan(count / 2);
  // Ensure that the test is effective: every route without an ID succeeded at least once.
  const never = [...spent].filter(([, { statuses }]) => ![...statuses.keys()].some((status) => status < 400));
  console.log(`never answered well: ${never.map(([name]) => name).join(', ') || 'none'}`);
  const own = never.filter(([name]) => {
    const [method = '', path = ''] = name.split(' ');
    const requested = JSON.stringify(document.paths[path]![method.toLowerCase()]!.security);
    return method === 'GET' && !path.includes('{') && !requested.includes('token');
  });
  if (cases >= 1000) expect(own).toEqual([]);
  expect(spent.size).toBe(Object.values(document.paths).flatMap((methods) => Object.keys(methods)).length);
});

function answerTo({ target, method, headers, body }: Request, url: string, key: string, agent: Agent) {
  return new Promise<{ status: number; headers: Headers; body: string }>((resolve, reject) => {
    const sent = {
      authorization: `Bearer ${key}`,
      ...headers,
      ...(body === null ? {} : { 'content-length': String(Buffer.byteLength(body)) }),
    };
    const { hostname, port } = new URL(url);
    // Send the path unchanged: a URL object would normalize it.
    const asking = httpRequest({ hostname, port, path: target, method, headers: sent, agent, setDefaultHeaders: true });
    asking.on('response', (answer: IncomingMessage) => {
      const pieces: Buffer[] = [];
      // A stream of events has no end.
      const isEndless = String(answer.headers['content-type']).startsWith('text/event-stream');
      answer.on('data', (piece: Buffer) => {
        pieces.push(piece);
        if (isEndless) answer.destroy();
      });
      answer.on('error', reject);
      answer.on(isEndless ? 'close' : 'end', () => {
        const fields = new Headers(Object.entries(answer.headers).map(([name, value]) => [name, String(value)]));
        resolve({ status: answer.statusCode!, headers: fields, body: Buffer.concat(pieces).toString('utf8') });
      });
    });
    asking.on('error', reject);
    asking.end(body ?? undefined);
  });
}

type Spent = Map<string, { count: number; ms: number; statuses: Map<number, number> }>;

function note(spent: Spent, { named, method }: Request, status: number, ms: number): void {
  const entry = spent.get(named) ?? { count: 0, ms: 0, statuses: new Map() };
  spent.set(named, entry);
  entry.count++;
  entry.ms += ms;
  if (method !== 'OPTIONS') entry.statuses.set(status, (entry.statuses.get(status) ?? 0) + 1);
}

const summaryOf = (spent: Spent): string =>
  [...spent]
    .sort(([, a], [, b]) => b.ms - a.ms)
    .slice(0, 8)
    .map(([name, { count, ms, statuses }]) => {
      const reported = [...statuses].sort(([a], [b]) => a - b).map(([status, n]) => `${status}×${n}`);
      return `${name}: ${count} in ${Math.round(ms)} ms, ${reported.join(' ')}`;
    })
    .join('\n');
