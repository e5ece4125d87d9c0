import type { User } from './principal.ts';
import type { OwnerColumns } from './tables.ts';

/** Whose objects a token reaches: those made with a token of the same user in the same workspace. */
export const ownerOf = ({ user, workspace }: User): OwnerColumns => ({ owner: user, workspace: workspace ?? '' });
