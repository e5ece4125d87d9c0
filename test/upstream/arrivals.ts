import http from 'node:http';
import type { AddressInfo } from 'node:net';
import { parentPort } from 'node:worker_threads';

/*
 * A server in a thread of its own, so that a busy test does not blur its clock. It notes when requests arrive by the
 * first segment of their path, answers after up to 5 ms, and gives the list for a GET of /arrivals.
 */
const arrivals: Record<string, number[]> = {};

const server = http.createServer((request, response) => {
  const now = performance.now();
  const name = request.url!.split('/')[1]!;
  if (name === 'arrivals') {
    response.end(JSON.stringify(arrivals));
    return;
  }
  arrivals[name] ??= [];
  arrivals[name].push(now);
  const answer = () => response.writeHead(200, { 'content-type': 'application/json' }).end('{"markets":[]}');
  setTimeout(answer, Math.random() * 5);
});
server.listen(0, '127.0.0.1', () => parentPort!.postMessage((server.address() as AddressInfo).port));
