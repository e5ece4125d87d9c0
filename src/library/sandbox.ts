import { systemClock } from '../base/system.ts';
import { type Sandbox, startSandbox as startSandboxServer } from '../sandbox/sandbox.ts';
import type { SandboxOptions } from '../sandbox/sandbox-options.ts';

// `oddslake/sandbox`: a simulated market data service for tests.

export { UsageError } from '../base/errors.ts';
export type { Sandbox } from '../sandbox/sandbox.ts';
export type { ChangeableOptions, SandboxOptions } from '../sandbox/sandbox-options.ts';
export type { SandboxStats } from '../sandbox/stats.ts';

/**
 * Serves simulated markets, ticks and order books on 127.0.0.1 until `stop` is called. Equal options and seed give equal data.
 * @throws UsageError for invalid options; the system's error if the port is in use
 */
export const startSandbox = (options: Partial<SandboxOptions> = {}): Promise<Sandbox> =>
  startSandboxServer(options, { clock: systemClock });
