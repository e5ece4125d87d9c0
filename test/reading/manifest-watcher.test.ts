import { expect, test } from 'vitest';
import { watchCurrent } from '../../src/reading/manifest-watcher.ts';
import { answer, append, day0, opened, publishNow, scratchFolder } from '../archive/scratch.ts';

test('the version grows with every write, of this process or another; the manifest is read anew with a generation', async () => {
  const root = scratchFolder();
  const [writer, reader] = [opened({ root }), opened({ root })];
  const own = watchCurrent(writer);
  const other = watchCurrent(reader);
  append(writer, answer('A', [[day0, 1]]));
  await publishNow(writer);
  for (const current of [own, other]) {
    const [version, manifest] = [current.version(), current.manifest()];
    expect(current.version()).toBe(version);
    append(writer, answer('A', [[day0 + manifest.generation, 2]]));
    expect(current.version()).toBeGreaterThan(version);
    expect(current.manifest()).toBe(manifest);
    await publishNow(writer);
    expect(current.manifest().generation).toBe(manifest.generation + 1);
    expect(current.manifest()).toEqual(writer.manifest());
  }
});
