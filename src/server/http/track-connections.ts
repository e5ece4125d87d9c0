import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { Log } from '../../base/ports.ts';

/**
 * Why the service dropped a connection: `half_sent`, the address had too many incomplete requests; `address_full` and
 * `service_full`, the connection made room for another one, or there was no room for it; `stalled`, the client read
 * nothing of its response.
 */
export const dropReasons = ['half_sent', 'address_full', 'service_full', 'stalled'] as const;
export type DropReason = (typeof dropReasons)[number];

interface TrackingLimits {
  readonly connectionsMax: number;
  readonly connectionsPerAddressMax: number;
  readonly halfSentPerAddressMax: number;
  readonly stalledMsMax: number;
  readonly checkIntervalMs: number;
}

interface Connection {
  readonly socket: Socket;
  readonly address: string;
  /** The latest request and its response; null before the first. */
  request: IncomingMessage | null;
  response: ServerResponse | null;
  /** `bytesRead` when the last response ended; more bytes are the beginning of the next request. */
  bytesReadBefore: number;
  /** Number of consecutive checks that found the same request incomplete. */
  checksHalfSent: number;
  /** Bytes that the kernel had accepted at the last check, and the number of checks since it accepted any. */
  bytesAccepted: number;
  checksStalled: number;
}

/** Checks that must find a request incomplete: it is then at least one interval old. */
const checksHalfSentMin = 2;

/**
 * Bounds the connections of each address and of the service. A connection beyond a bound replaces the one of the address
 * with the most incomplete requests and idle connections: its oldest incomplete request, else its oldest idle
 * connection. If all are in use, the new connection is closed. Ages are counted in checks, so that a pause of the
 * process ends no connection.
 * @param groupAddress the network of an address, which is bounded as a whole
 * @param onDrop called for each dropped connection
 */
export function trackConnections(
  server: Server,
  log: Log,
  limits: TrackingLimits,
  groupAddress: (ip: string) => string,
  onDrop: (reason: DropReason) => void,
): void {
  const connections = new Map<Socket, Connection>();
  const byAddress = new Map<string, Set<Connection>>();
  const dropped = openDropLog(log);

  const remove = (connection: Connection): void => {
    if (!connections.delete(connection.socket)) return;
    const own = byAddress.get(connection.address)!;
    own.delete(connection);
    if (own.size === 0) byAddress.delete(connection.address);
  };
  const drop = (connection: Connection, reason: DropReason): void => {
    remove(connection);
    connection.socket.destroy();
    dropped.add(connection.address, reason);
    onDrop(reason);
  };
  const makeRoom = (newcomer: Connection, own: Iterable<Connection>, reason: DropReason): void =>
    drop(findReplaceable(own, newcomer) ?? newcomer, reason);

  server.prependListener('connection', (socket: Socket) => {
    const address = groupAddress(socket.remoteAddress ?? '');
    const connection: Connection = {
      socket,
      address,
      request: null,
      response: null,
      bytesReadBefore: 0,
      checksHalfSent: 0,
      bytesAccepted: 0,
      checksStalled: 0,
    };
    connections.set(socket, connection);
    const own = byAddress.get(address) ?? new Set();
    byAddress.set(address, own.add(connection));
    socket.once('close', () => remove(connection));
    if (own.size > limits.connectionsPerAddressMax) makeRoom(connection, own, 'address_full');
    else if (connections.size > limits.connectionsMax)
      makeRoom(connection, findCrowdedAddress(byAddress.values()), 'service_full');
  });
  const track = (request: IncomingMessage, response: ServerResponse): void => {
    const connection = connections.get(request.socket);
    if (connection === undefined) return;
    Object.assign(connection, { request, response, checksHalfSent: 0 });
    response.once('close', () => {
      if (connection.response !== response) return;
      connection.response = null;
      connection.bytesReadBefore = connection.socket.bytesRead;
    });
  };
  server.prependListener('request', track);
  server.prependListener('checkExpectation', track);

  const check = (): void => {
    for (const connection of connections.values()) {
      if (isStalled(connection, limits)) drop(connection, 'stalled');
    }
    for (const own of byAddress.values()) {
      const old = [...own].filter((connection) => {
        connection.checksHalfSent = isHalfSent(connection) ? connection.checksHalfSent + 1 : 0;
        return connection.checksHalfSent >= checksHalfSentMin;
      });
      old.sort((a, b) => b.checksHalfSent - a.checksHalfSent);
      for (const connection of old.slice(0, Math.max(0, old.length - limits.halfSentPerAddressMax)))
        drop(connection, 'half_sent');
    }
    dropped.write();
  };
  const timer = setInterval(check, limits.checkIntervalMs).unref();
  server.once('close', () => clearInterval(timer));
}

/** Whether a request has not arrived completely. A new connection counts as the beginning of a request. */
function isHalfSent({ request, response, socket, bytesReadBefore }: Connection): boolean {
  if (response !== null) return !request!.complete && !response.headersSent;
  return request === null || socket.bytesRead > bytesReadBefore;
}

/** The connection to close in place of a newcomer, from the oldest to the newest; undefined if all are in use. */
function findReplaceable(own: Iterable<Connection>, newcomer: Connection): Connection | undefined {
  let idle: Connection | undefined;
  for (const connection of own) {
    if (connection === newcomer) continue;
    if (isHalfSent(connection)) return connection;
    if (connection.response === null) idle ??= connection;
  }
  return idle;
}

/** The connections of the address that has the most incomplete requests and idle connections. */
function findCrowdedAddress(addresses: Iterable<ReadonlySet<Connection>>): ReadonlySet<Connection> {
  let crowded: ReadonlySet<Connection> = new Set();
  let most = -1;
  for (const own of addresses) {
    // An address with fewer connections cannot have more of them unused.
    if (own.size <= most) continue;
    let unused = 0;
    for (const connection of own) if (connection.response === null || isHalfSent(connection)) unused++;
    if (unused > most) [crowded, most] = [own, unused];
  }
  return crowded;
}

/** Node's handle of a socket, which alone knows how much of a long chunk the kernel has accepted. */
interface SocketInternals {
  readonly _handle?: { readonly bytesWritten?: number; readonly writeQueueSize?: number } | null;
}

/** Counts the checks at which bytes wait for a client whose kernel has taken none since the check before. */
function isStalled(connection: Connection, { stalledMsMax, checkIntervalMs }: TrackingLimits): boolean {
  const { socket } = connection;
  const { bytesWritten = 0, writeQueueSize = 0 } = (socket as unknown as SocketInternals)._handle ?? {};
  const accepted = bytesWritten - writeQueueSize;
  connection.checksStalled =
    socket.writableLength > 0 && accepted === connection.bytesAccepted ? connection.checksStalled + 1 : 0;
  connection.bytesAccepted = accepted;
  return connection.checksStalled * checkIntervalMs >= stalledMsMax;
}

/** Collects the connections dropped between two checks for one line of the log. */
function openDropLog(log: Log) {
  let counts: Partial<Record<DropReason, number>> = {};
  const addresses = new Map<string, number>();
  return {
    add(address: string, reason: DropReason): void {
      counts[reason] = (counts[reason] ?? 0) + 1;
      addresses.set(address, (addresses.get(address) ?? 0) + 1);
    },
    write(): void {
      if (addresses.size === 0) return;
      const [address, count] = [...addresses].reduce((most, one) => (one[1] > most[1] ? one : most));
      log.warn({ dropped: counts, address, of_address: count, addresses: addresses.size }, 'dropped connections');
      counts = {};
      addresses.clear();
    },
  };
}
