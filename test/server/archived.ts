import { answer, append, day0, publishNow } from '../archive/scratch.ts';
import { madeOnce } from './made-once.ts';

/** An archive with 300 ticks of each of two symbols. */
export const archived = madeOnce(
  async (archive) => {
    for (const symbol of ['KX A', 'KX B'])
      append(
        archive,
        answer(
          symbol,
          Array.from({ length: 300 }, (_, i) => [day0 + i * 60_000, (i % 100) / 100]),
        ),
      );
    await publishNow(archive);
  },
  { parts: 2 },
);
