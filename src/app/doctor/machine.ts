import { exitCodes } from '../../core/errors.ts';
import { size } from '../../core/format-quantity.ts';
import { isoUtc, timeEnd, timeMin } from '../../core/time.ts';
import { type Finding, of } from './finding.ts';

export interface MachineFacts {
  /** `v24.21.0`. */
  readonly nodeVersion: string;
  /** The Node that runs this, without links in its path. */
  readonly nodePath: string;
  /** The Node that bin/setup put beside the program, in the same way; null where it put none. */
  readonly ownNode: string | null;
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
const platforms = new Set(['linux', 'darwin']);

export function judgeMachine(facts: MachineFacts): Finding[] {
  return [judgeNode(facts), judgeMemory(facts), ...judgeTime(facts)];
}

function judgeNode({ nodeVersion, nodePath, ownNode, platform, arch }: MachineFacts): Finding {
  const { ok, warning, problem } = of('machine', 'node');
  const found = `${nodeVersion} on ${platform} ${arch}`;
  if (Number(/^v(\d+)/.exec(nodeVersion)?.[1] ?? 0) < nodeMajorMin)
    return problem(
      exitCodes.unexpected,
      found,
      `oddslake needs Node ${nodeMajorMin} or newer: in a checkout, make setup.`,
    );
  if (!platforms.has(platform)) return warning(found, 'oddslake is tried on Linux and macOS only: use one of them.');
  if (ownNode !== null && ownNode !== nodePath)
    return warning(
      `${found}, from ${nodePath}, though bin/setup has put one at ${ownNode}`,
      'Start oddslake by bin/oddslake, which takes that one.',
    );
  return ok(ownNode === null ? found : `${found}, the one of bin/setup`);
}

function judgeMemory({ memoryBytes, availableBytes }: MachineFacts): Finding {
  const { ok, warning } = of('machine', 'memory');
  const found = `${size(availableBytes)} of ${size(memoryBytes)} available`;
  return availableBytes < memoryBytesMin
    ? warning(found, `A run may take ${size(memoryBytesMin)}: end what is not needed, or give the container more.`)
    : ok(found);
}

/** Against another clock it is judged where there is one: see upstream.ts. */
function judgeTime({ nowMs }: MachineFacts): Finding[] {
  if (nowMs >= timeMin && nowMs < timeEnd) return [];
  const shown = Math.abs(nowMs) < 8.64e15 ? isoUtc(nowMs) : String(nowMs);
  return [
    of('machine', 'clock').problem(
      exitCodes.unexpected,
      `it says ${shown}, which cannot be`,
      'Set the clock, and run again.',
    ),
  ];
}
