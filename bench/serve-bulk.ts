/**
 * Compares bulk downloads from the service with nginx serving the same files: alternately, over loopback, by a client
 * in a separate process that discards the bytes. The goal is 0.8 times nginx's speed. Needs nginx (Debian: apt-get
 * install nginx-light). Run: node bench/serve-bulk.ts [ROUNDS]
 */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { createHash, randomFillSync } from 'node:crypto';
import { once } from 'node:events';
import { closeSync, existsSync, mkdirSync, mkdtempSync, openSync, rmSync, writeFileSync, writeSync } from 'node:fs';
import { connect, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { systemDisk } from '../src/archive/disk/file-system.ts';
import { formatManifest, type PublishedFile } from '../src/archive/format/manifest.ts';
import { setMeta } from '../src/archive/journal/database.ts';
import { openArchive } from '../src/archive/open-archive.ts';
import { systemClock } from '../src/base/system.ts';
import { createBenchKey } from './key.ts';
import { startService } from './service.ts';

const mebibyte = 1024 * 1024;
/** Each round downloads about the same volume of either size. */
const cases = [
  { name: '64 MB', bytes: 64 * mebibyte, times: 12, date: '2026-01-01' },
  { name: '1 GB', bytes: 1024 * mebibyte, times: 1, date: '2026-01-02' },
];

/** Downloads `times` times over one connection; resolves with the duration in seconds. */
async function download(url: string, key: string, times: number, bytes: number): Promise<number> {
  const { hostname, port, pathname } = new URL(url);
  const head = `GET ${pathname} HTTP/1.1\r\nHost: ${hostname}\r\nAuthorization: Bearer ${key}\r\n\r\n`;
  const buffer = Buffer.allocUnsafeSlow(mebibyte);
  let [left, isHead] = [0, true];
  let response = Promise.withResolvers<void>();
  const socket = connect({
    host: hostname,
    port: Number(port),
    onread: {
      buffer,
      callback(count) {
        let body = count;
        if (isHead) {
          const text = buffer.toString('latin1', 0, Math.min(count, 4096));
          const end = text.indexOf('\r\n\r\n');
          const length = Number(/content-length: (\d+)/i.exec(text)?.[1]);
          if (!text.startsWith('HTTP/1.1 200') || length !== bytes) response.reject(new Error(text));
          [left, isHead, body] = [length, false, count - end - 4];
        }
        left -= body;
        if (left === 0) response.resolve();
        return true;
      },
    },
  });
  await once(socket, 'connect');
  const started = performance.now();
  for (let i = 0; i < times; i++) {
    [response, isHead] = [Promise.withResolvers<void>(), true];
    socket.write(head);
    await response.promise;
  }
  socket.destroy();
  return (performance.now() - started) / 1000;
}

/** Random bytes as published files: the service checks hashes only. */
function createBulkArchive(root: string): void {
  const options = { root, create: true, upstream: 'https://bench.test', parts: 1, writer: 'bench', settleMs: 0 };
  const archive = openArchive(options, systemDisk);
  const files = cases.map(({ bytes, date }): PublishedFile => {
    const path = `ticks/date=${date}/part-00.parquet`;
    mkdirSync(dirname(join(root, path)), { recursive: true });
    const hash = createHash('sha256');
    const file = openSync(join(root, path), 'w');
    for (let at = 0; at < bytes; at += mebibyte) {
      const piece = randomFillSync(Buffer.alloc(mebibyte));
      hash.update(piece);
      writeSync(file, piece);
    }
    closeSync(file);
    const facts = { rows: 0, t_min: null, t_max: null, symbols: 0, generation: 1 };
    return { path, date, bytes, sha256: hash.digest('hex'), ...facts };
  });
  const manifest = archive.readManifest();
  const datasets = { ...manifest.datasets, ticks: { files } };
  writeFileSync(join(root, 'manifest.json'), formatManifest({ ...manifest, generation: 1, datasets }));
  setMeta(archive.state.db, 'generation', '1');
  archive.close();
}

async function startNginx(nginx: string, root: string, folder: string): Promise<{ child: ChildProcess; url: string }> {
  const free = createServer().listen(0, '127.0.0.1');
  await once(free, 'listening');
  const { port } = free.address() as { port: number };
  free.close();
  const file = join(folder, 'nginx.conf');
  const temporary = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'];
  writeFileSync(
    file,
    `daemon off; worker_processes 1; pid ${folder}/nginx.pid; error_log ${folder}/error.log;
${process.getuid?.() === 0 ? 'user root;' : ''}
events { worker_connections 64; }
http { access_log off; sendfile on; tcp_nopush on; etag on;
${temporary.map((name) => `${name}_temp_path ${folder}/${name};`).join('\n')}
server { listen 127.0.0.1:${port}; root ${root}; } }`,
  );
  const child = spawn(nginx, ['-p', folder, '-c', file], { stdio: ['ignore', 'inherit', 'inherit'] });
  const url = `http://127.0.0.1:${port}`;
  for (let i = 0; i < 100; i++) {
    if (
      await fetch(`${url}/manifest.json`).then(
        ({ ok }) => ok,
        () => false,
      )
    )
      break;
    await systemClock.sleep(50);
  }
  return { child, url };
}

/** MB/s, by a client in a separate process. */
function speed(url: string, key: string, { times, bytes }: (typeof cases)[number]): number {
  const args = [import.meta.filename, 'client', url, key, String(times), String(bytes)];
  return (times * bytes) / 1e6 / Number(execFileSync(process.execPath, args, { encoding: 'utf8' }));
}

const median = (values: readonly number[]): number => values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)]!;

async function compare(nginx: string, rounds: number): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'oddslake-bench-bulk-'));
  const root = join(folder, 'lake');
  createBulkArchive(root);
  const key = await createBenchKey(root);
  const [peer, service] = [await startNginx(nginx, root, folder), await startService(root)];
  try {
    for (const one of cases) {
      const ours = `${service.url}/api/v1/export/files/ticks/${one.date}/part-00.parquet`;
      const theirs = `${peer.url}/ticks/date=${one.date}/part-00.parquet`;
      // Warm-up, not measured: the service checks the hash, and both fill their caches.
      speed(ours, key, one);
      speed(theirs, 'none', one);
      const pairs = Array.from({ length: rounds }, () => [speed(ours, key, one), speed(theirs, 'none', one)]);
      const [own, other] = [median(pairs.map(([a]) => a!)), median(pairs.map(([, b]) => b!))];
      const share = median(pairs.map(([a, b]) => a! / b!));
      console.log(
        `${one.name}: ${own.toFixed(0)} MB/s, nginx ${other.toFixed(0)} MB/s: ${share.toFixed(2)} × nginx (median of ${rounds})`,
      );
    }
  } finally {
    await service.stop();
    peer.child.kill('SIGTERM');
    await once(peer.child, 'exit');
    rmSync(folder, { recursive: true });
  }
}

const [mode, ...rest] = process.argv.slice(2);
if (mode === 'client') {
  const [url, key, times, bytes] = rest;
  console.log(await download(url!, key!, Number(times), Number(bytes)));
} else {
  const nginx = ['/usr/sbin/nginx', '/usr/bin/nginx', '/usr/local/sbin/nginx'].find((path) => existsSync(path));
  if (nginx === undefined) console.log('skipped: nginx is not installed here');
  else await compare(nginx, Number(mode ?? 5));
}
