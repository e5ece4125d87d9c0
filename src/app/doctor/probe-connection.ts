import { lookup } from 'node:dns/promises';
import { connect, type Socket } from 'node:net';
import { connect as connectTls, type TLSSocket } from 'node:tls';
import type { Clock } from '../../core/clock.ts';
import type { ConnectionFacts, ConnectionFailure } from './upstream.ts';

const connectMsMax = 10_000;

const connectErrorReasons: Readonly<Record<string, string>> = {
  ENOTFOUND: 'host name not found',
  EAI_AGAIN: 'host name not found for now',
  ECONNREFUSED: 'connection refused',
  ECONNRESET: 'connection reset',
  EHOSTUNREACH: 'no route to the host',
  ENETUNREACH: 'no route to the network',
  ETIMEDOUT: 'no connection in time',
};

/** Finds the host of a URL and connects to it, in TLS where it asks for that; nothing is sent. */
export async function probeConnection(url: string, clock: Clock): Promise<ConnectionFacts | ConnectionFailure> {
  const { protocol, hostname, port } = new URL(url);
  const host = hostname.replace(/^\[(.*)\]$/, '$1');
  const startedAt = clock.monotonicMs();
  try {
    const { address } = await lookup(host);
    const at = { host: address, port: Number(port) || (protocol === 'https:' ? 443 : 80) };
    const isTls = protocol === 'https:';
    // A certificate that is not trusted is to be told as such, and nothing is sent over what it is of.
    const servername = host === address ? {} : { servername: host };
    const socket = await waitForConnection(
      isTls ? connectTls({ ...at, ...servername, rejectUnauthorized: false }) : connect(at),
      isTls,
    );
    const ms = clock.monotonicMs() - startedAt;
    const tls = isTls ? readCertificate(socket as TLSSocket, clock.nowMs()) : null;
    socket.destroy();
    return { address, ms, tls };
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    return { failure: connectErrorReasons[code ?? ''] ?? `no connection (${code ?? message})` };
  }
}

function waitForConnection(socket: Socket, isTls: boolean): Promise<Socket> {
  return new Promise((resolve, reject) => {
    socket.setTimeout(connectMsMax, () => socket.destroy(Object.assign(new Error('late'), { code: 'ETIMEDOUT' })));
    socket.once('error', reject);
    socket.once(isTls ? 'secureConnect' : 'connect', () => resolve(socket));
  });
}

function readCertificate(socket: TLSSocket, nowMs: number): ConnectionFacts['tls'] {
  const validTo = Date.parse(socket.getPeerCertificate().valid_to);
  const { authorizationError: error } = socket;
  return {
    protocol: socket.getProtocol() ?? 'TLS',
    daysLeft: Number.isNaN(validTo) ? null : Math.floor((validTo - nowMs) / 86_400_000),
    // The types say an error; it is the name of one.
    distrusted: socket.authorized ? null : String((error as { code?: string } | null)?.code ?? error),
  };
}
