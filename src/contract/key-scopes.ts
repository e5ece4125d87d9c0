/**
 * Scopes of a market data key: `read` permits the live and the historical routes, `export` published files.
 */
export const keyScopes = ['read', 'export'] as const;
export type KeyScope = (typeof keyScopes)[number];
