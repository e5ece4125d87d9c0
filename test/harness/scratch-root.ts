import { tmpdir } from 'node:os';
import { runFolders, runVariable } from './run-folder.ts';

const run = process.env[runVariable];

/**
 * Root folder of test archives: in memory if there is space, because syncs are free there and no test here simulates a
 * power loss.
 */
export const scratchRoot: string = run === undefined ? tmpdir() : runFolders(run).memory;
