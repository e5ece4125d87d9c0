import { existsSync, realpathSync } from 'node:fs';
import { totalmem } from 'node:os';
import { exitCodes } from '../base/errors.ts';
import { formatBytes } from '../base/format-quantity.ts';
import type { Clock } from '../base/ports.ts';
import { formatIsoUtc, timeEnd, timeMin } from '../base/time.ts';
import { createFindings, type Finding } from './finding.ts';

export interface MachineFacts {
  /** `v24.21.0`. */
  readonly nodeVersion: string;
  /** The Node that runs this, without links in its path. */
  readonly nodePath: string;
  /** The Node that bin/setup put beside the program, in the same way; null where it put none. */
  readonly bundledNodePath: string | null;
  readonly platform: string;
  readonly arch: string;
  readonly memoryBytes: number;
  /** What this process may still take, of a container's bound too. */
  readonly availableBytes: number;
  /** The machine's clock, epoch ms. */
  readonly nowMs: number;
}

/** The oldest major version that runs TypeScript as it is and has node:sqlite. */
const nodeMajorMin = 24;

/** A run of some thousands of symbols stays below this. */
const memoryBytesMin = 512 * 2 ** 20;

/** What there is a Node of for bin/setup, and what the tests run on. */
const supportedPlatforms = new Set(['linux', 'darwin']);

export function judgeMachine(facts: MachineFacts): Finding[] {
  return [judgeNode(facts), judgeMemory(facts), ...judgeTime(facts)];
}

function judgeNode({ nodeVersion, nodePath, bundledNodePath, platform, arch }: MachineFacts): Finding {
  const { ok, warning, problem } = createFindings('machine', 'node');
  const found = `${nodeVersion} on ${platform} ${arch}`;
  if (Number(/^v(\d+)/.exec(nodeVersion)?.[1] ?? 0) < nodeMajorMin)
    return problem(
      exitCodes.unexpected,
      found,
      `oddslake needs Node ${nodeMajorMin} or newer: in a checkout, make setup.`,
    );
  if (!supportedPlatforms.has(platform))
    return warning(found, 'oddslake is tried on Linux and macOS only: use one of them.');
  if (bundledNodePath !== null && bundledNodePath !== nodePath)
    return warning(
      `${found}, from ${nodePath}, though bin/setup has put one at ${bundledNodePath}`,
      'Start oddslake by bin/oddslake, which takes that one.',
    );
  return ok(bundledNodePath === null ? found : `${found}, the one of bin/setup`);
}

function judgeMemory({ memoryBytes, availableBytes }: MachineFacts): Finding {
  const { ok, warning } = createFindings('machine', 'memory');
  const found = `${formatBytes(availableBytes)} of ${formatBytes(memoryBytes)} available`;
  return availableBytes < memoryBytesMin
    ? warning(
        found,
        `A run may take ${formatBytes(memoryBytesMin)}: end what is not needed, or give the container more.`,
      )
    : ok(found);
}

/** Against another clock it is judged where there is one: see upstream.ts. */
function judgeTime({ nowMs }: MachineFacts): Finding[] {
  if (nowMs >= timeMin && nowMs < timeEnd) return [];
  const shown = Math.abs(nowMs) < 8.64e15 ? formatIsoUtc(nowMs) : String(nowMs);
  return [
    createFindings('machine', 'clock').problem(
      exitCodes.unexpected,
      `it says ${shown}, which cannot be`,
      'Set the clock, and run again.',
    ),
  ];
}

/** Beside the program in a checkout, one folder further up in the built package, where there is none. */
const bundledNodeUrl = new URL('../../.node/bin/node', import.meta.url);

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
