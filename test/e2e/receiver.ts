import { createServer, type ServerResponse } from 'node:http';
import { listen } from '../harness/listen.ts';

interface Delivery {
  readonly path: string;
  readonly body: {
    readonly text: string;
    readonly job: string;
    readonly exit_code: number;
    readonly [name: string]: unknown;
  };
}

/** A webhook receiver on loopback, stopped after the test; its path is the secret. */
export async function receiver(respond: (response: ServerResponse) => void = (response) => void response.end('ok')) {
  const reported: Delivery[] = [];
  const server = createServer((request, response) => {
    const pieces: Buffer[] = [];
    request.on('data', (piece: Buffer) => pieces.push(piece));
    request.on('end', () => {
      reported.push({ path: request.url!, body: JSON.parse(Buffer.concat(pieces).toString()) as Delivery['body'] });
      respond(response);
    });
  });
  return { url: `${await listen(server)}${secretPath}`, reported };
}

export const secretPath = '/services/T0000/B0000/nobody-may-see-this';
