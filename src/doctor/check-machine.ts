import { existsSync, realpathSync } from 'node:fs';
import { totalmem } from 'node:os';
import { exitCodes } from '../base/errors.ts';
import { formatBytes } from '../base/format-quantity.ts';
import type { Clock } from '../base/ports.ts';
import { formatIsoUtc, timeEnd, timeMin } from '../base/time.ts';
import { type Finding, ok, problem, warning } from './finding.ts';

export interface MachineFacts {
  /** `v24.21.0`. */
  readonly nodeVersion: string;
  /** Real path of the running Node. */
  readonly nodePath: string;
  /** Real path of the Node that bin/setup installed; null if there is none. */
  readonly bundledNodePath: string | null;
  readonly platform: string;
  readonly arch: string;
  readonly memoryBytes: number;
  /** Memory available to this process, within the limit of a container. */
  readonly availableBytes: number;
  /** The machine's clock, epoch ms. */
  readonly nowMs: number;
}

/** Oldest major version that strips types and has node:sqlite. */
const nodeMajorMin = 24;

/** Enough for a run with a few thousand symbols. */
const memoryBytesMin = 512 * 2 ** 20;

export const judgeMachine = (facts: MachineFacts): Finding[] => [
  judgeNode(facts),
  judgeMemory(facts),
  ...judgeTime(facts),
];

function judgeNode({ nodeVersion, nodePath, bundledNodePath, platform, arch }: MachineFacts): Finding {
  const found = `${nodeVersion} on ${platform} ${arch}`;
  if (!(Number.parseInt(nodeVersion.slice(1), 10) >= nodeMajorMin)) {
    const action = `oddslake needs Node ${nodeMajorMin} or newer. In a checkout, run: make setup`;
    return problem('node', exitCodes.unexpected, found, action);
  }
  if (platform !== 'linux' && platform !== 'darwin')
    return warning('node', found, 'oddslake is tested on Linux and macOS only. Use one of them.');
  if (bundledNodePath === null) return ok('node', found);
  if (bundledNodePath === nodePath) return ok('node', `${found}, installed by bin/setup`);
  return warning(
    'node',
    `${found}, from ${nodePath}; bin/setup installed another at ${bundledNodePath}`,
    'Start oddslake with bin/oddslake, which uses the installed one.',
  );
}

function judgeMemory({ memoryBytes, availableBytes }: MachineFacts): Finding {
  const found = `${formatBytes(availableBytes)} of ${formatBytes(memoryBytes)} available`;
  const action = `A run may use ${formatBytes(memoryBytesMin)}. Stop other programs, or raise the memory limit of the container.`;
  return availableBytes < memoryBytesMin ? warning('memory', found, action) : ok('memory', found);
}

/** Checks the plausibility of the clock; upstream.ts compares it with the clock of the server. */
function judgeTime({ nowMs }: MachineFacts): Finding[] {
  if (nowMs >= timeMin && nowMs < timeEnd) return [];
  const shown = Math.abs(nowMs) < 8.64e15 ? formatIsoUtc(nowMs) : String(nowMs);
  const message = `it says ${shown}, which is not a valid time`;
  return [problem('clock', exitCodes.unexpected, message, 'Set the clock and run again.')];
}

/** The Node of `bin/setup`. An npm package has none, and the tarball's is its own. */
const isCheckout = import.meta.url.endsWith('.ts');
const bundledNodeUrl = new URL('../../.node/bin/node', import.meta.url);

export function probeMachine(clock: Clock): MachineFacts {
  return {
    nodeVersion: process.version,
    platform: process.platform,
    arch: process.arch,
    nodePath: realpathSync(process.execPath),
    bundledNodePath: isCheckout && existsSync(bundledNodeUrl) ? realpathSync(bundledNodeUrl) : null,
    // Without a limit this is larger than the total memory.
    memoryBytes: Math.min(totalmem(), process.constrainedMemory() || Number.POSITIVE_INFINITY),
    availableBytes: process.availableMemory(),
    nowMs: clock.nowMs(),
  };
}
