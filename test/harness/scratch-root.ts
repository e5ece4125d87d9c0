import { tmpdir } from 'node:os';
import { runFolders, runVariable } from './run-folder.ts';

const run = process.env[runVariable];

/** Where tests keep archives: in memory where it has room, for syncs are free there, and no test here cuts the power. */
export const scratchRoot: string = run === undefined ? tmpdir() : runFolders(run).memory;
