import { serveThreadTask } from '../../../src/archive/job-thread.ts';
import { readOwnPriority } from '../../base/threads/sums.ts';

await serveThreadTask(
  async () => readOwnPriority(),
  () => ({ why: 'unexpected' }),
);
