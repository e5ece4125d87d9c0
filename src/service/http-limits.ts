/** What one client may take of the service; each of them has its documented answer. Bytes, and milliseconds of real time. */
export interface ServiceLimits {
  /** A request's line and headers: 431 beyond. */
  readonly headerBytesMax: number;
  /** A request's path and query: 414 beyond. */
  readonly targetBytesMax: number;
  /** A request's body: 413 beyond. */
  readonly bodyBytesMax: number;
  /** Parameters of a query: 400 beyond. */
  readonly parametersMax: number;
  /** From a connection's start, or a request's first byte, to the end of its headers: 408 after that. */
  readonly headersMsMax: number;
  /** The same to the end of its body: 408 after that. */
  readonly requestMsMax: number;
  /** How often the two are looked at. */
  readonly checkIntervalMs: number;
  /** A connection without a request under way is closed after that. */
  readonly idleMsMax: number;
  /** A client that has bytes of an answer waiting and takes none of them is cut off after that. */
  readonly stalledMsMax: number;
  /** Connections at once; those beyond are closed as they come. */
  readonly connectionsMax: number;
  /** When the service stops, what is still under way after that is cut off. */
  readonly shutdownMsMax: number;
  /** Versions of strategies that a user may have in a workspace, and bots: 409 beyond. */
  readonly strategiesMax: number;
  readonly botsMax: number;
}

export const serviceLimits: ServiceLimits = {
  headerBytesMax: 16 * 1024,
  targetBytesMax: 8 * 1024,
  bodyBytesMax: 64 * 1024,
  parametersMax: 100,
  headersMsMax: 10_000,
  requestMsMax: 30_000,
  checkIntervalMs: 1000,
  idleMsMax: 30_000,
  stalledMsMax: 30_000,
  connectionsMax: 2000,
  shutdownMsMax: 10_000,
  strategiesMax: 1000,
  botsMax: 1000,
};
