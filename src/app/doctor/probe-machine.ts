import { existsSync, realpathSync } from 'node:fs';
import { totalmem } from 'node:os';
import type { Clock } from '../../core/clock.ts';
import type { MachineFacts } from './machine.ts';

/** Beside the program in a checkout, one folder further up in the built package, where there is none. */
const bundledNodeUrl = new URL('../../../.node/bin/node', import.meta.url);

export function probeMachine(clock: Clock): MachineFacts {
  return {
    nodeVersion: process.version,
    platform: process.platform,
    arch: process.arch,
    nodePath: realpathSync(process.execPath),
    bundledNodePath: existsSync(bundledNodeUrl) ? realpathSync(bundledNodeUrl) : null,
    // Without a bound it is more than there is.
    memoryBytes: Math.min(totalmem(), process.constrainedMemory() || Number.POSITIVE_INFINITY),
    availableBytes: process.availableMemory(),
    nowMs: clock.nowMs(),
  };
}
