import type { Kernel } from './netlink/kernel.ts';

/** Removes our table, which holds everything of ours; tells whether it was there. */
export async function removeTable(kernel: Kernel): Promise<boolean> {
  if ((await kernel.snapshot()) === null) return false;
  await kernel.transact([{ kind: 'deleteTable' }]);
  return true;
}
