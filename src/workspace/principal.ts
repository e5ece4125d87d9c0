/** Who asks. */
export type Principal = KeyHolder | User;

/** The holder of a market data key. */
export interface KeyHolder {
  readonly kind: 'key';
  readonly id: string;
  readonly name: string;
  /** Null: the rate that the settings give everybody. */
  readonly requestsPerMinute: number | null;
}

/** The bearer of a user token. */
export interface User {
  readonly kind: 'user';
  readonly user: string;
  readonly workspace: string | null;
  readonly scopes: readonly string[];
}
