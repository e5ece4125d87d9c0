import { expect, test } from 'vitest';
import { watchManifest } from '../../../src/archive/read/manifest-watcher.ts';
import { answer, append, day0, opened, publishNow, scratchFolder } from '../scratch.ts';

test('increases the version with every write, and reads the manifest again for a new generation', async () => {
  const root = scratchFolder();
  const [writer, reader] = [opened({ root }), opened({ root })];
  const own = watchManifest(writer);
  const other = watchManifest(reader);
  append(writer, answer('A', [[day0, 1]]));
  await publishNow(writer);
  for (const current of [own, other]) {
    const [version, manifest] = [current.getVersion(), current.getManifest()];
    expect(current.getVersion()).toBe(version);
    append(writer, answer('A', [[day0 + manifest.generation, 2]]));
    expect(current.getVersion()).toBeGreaterThan(version);
    expect(current.getManifest()).toBe(manifest);
    await publishNow(writer);
    expect(current.getManifest().generation).toBe(manifest.generation + 1);
    expect(current.getManifest()).toEqual(writer.readManifest());
  }
});
