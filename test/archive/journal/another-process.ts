import { spawn } from 'node:child_process';
import { onTestFinished } from 'vitest';

const module = (path: string): string => JSON.stringify(new URL(`../../../src/${path}`, import.meta.url).href);

/** Another process with the shared rate limit of a folder. */
export function another(folder: string, body: string) {
  const program = `
    const { openState } = await import(${module('archive/journal/state.ts')});
    const { openSharedRateStore } = await import(${module('archive/journal/rate-limit-store.ts')});
    const { createSlidingWindow } = await import(${module('client/sliding-window.ts')});
    const { systemClock: clock } = await import(${module('base/system.ts')});
    const folder = ${JSON.stringify(folder)};
    const store = openSharedRateStore(openState(folder, { upstream: 'https://box.test' }), folder);
    ${body}`;
  const child = spawn(process.execPath, ['--input-type=module', '-e', program], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  onTestFinished(() => void child.kill('SIGKILL'));
  return child;
}
